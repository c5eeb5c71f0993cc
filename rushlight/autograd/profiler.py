"""Names for spans of a program."""

from __future__ import annotations

import functools

__all__ = ["emit_itt", "emit_nvtx", "profile", "record_function"]


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


class _Recorder:
    """Records a program's operators, if it is enabled: which is not possible yet."""

    def __init__(self, enabled=True, **options):
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
