"""PyTorch's operators around blocks with names: what handlers see of such a block."""

from rushlight.core import spans
from rushlight.dispatch.dispatcher import packets
from rushlight.dispatch.library import Library

_BACKEND = "CPU"


class RecordFunction:
    """A span that has begun, which an operator gives and another ends.

    Args:
        token: the span's, of `rushlight.core.spans`.
    """

    def __init__(self, token):
        self.token = token


def _begin(name, args):
    return RecordFunction(spans.begin(name))


def _end(handle):
    spans.end(handle.token)


_library = Library("profiler", "FRAGMENT")
_library.define("_record_function_enter_new(str name, str? args=None) -> Any")
_library.define("_record_function_exit._RecordFunction(Any handle) -> ()")
_library.impl("_record_function_enter_new", _begin, _BACKEND)
_library.impl("_record_function_exit._RecordFunction", _end, _BACKEND)
_enter = packets()["profiler", "_record_function_enter_new"].overloads[0]
_exit = packets()["profiler", "_record_function_exit"].overloads[0]


def enter(name, args=None):
    """Begins a block with a name.

    Args:
        name: the name.
        args: more about it.
    """
    return _enter(name, args)


def leave(handle):
    """Ends a block that `enter` began."""
    _exit(handle)
