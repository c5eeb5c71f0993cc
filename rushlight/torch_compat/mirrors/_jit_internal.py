"""What programs for translation import from PyTorch's own modules; they stay Python."""

from typing import Final

from rushlight.futures import Future
from rushlight.jit import (
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from rushlight.jit.annotations import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
)

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Final",
    "Future",
    "_overload",
    "_overload_method",
    "boolean_dispatch",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]


def boolean_dispatch(
    arg_name, arg_index, default, if_true, if_false, module_name, func_name
):
    """One function of two, which a truth value among the arguments chooses.

    Args:
        arg_name: the argument's name.
        arg_index: its place.
        default: what it is where it is not given.
        if_true: the function for a true one.
        if_false: the function for any other.
        module_name: the module that the function says it is from, or None.
        func_name: its name, or None.

    >>> choose = boolean_dispatch("up", 1, False, max, min, None, "choose")
    >>> choose([1, 2])
    1
    """

    def chosen(*args, **kwargs):
        flag = args[arg_index] if arg_index < len(args) else default
        function = if_true if kwargs.get(arg_name, flag) else if_false
        return function(*args, **kwargs)

    chosen.__doc__ = if_true.__doc__ or if_false.__doc__
    chosen.__module__ = module_name or chosen.__module__
    chosen.__name__ = func_name or chosen.__name__
    return chosen
