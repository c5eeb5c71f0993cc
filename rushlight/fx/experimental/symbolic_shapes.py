"""Sizes that stand for any number, under PyTorch's name for the place."""

import functools
import operator
import warnings
from enum import Enum

from rushlight.core.tensor import Tensor
from rushlight.ir.formulas import number_in, symbols_of
from rushlight.ir.symbolic import GuardError, ShapeEnv, SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import GuardOnDataDependentSymNode, SymFloat
from rushlight.utils._pytree import tree_leaves

__all__ = [
    "ConstraintViolationError",
    "DimDynamic",
    "GuardError",
    "GuardOnDataDependentSymNode",
    "ShapeEnv",
    "SymInt",
    "constrain_range",
    "constrain_unify",
    "expect_true",
    "free_symbols",
    "free_unbacked_symbols",
    "fx_placeholder_targets",
    "fx_placeholder_vals",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "guarding_hint_or_throw",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "has_guarding_hint",
    "has_static_value",
    "has_symbolic_sizes_strides",
    "hint_int",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_nested_int",
    "is_symbolic",
    "optimization_hint",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]

_SYMBOLIC = SymInt, SymBool, SymFloat


class ConstraintViolationError(RuntimeError):
    """A size that was to stay open is fixed by the program."""


class DimDynamic(Enum):
    """What becomes of a size: a symbol, one for equal sizes, a number, or what follows."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    UNBACKED = 3
    INFER_STRIDE = 4


def _of_kind(a, kinds, text):
    if not isinstance(a, kinds):
        raise AssertionError(f"Expected {text}, got {type(a)}")
    return a


# -- what is known of a number -----------------------------------------------------------


def is_concrete_int(a):
    """Whether an integer stands for itself only.

    >>> is_concrete_int(3), is_concrete_int(ShapeEnv().symbol(3))
    (True, False)
    """
    return isinstance(_of_kind(a, (SymInt, int), "SymInt or int"), int)


def is_concrete_float(a):
    """Whether a float stands for itself only."""
    return isinstance(_of_kind(a, (SymFloat, float), "SymFloat or float"), float)


def is_concrete_bool(a):
    """Whether a truth is known."""
    return isinstance(_of_kind(a, (SymBool, bool), "SymBool or bool"), bool)


def has_static_value(a):
    """Whether a number or a truth stands for itself only.

    >>> has_static_value(2.0), has_static_value(ShapeEnv().symbol(3))
    (True, False)
    """
    kinds = *_SYMBOLIC, int, float, bool
    return not isinstance(_of_kind(a, kinds, "BoolLike/FloatLike/IntLike"), _SYMBOLIC)


def is_symbolic(val):
    """Whether a number or a truth stands for any."""
    return isinstance(val, _SYMBOLIC)


def is_nested_int(s):
    """Whether a size is that of rows of several lengths; there are none here."""
    return False


def has_symbolic_sizes_strides(elem):
    """Whether a size or a stride of a tensor stands for any number.

    Args:
        elem: the tensor.
    """
    numbers = *elem.shape, *elem.stride(), elem.storage_offset()
    return any(isinstance(one, SymInt) for one in numbers)


def hint_int(a, fallback=None):
    """What an integer is in the program that is recorded.

    >>> hint_int(ShapeEnv().symbol(3) * 2)
    6
    """
    return a.hint if isinstance(a, SymInt) else a


def has_guarding_hint(a):
    """Whether a number has a value in the program that is recorded."""
    return not isinstance(a, _SYMBOLIC) or isinstance(a, SymInt) and not a.follows


def guarding_hint_or_throw(a):
    """What a number is in the program that is recorded.

    Raises:
        GuardOnDataDependentSymNode: it follows from elements.
    """
    _of_kind(a, (*_SYMBOLIC, int), "int")
    if not has_guarding_hint(a):
        raise a.env.elements.refused(f"expression {a}")
    return hint_int(a)


def optimization_hint(a, fallback=None):
    """What an integer may be, for plans that are right for any.

    Args:
        a: the integer.
        fallback: what is given for one that follows from elements.
    """
    _of_kind(a, (SymInt, int), "int")
    if fallback is not None and not has_guarding_hint(a):
        return fallback
    return hint_int(a)


def _exprs(val):
    """The expressions of numbers, and of tensors' sizes and strides, nested."""
    for one in tree_leaves(val):
        if isinstance(one, Tensor):
            numbers = *one.shape, *one.stride(), one.storage_offset()
            yield from (n.expr for n in numbers if isinstance(n, SymInt))
        elif isinstance(one, _SYMBOLIC):
            yield one.expr


def free_symbols(val):
    """The symbols that numbers, or tensors' sizes and strides, are made of.

    Args:
        val: a number, a tensor, or a container of them.

    >>> n = ShapeEnv().symbol(5)
    >>> [str(one) for one in free_symbols([n * 2, 3])]
    ['s0']
    """
    return {symbol for expr in _exprs(val) for symbol in symbols_of(expr)}


def has_free_symbols(val):
    """Whether there are any; see `free_symbols`."""
    return bool(free_symbols(val))


def free_unbacked_symbols(x):
    """Those of `free_symbols` that follow from elements."""
    return {symbol for symbol in free_symbols(x) if number_in(symbol)}


def has_free_unbacked_symbols(x):
    """Whether there are any; see `free_unbacked_symbols`."""
    return bool(free_unbacked_symbols(x))


# -- questions ---------------------------------------------------------------------------


def _known(a):
    """A truth as far as it is known; None where it is not."""
    if isinstance(a, SymBool):
        return a.known
    return _of_kind(a, bool, "bool")


def statically_known_true(x):
    """Whether a truth is known to hold; nothing is noted.

    >>> statically_known_true(True)
    True
    """
    return _known(x) is True


def statically_known_false(x):
    """Whether a truth is known not to hold; nothing is noted."""
    return _known(x) is False


def guard_or_false(a):
    """A truth as the program has it, or False where it follows from elements."""
    found = _known(a)
    return bool(a) if found is None and not a.follows else bool(found)


def guard_or_true(a):
    """A truth as the program has it, or True where it follows from elements."""
    found = _known(a)
    return bool(a) if found is None and not a.follows else found in (None, True)


def guard_size_oblivious(expr):
    """A truth as of any size that is neither 0 nor 1.

    Raises:
        GuardOnDataDependentSymNode: it is not known even so.
    """
    warnings.warn(
        "guard_size_oblivious will be removed. Consider using explicit unbacked handling "
        "potentially utilizing guard_or_false, guard_or_true, or statically_known_true",
        FutureWarning,
        stacklevel=2,
    )
    found = _known(expr)
    if (
        found is None
        and expr.follows
        and expr.expr.name in ("eq", "ne")
        and expr.expr.right in (0, 1)
    ):
        return expr.expr.name == "ne"
    return bool(expr) if found is None else found


def guard_bool(a):
    """A truth as the program has it from here on.

    Raises:
        GuardOnDataDependentSymNode: it follows from elements.
    """
    if not isinstance(a, SymBool) and type(a) is not bool:
        raise AssertionError(f"Expected bool, got {a}")
    return bool(a)


def guard_int(a):
    """An integer as the number that it is in the program that is recorded.

    >>> guard_int(ShapeEnv().symbol(5))
    5
    """
    if not isinstance(a, SymInt) and type(a) is not int:
        raise AssertionError(f"Expected int, got {a}")
    return int(a)


def guard_float(a):
    """A float as the number that it is in the program that is recorded."""
    if not isinstance(a, (SymFloat, float)):
        raise AssertionError(f"Expected float, got {a}")
    return float(a)


def guard_scalar(a):
    """A number or a truth as what it is in the program that is recorded."""
    if isinstance(a, (SymBool, bool)):
        return guard_bool(a)
    if isinstance(a, (SymInt, int)):
        return guard_int(a)
    if isinstance(a, (SymFloat, float)):
        return guard_float(a)
    raise AssertionError(f"unrecognized scalar {a}")


def sym_and(x, *others):
    """Whether all truths hold, known or not."""
    return functools.reduce(operator.and_, others, x)


def sym_or(x, *others):
    """Whether one truth holds, known or not."""
    return functools.reduce(operator.or_, others, x)


def sym_eq(x, y):
    """Whether integers, or lists of them, are equal.

    >>> sym_eq([1, (2,)], [1, (2,)])
    True
    """
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        if len(x) != len(y):
            return False
        return functools.reduce(operator.and_, map(sym_eq, x, y), True)
    if isinstance(x, (int, SymInt)) and isinstance(y, (int, SymInt)):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


# -- promises ----------------------------------------------------------------------------


def expect_true(a, skip=0):
    """Has the program check that something holds, and go by it from here on.

    Args:
        a: what holds.
        skip: kept for PyTorch's programs.
    """
    if isinstance(a, SymBool) and a.follows:
        a.env.elements.check(a.expr)
        return True
    return guard_bool(a)


def constrain_range(a, *, min, max=None):
    """Promises that an integer is between bounds.

    Args:
        a: the integer.
        min: it is no less; no more than ``max``.

    Raises:
        ValueError: it is another.
    """
    low = -float("inf") if min is None else min
    high = float("inf") if max is None else max
    if high < low:
        raise ValueError(
            "Maximum value to constrain_as_size can't be less than the specified min "
            f"value, received min={min} and max={max}"
        )
    if isinstance(a, int):
        if not low <= a <= high:
            raise ValueError(
                f"Invalid value {a} for range [{_bound(low)}:{_bound(high)}]"
            )
        return
    for answer in (a >= low, a <= high) if a.follows else ():
        expect_true(answer)


def _bound(number):
    """A bound as messages have it."""
    return {float("inf"): "int_oo", -float("inf"): "-int_oo"}.get(number, number)


def constrain_unify(a, b):
    """Promises that two integers are equal.

    Raises:
        AssertionError: they are numbers, and differ.
    """
    if isinstance(a, SymInt) or isinstance(b, SymInt):
        expect_true(a == b)
    elif a != b:
        raise AssertionError(f"Expected {a} == {b}")


def fx_placeholder_vals(gm):
    """What is known of the arguments of a module's graph."""
    return [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]


def fx_placeholder_targets(gm):
    """The names of the arguments of a module's graph."""
    return [node.target for node in gm.graph.nodes if node.op == "placeholder"]
