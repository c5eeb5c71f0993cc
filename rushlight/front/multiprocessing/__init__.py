"""Python's ``multiprocessing``, and ``spawn`` for one function in many processes.

Tensors that go through its queues and pipes, or to a process as its arguments, share their
memory with those that arrive.
"""

import multiprocessing
import sys

from rushlight.multiprocessing.reductions import init_reductions
from rushlight.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,  # type: ignore[attr-defined]
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

globals().update(
    {name: getattr(multiprocessing, name) for name in multiprocessing.__all__}
)

init_reductions()

_strategies = (
    {"file_system"} if sys.platform == "darwin" else {"file_descriptor", "file_system"}
)
_chosen = {"strategy": "file_system" if sys.platform == "darwin" else "file_descriptor"}


def get_all_sharing_strategies():
    """The names of ways to share memory that programs may choose."""
    return set(_strategies)


def get_sharing_strategy():
    """The name that was chosen; memory is shared by its descriptor either way."""
    return _chosen["strategy"]


def set_sharing_strategy(new_strategy):
    """Notes the name of a way to share memory."""
    if new_strategy not in _strategies:
        raise AssertionError(f"invalid sharing strategy: {new_strategy!r}")
    _chosen["strategy"] = new_strategy
