"""Division and remainders of integers and floats, in every rounding.

An integer divided by zero gives an unspecified number instead of a trap, and the one
quotient that overflows wraps: kernels check their divisors before they are called.
"""

from rushlight.codegen.math.formats import copysign, fma, format_of, pick
from rushlight.codegen.math.pieces import threads_alone
from rushlight.ir import expr as ir
from rushlight.ir.expr import Binary, Call, Const, select


def _safe(x, y):
    """``y``, or one where the machine's division would trap."""
    traps = y == 0
    if x.type.is_signed:
        lowest = -(1 << x.type.bits - 1)
        traps = traps | ((y == -1) & (x == lowest))
    return select(traps, Const(y.type, 1), y)


def _machine(op, x, y):
    return Call(f"machine_{op}", x.type, x, y)


def tdiv(x, y):
    """The integer quotient, rounded towards zero."""
    if x.type.is_float:
        return Call("trunc", x.type, x / y)
    return _machine("div", x, _safe(x, y))


def rem(x, y):
    """The remainder with the sign of ``x``."""
    if x.type.is_float:
        return _float_remainder(x, y)
    return _machine("rem", x, _safe(x, y))


def floordiv(x, y):
    """The quotient rounded down; of floats, as Python rounds it."""
    if x.type.is_float:
        return _float_floordiv(x, y)
    safe = _safe(x, y)
    quotient = _machine("div", x, safe)
    if not x.type.is_signed:
        return quotient
    rest = x - quotient * safe
    down = (rest != 0) & ((rest ^ safe) < 0)
    return quotient - ir.cast(x.type, down)


def mod(x, y):
    """The remainder with the sign of ``y``."""
    if x.type.is_float:
        rest = _float_remainder(x, y)
    else:
        rest = _machine("rem", x, _safe(x, y))
    if not (x.type.is_float or x.type.is_signed):
        return rest
    wrong = (rest != 0) & ((rest < 0) != (y < 0))
    return select(wrong, rest + y, rest)


# Bits of a quotient that one round takes off, rounds for the largest number over the
# smallest, and by what power of two a number may be multiplied: float32's and float64's.
ROUNDS, ROUNDS_DOUBLE = (22, 12, 110), (26, 81, 1000)


def _float_remainder(x, y):
    """Subtracts one multiple, exactly; ever smaller ones where quotients are large."""
    a, b = abs(x), abs(y)
    far = a >= b * 2.0 ** (format_of(x).mantissa - 1)
    rest = ir.Rarely(far, Call("far_remainder", x.type, a, b), _reduced_by(a, b))
    infinite = (b == float("inf")) & (a < float("inf"))
    return copysign(select(infinite, a, rest), x)


def far_remainder(a, b):
    """The remainder of positive numbers, however large their quotient is."""
    if a.type.name == "float32" and not threads_alone():
        wide = _float_remainder(ir.cast(ir.f64, a), ir.cast(ir.f64, b))
        return ir.cast(ir.f32, wide)
    digits, farthest, most = pick(a, ROUNDS, ROUNDS_DOUBLE)
    for place in range(farthest, -1, -1):
        low = min(place, most // digits)
        high = min(place - low, most // digits)
        scaled = b * 2.0 ** (digits * low) * 2.0 ** (digits * high)
        scaled = scaled * 2.0 ** (digits * (place - low - high))
        a = _reduced_by(a, scaled)
    return a


def _reduced_by(a, b):
    """``a`` less a multiple of ``b``; exact where a quotient has digits behind the point.

    It is a whole number, or the next one where rounding took it there: what is left is a
    multiple of both numbers' last places and not larger than ``b``.
    """
    step = fma(-Call("trunc", a.type, a / b), b, a)
    step = select(step < 0, step + b, step)
    return select(a < b, a, step)


def _float_floordiv(x, y):
    """``(x - mod(x, y)) / y`` rounded to the integer that it nearly is."""
    rest = _float_remainder(x, y)
    wrong = (rest != 0) & ((rest < 0) != (y < 0))
    quotient = (x - rest) / y
    quotient = select(wrong, quotient - 1.0, quotient)
    floor = Call("floor", x.type, quotient)
    floor = select(quotient - floor > 0.5, floor + 1.0, floor)
    floor = select(
        quotient == 0, copysign(Binary("mul", quotient, quotient), x / y), floor
    )
    return select(y == 0, x / y, floor)


FUNCTIONS = (tdiv, rem, floordiv, mod, far_remainder)
