"""Exported programs without writes, and with their compositions taken apart."""

import operator

from rushlight._higher_order_ops.auto_functionalize import run_functionalized
from rushlight._higher_order_ops.wrap import wrap_with_set_grad_enabled
from rushlight._subclasses.fake_tensor import FakeTensor
from rushlight.autograd.grad_mode import no_grad
from rushlight.autograd.levels.functional import WRITTEN, FunctionalLevel
from rushlight.autograd.levels.stack import Outside
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import DECOMPOSITION, FUNCTIONAL, INPLACE, says
from rushlight.dispatch.dispatcher import Operator
from rushlight.export._core import core
from rushlight.export._results import argument_of
from rushlight.export.decomp_utils import CustomDecompTable
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
    writes,
)
from rushlight.fx.experimental.as_called import without_elements
from rushlight.fx.experimental.pre_dispatch import placeholder
from rushlight.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    get_proxy_mode,
)
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node
from rushlight.ir.formulas import line_of
from rushlight.ir.sizes import Symbol, Unbacked
from rushlight.ir.sym_functions import sym_ite
from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import MustBeEqual, SymFloat
from rushlight.nn.modules.module import Module
from rushlight.operators import call
from rushlight.utils._pytree import tree_leaves, tree_map


def decomposed(program, table):
    """What ``ExportedProgram.run_decompositions`` gives.

    Args:
        program: the `ExportedProgram`.
        table: what to record in place of operators, by operator. In place of all that a
            `CustomDecompTable` does not exclude, PyTorch's core set is recorded.
    """
    if isinstance(table, CustomDecompTable):
        whole = table.whole
        table = {
            op: made for op, made in {**core(), **table}.items() if op not in whole
        }
    else:  # what it does not have stays whole
        whole = _CompositionsBut(table)
    values = [node.meta.get("val") for node in program.graph.nodes]
    fakes = [one.fake_mode for one in values if isinstance(one, FakeTensor)]
    elements = fakes[0].elements if fakes else None
    before = None if elements is None else (len(elements.reads), len(elements.checks))
    while True:
        if elements is not None:
            elements.rounds += 1
        try:
            return _decomposed(program, table, whole)
        except MustBeEqual as error:
            elements.equal[error.index] = error.expr
            del elements.reads[before[0] :], elements.checks[before[1] :]


class _CompositionsBut:
    """The compositions that a table does not have: they are recorded as they are.

    Args:
        table: what is recorded in place of operators, by operator.
    """

    def __init__(self, table):
        self.table = table

    def __contains__(self, op):
        if not isinstance(op, Operator) or op in self.table:
            return False
        composed = op.composite is not None or (op.entry and op.entry[DECOMPOSITION])
        if not composed or says(op, "unmarked_writes"):
            return False
        # what may be a view is one or a copy only once it is taken apart
        return not any(one.alias_info for one in op._schema.returns)


def _decomposed(program, table, whole):
    graph = Graph()
    tracer = _Tracer(graph, Module(), "fake", table)
    values, fake = [], None
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        made = placeholder(graph, node.name)
        if isinstance(value, FakeTensor):
            fake = value.fake_mode
            tracer.track(value, made)
        elif isinstance(value, SymInt):
            tracer._sizes[value.expr] = made
        made.meta.update(node.meta)
        values.append(value)
    if fake is None:
        return program
    tracer.fake, tracer.shape_env = fake, fake.shape_env
    interpreter = _Replay(program.graph_module, tracer)
    with (
        no_grad(),
        fake,
        tracer,
        FunctionalLevel(write_copies=run_functionalized, as_step=_as_step) as level,
    ):
        tracer.shown = lambda one: level.unwrap(one) if isinstance(one, Tensor) else one
        given = [level.wrap(v) if isinstance(v, Tensor) else v for v in values]
        interpreter.keep_whole(whole, level)
        results = interpreter.run(*given, enable_io_processing=False)
        written = [
            level.unwrap(g) if isinstance(g, Tensor) and level.written(g) else None
            for g in given
        ]
        results = [level.unwrap(r) if isinstance(r, Tensor) else r for r in results]
    return _finished(program, tracer, written, results)


def _finished(program, tracer, written, results):
    graph, signature = tracer.graph, program.graph_signature
    kinds = {
        InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
        InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
        InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    }
    outputs, specs = [], []
    for spec, value in zip(signature.input_specs, written):
        if value is None:
            continue
        node = tracer.node_of(value)
        target = spec.target if spec.target is not None else spec.arg.name
        outputs.append(node)
        kind = kinds[spec.kind]
        specs.append(OutputSpec(kind, TensorArgument(node.name), target))
    before = writes(signature)
    for spec, value in zip(signature.output_specs, results):
        if not isinstance(value, (Tensor, *_NUMBERS)):
            outputs.append(value)
            specs.append(OutputSpec(spec.kind, ConstantArgument("", value), None))
            continue
        node = tracer.node_of(value)
        outputs.append(node)
        target = spec.target if spec in before else None
        specs.append(OutputSpec(spec.kind, argument_of(node), target))
    graph.output(tuple(outputs))
    tracer.write_checks()
    _without_dead(graph)
    inputs, constants = tracer.with_constants(signature.input_specs, program.constants)
    module = GraphModule(tracer.root, graph)
    return type(program)(
        module,
        graph,
        ExportGraphSignature(inputs, specs),
        dict(program.state_dict),
        dict(program.range_constraints),
        program.module_call_graph,
        program.example_inputs,
        constants,
        guards=program._guards,
        dialect="ATEN",
    )


def _without_dead(graph):
    """Takes out steps that nothing needs: neither what checks nor what writes."""
    for node in reversed(list(graph.nodes)):
        target = node.target
        writes_ = isinstance(target, Operator) and target.form != FUNCTIONAL
        if target is _CHECK or writes_ or _checks(target):
            continue
        if node.op in ("call_function", "get_attr") and not node.users:
            graph.erase_node(node)


_NUMBERS = (SymInt, SymFloat, SymBool)
_READS = frozenset((call.item.overloads[0], call._local_scalar_dense.overloads[0]))
_SIZE = call.sym_size.overloads[0]
_SQUEEZE = call.squeeze.overloads[1]
_CHECK = call._assert_scalar.overloads[0]


_ONE_DIMENSION = ("squeeze.dim", "squeeze_.dim")


def _is_on_line(symbol, expr):
    """Whether an expression is a multiple of a symbol and more."""
    line = line_of(expr)
    return line is not None and line[0] is symbol


class _Tracer(ProxyTorchDispatchMode):
    """Notes where steps come from, as the program that is taken apart says."""

    notes: dict = {}
    fake = None  # the mode of the program's fake tensors

    def size_of(self, number):
        """The step that computes a size; one that an argument has is read from it.

        A size whose name no argument has by itself (``4 * h`` where ``h`` is open) is
        solved for it.
        """
        if number.expr in self._sizes:
            return super().size_of(number)
        lone = type(number.expr) is Symbol and number.expr.source is None
        for node in list(self.graph.nodes):
            fake = node.meta.get("val")
            if node.op != "placeholder" or not isinstance(fake, Tensor):
                continue
            for dim, size in enumerate(fake.shape):
                if not isinstance(size, SymInt):
                    continue
                same = size.expr == number.expr
                if same or (lone and _is_on_line(number.expr, size.expr)):
                    made = self.graph.call_function(_SIZE, (node, dim))
                    made.meta["val"] = size
                    self._sizes[size.expr] = made
                    return made if same else self._solved(made, size.expr, number)
        return super().size_of(number)

    def _solved(self, node, expr, number):
        """The step that computes a symbol from a multiple of it and more."""
        _, factor, rest = line_of(expr)
        for undo, by in ((operator.sub, rest), (operator.floordiv, factor)):
            if by != (undo is operator.floordiv):
                node = self.graph.call_function(undo, (node, by))
        node.meta["val"] = number
        self._sizes[number.expr] = node
        return node

    def with_constants(self, specs, constants):
        """The inputs and the constants of a program, tensors that its steps made among them.

        Args:
            specs: the inputs that it had.
            constants: its constants by name.
        """
        inputs, constants, names = list(specs), dict(constants), {}
        at = sum(one.kind is not InputKind.USER_INPUT for one in inputs)
        positions = self.graph.find_nodes(op="placeholder")
        before = positions[at] if at < len(positions) else self.first_step()
        for node in self.graph.find_nodes(op="get_attr"):
            value = getattr(self.root, node.target, None)
            if not isinstance(value, Tensor):
                continue
            if node.target not in names:
                number = len(names)
                while f"lifted_tensor_{number}" in constants:
                    number += 1
                name = f"lifted_tensor_{number}"
                with self.graph.inserting_before(before):
                    made = names[node.target] = placeholder(self.graph, f"c_{name}")
                made.meta["val"] = self.fake.from_tensor(value)
                constants[name] = value
                spec = InputSpec(
                    InputKind.CONSTANT_TENSOR, TensorArgument(made.name), name
                )
                inputs.insert(at, spec)
                at += 1
            node.replace_all_uses_with(names[node.target])
            self.graph.erase_node(node)
        return inputs, constants

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if _looks_at_elements(func):
            given, named = self.nodes_of((tuple(args), dict(kwargs or {})))
            step = self.graph.create_node(
                "call_function", func, given, named, name=func._opname
            )
            result = _ran(func, args, kwargs or {})
            self.record_result(step, result)
            return result
        if func.full_name not in _ONE_DIMENSION:
            return super().__torch_dispatch__(func, types, args, kwargs)
        # in the core set a list goes with any, and nothing is turned in place
        made = super().__torch_dispatch__(_SQUEEZE, types, (args[0], [args[1]]))
        if func.form == INPLACE:
            func(*args)
            self.track(args[0], self.node_of(made))
            return args[0]
        return made

    def track(self, tensor, node):
        super().track(tensor, node)
        for key in ("stack_trace", "nn_module_stack"):
            if key in self.notes:
                node.meta.setdefault(key, self.notes[key])


def _checks(target):
    """Whether a step is there for what it refuses."""
    return isinstance(target, Operator) and says(target, "checks_elements")


def _looks_at_elements(target):
    """Whether an operator looks at elements, which a recording has not."""
    if not isinstance(target, Operator) or without_elements(target) is target:
        return False
    return _checks(target) or says(target, "data_dependent")


def _ran(target, args, kwargs):
    """What an operator gives, recorded by nobody."""
    return without_elements(target)(*args, **kwargs)


def _note_step(target, args, kwargs, result):
    """Records an operator that has run as one step."""
    tracer = get_proxy_mode()  # of a function that is an argument, its own
    nodes, others = tree_map(tracer.node_of, (args, kwargs))
    step = tracer.graph.create_node(
        "call_function", target, tuple(nodes), others, name=target._opname
    )
    tracer.record_result(step, result)


def _as_step(op, values):
    """Runs an operator, and records it as itself, be it a composition or not."""
    with disable_proxy_modes_tracing():
        result = _ran(op, values, {})
    _note_step(op, values, {}, result)
    return result


class _Replay(Interpreter):
    """Runs a program's steps, and tells the tracer which one is running."""

    def __init__(self, module, tracer):
        super().__init__(module)
        self.tracer = tracer
        self.whole, self.level = frozenset(), None

    def keep_whole(self, whole, level):
        """Says which operators are recorded as they are, compositions or not.

        Args:
            whole: the operators.
            level: the level that the program runs at.
        """
        self.whole, self.level = whole, level

    def call_function(self, target, args, kwargs):
        if target is wrap_with_set_grad_enabled:  # nothing records gradients any more
            return args[1](*args[2:])
        if target in self.whole:
            result = self._as_one_step(target, args, kwargs)
            if result is not NotImplemented:
                return result
        return super().call_function(target, args, kwargs)

    def _as_one_step(self, target, args, kwargs):
        """Records an operator whole; not one that writes, or whose result is a window."""
        if target.form != FUNCTIONAL or any(
            row[5] & WRITTEN for row in target.signature.rows
        ):
            return NotImplemented
        given, named = tree_map(self._value, (args, kwargs))
        with Outside(self.level), disable_proxy_modes_tracing():
            result = _ran(target, given, named)
        memory = {
            id(one.untyped_storage())
            for one in tree_leaves((given, named))
            if isinstance(one, Tensor)
        }
        made = [one for one in tree_leaves(result) if isinstance(one, Tensor)]
        if not made or any(id(one.untyped_storage()) in memory for one in made):
            return NotImplemented
        _note_step(target, given, named, result)
        return tree_map(self._wrapped, result)

    def _value(self, one):
        return self.level.unwrap(one) if isinstance(one, Tensor) else one

    def _wrapped(self, one):
        return self.level.wrap(one) if isinstance(one, Tensor) else one

    def run_node(self, n: Node):
        self.tracer.notes = n.meta
        elements = self.tracer.elements
        if elements is not None and n.op == "call_function":
            if n.target is _CHECK:
                return None  # what it checks is checked behind the number again
            if n.target is sym_ite:
                return self._as_number(self.map_nodes_to_values(n.args[0], n))
            value = n.meta.get("val")
            known = isinstance(value, (*_NUMBERS, bool)) and n.target not in _READS
            if known and (n.target is _SIZE or not isinstance(n.target, Operator)):
                return self._as_it_is_now(value)
            elements.again = list(n.meta.get("reads", ()))
        return super().run_node(n)

    @staticmethod
    def _as_number(truth):
        """A truth that follows from elements, as 1 or 0."""
        if isinstance(truth, bool):
            return int(truth)
        return truth.env.rebuilt(truth.expr.left)

    @staticmethod
    def _as_it_is_now(value):
        """A number as the recording has it: another may have taken its place."""
        if isinstance(value, SymInt) and isinstance(value.expr, Unbacked):
            reads = value.env.elements.reads
            return reads[value.expr.index].number
        return value

    def get_attr(self, target, args, kwargs):
        """A function that is an argument is run step by step, too."""
        found = super().get_attr(target, args, kwargs)
        if not isinstance(found, GraphModule):
            return found

        def run(*given):
            inner = _Replay(found, self.tracer)
            inner.keep_whole(self.whole, self.level)
            return inner.run(*given, enable_io_processing=False)

        return run
