"""Division and remainders of integers and floats, in every rounding.

An integer divided by zero gives an unspecified number instead of a trap, and the one
quotient that overflows wraps: kernels check their divisors before they are called.
"""

from __future__ import annotations

from rushlight.compiler import expr as ir
from rushlight.compiler.expr import Binary, Call, Const, select
from rushlight.compiler.mathematics.formats import bits, copysign, fma, from_bits


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


ROUNDS = 8  # each takes 25 bits off the quotient


def _float_remainder(x, y):
    """Subtracts ever smaller multiples, each exactly; right for quotients to 2^200."""
    if x.type.name == "float32":
        wide = _float_remainder(ir.cast(ir.f64, x), ir.cast(ir.f64, y))
        return ir.cast(ir.f32, wide)
    a, b = abs(x), abs(y)
    rest = a
    for _ in range(ROUNDS):
        # A multiple with few bits has an exact product, and an exact difference.
        quotient = bits(Call("trunc", x.type, rest / b)) & -(1 << 27)
        step = fma(-from_bits(quotient, x), b, rest)
        step = select(step < 0, step + b, step)  # the quotient was rounded up
        rest = select(rest < b, rest, step)
    infinite = (b == float("inf")) & (a < float("inf"))
    return copysign(select(infinite, a, rest), x)


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


FUNCTIONS = (tdiv, rem, floordiv, mod)
