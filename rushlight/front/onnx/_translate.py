"""Programs as ONNX graphs: steps without writes, each written by its function."""

import math
import operator

import rushlight as rl
from rushlight.core.progress import Progress
from rushlight.core.subclass import is_absent
from rushlight.export.exported_program import default_decompositions
from rushlight.export.graph_signature import InputKind, OutputKind
from rushlight.fx.node import Node, map_arg
from rushlight.ir.sym_functions import sym_max, sym_min
from rushlight.ir.symbolic import SymInt
from rushlight.onnx._graph import GraphBuilder, Value
from rushlight.onnx._operands import renamed
from rushlight.onnx._registry import Unsupported, bound_arguments
from rushlight.onnx._subgraphs import lower_subgraphs
from rushlight.onnx._symbolic import call_symbolic
from rushlight.onnx.errors import OnnxExporterError, UnsupportedOperatorError
from rushlight.onnx.lowering import lowering_of
from rushlight.operators import call
from rushlight.utils._pytree import tree_leaves

_SHOWN = 20  # steps that a message names
_CHECKS = frozenset((call._assert_scalar.overloads[0],))
_SIZE = call.sym_size.overloads[0]
# What a program computes with its sizes, in ONNX's words.
_NUMBERS = {
    operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.pow: "Pow",
    sym_max: "Max", sym_min: "Min",
}  # fmt: skip
_COMPARISONS = {
    operator.eq: "Equal", operator.ge: "GreaterOrEqual", operator.gt: "Greater",
    operator.le: "LessOrEqual", operator.lt: "Less",
}  # fmt: skip


class Kept:
    """The operators that stay whole when a program is taken apart.

    Args:
        custom: what the caller writes: ``custom.get(op)`` is a function or None.
    """

    def __init__(self, custom):
        self.custom = custom

    def __contains__(self, op):
        return self.custom.get(op) is not None or lowering_of(op) is not None


def without_writes(program, custom):
    """A program without writes in place, in operators that can be written where possible.

    Args:
        program: an `ExportedProgram`.
        custom: what the caller writes: ``custom.get(op)`` is a function or None.
    """
    table = default_decompositions()
    table.whole = Kept(custom)
    return program.run_decompositions(table)


def _where(node):
    """The user's line that a step comes from."""
    steps = [node, *node.users]  # of several results each has it, not their step
    found = [one.meta.get("stack_trace") for one in steps]
    trace = next(filter(None, found), "").rstrip().split("\n")
    if not trace or not trace[0]:
        return ""
    last = max(at for at, row in enumerate(trace) if row.lstrip().startswith("File"))
    return "\n".join(trace[last:]) + "\n"


def refusal(steps, opset):
    """What is said of steps that cannot be written: each operator, line and remedy."""
    rows: dict = {}
    for node, reason in steps:
        rows.setdefault(f"  {node.target}: {reason}\n{_where(node)}")
    shown = list(rows)[:_SHOWN]
    if len(rows) > _SHOWN:
        shown.append(f"  and {len(rows) - _SHOWN} more\n")
    return UnsupportedOperatorError(
        f"torch.onnx.export: {len(steps)} "
        f"step{'s' if len(steps) > 1 else ''} of the program cannot be written in ONNX "
        f"opset version {opset}\n"
        + "".join(shown)
        + "  remedy: write the operator by others in the model, or pass its form in "
        "ONNX in custom_translation_table={operator: function}"
    )


class Translator:
    """Writes a program as a graph.

    Args:
        program: an `ExportedProgram` without writes.
        opset: the version of ONNX's operators.
        custom: what the caller writes: ``custom.get(op)`` is a function or None.
    """

    def __init__(self, program, opset, custom):
        self.program, self.custom = program, custom
        self.graph = GraphBuilder(opset)
        self.inputs: list = []  # values with the fakes that say their sizes
        self.outputs: list = []
        self.refused: list = []

    # -- the program -------------------------------------------------------------------

    def run(self, input_names=(), output_names=()):
        """Writes all steps.

        Args:
            input_names: names for the inputs, in their order; others have their own.
            output_names: the same for results.

        Raises:
            UnsupportedOperatorError: steps that have no form in ONNX.
        """
        env: dict = {}
        signature = self.program.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        nodes = [one for one in self.program.graph.nodes if one.op == "placeholder"]
        used = {one for one in nodes if one.users}
        given = iter(input_names)
        for node in nodes:
            env[node] = self._input(node, specs[node.name], given)
        self._lift_weights(nodes, specs, used, env)
        output = self.steps(self.graph, self.program.graph_module, env)
        if self.refused:
            raise refusal(self.refused, self.graph.opset)
        values = [
            value
            for spec, value in zip(signature.output_specs, output)
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        fakes = [
            node
            for spec, node in zip(
                signature.output_specs, self.program.graph.output_node().args[0]
            )
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        self._results(values, fakes, list(output_names))
        return self

    def _input(self, node, spec, names):
        fake = node.meta.get("val")
        if spec.kind is not InputKind.USER_INPUT:
            return None
        if not isinstance(fake, rl.Tensor):
            return fake
        name = self.graph.names.fresh(next(names, None) or node.name)
        value = Value(name, fake.dtype, tuple(fake.shape))
        self.inputs.append((value, fake))
        return value

    def _lift_weights(self, nodes, specs, used, env):
        """The program's own tensors, by the names of the state dict."""
        for node in nodes:
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT or node not in used:
                continue
            tensor = self.program.tensor_of(spec)
            name = self.graph.names.fresh(spec.target)
            self.graph.weights[name] = tensor
            env[node] = Value(name, tensor.dtype, tuple(tensor.shape))

    def _results(self, values, nodes, names):
        taken = {value.name for value, _ in self.inputs} | set(self.graph.weights)
        names = names + [None] * (len(values) - len(names))
        for value, node, name in zip(values, nodes, names):
            if value is None:
                continue
            fake = node.meta.get("val") if isinstance(node, Node) else None
            value = self._as_tensor(value, fake)
            stem = name or (node.name if isinstance(node, Node) else "output")
            if value.name in taken or value.name in self.graph.constants:
                value = self._renamed(value, stem)
            taken.add(value.name)
            if name and value.name != name:
                value = self._under(name, value)
                taken.add(value.name)
            self.outputs.append((value, fake))

    def _under(self, name, value):
        """A result under another name, everywhere."""
        fresh = self.graph.names.fresh(name)
        mapping = {value.name: fresh}
        for node in self.graph.nodes:
            renamed(node, mapping)
            for at, one in enumerate(node.output):
                if one == value.name:
                    node.output[at] = fresh
        return Value(fresh, value.dtype, value.shape)

    def _renamed(self, value, name):
        self.graph.node = None
        made = self.graph.identity(value)
        fresh = self.graph.names.fresh(name)
        self.graph.nodes[-1].output[0] = made.name = fresh
        return made

    def _as_tensor(self, value, fake):
        if not isinstance(value, Value):
            kind = {bool: rl.bool, int: rl.int64, float: rl.float32}[type(value)]
            return self.graph.const(value, kind)
        return self.graph.scalar(value) if value.is_size else value

    # -- steps -------------------------------------------------------------------------

    def steps(self, graph, module, env):
        """Writes the steps of a graph; gives its results.

        Args:
            graph: where they are written.
            module: whose steps they are.
            env: the values of its arguments by node.
        """
        last = _last_uses(module.graph)
        line = Progress("ONNX", len(module.graph.nodes), unit="steps", after=1.0)
        for node in module.graph.nodes:
            line.add(1, f"ONNX: {node.name}")
            if node.op == "get_attr":
                env[node] = getattr_by_path(module, node.target)
                if isinstance(env[node], rl.Tensor):
                    env[node] = self._constant(graph, node, env[node])
            elif node.op == "call_function":
                graph.node = node
                env[node] = self._step(graph, node, env)
            elif node.op == "output":
                line.erase()
                return map_arg(node.args[0], env.__getitem__)
            for done in last.get(node, ()):
                env.pop(done, None)
        return ()

    def _constant(self, graph, node, tensor):
        if is_absent(tensor):  # a result of nothing, that no step is known to give
            return graph.const(
                rl.zeros(list(tensor.shape), dtype=tensor.dtype), tensor.dtype
            )
        name = graph.names.fresh(str(node.target))
        graph.weights[name] = tensor
        return Value(name, tensor.dtype, tuple(tensor.shape))

    def _step(self, graph, node, env):
        args, kwargs = map_arg((node.args, node.kwargs), env.__getitem__)
        if node.target is operator.getitem and not isinstance(args[0], Value):
            return args[0][args[1]] if args[0] is not None else None
        try:
            made = self._written(graph, node, args, kwargs)
        except OnnxExporterError as error:
            self.refused.append((node, str(error)))
            made = None
        if made is None:
            return _stand_in(node.meta.get("val"))
        return _with_sizes(made, node.meta.get("val"))

    def _written(self, graph, node, args, kwargs):
        target = node.target
        custom = self.custom.get(target)
        if custom is not None:
            return call_symbolic(custom, graph, args, kwargs)
        if target in _CHECKS:
            return ()
        if target is _SIZE:
            return graph.size_of(*args)
        inner = lower_subgraphs(target)
        if inner is not None:
            return inner(self, graph, args)
        if not hasattr(target, "signature"):
            return self._number(graph, target, args)
        function = lowering_of(target)
        if function is None:
            raise Unsupported("the operator has no form in ONNX here")
        for one in tree_leaves((args, kwargs)):
            if (
                isinstance(one, Value)
                and one.dtype is not None
                and one.dtype.is_complex
            ):
                raise Unsupported("complex numbers have no operators in ONNX")
        return function(graph, **bound_arguments(function, target, args, kwargs))

    def _number(self, graph, target, args):
        """What a program computes with integers, and with what elements say."""
        if not any(isinstance(one, Value) for one in args):
            return target(*args)
        kind = rl.int64
        parts = [graph.size(one) for one in args if not isinstance(one, float)]
        if target in _NUMBERS:
            made = graph.op(_NUMBERS[target], *parts, dtype=kind, shape=(1,))
        elif target in _COMPARISONS:
            made = graph.op(_COMPARISONS[target], *parts, dtype=rl.bool, shape=(1,))
        elif target in (operator.floordiv, operator.mod):
            made = _floored(graph, target, *parts)
        elif target is operator.neg:
            made = graph.op("Neg", *parts, dtype=kind, shape=(1,))
        elif target in (operator.truediv, math.ceil, math.floor):
            raise Unsupported("sizes as floating-point numbers have no form in ONNX")
        else:
            raise Unsupported("it is no operator of tensors")
        made.is_size = True
        return made


def _floored(graph, target, left, right):
    """Quotient or remainder of sizes: rounded down, as Python has it."""
    rest = graph.op("Mod", left, right, dtype=rl.int64, shape=(1,))
    if target is operator.mod:
        return rest
    whole = graph.op("Sub", left, rest, dtype=rl.int64, shape=(1,))
    return graph.op("Div", whole, right, dtype=rl.int64, shape=(1,))


def getattr_by_path(module, path):
    """What a module has at a path."""
    found = module
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _last_uses(graph):
    """The steps that nothing needs after a step."""
    last: dict = {}
    for node in graph.nodes:
        for one in node.all_input_nodes:
            last[one] = node
    found: dict = {}
    for one, node in last.items():
        found.setdefault(node, []).append(one)
    return found


def _with_sizes(made, fake):
    """Says of values what the recording knows of their sizes and types."""
    if isinstance(fake, (list, tuple)):
        if isinstance(made, Value):
            made = (made,)
        return [
            None if one is None else _with_sizes(one, f) for one, f in zip(made, fake)
        ]
    if isinstance(made, (list, tuple)) and isinstance(fake, rl.Tensor):
        made = made[0]
    if isinstance(made, Value) and isinstance(fake, rl.Tensor):
        if made.constant is None or tuple(made.shape or ()) != tuple(fake.shape):
            made = Value(made.name, fake.dtype, tuple(fake.shape), None)
        return made
    if isinstance(made, Value) and isinstance(fake, (SymInt, int)):
        made.is_size = True
    return made


def _stand_in(fake):
    """A value in the place of one that could not be written, to find all that cannot."""
    if isinstance(fake, (list, tuple)):
        return [_stand_in(one) for one in fake]
    if isinstance(fake, rl.Tensor):
        return Value("?", fake.dtype, tuple(fake.shape))
    return Value("?", rl.int64, (1,), None, True) if isinstance(fake, SymInt) else fake
