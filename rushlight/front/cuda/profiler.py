"""Spans that NVIDIA's profilers look at, where they are told to wait for them."""

import contextlib

from rushlight.cuda import _where
from rushlight.runtime.cuda import driver

__all__ = ["profile", "start", "stop"]


def start():
    """Has a profiler that was started around the program begin to collect.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.profiler.start()
    """
    _where.need()
    driver.load().call("cuProfilerStart")


def stop():
    """Has it stop.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.profiler.stop()
    """
    _where.need()
    driver.load().call("cuProfilerStop")


@contextlib.contextmanager
def profile():
    """A block that is collected.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     with torch.cuda.profiler.profile():
    ...         x = torch.ones(2, device="cuda")
    """
    try:
        start()
        yield
    finally:
        stop()
