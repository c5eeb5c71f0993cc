"""A program that stands by itself: its graph, its state, and what its arguments are."""

import copy
import dataclasses
from typing import Any, NamedTuple

from rushlight.export.graph_signature import InputKind
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.utils._pytree import TreeSpec

__all__ = [
    "CallSpec",
    "ExportedProgram",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "default_decompositions",
]


class CallSpec(NamedTuple):
    """How the arguments and the result of a call are nested."""

    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


@dataclasses.dataclass
class ModuleCallSignature:
    """What one module inside of a program takes and gives.

    Args:
        inputs: what it takes, flat.
        outputs: what it gives, flat.
        in_spec: how the arguments are nested.
        out_spec: how the results are nested.
        forward_arg_names: the names of its ``forward``'s arguments.
    """

    inputs: list
    outputs: list
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node, new_node):
        """Follows a step that takes another's place.

        Args:
            original_node: the step until now.
            new_node: the step from now on.
        """
        for one in (*self.inputs, *self.outputs):
            if one.name == original_node.name:
                one.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A module inside of a program.

    Args:
        fqn: its path.
        signature: what it takes and gives, where that was asked for.
    """

    fqn: str
    signature: ModuleCallSignature | None = None


class SizeText(str):
    """A size among ``range_constraints``, which is equal to its text, and printed so.

    >>> {SizeText("s77"): ValueRange(2, 9)}
    {s77: VR[2, 9]}
    """

    __slots__ = ()
    __repr__ = str.__str__


class ValueRange(NamedTuple):
    """The bounds of a size."""

    lower: Any
    upper: Any

    def __repr__(self):
        low, high = (
            "-int_oo"
            if one == -float("inf")
            else "int_oo"
            if one == float("inf")
            else one
            for one in self
        )
        return f"VR[{low}, {high}]"


class ExportedProgram:
    """A program as a graph of operators, with the tensors that it needs.

    `export` makes it. The graph takes parameters, buffers and constants as arguments
    before those of the caller; ``graph_signature`` says which is which. The operators
    are those that the program has called: it can be trained. ``run_decompositions``
    takes writes out, and operators apart.

    Attributes:
        graph_module: the graph as a module that takes all arguments flat.
        graph_signature: an `ExportGraphSignature`.
        state_dict: parameters and persistent buffers by path.
        constants: the other tensors by path or name.
        range_constraints: the bounds of the sizes that are open.
        example_inputs: the arguments and keyword arguments of the recording.

    Args:
        root: the module or the attributes that the graph reads.
        graph: the graph.
        graph_signature: what its arguments and results are.
        state_dict: parameters and persistent buffers by path.
        range_constraints: the bounds of the sizes that are open.
        module_call_graph: what each module inside takes and gives.
        example_inputs: the arguments and keyword arguments of the recording.
        constants: the other tensors by path or name.
        verifiers: classes that check the graph: `rushlight.export._verifier`.
        guards: what must hold of the arguments.

    >>> import rushlight as rl
    >>> program = rl.export.export(rl.nn.Linear(2, 1), (rl.ones(3, 2),))
    >>> [str(node.target) for node in program.graph.nodes]
    ['p_weight', 'p_bias', 'input', 'aten.linear.default', 'output']
    >>> program.module()(rl.ones(3, 2)).shape
    rushlight.Size([3, 1])
    """

    def __init__(
        self,
        root,
        graph,
        graph_signature,
        state_dict,
        range_constraints,
        module_call_graph,
        example_inputs=None,
        constants=None,
        *,
        verifiers=None,
        guards=(),
        dialect="TRAINING",
    ):
        graph._codegen = type(Graph()._codegen)()
        self._graph_module = GraphModule(root, graph, "GraphModule")
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = dict(constants or {})
        self._guards = list(guards)
        self._dialect = dialect
        self._verifiers = list(verifiers or [])

    graph_module = property(lambda self: self._graph_module, doc="The graph's module.")
    graph = property(lambda self: self._graph_module.graph, doc="The graph.")
    graph_signature = property(
        lambda self: self._graph_signature, doc="What arguments and results are."
    )
    state_dict = property(
        lambda self: self._state_dict, doc="Parameters and persistent buffers by path."
    )
    range_constraints = property(
        lambda self: self._range_constraints, doc="The bounds of the open sizes."
    )
    module_call_graph = property(
        lambda self: self._module_call_graph, doc="The modules inside of the program."
    )
    example_inputs = property(
        lambda self: self._example_inputs,
        lambda self, value: self._take_example(value),
        doc="The arguments of the recording: a tuple, and a dict by name; None for none.",
    )

    def _take_example(self, value):
        kinds = (tuple, dict) if isinstance(value, tuple) and len(value) == 2 else ()
        if value is not None and not (kinds and all(map(isinstance, value, kinds))):
            raise ValueError(
                "Example inputs should be a tuple containing example arguments (as a "
                "tuple), and example kwargs (as a dictionary)."
            )
        if value is not None:
            from rushlight.export._unlift import checked_leaves

            checked_leaves(self.call_spec.in_spec, *value)
        self._example_inputs = value

    constants = property(
        lambda self: self._constants, doc="Tensors that are no state, by name."
    )
    tensor_constants = constants
    dialect = property(
        lambda self: self._dialect,
        doc="``TRAINING``, or ``ATEN`` after decompositions.",
    )

    @property
    def verifiers(self):
        """The classes of the checks that `validate` makes: its dialect's, by default."""
        if self._verifiers:
            return self._verifiers
        from rushlight.export._verifier import load_verifier

        return [load_verifier(self.dialect)]

    verifier = property(lambda self: self.verifiers[0], doc="The first of them.")

    @property
    def call_spec(self):
        """How the caller's arguments and results are nested."""
        signature = self.module_call_graph[0].signature
        return CallSpec(signature.in_spec, signature.out_spec)

    def parameters(self):
        """The parameters, in the graph's order."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self):
        """The parameters with their paths."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self):
        """The buffers, in the graph's order."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self):
        """The buffers with their paths."""
        hidden = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, (self.constants if name in hidden else self.state_dict)[name]

    def tensor_of(self, spec):
        """The tensor that an argument of the graph is, if it is the program's own.

        Args:
            spec: an `InputSpec`.
        """
        if spec.kind is InputKind.USER_INPUT:
            return None
        if spec.target in self.constants:
            return self.constants[spec.target]
        return self.state_dict[spec.target]

    def __call__(self, *args, **kwargs):
        """Refuses: ``module()`` gives what can be called.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use "
            "`exported_program.module()` instead."
        )

    def module(self, check_guards=True):
        """The program as a module with the state of the one that was exported.

        Args:
            check_guards: whether arguments are checked against the recording's sizes.

        >>> import rushlight as rl
        >>> program = rl.export.export(rl.nn.ReLU(), (rl.ones(3, 2),))
        >>> program.module()(rl.ones(2, 2))
        Traceback (most recent call last):
        AssertionError: Guard failed: input.size()[0] == 3
        """
        from rushlight.export._unlift import unlifted

        return unlifted(self, check_guards)

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program without writes, its compositions taken apart.

        What the program writes to comes back as results, which ``module()`` writes.

        Args:
            decomp_table: what to record in place of operators, by operator;
                `default_decompositions` where it is left out. With an empty one
                compositions stay whole.

        >>> import rushlight as rl
        >>> program = rl.export.export(rl.nn.ReLU(inplace=True), (rl.ones(2),))
        >>> [str(n.target) for n in program.run_decompositions().graph.nodes]
        ['input', 'aten.relu.default', 'output']
        """
        from rushlight.export._decompose import decomposed

        if decomp_table is None:
            decomp_table = default_decompositions()
        return decomposed(self, decomp_table)

    def validate(self):
        """Checks the graph, its signature and its modules by the verifiers.

        Raises:
            SpecViolationError: they do not belong together.
        """
        for verifier in self.verifiers:
            verifier().check(self)

    _validate = validate

    def _update(
        self, graph_module, graph_signature, *, state_dict=None, constants=None,
        verifiers=None,
    ):  # fmt: skip
        return ExportedProgram(
            graph_module,
            graph_module.graph,
            graph_signature,
            state_dict if state_dict is not None else dict(self.state_dict),
            copy.deepcopy(self.range_constraints),
            copy.deepcopy(self.module_call_graph),
            self.example_inputs,
            constants if constants is not None else self.constants,
            verifiers=verifiers or self._verifiers,
            guards=self._guards,
            dialect=self._dialect,
        )

    def __str__(self):
        text = self.graph_module.print_readable(print_output=False)
        text = text.rstrip("\n").replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ").rstrip(" ")
        return (
            f"ExportedProgram:\n    {text}\n    \nGraph signature: {signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    __repr__ = __str__

    def __deepcopy__(self, memo):
        module = copy.deepcopy(self.graph_module, memo)
        for node, before in zip(module.graph.nodes, self.graph.nodes):
            node.name = before.name  # which the signature names
        return ExportedProgram(
            module,
            module.graph,
            copy.deepcopy(self.graph_signature, memo),
            copy.deepcopy(self.state_dict, memo),
            dict(self.range_constraints),
            copy.deepcopy(self.module_call_graph, memo),
            self.example_inputs,
            copy.deepcopy(self.constants, memo),
            verifiers=self._verifiers,
            guards=self._guards,
            dialect=self._dialect,
        )


def default_decompositions():
    """What ``run_decompositions`` takes apart: all compositions, to PyTorch's core set.

    The table can be changed: operators that are taken out stay whole.
    """
    from rushlight.export.decomp_utils import CustomDecompTable

    return CustomDecompTable()
