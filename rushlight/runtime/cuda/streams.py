"""Queues of work on a device, and moments in them."""

import itertools

from rushlight.runtime.cuda import driver

NON_BLOCKING = 1  # a queue that does not wait for the default one
# What an event is made with
BLOCKING_WAIT = 1
NO_TIMING = 2
INTERPROCESS = 4
KEPT = 32  # queues that are made for a priority, and then given out in turn


class Stream:
    """A queue: what is put there is done in order.

    Args:
        device: whose queue it is.
        handle: the driver's pointer, 0 for the queue that a device begins with.
        priority: smaller is more urgent.
        number: what ``stream_id`` says.
    """

    def __init__(self, ctx, handle, priority=0, number=0):
        self.ctx = ctx
        self.handle = int(handle)
        self.priority = priority
        self.number = number

    def __eq__(self, other):
        if not isinstance(other, Stream):
            return NotImplemented
        return self.ctx is other.ctx and self.handle == other.handle

    def __hash__(self):
        return hash((self.ctx.index, self.handle))

    def query(self):
        """Whether all of it is done."""
        code, _ = self.ctx.ask("cuStreamQuery", self.handle)
        if code not in (0, driver.NOT_READY):
            self.ctx.driver.refuse(code, "cuStreamQuery")
        return code == 0

    def synchronize(self):
        """Waits until all of it is done."""
        self.ctx.call("cuStreamSynchronize", self.handle)

    def wait_event(self, event):
        """What comes later waits for a moment in another queue."""
        if event.recorded:
            self.ctx.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def wait_stream(self, other):
        """What comes later waits for what is in another queue now."""
        event = Event(other.ctx)
        event.record(other)
        self.wait_event(event)

    def capturing(self):
        """Whether calls are written down instead of done."""
        status = self.ctx.call("cuStreamIsCapturing", self.handle)
        return int(status) != 0


class Event:
    """A moment in a queue; the driver makes it when it is first recorded.

    Args:
        device: where it is recorded; None for the device of the queue that records it.
        timing: whether `elapsed` is asked of it later.
        blocking: whether a thread that waits for it sleeps.
        interprocess: whether other processes may wait for it.
    """

    def __init__(self, ctx=None, timing=False, blocking=False, interprocess=False):
        self.ctx = ctx
        self.flags = 0 if timing else NO_TIMING
        self.flags |= BLOCKING_WAIT * bool(blocking) | INTERPROCESS * bool(interprocess)
        self.timing = bool(timing)
        self.handle = None
        self.recorded = False
        self.queue, self.last = None, 0  # where, and the last call that may be refused

    def make(self, ctx):
        """Has the driver make it, if that was not done yet."""
        if self.handle is None:
            self.ctx = ctx
            self.handle = ctx.call("cuEventCreate", self.flags)
        return self

    def record(self, stream):
        """Stands, from now on, for what is in a queue now."""
        if self.ctx is not None and self.ctx is not stream.ctx:
            raise RuntimeError(
                f"Event device cuda:{self.ctx.index} does not match recording stream's "
                f"device cuda:{stream.ctx.index}."
            )
        self.make(stream.ctx)
        self.queue, self.last = stream, stream.ctx.faults.count
        stream.ctx.call("cuEventRecord", self.handle, stream.handle)
        self.recorded = True
        return self

    def query(self):
        """Whether what it stands for is done."""
        if not self.recorded:
            return True
        code, _ = self.ctx.ask("cuEventQuery", self.handle)
        if code not in (0, driver.NOT_READY):
            self.ctx.driver.refuse(code, "cuEventQuery")
        return code == 0

    def synchronize(self):
        """Waits for what it stands for."""
        if self.recorded:
            self.ctx.call("cuEventSynchronize", self.handle)

    def elapsed(self, end):
        """The milliseconds from this moment to another."""
        if not (self.recorded and end.recorded):
            raise ValueError(
                "Both events must be recorded before calculating elapsed time."
            )
        if not (self.timing and end.timing):
            raise ValueError(
                "Both events must be created with argument 'enable_timing=True'."
            )
        if not (self.query() and end.query()):
            raise RuntimeError(
                "Both events must be completed before calculating elapsed time."
            )
        return float(self.ctx.call("cuEventElapsedTime", self.handle, end.handle))

    def __del__(self):
        if self.handle is not None and self.ctx is not None:
            handle, self.handle = self.handle, None
            self.ctx.ask("cuEventDestroy", handle)


class Streams:
    """The queues that a device gives out besides its first one."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.made: dict = {}
        self.next_slots: dict = {}
        self.numbers = itertools.count(1)

    def range(self):
        """The least and the most urgent priority."""
        return tuple(int(n) for n in self.ctx.call("cuCtxGetStreamPriorityRange"))

    def give(self, priority=0):
        """One of the queues of a priority, each in its turn."""
        least, most = self.range()
        priority = min(max(int(priority), most), least)
        with self.ctx.lock:
            made = self.made.setdefault(priority, [])
            slot = self.next_slots[priority] = (
                self.next_slots.get(priority, -1) + 1
            ) % KEPT
            if slot >= len(made):
                handle = self.ctx.call(
                    "cuStreamCreateWithPriority", NON_BLOCKING, priority
                )
                made.append(Stream(self.ctx, handle, priority, next(self.numbers)))
            return made[slot]

    def numbered(self, number):
        """The queue that has a number.

        Raises:
            RuntimeError: no queue has it.
        """
        if number == 0:
            return self.ctx.default_stream
        for made in self.made.values():
            for stream in made:
                if stream.number == number:
                    return stream
        raise RuntimeError(f"cuda:{self.ctx.index} has no stream with the id {number}")

    def known(self, handle):
        """The queue of a driver's pointer, given out here or made elsewhere."""
        if not handle:
            return self.ctx.default_stream
        for made in self.made.values():
            for stream in made:
                if stream.handle == handle:
                    return stream
        return Stream(self.ctx, handle, number=int(handle))
