"""Interception of calls in Python: function modes and ``__torch_function__``."""

from __future__ import annotations

from rushlight.core.state import pop_mode, push_mode
from rushlight.core.tensor import Tensor


class TorchFunctionMode:
    """Sees every operator call in its ``with`` block.

    Subclasses override ``__torch_function__(self, func, types, args, kwargs)``; calls
    that it makes itself are not intercepted again by the same mode.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__"
        )

    def __enter__(self):
        push_mode(self)
        return self

    def __exit__(self, *raised):
        pop_mode()


def has_torch_function(relevant_args):
    """Whether one of the values intercepts calls by its type."""
    return any(
        hasattr(type(arg), "__torch_function__") and type(arg) is not Tensor
        for arg in relevant_args
    )


def is_tensor_like(inp):
    """Whether a value is a tensor or stands for one."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")
