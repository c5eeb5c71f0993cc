"""What patterns of graphs are made of, and what a match is.

A pattern is an expression like the step that it finds: `CallFunction` and its kin name what
is called and have patterns for arguments; `KeywordArg` and `Arg` give a handler what stands in
their places.
"""

from rushlight._inductor._replacement import fwd_only, replace_with_graph, values_of
from rushlight.dispatch.packet import OperatorPacket
from rushlight.fx.node import Node
from rushlight.fx.operator_schemas import normalize_function


class Multiple:
    """Any number of users."""


MULTIPLE = Multiple()


class FailedMatch(RuntimeError):
    """A pattern is not where it was looked for; false where a match is true.

    Args:
        format_string: why, with places for ``args``.
    """

    def __init__(self, format_string, *args, **kwargs):
        super().__init__(format_string)
        self.format_string, self.args, self.kwargs = format_string, args, kwargs

    def __str__(self):
        return self.format_string.format(*self.args, **self.kwargs)

    def __bool__(self):
        return False


class Match:
    """A pattern that was found.

    Attributes:
        args, kwargs: what stands in the places of `Arg` and `KeywordArg`.
        nodes: the steps.
        targets: what each `CallFunction` of several has found.
        replacement_graph: what is to take the steps' place.

    Args:
        ctx: the `MatchContext`.
        pattern: the pattern.
    """

    def __init__(self, ctx, pattern, args=None, kwargs=None):
        self.ctx, self.pattern = ctx, pattern
        self.args, self.kwargs = list(args or []), dict(kwargs or {})
        self.nodes: list = []
        self.targets: dict = {}
        self.replacement_graph = None

    @property
    def graph(self):
        """The graph that it is in."""
        return self.ctx.graph

    def extend(self, other):
        """Takes in the match of a part.

        Raises:
            FailedMatch: one name stands for two things.
        """
        for key in {*self.kwargs} & {*other.kwargs}:
            if self.kwargs[key] != other.kwargs[key]:
                raise FailedMatch("kwarg mismatch: {}", key)
        self.args += other.args
        self.nodes += other.nodes
        self.kwargs.update(other.kwargs)
        self.targets.update(other.targets)

    def bundle(self):
        """Has all arguments be one."""
        self.args = [tuple(self.args)] if self.args else []
        return self

    def __repr__(self):
        return f"Match(..., {self.args}, {self.kwargs})"

    def erase_nodes(self):
        """Takes its steps out of the graph, but for those that others use."""
        for node in sorted({*self.nodes}, reverse=True):
            if not node._erased and not node.users:
                self.graph.erase_node(node)

    def output_nodes(self):
        """The steps of the pattern's results; None for results that are not asked for."""
        found = self.ctx.pattern_to_node
        return [None if one is None else found[one] for one in self.ctx.outputs]

    def output_node(self):
        """The first of them."""
        return next(one for one in self.output_nodes() if one is not None)

    def replace_with_graph(self, replacement_graph, args):
        """Puts a graph in the place of the steps.

        Args:
            replacement_graph: its inputs are ``args``, its results the steps'.
        """
        return replace_with_graph(self, self.graph, replacement_graph, args)

    def replace_by_example(
        self, replacement_fn, args, trace_fn=None, run_functional_passes=True
    ):
        """Puts what a function does in the place of the steps.

        Args:
            replacement_fn: a function of ``args``.
            args: steps and constants.
            trace_fn: makes a graph of the function; `fwd_only` by default.
        """
        graph = (trace_fn or fwd_only)(replacement_fn, values_of(args))
        return self.replace_with_graph(graph, args)


def is_match(m):
    """Whether a pattern was found."""
    return bool(m)


class MatchContext:
    """One search: which step each part of a pattern was found at.

    Args:
        outputs: the patterns of the results.
        pattern_to_node: what is known already.
        graph: the graph.
    """

    def __init__(self, outputs, pattern_to_node=None, *, graph):
        self.outputs, self.graph = outputs, graph
        self.pattern_to_node = dict(pattern_to_node or {})
        self.exclusive_node_set: list = []

    def match(self, pattern, node):
        """A part of a pattern at a step; one that was found is at the same step again."""
        if pattern in self.pattern_to_node:
            if self.pattern_to_node[pattern] == node:
                return Match(self, pattern)
            return FailedMatch("repeated pattern differs")
        found = pattern._match(node, self)
        self.pattern_to_node[pattern] = node if found else None
        return found

    def filter_multi_user_patterns(self):
        """The parts that others share, with their steps."""
        return {
            pattern: node
            for pattern, node in self.pattern_to_node.items()
            if pattern.has_multiple_users() and node is not None
        }


class PatternExpr:
    """A pattern."""

    def _match(self, node, ctx):
        raise NotImplementedError

    def match(self, node):
        """The `Match` whose result is a step, or a `FailedMatch`.

        Args:
            node: the step.
        """
        try:
            return MatchContext([self], graph=node.graph).match(self, node)
        except FailedMatch as failed:
            return failed

    def has_multiple_users(self):
        """Whether others than the pattern may use the step."""
        return False

    def __repr__(self):
        return f"{type(self).__name__}()"

    def find_anchor_nodes(self, ctx, searched):
        """Steps from which this part of a pattern may be looked for."""
        if self in ctx.pattern_to_node:
            yield ctx.pattern_to_node[self]

    def pattern_eq(self, other):
        """Whether another pattern is built alike."""
        return type(other) is type(self) and repr(self) == repr(other)


class Arg(PatternExpr):
    """Anything; a handler is given it."""

    def _match(self, node, ctx):
        return Match(ctx, self, args=[node])


class Ignored(PatternExpr):
    """Anything; nobody is given it."""

    def _match(self, node, ctx):
        return Match(ctx, self)

    def __repr__(self):
        return "*"


class KeywordArg(PatternExpr):
    """Anything; a handler is given it by name.

    Args:
        name: the name; the same name twice is the same thing.
    """

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r})"

    def _match(self, node, ctx):
        return Match(ctx, self, kwargs={self.name: node})


class ExclusiveKeywordArg(KeywordArg):
    """The same, for something that no other such one is."""

    def _match(self, node, ctx):
        if node in ctx.exclusive_node_set:
            return FailedMatch("exclusive arg appears twice")
        ctx.exclusive_node_set.append(node)
        return super()._match(node, ctx)


class _TargetExpr(PatternExpr):
    """A step by what it calls.

    Args:
        fns: an operator, a function, a method's name, or several of them.
        users: how many steps use the result.
    """

    op = ""

    def __init__(self, fns, users=1):
        fns = [fns] if callable(fns) or isinstance(fns, str) else list(fns)
        for one in [*fns]:
            if isinstance(one, OperatorPacket):
                fns += [getattr(one, name) for name in one.overloads()]
        self.fns, self.users = fns, users

    def fns_repr(self):
        """What is called, as text."""
        names = [one if isinstance(one, str) else str(one) for one in self.fns]
        return names[0] if len(names) == 1 else f"[{', '.join(names)}]"

    def has_multiple_users(self):
        return self.users is MULTIPLE or self.users > 1

    def find_anchor_nodes(self, ctx, searched):
        raise NotImplementedError

    def _fails(self, node, ctx):
        """Why a step is none of what is looked for; None where it is one."""
        fits = isinstance(node, Node) and node.op == self.op
        if not fits or extract_target(node) not in self.fns:
            return FailedMatch("function_mismatch: node={}, pattern={}", node, self)
        counted = self in ctx.outputs or self.users is MULTIPLE
        if not counted and len(node.users) != self.users:
            return FailedMatch("multiple_users {}", self)
        return None


class _TargetArgsExpr(_TargetExpr):
    """A step by what it calls and its arguments.

    Args:
        fns: what is called.
        args, kwargs: patterns and constants.
        _users: how many steps use the result.
    """

    def __init__(self, fns, *args, _users=1, **kwargs):
        super().__init__(fns, _users)
        self.args, self.kwargs = tuple(args), dict(kwargs)
        self.parts = [
            one for one, _ in paired((self.args, self.kwargs), (self.args, self.kwargs))
        ]

    def __repr__(self):
        args = [self.fns_repr(), *map(repr, self.args)]
        args += [f"{key}={value!r}" for key, value in self.kwargs.items()]
        if self.users is not MULTIPLE and self.users != 1:
            args.append(f"_users={self.users}")
        return f"{type(self).__name__}({', '.join(args)})"

    def _arguments(self, node):
        """A step's arguments, as many as the pattern has."""
        args, kwargs = node.args, dict(node.kwargs)
        fewer = len(args) < len(self.args) or len(kwargs) < len(self.kwargs)
        if fewer and node.op == "call_function":
            found = normalize_function(node.target, args, kwargs)
            if found is not None:
                args, kwargs = found
                given = [kwargs.pop(name) for name in [*kwargs][: len(self.args)]]
                args = (*args, *given) if len(args) < len(self.args) else args
        return args, {key: kwargs[key] for key in self.kwargs if key in kwargs}

    def _match(self, node, ctx):
        fails = self._fails(node, ctx)
        if fails is not None:
            return fails
        try:
            return self._match_parts(node, ctx)
        except FailedMatch as failed:
            return failed

    def _match_parts(self, node, ctx):
        match = Match(ctx, self)
        for pattern, child in paired((self.args, self.kwargs), self._arguments(node)):
            if isinstance(pattern, PatternExpr):
                found = ctx.match(pattern, child)
                if not found:
                    return found
                match.extend(found)
            elif isinstance(child, Node) or child != pattern:
                return FailedMatch("constant_args: {} {!r}!={!r}", node, child, pattern)
        match.nodes.append(node)
        match.targets[self] = node.target
        return match

    def find_anchor_nodes(self, ctx, searched):
        if self in ctx.pattern_to_node:
            yield ctx.pattern_to_node[self]
            return
        for pattern in self.parts:
            if not isinstance(pattern, PatternExpr):
                continue
            for other in pattern.find_anchor_nodes(ctx, searched):
                for node in other.users if isinstance(other, Node) else ():
                    if node not in searched and self._fails(node, ctx) is None:
                        searched.add(node)
                        yield node


class CallFunction(_TargetArgsExpr):
    """A call of a function or an operator."""

    op = "call_function"


class CallMethod(_TargetArgsExpr):
    """A call of a tensor's method."""

    op = "call_method"


class CallModule(_TargetArgsExpr):
    """A call of a module of a class."""

    op = "call_module"


class _TargetExprVarArgs(_TargetExpr):
    """A step by what it calls, whatever its arguments are; a handler is given them."""

    def _match(self, node, ctx):
        fails = self._fails(node, ctx)
        if fails is not None:
            return fails
        match = Match(ctx, self, node.args, node.kwargs)
        match.nodes.append(node)
        match.targets[self] = node.target
        return match


class CallFunctionVarArgs(_TargetExprVarArgs):
    """A call of a function or an operator with any arguments."""

    op = "call_function"


class CallMethodVarArgs(_TargetExprVarArgs):
    """A call of a tensor's method with any arguments."""

    op = "call_method"


class CallModuleVarArgs(_TargetExprVarArgs):
    """A call of a module of a class with any arguments."""

    op = "call_module"


class ListOf(PatternExpr):
    """A list of which each item fits one pattern.

    Args:
        pattern: the pattern.
        partial: whether items that do not fit are passed over.
    """

    def __init__(self, pattern, partial=False):
        self.pattern, self.partial = pattern, partial

    def __repr__(self):
        return f"ListOf({self.pattern})"

    def _match(self, node, ctx):
        if not isinstance(node, (list, tuple)) or not node:
            return FailedMatch("non_list")
        match, matched = Match(ctx, self), False
        shared: dict = {}
        for number, child in enumerate(node):
            inner = MatchContext(ctx.outputs, shared, graph=child.graph)
            found = inner.match(self.pattern, child)
            shared = inner.filter_multi_user_patterns()
            if found:
                matched = True
                match.extend(found.bundle())
            elif not self.partial:
                return FailedMatch("list[{}]: {}", number, found)
        return match.bundle() if matched else FailedMatch("list: no_match")


class MultiOutputPattern(PatternExpr):
    """A pattern of several results.

    Args:
        outputs: a pattern for each; None for one that is not asked for.
    """

    def __init__(self, outputs):
        self.outputs, self.op = list(outputs), outputs[0].op
        self.fns = outputs[0].fns

    def __repr__(self):
        return f"{type(self).__name__}({self.outputs})"

    def _match(self, node, ctx):
        match = ctx.match(self.outputs[0], node)
        for pattern in self.outputs[1:]:
            if not match:
                return match
            if pattern is not None:
                found = self._from_anchors(pattern, ctx)
                if not found:
                    return found
                match.extend(found)
        return match

    @staticmethod
    def _from_anchors(pattern, ctx):
        before = dict(ctx.pattern_to_node)
        found = FailedMatch("no anchor found")
        for node in pattern.find_anchor_nodes(ctx, set()):
            found = ctx.match(pattern, node)
            if found:
                return found
            ctx.pattern_to_node = dict(before)
        return found

    def match(self, node):
        try:
            return MatchContext(self.outputs, graph=node.graph).match(self, node)
        except FailedMatch as failed:
            return failed


def paired(pattern, given):
    """The parts of nested patterns, each with what stands in its place.

    Raises:
        FailedMatch: what is given is nested otherwise.
    """
    if isinstance(pattern, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(given) != len(pattern):
            raise FailedMatch("args_structure {} {}", given, pattern)
        for one, other in zip(pattern, given):
            yield from paired(one, other)
    elif isinstance(pattern, dict):
        if not isinstance(given, dict) or given.keys() != pattern.keys():
            raise FailedMatch("args_structure {} {}", given, pattern)
        for key, one in pattern.items():
            yield from paired(one, given[key])
    else:
        yield pattern, given


def extract_target(node):
    """What a step calls: of a module, its class."""
    if node.op in ("call_module", "get_attr"):
        return type(_attribute(node.graph.owning_module, node.target))
    return node.target


def _attribute(found, target):
    for name in target.split("."):
        found = getattr(found, name)
    return found
