"""``explain``: how many graphs a function becomes, and where it needs values."""

from dataclasses import dataclass, field

from rushlight.core.logs import shown_line
from rushlight.graph import compiled_function


@dataclass
class GraphCompileReason:
    """Why a graph ends.

    Attributes:
        reason: what needed a value.
        user_stack: the user's line: file, number, function.
        graph_break: whether more follows.
    """

    reason: str
    user_stack: tuple | None
    graph_break: bool = True


@dataclass
class ExplainOutput:
    """What `explain` found.

    Attributes:
        graphs: the graphs, as they were before any pass.
        graph_count, graph_break_count, op_count: their numbers.
        break_reasons: a `GraphCompileReason` for each break.
        ops_per_graph: the operators of each graph.
    """

    graphs: list
    graph_count: int
    graph_break_count: int
    op_count: int
    break_reasons: list
    ops_per_graph: list = field(default_factory=list)
    out_guards: list = field(default_factory=list)

    def __str__(self):
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, found in enumerate(self.break_reasons, 1):
            lines.append(f"  Break Reason {number}:")
            lines.append(f"    Reason: {found.reason}")
            lines.append("    User Stack:")
            lines.append(f"      {shown_line(found.user_stack)}")
        lines.append("Ops per Graph:")
        for number, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"  Ops {number}:")
            lines += [f"    {op}" for op in ops]
        return "\n".join(lines)


def explain(f, *extra_args, **extra_kwargs):
    """Runs a function once, and says which graphs it becomes and where they end.

    Args:
        f: the function or module; the result is called with its arguments.

    >>> import rushlight as rl
    >>> def choose(x):
    ...     y = x * 2
    ...     return y + 1 if y.sum() > 0 else y - 1
    >>> found = explain(choose)(rl.ones(3))
    >>> found.graph_count, found.graph_break_count
    (2, 1)
    """

    def run(*args, **kwargs):
        runner = compiled_function.make_runner(
            getattr(f, "__qualname__", type(f).__qualname__)
        )
        compiled_function.run(runner, f, args, kwargs)
        graphs = [path for root in runner.roots.values() for path in _paths(root)]
        ops = [[call.op for call in path] for path in graphs]
        breaks = [GraphCompileReason(why, line) for why, line in runner.breaks]
        return ExplainOutput(
            graphs, len(graphs), len(breaks), sum(map(len, ops)), breaks, ops
        )

    if extra_args or extra_kwargs:
        return run(*extra_args, **extra_kwargs)
    return run


def _paths(root):
    """The paths that begin at a root, and those that go on where they end."""
    todo = [(root, [])]
    while todo:
        call, path = todo.pop(0)
        following = call.children
        for child in following:
            if child.barrier:
                if path:
                    yield path
                todo.append((child, []))
            else:
                todo.append((child, [*path, child]))
        if not following and path:
            yield path
        if call.after is not None:
            if following and path:
                yield path
            todo.append((call.after, []))
