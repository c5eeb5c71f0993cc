"""What the arguments and results of an exported program are."""

import dataclasses
from enum import Enum, auto
from typing import Any

__all__ = [
    "ArgumentSpec",
    "ConstantArgument",
    "CustomObjArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymBoolArgument",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
    "TokenArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by its step's name."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """An order of effects, by its step's name."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """An integer that is computed, by its step's name."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A float that is computed, by its step's name."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A truth value that is computed, by its step's name."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of the program's own."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that is the same in each run."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)


class InputKind(Enum):
    """Where an argument of the graph comes from."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What a result of the graph is for."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclasses.dataclass
class InputSpec:
    """An argument of the graph.

    Args:
        kind: where it comes from.
        arg: its name.
        target: the path of the parameter, buffer or constant.
        persistent: of a buffer, whether it is part of the state.
    """

    kind: InputKind
    arg: Any
    target: str | None
    persistent: bool | None = None

    def __post_init__(self):
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        kept = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{kept}"


@dataclasses.dataclass
class OutputSpec:
    """A result of the graph.

    Args:
        kind: what it is for.
        arg: its name.
        target: the path, or the name, of what is written.
    """

    kind: OutputKind
    arg: Any
    target: str | None

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """Which results are gradients, and of what.

    Args:
        gradients_to_parameters: from the name of a gradient to the parameter's.
        gradients_to_user_inputs: from the name of a gradient to the argument's.
        loss_output: the name of the result that is differentiated.
    """

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """The arguments and results of an exported graph, in its order.

    Parameters, buffers and constants come before what the caller passes; what is
    written comes before what the caller gets.

    Args:
        input_specs: an `InputSpec` for each argument.
        output_specs: an `OutputSpec` for each result.

    >>> import rushlight as rl
    >>> program = rl.export.export(rl.nn.Linear(2, 1, bias=False), (rl.ones(1, 2),))
    >>> print(program.graph_signature)
    <BLANKLINE>
    # inputs
    p_weight: PARAMETER target='weight'
    input: USER_INPUT
    <BLANKLINE>
    # outputs
    linear: USER_OUTPUT
    <BLANKLINE>
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _inputs(self, kind):
        return [one for one in self.input_specs if one.kind is kind]

    def _outputs(self, kind):
        return [one for one in self.output_specs if one.kind is kind]

    @property
    def parameters(self):
        """The paths of the parameters that are arguments."""
        return tuple(one.target for one in self._inputs(InputKind.PARAMETER))

    @property
    def buffers(self):
        """The paths of the buffers that are arguments."""
        return tuple(one.target for one in self._inputs(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self):
        """The paths of the buffers that are no part of the state."""
        found = self._inputs(InputKind.BUFFER)
        return tuple(one.target for one in found if one.persistent is False)

    @property
    def lifted_tensor_constants(self):
        """The names of the constants that are arguments."""
        return tuple(one.target for one in self._inputs(InputKind.CONSTANT_TENSOR))

    @property
    def lifted_custom_objs(self):
        """The names of the objects that are arguments."""
        return tuple(one.target for one in self._inputs(InputKind.CUSTOM_OBJ))

    @property
    def user_inputs(self):
        """What the caller passes: names, and values of what is constant."""
        return tuple(
            one.arg.value if isinstance(one.arg, ConstantArgument) else one.arg.name
            for one in self._inputs(InputKind.USER_INPUT)
        )

    @property
    def user_outputs(self):
        """What the caller gets: names, and values of what is constant."""
        kinds = OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT
        return tuple(
            one.arg.value if isinstance(one.arg, ConstantArgument) else one.arg.name
            for one in self.output_specs
            if one.kind in kinds
        )

    @property
    def inputs_to_parameters(self):
        """The paths of the parameters by the names of arguments."""
        found = self._inputs(InputKind.PARAMETER)
        return {one.arg.name: one.target for one in found}

    @property
    def inputs_to_buffers(self):
        """The paths of the buffers by the names of arguments."""
        return {one.arg.name: one.target for one in self._inputs(InputKind.BUFFER)}

    @property
    def inputs_to_lifted_tensor_constants(self):
        """The names of the constants by the names of arguments."""
        found = self._inputs(InputKind.CONSTANT_TENSOR)
        return {one.arg.name: one.target for one in found}

    @property
    def inputs_to_lifted_custom_objs(self):
        """The names of the objects by the names of arguments."""
        return {one.arg.name: one.target for one in self._inputs(InputKind.CUSTOM_OBJ)}

    @property
    def buffers_to_mutate(self):
        """The paths of the buffers that results are written to, by the results."""
        found = self._outputs(OutputKind.BUFFER_MUTATION)
        return {one.arg.name: one.target for one in found}

    @property
    def parameters_to_mutate(self):
        """The paths of the parameters that results are written to, by the results."""
        found = self._outputs(OutputKind.PARAMETER_MUTATION)
        return {one.arg.name: one.target for one in found}

    @property
    def user_inputs_to_mutate(self):
        """The names of the arguments that results are written to, by the results."""
        found = self._outputs(OutputKind.USER_INPUT_MUTATION)
        return {one.arg.name: one.target for one in found}

    @property
    def backward_signature(self):
        """Which results are gradients; None where the program has no loss."""
        loss = self._outputs(OutputKind.LOSS_OUTPUT)
        if not loss:
            return None
        return ExportBackwardSignature(
            {
                one.arg.name: one.target
                for one in self._outputs(OutputKind.GRADIENT_TO_PARAMETER)
            },
            {
                one.arg.name: one.target
                for one in self._outputs(OutputKind.GRADIENT_TO_USER_INPUT)
            },
            loss[0].arg.name,
        )

    @property
    def assertion_dep_token(self):
        """None: no order of assertions is kept."""
        return None

    @property
    def input_tokens(self):
        """The names of the tokens that are arguments."""
        return tuple(one.arg.name for one in self._inputs(InputKind.TOKEN))

    @property
    def output_tokens(self):
        """The names of the tokens that are results."""
        return tuple(one.arg.name for one in self._outputs(OutputKind.TOKEN))

    def replace_all_uses(self, old, new):
        """Follows a step that is renamed.

        Args:
            old: its name until now.
            new: its name from now on.
        """
        for one in (*self.input_specs, *self.output_specs):
            if one.arg.name == old and not isinstance(one.arg, ConstantArgument):
                one.arg.name = new

    def get_replace_hook(self, replace_inputs=False):
        """A hook for graph modules that follows steps which take others' places."""

        def hook(old, new, user):
            if user.op == "output" or replace_inputs:
                self.replace_all_uses(old.name, new)

        return hook

    def __str__(self):
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


_WRITES = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


def writes(signature: ExportGraphSignature):
    """The results of a graph that are written to something, which come first."""
    return [one for one in signature.output_specs if one.kind in _WRITES]
