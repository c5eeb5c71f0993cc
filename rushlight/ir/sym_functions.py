"""Functions of numbers that a recording does not know, or knows as plain ones."""

from __future__ import annotations

import math

from rushlight.ir.unbacked import SymBool


def sym_int(a):
    """A number without its fraction, as ``int`` has it."""
    return int(a)


def sym_float(a):
    """A number as ``float`` has it."""
    return float(a)


def sym_not(a):
    """The opposite of a truth value."""
    return ~a if isinstance(a, SymBool) else not a


def sym_max(a, b):
    """The larger of two numbers; a float if either is one."""
    larger = max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a, b):
    """The smaller of two numbers; a float if either is one."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_sum(*args):
    """The sum of numbers, given one by one or as one sequence."""
    return sum(args[0] if len(args) == 1 and not isinstance(args[0], int) else args)


def sym_sqrt(a):
    """The square root of a number."""
    return math.sqrt(a)


def sym_ite(b, t, f):
    """One of two values."""
    return t if b else f
