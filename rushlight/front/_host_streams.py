"""Streams and events of the host, which runs each call at once."""

import time

from rushlight.core.device import Device


class Stream:
    """The queue of a device: the host runs each call at once, so that it is empty.

    >>> Stream("cpu").query()
    True
    """

    def __init__(self, device=None, *, priority=0):
        chosen = Device("cpu" if device is None else device)
        if chosen.type != "cpu":
            raise RuntimeError(f"there is no {chosen.type} device for a Stream")
        self.device = chosen
        self.stream_id = 0

    def query(self):
        """Whether all calls have been run: always."""
        return True

    def synchronize(self):
        """Waits for the calls: none is waiting."""

    def wait_event(self, event):
        """Has later calls wait for an event: it is past."""

    def wait_stream(self, stream):
        """Has later calls wait for another queue's: they have run."""

    def record_event(self, event=None):
        """A mark behind the calls so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False

    def __eq__(self, other):
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self):
        return hash((self.device, self.stream_id))


class Event:
    """A moment in a queue.

    Args:
        device: ``"cpu"``, which it is by default.
        enable_timing: whether `elapsed_time` is asked of it.
        blocking: accepted; there is nothing to wait for.
        interprocess: accepted; it is this process's.

    >>> moment = torch.Event("cpu")
    >>> moment.record()
    >>> moment.query()
    True
    """

    def __init__(
        self, device=None, *, enable_timing=False, blocking=False, interprocess=False
    ):
        self.device = Device("cpu" if device is None else device)
        self.enable_timing = enable_timing
        self._moment = None

    def record(self, stream=None):
        """Marks this moment."""
        self._moment = time.perf_counter()

    def query(self):
        """Whether the moment is past: always."""
        return True

    def wait(self, stream=None):
        """Has later calls wait: none needs to."""

    def synchronize(self):
        """Waits for the moment: it is past."""

    def elapsed_time(self, other):
        """The milliseconds to another moment.

        Raises:
            ValueError: one of the two was not marked, or does not keep times.
        """
        if not (self.enable_timing and other.enable_timing):
            raise ValueError("Both events must be created with enable_timing=True")
        if self._moment is None or other._moment is None:
            raise ValueError(
                "Both events must be recorded before calculating elapsed time"
            )
        return (other._moment - self._moment) * 1000.0
