"""Whether a model is being exported in this thread, and what users have registered."""

from __future__ import annotations

import contextlib
import threading


class _Thread(threading.local):
    def __init__(self):
        self.depth = 0


_THREAD = _Thread()
# Functions that write operators, by name and version of ONNX's operators.
SYMBOLICS: dict = {}


def is_in_onnx_export():
    """Whether a model is being exported in this thread.

    >>> import rushlight as rl
    >>> rl.onnx.is_in_onnx_export()
    False
    """
    return _THREAD.depth > 0


@contextlib.contextmanager
def exporting():
    """A block in which a model is being exported."""
    _THREAD.depth += 1
    try:
        yield
    finally:
        _THREAD.depth -= 1


def registered(opset):
    """The functions that are registered for a version, or one before it, by name."""
    found = {}
    for (name, version), function in sorted(
        SYMBOLICS.items(), key=lambda item: item[0][1]
    ):
        if version <= opset:
            found[name] = function
    return found
