"""Styles: how a module's parameters are spread, and what comes in and goes out."""

from abc import ABC, abstractmethod

import rushlight as rl
from rushlight import nn
from rushlight.distributed.tensor import (
    DTensor,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """How a module is spread."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module, device_mesh):
        """Spread a module, in place.

        Args:
            module: the module.
            device_mesh: the processes.
        """


class _Split(ParallelStyle):
    """A style that cuts the parameters of one layer.

    Args:
        input_layouts: how an input that is a plain tensor is placed.
        output_layouts: how the output is placed.
        use_local_output: whether it is a plain tensor: this process's part.
    """

    default_input: Placement = Replicate()
    default_output: Placement = Replicate()

    def __init__(
        self, *, input_layouts=None, output_layouts=None, use_local_output=True
    ):
        super().__init__()
        self.input_layouts = (input_layouts or self.default_input,)
        self.output_layouts = (output_layouts or self.default_output,)
        self.use_local_output = use_local_output

    @abstractmethod
    def _cuts(self, module):
        """The placement of each parameter by name, and that of the input."""

    def _apply(self, module, device_mesh):
        cuts, wanted = self._cuts(module)
        self.desired_input_layouts = (wanted,)

        def partition(name, own, mesh):
            for key, parameter in list(own.named_parameters(recurse=False)):
                made = distribute_tensor(
                    parameter, mesh, [cuts[key]], src_data_rank=self.src_data_rank
                )
                made = nn.Parameter(made, requires_grad=parameter.requires_grad)
                own.register_parameter(key, made)

        return distribute_module(
            module, device_mesh, partition, self._prepare_input, self._prepare_output
        )

    def _prepare_input(self, module, inputs, device_mesh):
        given = inputs[0]
        if not isinstance(given, DTensor):
            given = DTensor.from_local(
                given, device_mesh, self.input_layouts, run_check=False
            )
        if self.input_layouts != self.desired_input_layouts:
            given = given.redistribute(placements=self.desired_input_layouts)
        return (given, *inputs[1:])

    def _prepare_output(self, module, outputs, device_mesh):
        if outputs.placements != self.output_layouts:
            outputs = outputs.redistribute(placements=self.output_layouts)
        return outputs.to_local() if self.use_local_output else outputs

    def __repr__(self):
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, "
            f"output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )

    def _refuse(self):
        raise NotImplementedError(
            f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!"
        )


class ColwiseParallel(_Split):
    """Each process has some of the outputs of a ``Linear`` or an ``Embedding``.

    The input is whole on all; the output is cut along its last dimension.
    """

    default_output = Shard(-1)

    def _cuts(self, module):
        if isinstance(module, nn.Linear):
            return {"weight": Shard(0), "bias": Shard(0)}, Replicate()
        if isinstance(module, nn.Embedding):
            return {"weight": Shard(1)}, Replicate()
        return self._refuse()


class RowwiseParallel(_Split):
    """Each process has some of the inputs of a ``Linear``, or rows of an ``Embedding``.

    The input of a ``Linear`` is cut along its last dimension; the outputs of all
    processes are added.
    """

    default_input = Shard(-1)

    def _cuts(self, module):
        if isinstance(module, nn.Linear):
            return {"weight": Shard(1), "bias": Replicate()}, Shard(-1)
        if isinstance(module, nn.Embedding):
            return {"weight": Shard(0)}, Replicate()
        return self._refuse()


class SequenceParallel(ParallelStyle):
    """Each process has some places of a sequence; the parameters are whole on all.

    Args:
        sequence_dim: the dimension of the sequence.
        use_local_output: whether the output is a plain tensor: this process's part.
    """

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        super().__init__()
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module, device_mesh):
        return distribute_module(
            module,
            device_mesh,
            self._replicate,
            self._prepare_input,
            self._prepare_output,
        )

    def _replicate(self, name, module, device_mesh):
        for key, parameter in list(module.named_parameters(recurse=False)):
            whole = [Replicate()]
            made = DTensor.from_local(parameter.detach(), device_mesh, whole)
            made = nn.Parameter(made, requires_grad=parameter.requires_grad)
            module.register_parameter(key, made)

    def _prepare_input(self, module, inputs, device_mesh):
        given, rest = inputs[0], inputs[1:]
        if isinstance(given, DTensor):
            if given.placements != self.sequence_sharding:
                given = given.redistribute(placements=self.sequence_sharding)
        elif isinstance(given, rl.Tensor):
            given = DTensor.from_local(given, device_mesh, self.sequence_sharding)
        else:
            raise ValueError(
                f"expecting input of {module} to be a torch.Tensor or DTensor, but got "
                f"{given}"
            )
        return (given, *rest)

    def _prepare_output(self, module, outputs, device_mesh):
        return outputs.to_local() if self.use_local_output else outputs

    def __repr__(self):
        return (
            f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, "
            f"use_local_output={self.use_local_output})"
        )


def _tuple_of(layouts):
    return (layouts,) if isinstance(layouts, Placement) else layouts


def _prepared(value, mesh, layout, desired, local):
    """A value placed as is wanted; as it is where no layout is given."""
    if layout is None:
        return value
    if not isinstance(value, DTensor):
        if not isinstance(value, rl.Tensor):
            raise AssertionError("expecting input to be a torch.Tensor!")
        value = DTensor.from_local(value, mesh, (layout,), run_check=False)
    if desired is not None and layout != desired:
        value = value.redistribute(placements=(desired,))
    return value.to_local() if local else value


class PrepareModuleInput(ParallelStyle):
    """The inputs of a module as spread tensors, placed as is wanted.

    Args:
        input_layouts: how each input is placed; None for what is no tensor.
        desired_input_layouts: how each shall be placed.
        input_kwarg_layouts: the same of inputs by name.
        desired_input_kwarg_layouts: the same of inputs by name.
        use_local_output: whether the module gets plain tensors: this process's parts.
    """

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_output=False,
    ):
        self.input_layouts = _tuple_of(input_layouts)
        self.desired_input_layouts = _tuple_of(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError(
                    "input_layouts and desired_input_layouts should have same length!"
                )
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(
            self.desired_input_kwarg_layouts
        ):
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same "
                "length!"
            )

    def _inputs(self, inputs, mesh):
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        layouts = zip(inputs, self.input_layouts, self.desired_input_layouts)
        return tuple(
            _prepared(given, mesh, layout, desired, self.use_local_output)
            for given, layout, desired in layouts
        )

    def _named(self, inputs, mesh):
        return {
            name: _prepared(
                given,
                mesh,
                self.input_kwarg_layouts.get(name),
                self.desired_input_kwarg_layouts.get(name),
                self.use_local_output,
            )
            for name, given in inputs.items()
        }

    def _apply(self, module, device_mesh):
        if self.with_kwargs:
            module.register_forward_pre_hook(
                lambda own, inputs, named: (
                    self._inputs(inputs, device_mesh),
                    self._named(named, device_mesh),
                ),
                with_kwargs=True,
            )
        else:
            module.register_forward_pre_hook(
                lambda own, inputs: self._inputs(inputs, device_mesh)
            )
        return module

    def __repr__(self):
        return (
            f"PrepareModuleInput(input_layouts={self.input_layouts}, "
            f"desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleOutput(ParallelStyle):
    """The outputs of a module as spread tensors, placed as is wanted.

    Args:
        output_layouts: how each output is placed; None for what is no tensor.
        desired_output_layouts: how each shall be placed.
        use_local_output: whether plain tensors come out: this process's parts.
    """

    def __init__(
        self, *, output_layouts, desired_output_layouts, use_local_output=True
    ):
        self.output_layouts = _tuple_of(output_layouts)
        self.desired_output_layouts = _tuple_of(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _outputs(self, outputs, mesh):
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(outputs) != len(self.output_layouts):
            raise ValueError(
                "module outputs and output_layouts should have same length!"
            )
        layouts = zip(outputs, self.output_layouts, self.desired_output_layouts)
        made = tuple(
            _prepared(given, mesh, layout, desired, self.use_local_output)
            for given, layout, desired in layouts
        )
        return made[0] if len(made) == 1 else made

    def _apply(self, module, device_mesh):
        module.register_forward_hook(
            lambda own, inputs, outputs: self._outputs(outputs, device_mesh)
        )
        return module

    def __repr__(self):
        return (
            f"PrepareModuleOutput(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """``PrepareModuleInput`` and ``PrepareModuleOutput`` of one module.

    Args:
        input_layouts: how each input is placed; None for what is no tensor.
        desired_input_layouts: how each shall be placed.
        input_kwarg_layouts: the same of inputs by name.
        desired_input_kwarg_layouts: the same of inputs by name.
        use_local_input: whether the module gets plain tensors.
        output_layouts: how each output is placed.
        desired_output_layouts: how each shall be placed.
        use_local_output: whether plain tensors come out.
    """

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_input=False,
        output_layouts,
        desired_output_layouts,
        use_local_output=True,
    ):
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self):
        return (
            f"PrepareModuleInputOutput({self.prepare_module_input!r}, "
            f"{self.prepare_module_output!r})"
        )
