"""What programs around a model need."""

import importlib

# Imported when they are first used: most of ``data`` is about processes.
_MODULES = (
    "_device",
    "_pytree",
    "_triton",
    "benchmark",
    "checkpoint",
    "cpp_extension",
    "data",
    "dlpack",
    "hooks",
    "model_zoo",
    "pictures",
    "weak",
)
__all__ = ["data", "get_cpp_backtrace", "set_module"]


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"rushlight.utils.{name}")
    if name == "rename_privateuse1_backend":
        from rushlight.core.device import rename_privateuse1_backend

        return rename_privateuse1_backend
    if name == "summary":
        from rushlight.utils._summary import summary

        return summary
    if name == "swap_tensors":
        from rushlight.utils._swap import swap_tensors

        return swap_tensors
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_cpp_backtrace(frames_to_skip=0, maximum_number_of_frames=64):
    """The frames of C++ on the stack, one on a line: there are none.

    Args:
        frames_to_skip: how many to leave out.
        maximum_number_of_frames: at most so many.

    >>> get_cpp_backtrace()
    ''
    """
    return ""


def set_module(obj, mod):
    """Says of a function or class that a module defines it."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod
