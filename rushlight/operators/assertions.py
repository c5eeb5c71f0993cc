"""Conditions that programs state and graphs keep."""

from __future__ import annotations

from rushlight.core.tensor import Tensor
from rushlight.dispatch import torch_function
from rushlight.operators import call


def _assert(condition, message):
    """Python's ``assert``, as a function.

    Raises:
        AssertionError: the condition does not hold.
    """
    if type(condition) is not Tensor and torch_function.has_torch_function(
        (condition,)
    ):
        return torch_function.handle_torch_function(
            _assert, (condition,), condition, message
        )
    assert condition, message


def _assert_async(condition, message=None):
    """Raises where a condition is not true.

    Raises:
        RuntimeError: it is not.
    """
    given = () if message is None else (message,)
    call._assert_async(condition, *given)
