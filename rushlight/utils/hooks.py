"""Handles that take registered hooks away again."""

from rushlight.autograd.hooks import RemovableHandle
from rushlight.io.pickling import warn_of_hooks as warn_if_has_hooks
from rushlight.nn.modules._backward_hook import BackwardHook

__all__ = [
    "BackwardHook",
    "RemovableHandle",
    "unserializable_hook",
    "warn_if_has_hooks",
]


def unserializable_hook(f):
    """Marks a hook of a tensor as one that need not be warned of when it is pickled."""
    f.__torch_unserializable__ = True
    return f
