"""Marks for NVIDIA's profiler, which is not there."""

import contextlib

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _refuse(*args, **kwargs):
    raise RuntimeError(
        "NVTX functions not installed. Are you sure you have a CUDA build?"
    )


def mark(msg):
    """A mark.

    Raises:
        RuntimeError: there is no profiler.
    """
    _refuse()


def range_push(msg):
    """The beginning of a span.

    Raises:
        RuntimeError: there is no profiler.
    """
    _refuse()


def range_pop():
    """The end of a span.

    Raises:
        RuntimeError: there is no profiler.
    """
    _refuse()


def range_start(msg):
    """The beginning of a span with a handle.

    Raises:
        RuntimeError: there is no profiler.
    """
    _refuse()


def range_end(range_id):
    """The end of a span with a handle.

    Raises:
        RuntimeError: there is no profiler.
    """
    _refuse()


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """A span.

    Raises:
        RuntimeError: there is no profiler.
    """
    range_push(msg.format(*args, **kwargs))
    yield
