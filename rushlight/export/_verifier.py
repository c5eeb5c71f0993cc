"""Whether a program is what it says: its graph, its signature, its modules.

``ExportedProgram.validate`` asks the verifiers of its dialect. A backend has one of its own
by a subclass, which names its dialect and allows further operators and attributes.
"""

import inspect
import math
import operator
from collections.abc import Iterable

from rushlight._higher_order_ops.base import HigherOrderOperator
from rushlight.autograd.grad_mode import set_grad_enabled
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout, MemoryFormat
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator
from rushlight.export.graph_signature import (
    CustomObjArgument,
    InputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    TokenArgument,
)
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.ir import sym_functions
from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import SymFloat
from rushlight.nn.parameter import Parameter
from rushlight.utils._pytree import TreeSpec

_VALUES = (
    type(None), int, float, bool, str, complex, MemoryFormat, DType, Device, Layout, Tensor,
    SymInt, SymFloat, SymBool, CustomObjArgument,
)  # fmt: skip
_FUNCTIONS = (
    set_grad_enabled,
    *(one for name, one in vars(sym_functions).items() if name.startswith("sym_")),
)
_NAMED = TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument


class SpecViolationError(RuntimeError):
    """A program is not what it says."""


def _require(holds, text):
    if not holds:
        raise SpecViolationError(text)


class Verifier:
    """What the programs of a dialect have to be.

    Attributes:
        dialect: the name, which each subclass has one of.
    """

    dialect = "ATEN"
    _registry: dict = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "check" in vars(cls) or "_check_graph_module" in vars(cls):
            raise SyntaxError("Overriding method check is not allowed.")
        if vars(cls).get("dialect", "ATEN") == "ATEN":
            raise AssertionError(
                "subclass must define dialect != 'ATEN', got "
                f"{vars(cls).get('dialect')}"
            )
        Verifier._registry[cls.dialect] = cls

    def allowed_builtin_ops(self):
        """Functions of Python's that steps may call."""
        names = (
            "getitem add mul sub truediv ge le gt lt eq ne floordiv mod and_ or_ not_ pow "
            "neg abs lshift rshift"
        )
        whole = [math.ceil, math.floor, math.trunc, round]
        return [*(getattr(operator, name) for name in names.split()), *whole]

    def allowed_op_types(self):
        """Types of operators that steps may call."""
        return Operator, HigherOrderOperator

    def allowed_getattr_types(self):
        """Types of attributes that a program's graph may read."""
        return GraphModule, TreeSpec

    def allowed_getattr_types_for_subgm(self):
        """Types of attributes that graphs inside of it may read."""
        return GraphModule, Parameter, Tensor, TreeSpec

    def check_valid_op(self, op):
        """Refuses an operator that the dialect has not: a subclass's to say.

        Args:
            op: what a step calls.
        """

    def check_additional(self, gm):
        """Refuses a graph for what else the dialect asks for: a subclass's to say.

        Args:
            gm: the graph's module.
        """

    def check(self, ep):
        """Checks a program.

        Args:
            ep: the program.

        Raises:
            SpecViolationError: it is not what it says.
        """
        self._check_graph_module(ep.graph_module)
        _check_module_calls(ep)
        _check_inputs(ep)
        _check_outputs(ep)

    def __call__(self, ep):
        """The same as `check`."""
        self.check(ep)

    def _check_graph_module(self, gm):
        for module in gm.modules():
            if not isinstance(module, GraphModule):
                continue
            module.graph.lint()
            for node in module.graph.nodes:
                _require(
                    node.op not in ("call_module", "call_method"),
                    f"call_module is not valid: got a class '{node.target}' ",
                )
                if node.op in ("call_function", "placeholder"):
                    _check_value(node)
                if node.op == "call_function":
                    self._check_operator(node.target)
                elif node.op == "get_attr":
                    self._check_attribute(module, node.target, module is gm)
        self.check_additional(gm)

    def _check_operator(self, target):
        if not isinstance(target, self.allowed_op_types()):
            builtin = self.allowed_builtin_ops()
            if not all(inspect.isbuiltin(one) for one in builtin):
                raise AssertionError("allowed_builtin_ops must all be builtins")
            _require(
                target in builtin or target in _FUNCTIONS,
                f"Operator '{target}' is not an allowed operator type: "
                f"{self.allowed_op_types()}\nValid builtin ops: {builtin}"
                f"Valid torch functions: {_FUNCTIONS}",
            )
        elif isinstance(target, Operator) and self.dialect != "TRAINING":
            _require(
                not target._schema.is_mutable, f"operator '{target}' is not functional"
            )
        self.check_valid_op(target)

    def _check_attribute(self, module, target, at_top):
        found = module
        for at, name in enumerate(parts := target.split(".")):
            if not hasattr(found, name):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(parts[:at])}"
                )
            found = getattr(found, name)
        inner = self.allowed_getattr_types_for_subgm
        kinds = self.allowed_getattr_types() if at_top else inner()
        _require(
            isinstance(found, kinds),
            f"Invalid get_attr type {type(found)} on target {target}. \n"
            f"Valid get_attr types: {kinds}",
        )


class TrainingIRVerifier(Verifier):
    """What programs are before decompositions: they may write in place."""

    dialect = "TRAINING"


def load_verifier(dialect):
    """The verifier of a dialect.

    Args:
        dialect: its name; ``"ATEN"`` for an empty one.
    """
    if dialect in ("ATEN", ""):
        return Verifier
    return Verifier._registry[dialect]


def _check_value(node):
    """A step has what its result is: tensors without elements, numbers, nests of them."""
    if "val" not in node.meta:
        op = node.target
        silent = node.op == "call_function" and isinstance(op, Operator)
        _require(
            silent and not op._schema.returns,
            f"Node.meta {node.name} is missing val field.",
        )
        return

    def holds(value):
        if isinstance(value, _VALUES):
            return True
        return isinstance(value, Iterable) and all(map(holds, value))

    value = node.meta["val"]
    _require(holds(value), f"Node.meta {node.name} has invalid val field {value}")


def _check_module_calls(ep):
    names = {node.name for node in ep.graph.nodes}
    for entry in ep.module_call_graph:
        if entry.signature is None:
            continue
        for what, group in (
            ("Input", entry.signature.inputs),
            ("Output", entry.signature.outputs),
        ):
            for one in group:
                _require(
                    not one.name or one.name in names,
                    f"{what} {one.name} does not exist in the graph.",
                )


def _difference(what, names, specs):
    specs = [getattr(one.arg, "name", str(one.arg)) for one in specs]
    return (
        f"{what}s in the graph only: {sorted({*map(str, names)} - {*specs})}\n"
        f"  in the signature only: {sorted({*specs} - {*map(str, names)})}"
    )


def _check_inputs(ep):
    names = [node.name for node in ep.graph.nodes if node.op == "placeholder"]
    specs = ep.graph_signature.input_specs
    _require(
        len(names) == len(specs),
        f"Number of graph inputs ({len(names)}) does not match number of inputs in the "
        f"graph signature ({len(specs)})\n{_difference('placeholder', names, specs)}",
    )
    for spec, name in zip(specs, names):
        _require(
            not isinstance(spec.arg, _NAMED) or spec.arg.name == name,
            f"Input spec name {getattr(spec.arg, 'name', None)} does not match node name "
            f"{name}",
        )
        if spec.kind is not InputKind.USER_INPUT:
            _check_state(ep, spec)


# kind -> what messages call it, the argument's type, and what that is called
_KINDS = {
    InputKind.PARAMETER: ("Parameter", TensorArgument, "tensor argument"),
    InputKind.BUFFER: ("Buffer", TensorArgument, "tensor argument"),
    InputKind.CONSTANT_TENSOR: ("Constant tensor", TensorArgument, "tensor argument"),
    InputKind.CUSTOM_OBJ: (
        "Custom object",
        CustomObjArgument,
        "custom object argument",
    ),
    InputKind.TOKEN: ("Token", TokenArgument, "token argument"),
}


def _check_state(ep, spec):
    """An input that is the program's own is where its kind is kept."""
    what, kind, called = _KINDS[spec.kind]
    name, target = getattr(spec.arg, "name", None), spec.target
    _require(
        isinstance(spec.arg, kind),
        f"{what} {name} is not a {called}. Found {spec.arg} instead.",
    )
    if spec.kind is InputKind.TOKEN:
        return
    _require(target is not None, f"InputSpec for {name} has no target.")
    state, missing = ep.state_dict, f"{what} {target} is not in the state dict."
    if spec.kind is InputKind.PARAMETER:
        _require(target in state, missing)
        _require(
            isinstance(state[target], Parameter),
            f"State dict entry for parameter {target} is not an instance of "
            "torch.nn.Parameter.",
        )
    elif spec.kind is InputKind.BUFFER:
        _require(
            spec.persistent is not None,
            f"Buffer {target} is missing a persistence flag",
        )
        _require(
            not spec.persistent or target in state or target in ep.constants, missing
        )
        _require(
            spec.persistent or target not in state,
            f"Non-persistent buffer {target} is in the state dict, it should not be.",
        )
    else:
        _require(
            target in ep.constants,
            f"{what} {target} is not in the constants dictionary.",
        )


def _check_outputs(ep):
    signature = ep.graph_signature
    results = ep.graph.output_node().args[0]
    names = [one.name if isinstance(one, Node) else one for one in results]
    specs = signature.output_specs
    _require(
        len(names) == len(specs),
        f"Number of output nodes {len(names)} is different Than the number of outputs "
        f"specified by the graph signature: {len(specs)}\n"
        f"{_difference('result', names, specs)}",
    )
    written = (
        ("Buffer", signature.buffers_to_mutate, signature.buffers),
        ("Parameter", signature.parameters_to_mutate, signature.parameters),
        ("User input", signature.user_inputs_to_mutate, signature.user_inputs),
    )
    first = len(signature.output_tokens)
    end = first + sum(len(one) for _, one, _ in written)
    for name in names[first:end]:
        known = [one for one in written if name in one[1]]
        _require(
            known,
            f"Mutation node {name} is neither a buffer nor a user input. Buffers to "
            f"mutate: {signature.buffers_to_mutate}, User inputs to mutate: "
            f"{signature.user_inputs_to_mutate}",
        )
        what, targets, sources = known[0]
        _require(
            targets[name] in sources,
            f"{what} output {name} does not point to a {what.lower()} that exists. \n"
            f"Those that are mutated, in order: {targets} \nThose there are: {sources} \n",
        )
    for name, said in zip(names[end:], signature.user_outputs):
        _require(
            name == said,
            f"User output {name} is not in the correct order or is not found in the "
            f"exported program's user_output list: {signature.user_outputs}. ",
        )
