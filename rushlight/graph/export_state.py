"""Whether a thread's program is being exported: what `compiler.is_exporting` answers."""

from __future__ import annotations

import contextlib
import threading

_thread = threading.local()


@contextlib.contextmanager
def exporting():
    """Has `recording_export` be true in this thread."""
    _thread.depth = getattr(_thread, "depth", 0) + 1
    try:
        yield
    finally:
        _thread.depth -= 1


def recording_export() -> bool:
    """Whether this thread's program is being exported."""
    return getattr(_thread, "depth", 0) > 0
