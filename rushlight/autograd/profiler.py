"""Names for spans of a program."""

from __future__ import annotations

import functools

__all__ = [
    "EventList",
    "FunctionEvent",
    "emit_itt",
    "emit_nvtx",
    "profile",
    "record_function",
]


class record_function:
    """Names a span of the program, for a profiler that listens; none does.

    A context manager and a decorator.

    >>> with record_function("step"):
    ...     1 + 1
    2
    """

    def __init__(self, name, args=None):
        if not isinstance(name, str):
            raise TypeError(
                f"record_function: name must be str, not {type(name).__name__}"
            )
        self.name = name
        self.args = args

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped


class FunctionEvent:
    """A span of a program that was recorded: its name and when it began and ended.

    Args:
        id: its number.
        name: what it was called.
        thread: where it ran.
        start_us: when it began, in microseconds.
        end_us: when it ended.
        options: whatever else is known of it.
    """

    def __init__(self, id, name, thread, start_us, end_us, **options):
        self.id = id
        self.name = name
        self.thread = thread
        self.start_us = start_us
        self.end_us = end_us
        self.count = 1
        self.__dict__.update(options)

    @property
    def cpu_time_total(self):
        """Its length in microseconds."""
        return self.end_us - self.start_us

    def __repr__(self):
        return f"<FunctionEvent id={self.id} name={self.name} us={self.cpu_time_total}>"


class EventList(list):
    """Spans that were recorded.

    Args:
        events: the spans.
        options: how they were recorded.
    """

    def __init__(self, *events, **options):
        super().__init__(*events)
        self._options = options

    @property
    def self_cpu_time_total(self):
        """The length of all of them in microseconds."""
        return sum(event.cpu_time_total for event in self)


class _Recorder:
    """Records a program's operators, if it is enabled: which is not possible yet."""

    def __init__(self, enabled=True, record_shapes=False, **options):
        self.enabled = enabled

    def __enter__(self):
        if self.enabled:
            raise NotImplementedError(
                f"torch.autograd.profiler.{type(self).__name__}: Rushlight does not "
                "record programs yet\n  remedy: measure with Python's cProfile"
            )
        return self

    def __exit__(self, *raised):
        return False


class profile(_Recorder):
    """Would record operators and their times; with ``enabled=False``, nothing."""


class emit_nvtx(_Recorder):
    """Would mark operators for NVIDIA's profiler; with ``enabled=False``, nothing."""


class emit_itt(_Recorder):
    """Would mark operators for Intel's profiler; with ``enabled=False``, nothing."""
