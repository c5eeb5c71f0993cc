"""Patterns of steps, found in graphs and replaced: passes for compiled programs.

A pass is a `PatternMatcherPass`, which ``post_grad_custom_post_pass`` of
`rushlight._inductor.config` takes, or which is applied to a graph. `register_graph_pattern`
gives it a pattern and a function that changes the graph; `register_replacement` two functions:
what one does is looked for, and what the other does put in its place.
"""

import functools
import inspect
import operator
from collections import defaultdict

from rushlight._inductor._patterns import (
    MULTIPLE,
    Arg,
    CallFunction,
    CallFunctionVarArgs,
    CallMethod,
    CallMethodVarArgs,
    CallModule,
    CallModuleVarArgs,
    ExclusiveKeywordArg,
    FailedMatch,
    Ignored,
    KeywordArg,
    ListOf,
    Match,
    MatchContext,
    MultiOutputPattern,
    Multiple,
    PatternExpr,
    extract_target,
    is_match,
)
from rushlight._inductor._replacement import (
    fwd_only,
    replace_with_graph,
    stable_topological_sort,
    values_of,
)
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout
from rushlight.dispatch.dispatcher import Operator
from rushlight.fx.graph import Graph
from rushlight.fx.interpreter import Interpreter
from rushlight.utils._pytree import tree_leaves

__all__ = [
    "MULTIPLE",
    "Arg",
    "CallFunction",
    "CallFunctionVarArgs",
    "CallMethod",
    "CallMethodVarArgs",
    "CallModule",
    "CallModuleVarArgs",
    "ExclusiveKeywordArg",
    "FailedMatch",
    "GraphPatternEntry",
    "Ignored",
    "KeywordArg",
    "ListOf",
    "Match",
    "MatchContext",
    "MultiOutputPattern",
    "Multiple",
    "PatternEntry",
    "PatternExpr",
    "PatternMatcherPass",
    "ReplacementPatternEntry",
    "extract_target",
    "filter_nodes",
    "fwd_only",
    "fx_to_pattern",
    "gen_pattern",
    "get_arg_value",
    "is_match",
    "is_mutation_op",
    "joint_fwd_bwd",
    "register_graph_pattern",
    "register_lowering_pattern",
    "register_replacement",
    "stable_topological_sort",
]

_BURNED_IN = (int, float, list, DType, Device, Layout)


def _return_true(match):
    return True


# -- entries -----------------------------------------------------------------------------


class PatternEntry:
    """A pattern of a pass, and what is done where it is found.

    Args:
        pattern: the pattern.
        extra_check: whether a match counts.
    """

    def __init__(self, pattern, extra_check=_return_true):
        self.pattern, self.extra_check = pattern, extra_check

    def apply(self, match, graph, node):
        """Changes the graph.

        Args:
            match: where the pattern is.
            graph: the graph.
            node: the step of its result.
        """
        raise NotImplementedError

    def register(self, pass_dicts, target=None, prepend=False):
        """Gives the entry to passes.

        Args:
            pass_dicts: a pass, a dict of lists, or several of them.
            target: what the pattern's last step calls; the pattern says it by default.
            prepend: whether it is tried before others.
        """
        if isinstance(pass_dicts, (list, tuple)):
            for one in pass_dicts:
                self.register(one, target, prepend)
            return
        for one in self.pattern.fns if target is None else [target]:
            entries = pass_dicts[self.pattern.op, one]
            entries.insert(0 if prepend else len(entries), self)


class GraphPatternEntry(PatternEntry):
    """A pattern for which a function changes the graph."""

    def __init__(self, pattern, extra_check=_return_true, handler=None):
        super().__init__(pattern, extra_check)
        self.handler = handler

    def apply(self, match, graph, node):
        with graph.inserting_before(node):
            self.handler(match, *match.args, **match.kwargs)


class ReplacementPatternEntry(PatternEntry):
    """A pattern in whose place a graph is put."""

    def __init__(self, pattern, extra_check=_return_true, normalize_args=None):
        super().__init__(pattern, extra_check)
        self.normalize_args = normalize_args

    def apply(self, match, graph, node):
        args = self.normalize_args(**match.kwargs)
        self.replace_with_graph(match, graph, match.replacement_graph, args)

    replace_with_graph = staticmethod(replace_with_graph)


def register_graph_pattern(
    pattern, extra_check=_return_true, *, pass_dict, prepend=False
):
    """A decorator for a function that changes a graph where a pattern is found.

    The function is given the `Match`, then what stands for `Arg` and `KeywordArg`.

    Args:
        pattern: the pattern.
        extra_check: whether a match counts.
        pass_dict: the pass.
        prepend: whether the pattern is tried before others.

    >>> import rushlight as rl
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> aten, own = rl.ops.aten, PatternMatcherPass()
    >>> @register_graph_pattern(
    ...     CallFunction(aten.mul.Tensor, KeywordArg("x"), 2), pass_dict=own
    ... )
    ... def twice(match, x):
    ...     match.replace_by_example(lambda x: x + x, [x])
    >>> graph = make_fx(lambda x: (x * 2).exp(), tracing_mode="fake")(rl.ones(2))
    >>> own.apply(graph), [str(n.target) for n in graph.graph.nodes]
    (1, ['x_1', 'aten.add.Tensor', 'aten.exp.default', 'output'])
    """

    def decorator(handler):
        entry = GraphPatternEntry(pattern, extra_check, handler)
        entry.register(pass_dict, prepend=prepend)
        return handler

    return decorator


def register_lowering_pattern(*args, **kwargs):
    """Would give steps another lowering.

    Raises:
        NotImplementedError: always: operators are lowered by their own kernels here.
    """
    raise NotImplementedError(
        "register_lowering_pattern: there is no lowering to an intermediate language "
        "here\n  remedy: register_graph_pattern, or register_replacement"
    )


# -- passes ------------------------------------------------------------------------------


class PatternMatcherPass:
    """Patterns that are looked for in a graph, from its end to its beginning.

    Args:
        pass_name: the pass's name.
        subsystem: kept for PyTorch's programs.
    """

    def __init__(self, pass_name=None, subsystem=None):
        self.pass_name, self.subsystem = pass_name, subsystem
        self.patterns: defaultdict = defaultdict(list)

    def __getitem__(self, item):
        return self.patterns[item]

    def __call__(self, gm):
        """The same as `apply`, so that it can be a setting."""
        return self.apply(gm)

    def apply(self, gm):
        """Changes a graph or its module; how many patterns were found.

        Args:
            gm: the graph.
        """
        if not self.patterns:
            return 0
        graph = gm if isinstance(gm, Graph) else gm.graph
        count = 0
        for node in sorted(graph.nodes, reverse=True):
            if node._erased or node.op not in (
                "call_function",
                "call_method",
                "call_module",
            ):
                continue
            entries = self.patterns.get((node.op, extract_target(node)), ())
            for entry in entries:
                if node._erased:
                    break
                match = entry.pattern.match(node)
                if is_match(match) and _unwritten(match) and entry.extra_check(match):
                    count += 1
                    entry.apply(match, graph, node)
        if count and not isinstance(gm, Graph):
            gm.recompile()
        return count

    def clear(self):
        """Forgets all patterns."""
        self.patterns.clear()


def is_mutation_op(node):
    """Whether a step writes to a tensor that it is given."""
    if node.op == "call_function":
        if isinstance(node.target, Operator):
            return node.target._schema.is_mutable
        return (
            getattr(node.target, "__name__", "").endswith("_") or "out" in node.kwargs
        )
    return node.op == "call_method" and node.target.endswith("_")


def _unwritten(match):
    """Whether nothing writes between the first and the last step of a match."""
    first, last = min(match.nodes), max(match.nodes)
    node = first
    while node is not last:
        if is_mutation_op(node):
            return False
        node = node.next
    return True


# -- patterns from functions -------------------------------------------------------------


def joint_fwd_bwd(fn, args, **options):
    """Would record a function and its gradient as one graph.

    Raises:
        NotImplementedError: always: sweeps back have graphs of their own here.
    """
    raise NotImplementedError(
        "joint_fwd_bwd: forward calls and sweeps back are graphs of their own here\n"
        "  remedy: fwd_only, for each of them"
    )


class _Converter(Interpreter):
    """Runs a graph on patterns."""

    def __init__(self, module, ignored, names, scalars, exclusive):
        super().__init__(module)
        self.ignored, self.names, self.scalars = ignored, list(names), scalars
        self.exclusive, self.count = exclusive, 0

    def placeholder(self, target, args, kwargs):
        name = target
        if self.count < len(self.names):
            name = self.names[self.count]
        self.count += 1
        kind = ExclusiveKeywordArg if name in self.exclusive else KeywordArg
        return kind(name)

    def _part(self, one, ignored):
        if type(one) in (int, float) and one in self.scalars:
            return KeywordArg(self.scalars[one])
        if isinstance(one, (list, tuple)):
            parts = [self._part(item, ignored) for item in one]
            plain = list in ignored and all(isinstance(item, Ignored) for item in parts)
            return Ignored() if plain and parts else parts
        return Ignored() if type(one) in ignored else one

    def call_function(self, target, args, kwargs):
        ignored = self.ignored
        if target is operator.getitem:
            ignored = tuple(one for one in ignored if one is not int)
        args = [self._part(one, ignored) for one in args]
        kwargs = {key: self._part(one, ignored) for key, one in kwargs.items()}
        return CallFunction(target, *args, **kwargs)

    def call_method(self, target, args, kwargs):
        raise NotImplementedError("patterns are made of graphs of operators alone")

    call_module = get_attr = call_method

    def run_node(self, n):
        result = super().run_node(n)
        if n.op != "output":
            result.users = len(n.users)
        return result


def fx_to_pattern(
    gm, ignore_types=(), argnames=(), scalar_workaround=None, exclusive_arg_names=()
):
    """The pattern of a graph.

    Args:
        gm: the graph's module.
        ignore_types: constants of these types may be others.
        argnames: the names of its inputs.
        scalar_workaround: numbers that stand for arguments, by name.
        exclusive_arg_names: inputs that no other of them is.
    """
    scalars = {value: name for name, value in (scalar_workaround or {}).items()}
    given = tuple(ignore_types), argnames, scalars, exclusive_arg_names
    pattern = _Converter(gm, *given).run()
    if isinstance(pattern, PatternExpr):
        return pattern
    leaves = tree_leaves(pattern)
    return leaves[0] if len(leaves) == 1 else MultiOutputPattern(leaves)


def gen_pattern(
    search_fn, example_inputs, trace_fn, scalar_workaround=None, exclusive_arg_names=()
):
    """The pattern of what a function does, whatever its sizes.

    Args:
        search_fn: the function.
        example_inputs: its arguments.
        trace_fn: `fwd_only`.
        scalar_workaround: numbers that stand for arguments, by name.
        exclusive_arg_names: inputs that no other of them is.
    """
    names = [*inspect.signature(search_fn).parameters]
    scalars = scalar_workaround or {}
    given = iter(example_inputs)
    args = [scalars[name] if name in scalars else next(given) for name in names]
    graph = trace_fn(search_fn, args)
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, name in zip(inputs, names):
        if name in scalars and not node.users:
            graph.graph.erase_node(node)
    names = [name for name in names if name not in scalars]
    how = names, scalars, exclusive_arg_names
    return fx_to_pattern(graph, _BURNED_IN, *how)


def register_replacement(
    search_fn, replace_fn, example_inputs, trace_fn, pass_dicts, extra_check=_return_true,
    scalar_workaround=None, exclusive_arg_names=(), search_fn_pattern=None,
    **options,
):  # fmt: skip
    """Has passes look for what one function does, and put what another does in its place.

    A match is looked at again with the sizes and types that it has in the graph.

    Args:
        search_fn: what is looked for.
        replace_fn: what is put in its place, of the same arguments.
        example_inputs: arguments of ``search_fn``.
        trace_fn: `fwd_only`.
        pass_dicts: the pass, or several.
        extra_check: whether a match counts.
        scalar_workaround: numbers that stand for arguments, by name.
        exclusive_arg_names: inputs that no other of them is.
        search_fn_pattern: the pattern, where it is known.
        options: PyTorch's others, which change nothing.

    Returns:
        the pattern.

    >>> import rushlight as rl
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> own = PatternMatcherPass()
    >>> def wide(x, y):
    ...     return (x * y).sum(-1)
    >>> def narrow(x, y):
    ...     return rl.linalg.vecdot(x, y)
    >>> _ = register_replacement(wide, narrow, [rl.ones(2, 3)] * 2, fwd_only, own)
    >>> graph = make_fx(lambda a: wide(a, a.exp()), tracing_mode="fake")(rl.ones(4, 5))
    >>> own.apply(graph)
    1
    """
    names = [*inspect.signature(search_fn).parameters]
    scalars = scalar_workaround or {}
    exact = functools.partial(
        _exact_match, search_fn, names, trace_fn, scalars, exclusive_arg_names
    )
    if search_fn_pattern is not None:
        exact = _known_match
    check = functools.partial(_checked, names, exact, extra_check, trace_fn, replace_fn)
    pattern = search_fn_pattern or gen_pattern(
        search_fn, example_inputs, trace_fn, scalars, exclusive_arg_names
    )
    arguments = functools.partial(_arguments_of, names)
    ReplacementPatternEntry(pattern, check, arguments).register(pass_dicts)
    return pattern


def _checked(names, exact, extra_check, trace_fn, replace_fn, match):
    """Whether a match is one with its sizes; it has the graph that takes its place then."""
    args = values_of([match.kwargs[name] for name in names])
    found = exact(match, args)
    if not is_match(found) or not extra_check(found):
        return False
    match.replacement_graph = trace_fn(replace_fn, args)
    return True


def _arguments_of(names, **kwargs):
    return tree_leaves([kwargs[name] for name in names])


def _known_match(match, args):
    return match


def _exact_match(search_fn, names, trace_fn, scalars, exclusive, match, args):
    """The match of a function's pattern with the constants that a graph's sizes give."""
    kept = {name: match.kwargs[name] for name in names if name in scalars}
    graph = trace_fn(search_fn, args)
    pattern = fx_to_pattern(graph, (), names, None, exclusive)
    found = pattern.match(match.output_nodes()[0])
    if is_match(found):
        found.kwargs.update(kept)
    return found


# -- graphs ------------------------------------------------------------------------------


def get_arg_value(node, arg_number, kwarg_name=None):
    """An argument of a step, by its place or its name.

    Args:
        node: the step.
        arg_number: the place.
        kwarg_name: the name.
    """
    if len(node.args) > arg_number:
        return node.args[arg_number]
    return node.kwargs.get(kwarg_name)


def filter_nodes(nodes, fn):
    """The steps that call an operator, or an overload of a packet.

    Args:
        nodes: the steps.
        fn: the operator.
    """
    fns = [fn]
    if hasattr(fn, "overloads"):
        fns += [getattr(fn, name) for name in fn.overloads()]
    return [node for node in nodes if node.target in fns]
