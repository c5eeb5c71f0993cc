"""What most processors have an instruction for, on those that do not.

The emitter puts ``plain_fma`` in the place of ``fma`` where the target has none, and so
on: sums of two parts rely on every product being rounded once, wherever they run.
"""

from rushlight.codegen.math.formats import bits, copysign, format_of, from_bits
from rushlight.codegen.math.pairs import sum_of_two
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, select

HALF = float((1 << 27) + 1)  # splits a double into two factors of 26 bits


def _to_odd(total, lost):
    """A rounded sum with its last bit set where rounding lost something.

    Rounded once more to fewer digits, it gives what rounding once would have given.
    """
    code = bits(total)
    one, less = Const(code.type, 1), Const(code.type, -1)
    beyond = code + select((total > 0) ^ (lost > 0), less, one)
    inexact = ((lost > 0) | (lost < 0)) & ((code & 1) == 0)
    return from_bits(select(inexact, beyond, code), total)


def _split(x):
    """Two numbers of half the digits whose sum is ``x``."""
    high = x * HALF
    high = high - (high - x)
    return high, x - high


def plain_fma(x, y, z):
    """``x * y + z`` with one rounding.

    For doubles where no part leaves the range of normal numbers; with two roundings
    beyond.
    """
    if x.type.name == "float32":
        x, y, z = (ir.cast(ir.f64, value) for value in (x, y, z))
        return ir.cast(ir.f32, _to_odd(*sum_of_two(x * y, z)))
    product = x * y
    (a, b), (c, d) = _split(x), _split(y)
    rest = ((a * c - product) + a * d + b * c) + b * d
    middle, least = sum_of_two(z, rest)
    top, more = sum_of_two(product, middle)
    result = top + _to_odd(*sum_of_two(least, more))
    usual = (abs(result) < float("inf")) & (result != 0)
    return select(usual, result, product + z)


def plain_round(x):
    """The nearest integer, halves to even."""
    integral = 2.0 ** format_of(x).mantissa  # from here on all numbers are integers
    size = abs(x)
    near = copysign((size + integral) - integral, x)
    return select(size < integral, near, x)


def plain_floor(x):
    """The largest integer that is not above."""
    near = plain_round(x)
    return select(near > x, near - 1.0, near)


def plain_ceil(x):
    """The smallest integer that is not below."""
    near = plain_round(x)
    return copysign(select(near < x, near + 1.0, near), x)


def plain_trunc(x):
    """The integer part."""
    return copysign(plain_floor(abs(x)), x)


FUNCTIONS = (plain_fma, plain_round, plain_floor, plain_ceil, plain_trunc)
