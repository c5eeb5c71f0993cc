"""Exported programs as modules that hold their tensors and are called as before."""

from rushlight.core.tensor import Tensor
from rushlight.export._constraints import InputConstraints
from rushlight.export._guards import leaf_paths, shown
from rushlight.export._roots import Place, root_name, roots_of
from rushlight.export.graph_signature import InputKind, OutputKind, writes
from rushlight.fx.experimental.pre_dispatch import placeholder
from rushlight.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.graph_module import GraphModule
from rushlight.ir.symbolic import SymInt
from rushlight.nn.modules.module import Module
from rushlight.operators import call
from rushlight.utils._pytree import tree_flatten


class GuardsFn(Module):
    """Checks a program's arguments against what its recording has found.

    Args:
        names: the arguments' names.
        checks: pairs of a condition's text and the function of the arguments.
    """

    def __init__(self, names, checks):
        super().__init__()
        self.names, self.checks = names, checks

    def forward(self, *args):
        """Raises AssertionError at the first condition that does not hold."""
        for text, holds in self.checks:
            if not holds(args):
                raise AssertionError(f"Guard failed: {text}")


def unlifted(program, check_guards=True):
    """The module of a program.

    Args:
        program: the `ExportedProgram`.
        check_guards: whether arguments are checked.
    """
    signature = program.graph_signature
    root = own_module(program)
    for name, child in program.graph_module.named_children():
        root.add_module(name, child)
    graph = Graph()
    known: dict = {}
    users, attributes = [], []
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            (users if spec.kind is InputKind.USER_INPUT else attributes).append(
                (node, spec)
            )
    for node, _ in users:
        known[node] = placeholder(graph, node.name)
        known[node].meta.update(node.meta)
    call_names = _argument_names(program)
    by_target: dict = {}
    with graph.inserting_before(next(iter(graph.nodes), None)):
        for node, spec in attributes:
            made = graph.get_attr(spec.target)
            made.meta.update(node.meta)
            known[node] = by_target[spec.target] = made
    if check_guards:
        found = [(shown(code), holds) for code, holds in program._guards]
        checks = [*_input_checks(program, users), *found]
        root.add_module("_guards_fn", GuardsFn([n.name for n, _ in users], checks))
        graph.call_module("_guards_fn", tuple(known[node] for node, _ in users))
    written = writes(signature)
    for node in program.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op != "output":
            known[node] = graph.node_copy(node, lambda one: known[one])
            continue
        results = node.args[0]
        for spec, result in zip(signature.output_specs, results):
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                target = next(known[n] for n, s in users if n.name == spec.target)
            elif spec in written:
                target = by_target[spec.target]
            else:
                continue
            graph.call_function(call.copy_.overloads[0], (target, known[result]))
        kept = [
            known.get(one, one) if not isinstance(one, (list, dict)) else one
            for spec, one in zip(signature.output_specs, results)
            if spec not in written
        ]
        graph.output(tuple(kept))
    graph._codegen = _Calling(
        _PyTreeInfo(call_names, program.call_spec.in_spec, program.call_spec.out_spec)
    )
    made = GraphModule(root, graph, "GraphModule")
    made.train, made.eval = _no_mode("train"), _no_mode("eval")
    checks = _Checks(program.call_spec.in_spec)
    if not check_guards:
        checks.inputs = InputConstraints(
            leaf_paths(program),
            [node.meta.get("val") for node, _ in users],
            program.range_constraints,
        )
    made.register_forward_pre_hook(checks, with_kwargs=True)
    return made


def _no_mode(name):
    """A method that says of a program that it has no modes: they were chosen before."""

    def refuse(*_):
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return refuse


def _argument_names(program):
    names = program.module_call_graph[0].signature.forward_arg_names
    spec = program.call_spec.in_spec
    positional, keywords = spec.children()
    if names is not None:
        return list(names)
    return [f"arg_{at}" for at in range(positional.num_children)] + list(
        keywords.context or ()
    )


class _Calling(_PyTreeCodeGen):
    """Takes arguments apart as they were nested in the recording, keywords included."""

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        names = list(self.pytree_info.orig_args)
        positional, keywords = self.pytree_info.in_spec.children()
        count = positional.num_children
        text = super(_PyTreeCodeGen, self).gen_fn_def(
            names, maybe_return_annotation, expanded_def=expanded_def
        )
        if not free_vars:
            return text
        leaves = [var.partition(":")[0].partition("=")[0].strip() for var in free_vars]
        named = ", ".join(f"{key!r}:{key}" for key in keywords.context or ())
        return (
            f"{text}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec("
            f"([{', '.join(names[:count])}], {{{named}}}), self._in_spec)"
        )


def checked_leaves(wanted, args, kwargs):
    """The leaves of a call's arguments, which are nested as in the recording.

    Args:
        wanted: how they were.
        args: the arguments; ``kwargs`` too.

    Raises:
        ValueError: they are nested in another way, or have other names.
    """
    names = list(wanted.children()[1].context or [])
    if set(names) != set(kwargs):
        raise ValueError(
            "Ran into a kwarg keyword mismatch: Got the following keywords "
            f"{list(kwargs)} but expected {names}"
        )
    kwargs = in_order(wanted, kwargs)
    leaves, spec = tree_flatten((tuple(args), kwargs))
    if spec != wanted:
        raise ValueError(
            "Trying to flatten user inputs with exported input tree spec: \n"
            f"{wanted}\nbut actually got inputs with tree spec of: \n{spec}.\n"
            "Please check that the inputs have the same number and type of args and "
            "kwargs as the ones you used when tracing."
        )
    return tuple(leaves)


def in_order(wanted, kwargs):
    """Keyword arguments in the order of the recording."""
    names = wanted.children()[1].context or []
    named = {name: kwargs[name] for name in names if name in kwargs}
    named.update({key: one for key, one in kwargs.items() if key not in named})
    return named


class _Checks:
    """Looks at how the arguments of a call are nested, before the call."""

    def __init__(self, in_spec):
        self.in_spec = in_spec
        self.inputs = None

    def __call__(self, module, args, kwargs):
        leaves = checked_leaves(self.in_spec, args, kwargs)
        if self.inputs is not None:
            self.inputs(leaves)
        return args, in_order(self.in_spec, kwargs)


def _input_checks(program, users):
    """What the recording's arguments were: sizes, types and numbers."""
    paths = leaf_paths(program)
    values = [node.meta.get("val") for node, _ in users]
    names = [_place(path, program) for path in paths]
    names += [node.name for node, _ in users[len(names) :]]
    roots = roots_of(values, names)
    found = []
    for at, (name, value) in enumerate(zip(names, values)):
        if isinstance(value, SymInt):
            found.append(_is_integer(at, name))
            found.extend(_sized(Place(at, None, name), value, roots, program))
            continue
        if not isinstance(value, Tensor):
            found.append(_same(at, name, value))
            continue
        found.append(_is_tensor(at, name, value.dim()))
        found.append(_of_type(at, name, value.dtype))
        for dim, size in enumerate(value.shape):
            place = Place(at, dim, name)
            found.extend(_sized(place, size, roots, program))
    return found


def _place(path, program):
    """An argument as the caller writes it."""
    part, key, *rest = path
    names = program.module_call_graph[0].signature.forward_arg_names
    name = getattr(key, "key", None)
    if part.idx == 0:
        name = names[key.idx] if names and key.idx < len(names) else f"args[{key.idx}]"
    from rushlight.utils._pytree import keystr

    return f"{name}{keystr(tuple(rest))}"


def _same(at, name, value):
    def holds(args):
        given = args[at]
        return type(given) is type(value) and given == value

    return f"{name} == {value!r}", holds


def _is_integer(at, name):
    return f"isinstance({name}, int)", lambda args: type(args[at]) is int


def _is_tensor(at, name, dim):
    def holds(args):
        return isinstance(args[at], Tensor) and args[at].dim() == dim

    return f"{name}.dim() == {dim}", holds


def _of_type(at, name, dtype):
    return f"{name}.dtype == {dtype}", lambda args: args[at].dtype is dtype


def _sized(place, size, roots, program):
    """The conditions of one size: equal to a number, to what follows from another size,
    or between bounds."""
    if isinstance(size, int):
        yield f"{place.text} == {size}", lambda args: place.of(args) == size
        return
    root = roots.get(root_name(size))
    if root is None:  # nothing is known of it but that the program computes it
        return
    if not root.place.same(place):
        yield root.equal(place, size)
        return
    if root.factor != 1:
        yield root.divides()
    bounds = program.range_constraints.get(root_name(size))
    if bounds is not None:
        low, high = (root.size(bound) for bound in bounds)
        if bounds[0] > 0:
            yield f"{place.text} >= {low}", lambda args: place.of(args) >= low
        if bounds[1] != float("inf"):
            yield f"{place.text} <= {high}", lambda args: place.of(args) <= high


def own_module(program):
    """A module that has a program's own tensors by their paths."""
    root = Module()
    hidden = set(program.graph_signature.non_persistent_buffers)
    for spec in program.graph_signature.input_specs:
        tensor = program.tensor_of(spec)
        if tensor is None:
            continue
        *path, name = spec.target.split(".")
        home = root
        for part in path:
            if part not in home._modules:
                home.add_module(part, Module())
            home = home._modules[part]
        if spec.kind is InputKind.PARAMETER:
            home.register_parameter(name, tensor)
        else:
            kept = spec.kind is InputKind.BUFFER and spec.target not in hidden
            home.register_buffer(name, tensor, persistent=kept)
    return root
