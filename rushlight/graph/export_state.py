"""Whether a thread's program is being exported: what `compiler.is_exporting` answers."""

import threading

from rushlight.core.state import AttributeScope

_thread = threading.local()


def exporting():
    """Has `recording_export` be true in this thread."""
    return AttributeScope(_thread, exporting=True)


def recording_export() -> bool:
    """Whether this thread's program is being exported."""
    return bool(getattr(_thread, "exporting", False))
