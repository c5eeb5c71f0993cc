"""Functions of numbers that a recording does not know, or knows as plain ones."""

import math

from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool


def sym_int(a):
    """A number without its fraction, as ``int`` has it.

    Args:
        a: the number.

    >>> sym_int(2.7)
    2
    """
    return int(a)


def sym_float(a):
    """A number as ``float`` has it.

    Args:
        a: the number.

    >>> sym_float(2)
    2.0
    """
    return float(a)


def sym_not(a):
    """The opposite of a truth value.

    Args:
        a: the truth value.

    >>> sym_not(False)
    True
    """
    return ~a if isinstance(a, SymBool) else not a


def _are_symbolic(*numbers):
    """Whether one of some integers stands for any."""
    symbolic = any(isinstance(one, SymInt) for one in numbers)
    return symbolic and all(isinstance(one, (int, SymInt)) for one in numbers)


def _env_of(a, b):
    return a.env if isinstance(a, SymInt) else b.env


def sym_max(a, b):
    """The larger of two numbers; a float if either is one.

    Args:
        a, b: the numbers.

    >>> sym_max(1, 2.0)
    2.0
    """
    if _are_symbolic(a, b):
        return _env_of(a, b).computed("max", a, b)
    larger = max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a, b):
    """The smaller of two numbers; a float if either is one.

    Args:
        a, b: the numbers.

    >>> sym_min(1, 2.0)
    1.0
    """
    if _are_symbolic(a, b):
        return _env_of(a, b).computed("min", a, b)
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_sum(*args):
    """The sum of numbers, given one by one or as one sequence."""
    return sum(args[0] if len(args) == 1 and not isinstance(args[0], int) else args)


def sym_sqrt(a):
    """The square root of a number.

    Args:
        a: the number, not below zero.

    >>> sym_sqrt(4)
    2.0
    """
    return math.sqrt(a)


def sym_ite(b, t, f):
    """One of two values.

    Args:
        b: which of them: the first where it holds.
        t: the first.
        f: the second.

    >>> sym_ite(False, 1, 2)
    2
    """
    return t if b else f
