"""Whether a model is being exported in this thread, and what users have registered."""

import threading

from rushlight.core.state import AttributeScope

_thread = threading.local()
# Functions that write operators, by name and version of ONNX's operators.
SYMBOLICS: dict = {}


def is_in_onnx_export():
    """Whether a model is being exported in this thread.

    >>> import rushlight as rl
    >>> rl.onnx.is_in_onnx_export()
    False
    """
    return bool(getattr(_thread, "exporting", False))


def exporting():
    """A block in which a model is being exported."""
    return AttributeScope(_thread, exporting=True)


def registered(opset):
    """The functions that are registered for a version, or one before it, by name."""
    found = {}
    for (name, version), function in sorted(
        SYMBOLICS.items(), key=lambda item: item[0][1]
    ):
        if version <= opset:
            found[name] = function
    return found
