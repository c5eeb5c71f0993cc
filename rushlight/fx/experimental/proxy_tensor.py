"""Programs recorded operator by operator: ``make_fx``.

A program runs on real or fake tensors under a mode that writes each operator down. What
was differentiated on the way is part of the record; control flow is not.
"""

import contextlib
import inspect
import operator

from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from rushlight.core.facts import storage_of
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key
from rushlight.dispatch.packet import OperatorPacket
from rushlight.fx.experimental.numbers import NumberSteps
from rushlight.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.fake_conversion import exprs_of, sizes_of
from rushlight.ir.symbolic import GuardError, ShapeEnv, SymInt, symbol_name
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import SymFloat
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.operators import call
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "ProxyTorchDispatchMode",
    "disable_proxy_modes_tracing",
    "get_isolated_graphmodule",
    "get_proxy_mode",
    "make_fx",
]

_MODES = ("real", "fake", "symbolic")


def _window(tensor):
    """What tells a tensor's place in memory from others."""
    # a fake tensor answers itself; of what stands for another programs may not ask
    stands = tensor._stand is not None
    storage = id(storage_of(tensor) if stands else tensor.untyped_storage())
    sizes, strides = tuple(sizes_of(tensor)), tuple(tensor.stride())
    return storage, tensor.storage_offset(), sizes, strides, tensor.dtype


def _has_elements(tensor):
    return all(sizes_of(tensor))


_NUMBERS = (bool, int, float, complex, str, SymInt, SymFloat, SymBool)


class ProxyTorchDispatchMode(NumberSteps, TorchDispatchMode):
    """Writes the operators of its block into a graph, and runs them.

    Args:
        graph: what is written.
        root: the module that gets the tensors which the program finds elsewhere.
        tracing_mode: ``"real"`` or ``"fake"``.
        decompositions: what to run in place of an operator, by operator.
        reading: whether numbers may be read out of tensors that are recorded.
        parent: who records the program around a function that is an argument.
    """

    def __init__(
        self,
        graph,
        root,
        tracing_mode="real",
        decompositions=None,
        reading=False,
        parent=None,
    ):
        super().__init__()
        self.graph = graph
        self.root = root
        self.tracing_mode = tracing_mode
        self.decompositions = decompositions or {}
        self.reading = reading
        self._nodes: dict = {}  # id -> (value, node); the value keeps its id its own
        self._windows: dict = {}  # place in memory -> node
        self._constants: dict = {}  # id -> (tensor, name)
        self.shape_env = None
        self.parent = parent
        # what steps show of a tensor: levels of transforms show what they wrap
        self.shown = (lambda one: one) if parent is None else parent.shown
        self.outer: dict = {}  # steps of the program around -> placeholders
        self._sizes: dict = {}  # expression -> the step that computes it
        self._call_sizes: list = []  # expressions that a call's plain integers may be

    @classmethod
    def is_infra_mode(cls):
        """Whether the mode belongs to the framework itself."""
        return True

    def track(self, tensor, node):
        """Notes which step of the graph a tensor comes from."""
        self._nodes[id(tensor)] = tensor, node
        if _has_elements(tensor):
            with python_key.without_modes():
                self._windows[_window(tensor)] = node
        shown = self.shown(tensor)
        if isinstance(shown, FakeTensor):  # real ones would stay as long as the graph
            node.meta["val"] = shown

    def find(self, tensor):
        """The step that a tensor comes from; None for one from elsewhere."""
        found = self._nodes.get(id(tensor))
        if found is not None:
            return found[1]
        # what autograd saves, and `.data`, look at the same place in memory
        return self._windows.get(_window(tensor)) if _has_elements(tensor) else None

    def node_of(self, value):
        """A value as a step's argument: tensors by the steps that they come from."""
        if not isinstance(value, Tensor):
            if self.shape_env is not None:
                value = self.shape_env.recognized(value, self._call_sizes)
            if isinstance(value, (SymFloat, SymBool)):
                return self.step_of(value.expr)
            if isinstance(value, SymInt):
                return self.size_of(value)
            return self._nodes.get(id(value), (value, value))[1]
        found = self.find(value)
        return self._constant(value) if found is None else found

    def nodes_of(self, arguments):
        """The arguments of a call, nested, as a step's."""
        if self.shape_env is not None:
            self._call_sizes = exprs_of(tree_flatten(arguments)[0])
        try:
            return tree_map(self.node_of, arguments)
        finally:
            self._call_sizes = []

    def _constant(self, tensor):
        """A step that reads a tensor from the module, or from the program around."""
        if self.parent is not None:
            node = self._argument_from(self.parent.node_of(tensor))
            self._nodes[id(tensor)] = tensor, node
            return node
        known = self._constants.get(id(tensor))
        if known is None:
            kind = (
                "_param_constant"
                if isinstance(tensor, Parameter)
                else ("_tensor_constant")
            )
            names = [name for _, name in self._constants.values()]
            number = sum(name.startswith(kind) for name in names)
            known = tensor, f"{kind}{number}"
            self._constants[id(tensor)] = known
            with python_key.without_modes():
                setattr(self.root, known[1], tensor)
        return self.graph.create_node("get_attr", known[1])

    # -- functions as arguments ----------------------------------------------------------

    def first_step(self):
        """The first step that is no argument, or the graph's end."""
        for node in self.graph.nodes:
            if node.op != "placeholder":
                return node
        return self.graph._root

    def _argument_from(self, outer):
        """The placeholder of a step of the program around."""
        found = self.outer.get(outer)
        if found is None:
            with self.graph.inserting_before(self.first_step()):
                found = self.graph.placeholder(outer.name)
            found.meta.update(outer.meta)
            self.outer[outer] = found
        return found

    def child(self):
        """Who records a function that is an argument of an operator."""
        made = ProxyTorchDispatchMode(
            Graph(),
            Module(),
            self.tracing_mode,
            self.decompositions,
            self.reading,
            self,
        )
        made.shape_env = self.shape_env
        return made

    @contextlib.contextmanager
    def running(self):
        """A block that this records, and whoever records around does not."""
        with disable_proxy_modes_tracing(), self:
            yield

    def record_function(self, function, operands):
        """The program of a function that is an argument, and what the function gives.

        Args:
            function: called with ``operands``, tensors or numbers.

        Returns:
            who has recorded it, and the result.
        """
        child = self.child()
        for at, one in enumerate(operands):
            name = getattr(self.node_of(one), "name", f"arg{at}_1")
            node = child.graph.placeholder(name)
            node.meta["val"] = self.shown(one)
            if isinstance(one, Tensor):
                child.track(one, node)
            elif isinstance(one, SymInt):
                child._sizes[one.expr] = node
        with child.running():
            return child, function(*operands)

    def record_result(self, node, result):
        """Ties what a step gives, a tuple of tensors, to steps that pick it.

        Args:
            node: the step.
            result: what it gives.
        """
        node.meta["val"] = tree_map(self.shown, result)
        self._track_all(result, node)

    # -- operators ---------------------------------------------------------------------

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        replacement = self.decompositions.get(func)
        if replacement is not None:
            with self:
                result = replacement(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = func._opname
        flat, _ = tree_flatten((args, kwargs))
        recorded = any(
            isinstance(one, Tensor) and self.find(one) is not None for one in flat
        )
        unknown = self.elements is None and not self.reading
        if name == "_local_scalar_dense" and recorded and unknown:
            raise RuntimeError(
                "It appears that you're trying to get value out of a tracing tensor with "
                f"{func} - erroring out! It's likely that this is caused by data-dependent "
                "control flow or similar.  It may be possible to trace this with dynamic "
                "shapes; try setting tracing_mode='symbolic' in your make_fx call."
            )
        given, named = self.nodes_of((tuple(args), dict(kwargs)))
        written = func
        if name == "lift_fresh":
            written = call.lift_fresh_copy.overloads[0]  # the constant stays as it is
        node = self.graph.create_node(
            "call_function", written, given, named, name=written._opname
        )
        result = func(*args, **kwargs)
        self._track_all(result, node)
        self.bind(node, result)
        return result

    def _track_all(self, result, node):
        if isinstance(result, Tensor):
            self.track(result, node)
        elif isinstance(result, (list, tuple)):
            shown = type(result)([self.shown(one) for one in result])
            if any(isinstance(one, FakeTensor) for one in shown):
                node.meta["val"] = shown
            for at, one in enumerate(result):
                part = self.graph.create_node(
                    "call_function", operator.getitem, (node, at)
                )
                self._track_all(one, part)
        elif isinstance(result, bool):
            node.meta["val"] = result
        elif result is not None and not isinstance(result, _NUMBERS):
            self._nodes[id(result)] = result, node  # an operator's own kind of object


def _placeholders(f, args):
    """The names of a program's arguments, and what they are if left out."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if isinstance(f, OperatorPacket):  # PyTorch's have no signature to look at
        parameters = []
    if any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters):
        raise RuntimeError(
            f"Tracing expected {len(parameters)} arguments but got {len(args)} concrete "
            "arguments"
        )
    names = []
    for at in range(len(args)):
        parameter = parameters[at] if at < len(parameters) else None
        plain = parameter is not None and parameter.kind is not (
            parameter.VAR_POSITIONAL
        )
        if plain:
            names.append((parameter.name, parameter.default))
        else:
            names.append((f"arg{at}", inspect.Parameter.empty))
    return names


def make_fx(
    f,
    decomposition_table=None,
    tracing_mode="real",
    _allow_non_fake_inputs=False,
    *,
    pre_dispatch=False,
    record_module_stack=False,
    _allow_fake_constant=False,
    _error_on_data_dependent_ops=True,
    record_stack_traces=False,
    proxy_module_inputs=False,
    _disable_torch_fn_metadata_mode=False,
):
    """A function that records ``f`` on its arguments, as a module of operators.

    Args:
        f: the program: of tensors, or nests of them.
        decomposition_table: what to record in place of an operator, by operator.
        tracing_mode: ``"real"`` runs the program; ``"fake"`` computes shapes only;
            ``"symbolic"`` has sizes of tensors, and integers among arguments, stand for any.

    Raises:
        ValueError: there is no such mode.
        RuntimeError: the program looks at the numbers of a tensor.

    >>> import rushlight as rl
    >>> traced = make_fx(lambda x: rl.relu(x).sum())(rl.ones(2))
    >>> [str(node.target) for node in traced.graph.nodes]
    ['x_1', 'aten.relu.default', 'aten.sum.default', 'output']
    >>> traced(rl.tensor([-1.0, 3.0]))
    tensor(3.)
    """
    if tracing_mode not in _MODES:
        raise ValueError(f"Unexpected tracing type: {tracing_mode}")

    def wrapped(*args):
        if tracing_mode != "symbolic":
            return recorded(None, *args)
        # a size that the program needs to know is a constant of the record
        fixed: tuple = ()
        for constant in [(), *_sizes_of(args), None]:
            fixed = constant
            try:
                return recorded(ShapeEnv(constant=fixed), *args)
            except GuardError:
                if constant is None:
                    raise
        raise AssertionError(f"constants {fixed} do not make a record")

    def recorded(env, *args):
        fake = None
        if tracing_mode != "real":
            fake = FakeTensorMode(
                allow_non_fake_inputs=_allow_non_fake_inputs or True,
                shape_env=env,
                static_shapes=env is None,
            )
        graph, root = Graph(), Module()
        flat, spec = tree_flatten(args)
        names = _placeholders(f, args)
        nested = any(not child.is_leaf() for child in spec.children())
        mode = ProxyTorchDispatchMode(
            graph, root, tracing_mode, decomposition_table,
            not _error_on_data_dependent_ops,
        )  # fmt: skip
        mode.shape_env = env
        given = list(_prepared(flat, fake))
        for (name, default), value in zip(_leaf_names(names, args), given):
            left_out = (
                {}
                if default is inspect.Parameter.empty or nested
                else {"default_value": default}
            )
            node = graph.placeholder(name, **left_out)
            if isinstance(value, Tensor):
                mode.track(value, node)
            elif isinstance(value, SymInt):
                node.meta["val"] = value
                mode._sizes[value.expr] = node
        with fake or contextlib.nullcontext(), mode:
            result = f(*tree_unflatten(given, spec))
        out, out_spec = tree_flatten(result)
        outputs = [mode.node_of(one) for one in out]
        if nested:
            graph._codegen = _PyTreeCodeGen(
                _PyTreeInfo([name for name, _ in names], spec, out_spec)
            )
            graph.output(outputs)
        else:
            graph.output(tree_unflatten(outputs, out_spec))
        made = GraphModule(root, graph, getattr(f, "__name__", "GraphModule"))
        if env is not None:
            made.shape_env = env
        return made

    return wrapped


def _sizes_of(args):
    """The sizes and integers of the arguments, one at a time, then all of them."""
    found = {
        size
        for one in tree_flatten(args)[0]
        for size in (one.shape if isinstance(one, Tensor) else (one,))
        if type(size) is int
    }
    return [(size,) for size in sorted(found)]


def _prepared(values, fake):
    """Arguments as the program gets them; symbols are named by what is a tensor before."""
    count = 0
    for value in values:
        yield _prepared_one(value, fake, f"input{count}")
        count += isinstance(value, Tensor)


def _prepared_one(value, fake, source):
    """An argument as the program gets it: a number of the record for an integer."""
    env = None if fake is None else fake.shape_env
    if env is not None and isinstance(value, (int, SymInt)):
        actual = value.hint if isinstance(value, SymInt) else value
        constant = env.constant is None or actual in env.constant
        if constant or isinstance(value, bool):
            return actual
        return env.integer(actual, symbol_name(source, env.names))
    if fake is None or not isinstance(value, Tensor) or isinstance(value, FakeTensor):
        return value
    return fake.from_tensor(value, source=source)


def _leaf_names(names, args):
    """A name for each leaf of the arguments."""
    for (name, default), value in zip(names, args):
        leaves, spec = tree_flatten(value)
        if spec.is_leaf():
            yield f"{name}_1", default
        else:
            for at in range(len(leaves)):
                yield f"{name}_{at + 1}", inspect.Parameter.empty


def get_proxy_mode():
    """The innermost mode of this thread that records operators, or None."""
    for mode in reversed(python_key.modes()):
        if isinstance(mode, ProxyTorchDispatchMode):
            return mode
    return None


@contextlib.contextmanager
def disable_proxy_modes_tracing():
    """A block whose operators are not recorded; it yields the innermost such mode."""
    found = get_proxy_mode()
    stack = python_key.modes()
    others = [mode for mode in stack if not isinstance(mode, ProxyTorchDispatchMode)]
    with python_key.without_modes(), contextlib.ExitStack() as active:
        for mode in others:
            active.enter_context(mode)
        yield found


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real"):
    """A program recorded apart from what is being recorded around it.

    Args:
        func: the program.
        args: its arguments; ``kwargs`` too.
        tracing_mode: as ``make_fx`` has it.
    """
    flat, spec = tree_flatten((tuple(args), dict(kwargs)))

    def program(*leaves):
        given, named = tree_unflatten(list(leaves), spec)
        return func(*given, **named)

    with disable_proxy_modes_tracing():
        return make_fx(program, tracing_mode=tracing_mode)(*flat)
