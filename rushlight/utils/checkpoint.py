"""Memory for time: what a part of a model saved for backward is computed again there.

``use_reentrant=False`` packs each value that the part saves as its number, and runs the
part once more when the first of them is asked for. ``use_reentrant=True`` makes the part
one function whose backward runs it again with gradients.
"""

import contextlib
import warnings
import weakref
from types import SimpleNamespace

import rushlight as rl
from rushlight.autograd.function import Function
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.core.state import AttributeScope
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key
from rushlight.utils import _selective
from rushlight.utils._pytree import tree_leaves
from rushlight.utils._selective import *  # noqa: F403

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "DefaultDeviceType",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]
__all__ += _selective.__all__


class CheckpointError(RuntimeError):
    """The part computed something else the second time."""


class _Enough(Exception):
    """Everything that backward needs has been computed again."""


class DefaultDeviceType:
    """The kind of accelerator whose random state is kept when none is seen."""

    _kind = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        """Chooses the kind."""
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type():
        """The kind that was chosen."""
        return DefaultDeviceType._kind


def _accelerators(args):
    """The accelerators that tensors among the arguments are on, each once."""
    found = {
        value.device: None
        for value in tree_leaves(args)
        if isinstance(value, Tensor) and value.device.type not in ("cpu", "meta")
    }
    kinds = {device.type for device in found}
    kind = "cuda" if "cuda" in kinds else next((d.type for d in found), None)
    return kind, [device.index for device in found if device.type == kind]


def get_device_states(*args):
    """The accelerators that the arguments are on, and their generators' states.

    Args:
        args: tensors, nests of them, and others.

    Returns:
        Two lists: numbers of devices, and a state for each.

    >>> import rushlight as rl
    >>> get_device_states(rl.ones(2))
    ([], [])
    """
    kind, numbers = _accelerators(args)
    module = rl.get_device_module(kind) if numbers else None
    return numbers, [module.get_rng_state(number) for number in numbers]


def set_device_states(devices, states, *, device_type=None):
    """Gives devices' generators their states back.

    Args:
        devices: their numbers.
        states: a state for each.
        device_type: the kind of device; `DefaultDeviceType`'s by default.

    >>> set_device_states([], [])
    """
    kind = device_type or DefaultDeviceType.get_device_type()
    for number, state in zip(devices, states):
        rl.get_device_module(kind).set_rng_state(state, number)


def noop_context_fn():
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs):
    """The inputs cut off from their graphs, each wanting a gradient as before.

    Args:
        inputs: a tuple of tensors and others.

    Raises:
        RuntimeError: they are no tuple.

    >>> import rushlight as rl
    >>> x = rl.ones(1, requires_grad=True) * 2
    >>> (cut,) = detach_variable((x,))
    >>> cut.is_leaf, cut.requires_grad
    (True, True)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    cut = []
    for value in inputs:
        if isinstance(value, Tensor):
            detached = value.detach()
            detached.requires_grad = value.requires_grad
            value = detached
        cut.append(value)
    return tuple(cut)


def check_backward_validity(inputs):
    """Warns where no input wants a gradient, so that none flows through the part.

    Args:
        inputs: the arguments of the part.

    >>> import rushlight as rl
    >>> check_backward_validity([rl.ones(1, requires_grad=True)])
    """
    if not any(isinstance(one, Tensor) and one.requires_grad for one in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None",
            stacklevel=2,
        )


_switches = SimpleNamespace(early_stop=True, debug=None)


def set_checkpoint_early_stop(enable):
    """Says for a block whether a part stops once all that is needed is computed.

    Args:
        enable: whether it does.

    >>> with set_checkpoint_early_stop(False):
    ...     pass
    """
    return AttributeScope(_switches, early_stop=enable)


def set_checkpoint_debug_enabled(enabled):
    """Says for a block whether differences are told at length; None leaves it open.

    Args:
        enabled: whether they are, or None.

    >>> with set_checkpoint_debug_enabled(True):
    ...     pass
    """
    return AttributeScope(_switches, debug=enabled)


class _Surroundings:
    """The random states and the autocast settings in which a part ran.

    Args:
        keep_random: whether the states of the host's generator, and of those of the devices
            that arguments are on, are kept.
        args: the part's arguments.
    """

    def __init__(self, keep_random, args):
        from rushlight.amp.autocast_mode import current_settings

        self.random = rl.get_rng_state() if keep_random else None
        self.kind = _accelerators(args)[0] if keep_random else None
        module = getattr(rl, self.kind, None) if self.kind else None
        # Imagined tensors of a device that is not there have no generator.
        used = getattr(module, "is_initialized", bool)()
        self.devices, self.states = get_device_states(*args if used else ())
        self.autocast = current_settings()

    @contextlib.contextmanager
    def again(self):
        """Runs a block as if it were then."""
        from rushlight.amp.autocast_mode import settings

        keep = self.random is not None
        with (
            rl.random.fork_rng(self.devices, enabled=keep, device_type=self.kind),
            settings(self.autocast),
        ):
            if keep:
                rl.set_rng_state(self.random)
                set_device_states(self.devices, self.states, device_type=self.kind)
            yield


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    **kwargs,
):
    """Calls a function without keeping what it saves; backward computes it again.

    Args:
        function: a part of a model; called twice, so that it must not change anything.
        args: its arguments; ``kwargs`` too, but with ``use_reentrant=False`` only.
        use_reentrant: which of the two ways; False is the better one.
        context_fn: makes the contexts of the first and the second run.
        determinism_check: "default" compares the shapes and types of what is saved,
            "none" nothing.
        early_stop: whether the second run ends with the last value that is needed.

    Raises:
        CheckpointError: in backward, if the second run saves something else.

    >>> import rushlight as rl
    >>> x = rl.tensor(2.0, requires_grad=True)
    >>> y = checkpoint(lambda v: (v * v).exp(), x, use_reentrant=False)
    >>> y.backward()
    >>> bool(x.grad == 4 * rl.tensor(4.0).exp())
    True
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed "
            "explicitly. Starting in PyTorch 2.9, calling checkpoint without "
            "use_reentrant will raise an exception. use_reentrant=False is recommended, "
            "but if you need to preserve the current default behavior, you can pass "
            "use_reentrant=True. Refer to docs for more details on the differences "
            "between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when "
                "use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'] but got "
            f"{determinism_check!r}"
        )
    part = _Part(
        function,
        args,
        kwargs,
        _Surroundings(preserve, args),
        context_fn(),
        determinism_check == "default",
        early_stop and _switches.early_stop,
    )
    return part.run()


class _Part:
    """One checkpointed call: what it saved first, as numbers, and what again."""

    def __init__(self, function, args, kwargs, around, contexts, compare, stop):
        self.function, self.args, self.kwargs = function, args, kwargs
        self.around, self.contexts = around, contexts
        self.compare, self.stop = compare, stop
        self.holders: list = []  # weak: a value nobody can ask for need not come back
        self.facts: list = []
        self.listened = False  # whether handlers saw what it was made of

    def run(self):
        """The call itself; its saved values are replaced by their places."""
        if not rl.is_grad_enabled():
            with self.contexts[0]:
                return self.function(*self.args, **self.kwargs)
        with saved_tensors_hooks(self.pack, self.unpack), self.contexts[0]:
            self.listened = python_key.listening()
            return self.function(*self.args, **self.kwargs)

    def pack(self, tensor):
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.facts.append(_facts(tensor))
        return holder

    def unpack(self, holder):
        if holder.value is None:
            self.compute_again()
        if holder.value is None:
            raise CheckpointError(
                "torch.utils.checkpoint: trying to backward through the same buffer "
                "twice, or A different number of tensors was saved during the original "
                "forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}"
            )
        return holder.take()

    def compute_again(self):
        """Runs the part once more and hands out what it saves."""
        seen = [0]
        last = max(
            (i for i, ref in enumerate(self.holders) if ref() is not None), default=-1
        )

        def keep(tensor):
            number = seen[0]
            seen[0] += 1
            if number >= len(self.holders):
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during "
                    "recomputation than during the original forward pass."
                )
            if self.compare and self.facts[number] != _facts(tensor):
                raise CheckpointError(
                    "torch.utils.checkpoint: Recomputed values for the following "
                    "tensors have different metadata than during the forward pass.\n"
                    f"tensor at position {number}:\n"
                    f"saved metadata: {self.facts[number]}\n"
                    f"recomputed metadata: {_facts(tensor)}"
                )
            holder = self.holders[number]()
            if holder is not None:
                holder.value = tensor.detach() if tensor.requires_grad else tensor
            if self.stop and number == last:
                raise _Enough
            return tensor.detach()

        try:
            with (
                rl.enable_grad(),
                self.around.again(),
                saved_tensors_hooks(keep, lambda tensor: tensor),
                self.contexts[1],
                python_key.as_listened(self.listened),
            ):
                self.function(*self.args, **self.kwargs)
        except _Enough:
            return
        if seen[0] < len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during "
                "the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {seen[0]}."
            )


def _facts(tensor):
    """What must be the same of a value that is computed again."""
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class _Holder:
    """The place of a saved value."""

    __slots__ = ("__weakref__", "number", "value")

    def __init__(self, number):
        self.number = number
        self.value = None

    def take(self):
        return self.value


class CheckpointFunction(Function):
    """A part of a model as one function; its backward runs it again."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        """The part's result, recorded as one step."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.around = _Surroundings(preserve_rng_state, args)
        ctx.inputs = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.positions = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        with rl.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        """Runs the part again, with gradients, and its backward."""
        if not rl.autograd._is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with "
                ".grad() or passing an `inputs` parameter to .backward(). To resolve this "
                "error, you can either set use_reentrant=False, or call .backward() "
                "without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.positions, ctx.saved_tensors):
            inputs[place] = tensor
        cut = detach_variable(tuple(inputs))
        with rl.enable_grad(), ctx.around.again():
            outputs = ctx.run_function(*cut)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        rl.autograd.backward([one for one, _ in pairs], [grad for _, grad in pairs])
        found = (one.grad if isinstance(one, Tensor) else None for one in cut)
        return (None, None, *found)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Calls modules one after another, keeping values between groups of them only.

    Args:
        functions: an ``nn.Sequential``, or a list of modules or functions.
        segments: how many groups; the last is not computed again.
        input: what the first is given.
        use_reentrant: as for `checkpoint`.
        kwargs: ``preserve_rng_state``.

    Raises:
        ValueError: another argument is given by name.

    >>> import rushlight as rl
    >>> net = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.Tanh(), rl.nn.Linear(2, 1))
    >>> x = rl.ones(3, 2, requires_grad=True)
    >>> checkpoint_sequential(net, 2, x, use_reentrant=False).shape
    rushlight.Size([3, 1])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter "
            "should be passed explicitly. use_reentrant=False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(
        functions.children() if isinstance(functions, rl.nn.Sequential) else functions
    )

    def group(start, end):
        def forward(value):
            for step in steps[start:end]:
                value = step(value)
            return value

        return forward

    size = len(steps) // segments
    for start in range(0, size * (segments - 1), size or 1):
        input = checkpoint(
            group(start, start + size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return group(size * (segments - 1), len(steps))(input)
