"""Events that a program tells of, and numbers gathered over windows of time."""

import enum
import threading
import time
from datetime import datetime, timedelta

__all__ = [
    "Aggregation",
    "COUNT",
    "Event",
    "EventHandlerHandle",
    "MAX",
    "MEAN",
    "MIN",
    "STAT_EVENT",
    "SUM",
    "Stat",
    "TensorboardEventHandler",
    "VALUE",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"
NO_LIMIT = 2**63 - 1


class Aggregation(enum.Enum):
    """What becomes of the numbers of one window."""

    VALUE = 1
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __str__(self):
        return f"Aggregation.{self.name}"


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class data_value_t:
    """What an event may hold: text, numbers, and what is true or not."""

    def __init__(self):
        raise TypeError("data_value_t: No constructor defined!")


class Event:
    """Something that happened, its time, and what is to be said of it.

    Args:
        name: the kind of event; those of one kind have the same data.
        timestamp: when it happened.
        data: from names to text or numbers.

    Raises:
        TypeError: an argument is of another type.

    >>> from datetime import datetime
    >>> rl.monitor.Event("epoch", datetime(2026, 1, 1), {"loss": 0.5}).data
    {'loss': 0.5}
    """

    def __init__(self, name, timestamp, data):
        proper = isinstance(name, str) and isinstance(timestamp, datetime)
        if not proper or not all(
            isinstance(key, str) and isinstance(value, (str, int, float))
            for key, value in dict(data).items()
        ):
            raise TypeError(
                "__init__(): incompatible constructor arguments: a name, a datetime, "
                "and a dict from text to text or numbers are wanted"
            )
        self.name = name
        self.timestamp = timestamp
        self.data = dict(data)


class EventHandlerHandle:
    """What ``register_event_handler`` returns, to take the handler away by."""

    def __init__(self):
        raise TypeError("EventHandlerHandle: No constructor defined!")


_handlers: dict = {}  # handle -> function; replaced, never changed, for threads' sake
_lock = threading.Lock()


def register_event_handler(callback) -> EventHandlerHandle:
    """Has a function called with every event from now on.

    Args:
        callback: it should be quick: the program waits for it.
    """
    handle = object.__new__(EventHandlerHandle)
    with _lock:
        _handlers[handle] = callback
    return handle


def unregister_event_handler(handler) -> None:
    """Has a function called no more."""
    with _lock:
        _handlers.pop(handler, None)


def log_event(event) -> None:
    """Tells all handlers of an event."""
    for callback in list(_handlers.values()):
        callback(event)


class Stat:
    """Numbers gathered over a window of time, and told of as an event at its end.

    Args:
        name: the numbers' name in the event.
        aggregations: what becomes of them there.
        window_size: how long a window is.
        max_samples: a window ends with so many numbers, whatever the time.

    Raises:
        TypeError: the window's size is no ``timedelta``.

    >>> from datetime import timedelta
    >>> stat = rl.monitor.Stat("loss", [MEAN], timedelta(seconds=60), 2)
    >>> stat.add(1); stat.add(2)
    >>> stat.get()
    {<Aggregation.MEAN: 2>: 1.5}
    """

    def __init__(self, name, aggregations, window_size, max_samples=NO_LIMIT):
        if not isinstance(window_size, timedelta):
            raise TypeError(
                "__init__(): incompatible constructor arguments: window_size is a "
                f"datetime.timedelta, not {type(window_size).__name__}"
            )
        self._name = name
        self._aggregations = [Aggregation(kind) for kind in aggregations]
        self._length = max(window_size.total_seconds(), 1e-6)
        self._limit = max_samples
        self._lock = threading.RLock()
        self._values: list = []
        self._full = False  # what comes until the window's end is left out
        self._last = {kind: 0.0 for kind in self._aggregations}
        self._window = self._now()

    def _now(self):
        return int(time.time() / self._length)

    @property
    def name(self) -> str:
        """The numbers' name."""
        return self._name

    @property
    def count(self) -> int:
        """How many numbers this window has."""
        with self._lock:
            self._close_if_over()
            return len(self._values)

    def add(self, v) -> None:
        """Adds a number to this window."""
        with self._lock:
            self._close_if_over()
            if self._full:
                return
            self._values.append(float(v))
            if len(self._values) >= self._limit:
                self._full = True
                self._close()

    def get(self) -> dict:
        """What the last whole window came to: zeros before there is one."""
        with self._lock:
            self._close_if_over()
            return dict(self._last)

    def _close_if_over(self):
        now = self._now()
        if now != self._window:
            self._window, self._full = now, False
            if self._values:
                self._close()

    def _close(self):
        values, self._values = self._values, []
        total = sum(values)
        answers = {
            VALUE: values[-1],
            MEAN: total / len(values),
            COUNT: float(len(values)),
            SUM: total,
            MAX: max(values),
            MIN: min(values),
        }
        self._last = {kind: answers[kind] for kind in self._aggregations}
        data = {
            f"{self._name}.{kind.name.lower()}": value
            for kind, value in self._last.items()
        }
        log_event(Event(STAT_EVENT, datetime.now(), data))

    def __del__(self):
        if getattr(self, "_values", None):
            self._close()


class TensorboardEventHandler:
    """Writes the windows of every ``Stat`` as scalars of TensorBoard.

    Args:
        writer: a ``SummaryWriter``.
    """

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event):
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(
                    name, value, walltime=event.timestamp.timestamp()
                )
