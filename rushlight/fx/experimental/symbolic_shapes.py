"""Sizes that stand for any number, under PyTorch's name for the place."""

from __future__ import annotations

from rushlight.ir.symbolic import GuardError, ShapeEnv, SymInt
from rushlight.ir.unbacked import GuardOnDataDependentSymNode

__all__ = [
    "ConstraintViolationError",
    "GuardError",
    "GuardOnDataDependentSymNode",
    "ShapeEnv",
    "SymInt",
    "hint_int",
    "is_concrete_int",
]


def is_concrete_int(a):
    """Whether an integer stands for itself only.

    >>> is_concrete_int(3), is_concrete_int(ShapeEnv().symbol(3))
    (True, False)
    """
    return isinstance(a, int)


def hint_int(a, fallback=None):
    """What an integer is in the program that is recorded.

    >>> hint_int(ShapeEnv().symbol(3) * 2)
    6
    """
    return a.hint if isinstance(a, SymInt) else a


class ConstraintViolationError(RuntimeError):
    """A size that was to stay open is fixed by the program."""
