"""Work that is written down once and launched as a whole."""

import contextlib
import itertools

from rushlight.runtime.cpu.launch import count_launch
from rushlight.runtime.cuda import batched_launch, contexts
from rushlight.runtime.cuda.faults import RecordedFaults

MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_numbers = itertools.count(1)
_writing: dict = {}  # the graphs that are being written down, by device and queue


def recorder(stream):
    """The graph that a queue's work is written down in; None where it is done."""
    return _writing.get((stream.ctx.index, stream.handle)) if _writing else None


def pool_name():
    """A name for memory that several graphs share."""
    return (0, next(_numbers))


class Graph:
    """Calls of one queue, written down between `begin` and `end`.

    The memory that they ask for stays theirs until `reset`, so that a launch finds its
    operands where they were.
    """

    def __init__(self, keep=False):
        self.keep = keep  # the graph too, not only what is launched
        self.ctx = None
        self.stream = None
        self.name = None
        self.graph = self.executable = None
        self.drawn: dict = {}  # sources of random numbers, and how far they are read
        self.faults = None  # what its kernels refuse

    def begin(self, stream, pool=None, mode="global"):
        """What goes to the queue from now on is written down and not done."""
        if mode not in MODES:
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or "
                f"`relaxed`, got {mode}"
            )
        if self.graph is not None or self.executable is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new "
                "graph, create a new instance."
            )
        if not stream.handle:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after "
                "capture, it's ok to replay them on the default stream.)"
            )
        self.ctx, self.stream = stream.ctx, stream
        self.ctx.fault_address()  # nothing may be asked of the device later
        self.ctx.faults.reserve()
        self.faults = RecordedFaults(self.ctx.faults)
        number = next(_numbers)
        name = pool if pool is not None else (number, 0)
        handle = stream.handle
        self.ctx.allocator.begin(name, lambda asking: asking == handle)
        self.ctx.allocator.writing += 1
        self.name = name
        try:
            kind = self.ctx.driver.bindings.CUstreamCaptureMode(MODES[mode])
            self.ctx.call("cuStreamBeginCapture", handle, kind)
        except RuntimeError:
            self.stop_routing()
            self.give_up_memory()
            raise
        _writing[self.ctx.index, handle] = self

    def end(self):
        """What was written down can be launched from now on."""
        if self.stream is None:
            raise RuntimeError("capture_end() was called before capture_begin()")
        if contexts.current_stream(self.ctx) != self.stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        try:
            self.graph = self.ctx.call("cuStreamEndCapture", self.stream.handle)
        finally:
            self.stop_routing()
        if not self.graph or not int(self.graph):
            self.graph = None
            raise RuntimeError("Invalid capture.")
        if not self.keep:
            self.instantiate()

    def stop_routing(self):
        """The queue's requests for memory go where others' do."""
        _writing.pop((self.ctx.index, self.stream.handle), None)
        self.ctx.allocator.writing -= 1
        self.ctx.allocator.end(self.name)
        self.stream = None

    def place(self, source, steps, make):
        """Where a launch that is written down reads a stream of random numbers.

        The place is counted from where the stream is when the graph is launched, and each
        launch moves the stream on by all that the graph reads: what the work would draw
        if it were done then.

        Args:
            source: of the numbers.
            steps: how many numbers of 32 bits a thread reads at most.
            make: makes what is told the seed and the place before each launch.

        Returns:
            The place, and what ``make`` made.
        """
        if source not in self.drawn:
            # not of the graph's memory: what came before uses that again at each launch
            before = contexts.use_stream(self.ctx.default_stream)
            try:
                self.drawn[source] = [make(), 0]
            finally:
                contexts.use_stream(before)
        described, place = self.drawn[source]
        self.drawn[source][1] += -(-steps // 4) * 4
        return place, described

    def look(self):
        """Refuses indices that launches have met since it was looked last.

        Raises:
            IndexError: there are some; or what the operator raises of them.
        """
        self.faults.look()

    def give_up_memory(self):
        """Lets go of the pool."""
        self.drawn.clear()
        if self.ctx is not None:
            self.ctx.look_no_more(self)
            self.faults.let_go()
        if self.name is not None:
            self.ctx.allocator.let_go(self.name)
            self.name = None

    def instantiate(self):
        """Makes what was written down ready to launch."""
        if self.graph is None:
            raise RuntimeError("instantiate() was called without a captured graph")
        self.executable = self.ctx.call("cuGraphInstantiate", self.graph, 0)
        if not self.keep:
            graph, self.graph = self.graph, None
            self.ctx.call("cuGraphDestroy", graph)

    def replay(self):
        """Launches it on the thread's queue."""
        if self.executable is None:
            if self.graph is None:
                raise RuntimeError(
                    "Called CUDAGraph::replay without a preceding successful capture."
                )
            self.instantiate()
        where = contexts.current_stream(self.ctx)
        for source, (described, steps) in self.drawn.items():
            self.bring(described, where)
            described(*source.take(steps))
        if self.faults.any():
            self.ctx.look_later(self, where)
        self.ctx.call("cuGraphLaunch", self.executable, where.handle)

    def bring(self, item, where):
        """Lets a queue use memory that is the default one's."""
        if where not in item.queues and where != self.ctx.default_stream:
            item.queues.add(where)
            where.wait_stream(self.ctx.default_stream)
            self.ctx.allocator.used_by(item.address, where)

    def reset(self):
        """Lets go of what was written down and of its memory."""
        if self.executable is not None:
            executable, self.executable = self.executable, None
            self.ctx.call("cuGraphExecDestroy", executable)
        if self.graph is not None:
            graph, self.graph = self.graph, None
            self.ctx.call("cuGraphDestroy", graph)
        if self.stream is None:
            self.give_up_memory()


class Written:
    """A function's work, written down once and launched as a whole.

    Args:
        device: where.
    """

    def __init__(self, ctx):
        self.ctx, self.graph = ctx, Graph()
        self.stream = None  # where it was launched last

    def write(self, function):
        """Calls a function whose work is written down; nothing is left of one that fails."""
        before = contexts.use_stream(self.ctx.writer())
        try:
            self.graph.begin(contexts.current_stream(self.ctx), mode="thread_local")
            try:
                function()
            except BaseException:
                with contextlib.suppress(RuntimeError):  # it may be invalid by now
                    self.graph.end()
                self.graph.reset()
                raise
            try:
                self.graph.end()
            except RuntimeError:
                self.graph.reset()
                raise
        finally:
            contexts.use_stream(before)

    def enter(self, addresses):
        """What comes next in the thread's queue may touch the graph's memory.

        Args:
            addresses: of memory that other queues may have been told to read.
        """
        now = contexts.current_stream(self.ctx)
        waits = set() if self.stream is None else {self.stream}
        for address in addresses:
            waits |= self.ctx.allocator.users_of(address)
        for stream in waits - {now}:
            now.wait_stream(stream)
        self.stream = now

    def launch(self):
        """Does the work, in the thread's queue."""
        batched_launch.flush()
        self.stream = contexts.current_stream(self.ctx)
        count_launch()
        self.graph.replay()

    def reset(self):
        """Lets go of the work and of its memory."""
        self.graph.reset()

    def __del__(self):
        if contexts is not None and self.graph.ctx is not None:
            with contextlib.suppress(RuntimeError):  # the driver may be gone
                self.graph.reset()
