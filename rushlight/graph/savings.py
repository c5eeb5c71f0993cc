"""Whether following a function's calls pays: what its programs save, beside what that takes.

A program saves memory that fused kernels do not move, and launches. Both are counted: a
program that saves nothing is not worth its look at a call, one that saves much is. Between
them calls are timed both ways.
"""

from time import perf_counter_ns

from rushlight._inductor import config
from rushlight.core.switches import switch
from rushlight.graph import capture
from rushlight.graph.fused_node import is_window
from rushlight.graph.fusion import operands_of
from rushlight.graph.pipeline import is_free
from rushlight.graph.steps import step_of

LAUNCH = 16 << 10  # bytes that kernels move in the time that an operator's call takes
MUCH = 64  # times `follow_bytes`: programs that save as much are not timed
BLOCK, BLOCKS = 4, 16  # calls that are timed one after the other, and how often
INTERVAL = 1_000_000  # nanoseconds between blocks at least: others may run meanwhile
FEWEST = 8  # sweeps back of each kind, without which they are not compared
LEAST = 0.96  # of the time as it comes, that a call may take which is followed


def judged(leaves, runner, most, watch_time):
    """Whether programs save more than following their calls takes.

    Args:
        leaves: the last calls of paths: of a function, and of the sweep back from it.
        runner: the function's; it gets a `Trial` where counting does not tell.
        most: elements of the largest argument.
        watch_time: ``watch_time(result, record)`` has sweeps back from a result be timed.

    Returns:
        None where calls are to be timed.
    """
    found = [saved(leaf) for leaf in leaves]
    margin = sum(found) - len(found) * config.follow_bytes
    if (
        max(found) <= 0
        or margin >= MUCH * config.follow_bytes
        or switch("deterministic")
    ):
        return margin >= 0
    runner.trial = Trial(leaves[0], most, margin >= 0, watch_time)
    return None


class Trial:
    """Times calls that are followed and calls that run as they come, some of each at a time.

    The least time of each kind is compared: what else the machine does only adds to it. A
    sweep back counts with its call.

    Args:
        leaf: the last call of the path.
        most: elements of the largest argument; calls with others are not timed.
        counted: the answer where sweeps come too seldom to be timed.
        watch_time: as of `judged`.
    """

    def __init__(self, leaf, most, counted, watch_time):
        self.leaf, self.most, self.counted = leaf, most, counted
        self.watch_time = watch_time
        self.count = self.begun = 0
        self.calls, self.sweeps = ([], []), ([], [])  # as they come, followed

    def call(self, most, *how):
        """The next call, of either kind.

        Args:
            most: elements of its largest argument.
            how: what `capture.follow` is given.
        """
        runner, function, args, kwargs, _ = how
        if most != self.most:
            return capture.follow(*how)
        if self.count >= BLOCK * BLOCKS:  # threads may count beyond
            runner.trial = None
            capture.settle(runner, self.leaf, self.pays(), most)
            return capture.follow(*how)
        begun = perf_counter_ns()
        if self.count % BLOCK == 0:
            if begun - self.begun < INTERVAL:
                return capture.follow(*how)
            self.begun = begun
        followed = self.count // BLOCK % 2
        self.count += 1
        result = capture.follow(*how) if followed else function(*args, **kwargs)
        self.calls[followed].append(perf_counter_ns() - begun)
        self.watch_time(result, self.sweeps[followed].append)
        return result

    def pays(self):
        """Whether followed calls have taken less time."""
        times = [min(times) for times in self.calls]
        if any(self.sweeps):
            if min(map(len, self.sweeps)) < FEWEST:
                return self.counted
            times = [one + min(sweeps) for one, sweeps in zip(times, self.sweeps)]
        return times[1] < LEAST * times[0]


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
