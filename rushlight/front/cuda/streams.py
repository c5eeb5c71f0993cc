"""Queues of work on a GPU, and moments in them.

Work that is put into one queue is done in order; queues wait for one another only where
they are told to. Each thread sends its work to one queue of a device, its *current* one.
"""

import ctypes

from rushlight.autograd import streams
from rushlight.core.device import Device
from rushlight.core.facts import storage_of
from rushlight.core.state import notify_read
from rushlight.cuda import _where
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda import streams as queues


class Stream:
    """A queue of a GPU's.

    Args:
        device: whose; the current one by default.
        priority: a negative number is more urgent than 0.

    Raises:
        RuntimeError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     side = torch.cuda.Stream()
    ...     with torch.cuda.stream(side):
    ...         x = torch.ones(4, device="cuda") * 2
    ...     side.synchronize()
    """

    def __init__(self, device=None, priority=0, **kwargs):
        if not _where.ready():
            _refuse(self)
        if "stream_ptr" in kwargs:
            where = _where.context_for(device)
            self._queue = where.streams.known(int(kwargs["stream_ptr"]))
        elif "stream_id" in kwargs:
            where = _where.context_for(kwargs.get("device_index", device))
            self._queue = where.streams.numbered(int(kwargs["stream_id"]))
        else:
            self._queue = _where.context_for(device).streams.give(priority)

    @classmethod
    def _of(cls, queue):
        made = cls.__new__(cls)
        made._queue = queue
        return made

    @property
    def cuda_stream(self):
        """The driver's pointer, as a number."""
        return self._queue.handle

    @property
    def stream_id(self):
        """The number among the GPU's queues."""
        return self._queue.number

    @property
    def device(self):
        """The GPU."""
        return Device("cuda", self._queue.ctx.index)

    @property
    def device_index(self):
        """The GPU's number."""
        return self._queue.ctx.index

    @property
    def device_type(self):
        """PyTorch's number for this kind of device."""
        return 1

    @property
    def priority(self):
        """A smaller number is more urgent."""
        return self._queue.priority

    @staticmethod
    def priority_range():
        """The least and the most urgent priority."""
        return _where.context_for().streams.range()

    def query(self):
        """Whether all of its work is done."""
        notify_read(None)
        self._queue.ctx.faults.peek()
        return self._queue.query()

    def synchronize(self):
        """Waits until all of its work is done."""
        notify_read(None)
        self._queue.ctx.wait(self._queue)

    def wait_event(self, event):
        """What is put in later waits for a moment in another queue."""
        notify_read(None)
        self._queue.wait_event(event._event)

    def wait_stream(self, stream):
        """What is put in later waits for what is in another queue now."""
        notify_read(None)
        self._queue.wait_stream(stream._queue)

    def record_event(self, event=None):
        """The moment when what is in it now is done.

        Args:
            event: an `Event` that stands for it from now on; a new one by default.
        """
        event = Event() if event is None else event
        event.record(self)
        return event

    def is_capturing(self):
        """Whether its work is written down instead of done."""
        return self._queue.capturing()

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, other):
        return isinstance(other, Stream) and self._queue == other._queue

    def __hash__(self):
        return hash(self._queue)

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self):
        self._entered = [*getattr(self, "_entered", ()), StreamContext(self)]
        self._entered[-1].__enter__()
        return self

    def __exit__(self, *raised):
        self._entered.pop().__exit__(*raised)


class ExternalStream(Stream):
    """A queue that another library made.

    Args:
        stream_ptr: the driver's pointer, as a number.
        device: whose queue it is.

    >>> if torch.cuda.is_available():
    ...     own = torch.cuda.Stream()
    ...     assert torch.cuda.ExternalStream(own.cuda_stream).cuda_stream == own.cuda_stream
    """

    def __init__(self, stream_ptr, device=None, **kwargs):
        super().__init__(device=device, stream_ptr=stream_ptr, **kwargs)


class Event:
    """A moment in a queue: when what was in it, at `record`, is done.

    Args:
        enable_timing: whether `elapsed_time` is asked of it.
        blocking: whether a thread that waits for it sleeps.
        interprocess: whether other processes may wait for it.

    Raises:
        RuntimeError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     start = torch.cuda.Event(enable_timing=True)
    ...     start.record()
    ...     start.synchronize()
    """

    def __init__(
        self, enable_timing=False, blocking=False, interprocess=False, external=False
    ):
        if not _where.ready():
            _refuse(self)
        if interprocess and enable_timing:
            raise RuntimeError(
                "Event: a moment that other processes wait for has no time: "
                "interprocess=True and enable_timing=True exclude one another"
            )
        self._event = queues.Event(None, enable_timing, blocking, interprocess)

    @property
    def cuda_event(self):
        """The driver's pointer, as a number; 0 before it is recorded."""
        return 0 if self._event.handle is None else int(self._event.handle)

    @property
    def device(self):
        """The GPU where it is recorded; None before."""
        ctx = self._event.ctx
        return None if ctx is None else Device("cuda", ctx.index)

    def record(self, stream=None):
        """Stands, from now on, for what is in a queue now; the current one by default."""
        queue = current_stream()._queue if stream is None else stream._queue
        notify_read(None)
        self._event.record(queue)

    def wait(self, stream=None):
        """What is put into a queue later waits for it."""
        queue = current_stream()._queue if stream is None else stream._queue
        notify_read(None)
        queue.wait_event(self._event)

    def query(self):
        """Whether it has come."""
        return self._event.query()

    def synchronize(self):
        """Waits for it."""
        if self._event.recorded:
            self._event.ctx.wait_for_event(self._event)

    def elapsed_time(self, end_event):
        """The milliseconds from this moment to a later one.

        Raises:
            ValueError: one of them does not know its time.
            RuntimeError: one of them has not come yet.
        """
        return self._event.elapsed(end_event._event)

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self):
        if self._event.handle is None:
            return "<torch.cuda.Event uninitialized>"
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


def follow():
    """Has backward run each node in its forward's queue, from the first choice of one on."""
    streams.start("cuda", first_queue, use_in)


def first_queue(device):
    """The queue that a GPU begins with."""
    return contexts.ctx(device.index).default_stream


def use_in(tensor, queue):
    """Keeps a tensor's memory from being used again before a queue is done with it."""
    storage = storage_of(tensor)
    queue.ctx.allocator.used_by(storage.data_ptr(), queue)


class StreamContext:
    """Sends the work of a block to a queue.

    Args:
        stream: the queue; ``None`` changes nothing.

    >>> with torch.cuda.StreamContext(None):
    ...     pass
    """

    def __init__(self, stream):
        self.stream = stream
        self.left: list = []

    def __enter__(self):
        if self.stream is not None and _where.ready():
            queue = self.stream._queue
            follow()
            device = contexts.use(queue.ctx.index)
            self.left.append((device, contexts.use_stream(queue)))

    def __exit__(self, *raised):
        if self.stream is not None and self.left:
            device, queue = self.left.pop()
            contexts.use_stream(queue)
            contexts.use(device)
        return False


def stream(stream):
    """A block whose work goes to a queue; ``None`` changes nothing.

    Args:
        stream: a `Stream`, or None.

    >>> with torch.cuda.stream(None):
    ...     pass
    """
    return StreamContext(stream)


def current_stream(device=None):
    """The queue that this thread's work goes to.

    Args:
        device: a GPU; the current one by default.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.current_stream() == torch.cuda.default_stream()
    """
    return Stream._of(contexts.current_stream(_where.context_for(device)))


def default_stream(device=None):
    """The queue that a GPU begins with.

    Args:
        device: a GPU; the current one by default.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.default_stream().cuda_stream == 0
    """
    return Stream._of(_where.context_for(device).default_stream)


def set_stream(stream):
    """Chooses the queue that this thread's work goes to; ``None`` changes nothing.

    Args:
        stream: a `Stream`, or None.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_stream(torch.cuda.default_stream())
    """
    _where.need()
    if stream is not None:
        follow()
        contexts.use(stream._queue.ctx.index)
        contexts.use_stream(stream._queue)


def get_stream_from_external(data_ptr, device=None):
    """A queue that another library made, from the driver's pointer.

    Args:
        data_ptr: the driver's pointer, as a number.
        device: the GPU whose queue it is; the current one by default.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     own = torch.cuda.Stream()
    ...     same = torch.cuda.get_stream_from_external(own.cuda_stream)
    ...     assert same.cuda_stream == own.cuda_stream
    """
    return ExternalStream(data_ptr, device)


def _refuse(thing):
    raise RuntimeError(
        f"torch.cuda.{type(thing).__name__} requires CUDA support: Rushlight finds no "
        "NVIDIA driver"
    )
