"""Whether following a function's calls pays: what its programs save, beside what that takes.

A program saves memory that fused kernels do not move, and launches. Both are counted and
not timed, so that a function takes the same trace in each run. What kernels compute is
the same either way.
"""

from rushlight._inductor import config
from rushlight.graph.fused_node import is_window
from rushlight.graph.fusion import operands_of
from rushlight.graph.pipeline import is_free
from rushlight.graph.steps import step_of

LAUNCH = 16 << 10  # bytes that kernels move in the time that an operator's call takes


def pay(leaves):
    """Whether programs save more than following their calls takes.

    Args:
        leaves: the last calls of paths: of a function, and of the sweep back from it.
    """
    return sum(saved(leaf) - config.follow_bytes for leaf in leaves) >= 0


def saved(leaf):
    """How many bytes the program of a path saves, launches counted as bytes.

    Args:
        leaf: the last call of the path.
    """
    *_, program = leaf.programs.values()
    graph = program.graph
    calls = [part for call in leaf.path for part in call.parts or [call]]
    before = [moved_by(one) for one in map(step_of, calls) if not is_free(one)]
    after = [moved_by_item(item) for item in graph.items]
    kept = moved([value for one in graph.kept for value in one.sources])
    return sum(before) - sum(after) + kept + LAUNCH * (len(before) - len(after))


def moved(values):
    """How many bytes windows have."""
    return sum(value.count * value.dtype.itemsize for value in values)


def moved_by(step):
    """How many bytes an operator reads and writes."""
    return moved([*step.reads, *step.writes])


def moved_by_item(item):
    """How many bytes a part of a program reads and writes."""
    if item.group is None:
        return moved_by(item.instr.details)
    read, written = operands_of(item.group, item.stored)
    return moved(filter(is_window, (*read.values(), *written.values())))


def on_host(leaf):
    """Whether all that a path touches lies on the host."""
    steps = [step_of(call) for call in leaf.path]
    return all(v.device.on_host for one in steps for v in (*one.reads, *one.writes))
