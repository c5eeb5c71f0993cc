"""Circular functions and their inverses."""

from __future__ import annotations

import math

from rushlight.compiler import expr as ir
from rushlight.compiler.expr import Call, Const, Reinterpret, select
from rushlight.compiler.mathematics.formats import (
    bits,
    copysign,
    fma,
    format_of,
    in_double,
    polynomial,
    root,
)

HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814
# (sin(x) - x) / x^3 and (cos(x) - 1 + x^2 / 2) / x^4 in x^2, on |x| < pi / 4.
SIN = (-0.16666654807536008, 0.0083321691677631716, -0.0001951603789878489)
COS = (0.041666646627937651, -0.0013887355355979296, 2.4437007388308242e-5)
SIN_DOUBLE = (
    -0.16666666666666631,
    0.0083333333333222058,
    -0.00019841269829633139,
    2.7557313628740981e-6,
    -2.5050747851828351e-8,
    1.5896180717314929e-10,
)
COS_DOUBLE = (
    0.041666666666666598,
    -0.0013888888888873844,
    2.4801587289298729e-5,
    -2.7557314297070536e-7,
    2.0875715474598087e-9,
    -1.135923006556511e-11,
)
# (atan(x) - x) / x^3 in x^2, on |x| < tan(pi / 8).
ATAN = (
    -0.33333333333333185,
    0.19999999999949723,
    -0.14285714279788253,
    0.11111110762214084,
    -0.090908971255842702,
    0.076920486313995076,
    -0.066629688799475574,
    0.058468824777776628,
    -0.050346715490107067,
    0.037944583156931934,
    -0.017773528462679778,
)
# (asin(x) - x) / x^3 in x^2, on |x| < 1/2.
ASIN = (
    0.16666666666665376,
    0.075000000003446494,
    0.044642856822086161,
    0.030381959391377602,
    0.022371752027596204,
    0.017359794400776035,
    0.013884361674222022,
    0.012174875141843011,
    0.0065037846189071509,
    0.019593682508980501,
    -0.016325750567188605,
    0.031981099976336278,
)


# The bits of 2 / pi behind the binary point, 32 at a time.
TWO_OVER_PI_WORDS = (
    2734261102,
    1313084713,
    4230436817,
    4113882560,
    3680671129,
    1011060801,
    4266746795,
)
FAR = 2.0**40


def _reduced(x):
    """``x`` less a multiple ``k`` of pi / 2: the rest, and the bits of ``k``.

    For float32 the rest is right to the last bit, for float64 to a few up to 2^30.
    """
    wide = ir.cast(ir.f64, x)
    if x.type.name == "float32":
        far = Call("far_angle", wide.type, x)
        wide = Call("rarely", wide.type, abs(x) > FAR, far, wide)
    magic = format_of(wide).magic
    shifted = fma(wide, TWO_OVER_PI, magic)
    k = shifted - magic
    r = fma(k, -HALF_PI[1], fma(k, -HALF_PI[0], wide))
    quadrant = bits(shifted)
    if x.type.name == "float32":
        return ir.cast(ir.f32, r), ir.cast(ir.i32, quadrant)
    return fma(k, -HALF_PI[2], r), quadrant


def far_angle(x):
    """A float64 angle of at most one turn for a float32 beyond 2^17.

    In integers, after Payne and Hanek: of the product of ``x`` and 2 / pi only the bits
    around the binary point matter. They come from the 96 bits of 2 / pi that meet the
    24 of the fraction there.
    """
    u64 = ir.u64.like(x.type)
    pattern = ir.cast(u64, Reinterpret(ir.u32.like(x.type), x))
    fraction = (pattern & 0x7FFFFF) | 0x800000
    skipped = ((pattern >> 23) & 0xFF) - (127 + 23 + 2)
    first, shift = (skipped >> 5) & 3, skipped & 31
    words = [_word(first, k) for k in range(4)]
    window = [
        (((high << 32) | low) << shift) >> 32
        for high, low in zip(words, words[1:], strict=False)
    ]
    turn = (
        ((fraction * window[0]) << 32)
        + fraction * window[1]
        + ((fraction * window[2]) >> 32)
    )
    quadrant = (turn + (1 << 61)) >> 62
    rest = Reinterpret(ir.i64.like(x.type), turn - (quadrant << 62))
    k = ir.cast(ir.f64, Reinterpret(ir.i64.like(x.type), quadrant))
    angle = fma(k, HALF_PI[0], ir.cast(ir.f64, rest) * (HALF_PI[0] * 2.0**-62))
    angle = fma(k, HALF_PI[1], angle)
    angle = select(abs(x) < math.inf, angle, math.nan)
    return select(x < 0, -angle, angle)


def _word(first, offset):
    """Word ``first + offset`` of 2 / pi, for ``first`` from 0 to 3."""
    words = [Const(first.type, w) for w in TWO_OVER_PI_WORDS[offset : offset + 4]]
    low = select(first == 0, words[0], words[1])
    high = select(first == 2, words[2], words[3])
    return select(first < 2, low, high)


def _sin_cos(r):
    """Sine and cosine of a reduced angle."""
    single = r.type.name == "float32"
    z = r * r
    sine = fma(polynomial(z, SIN if single else SIN_DOUBLE), z * r, r)
    half = z * 0.5
    top = 1.0 - half
    lost = (1.0 - top) - half
    cosine = top + fma(polynomial(z, COS if single else COS_DOUBLE), z * z, lost)
    return sine, cosine


def sin(x):
    """The quadrant picks sine or cosine of the rest, and the sign."""
    r, k = _reduced(x)
    sine, cosine = _sin_cos(r)
    value = select((k & 1) != 0, cosine, sine)
    return select(x == 0, x, select((k & 2) != 0, -value, value))


def cos(x):
    """As `sin`, a quarter turn on."""
    r, k = _reduced(x)
    sine, cosine = _sin_cos(r)
    value = select((k & 1) != 0, sine, cosine)
    return select(((k + 1) & 2) != 0, -value, value)


def tan(x):
    """Sine over cosine, turned over in odd quadrants; float32 finished in float64."""
    r, k = _reduced(x)
    if x.type.name == "float32":
        r, k = ir.cast(ir.f64, r), ir.cast(ir.i64, k)
    sine, cosine = _sin_cos(r)
    odd = (k & 1) != 0
    value = select(odd, -cosine, sine) / select(odd, sine, cosine)
    return select(x == 0, x, ir.cast(x.type, value))


def _atan_of_ratio(y, x):
    """The angle of ``(x, y)`` for ``x, y >= 0``: folded twice, to ``tan(pi / 8)``."""
    steep = y > x
    large, small = select(steep, y, x), select(steep, x, y)
    folds = small > large * 0.4142135623730951
    top = select(folds, small - large, small)
    bottom = select(folds, small + large, large)
    t = top / bottom
    z = t * t
    near = fma(polynomial(z, ATAN), z * t, t)
    value = near + select(folds, Const(x.type, math.pi / 4), 0.0)
    return select(steep, HALF_PI[0] - (value - HALF_PI[1]), value)


@in_double
def atan(x):
    """The angle of the point ``(1, x)``."""
    a = abs(x)
    far = a > 2.0**60
    value = _atan_of_ratio(select(far, Const(x.type, 1.0), a), Const(x.type, 1.0))
    return copysign(select(far, HALF_PI[0], value), x)


@in_double
def atan2(y, x):
    """The angle of ``(x, y)`` by octants; zeros and infinities as in C."""
    a, b = abs(y), abs(x)
    both = (a == math.inf) & (b == math.inf)
    level = a < b
    large = select(level, b, a)
    # Scaled so that neither the sums overflow nor the ratio's parts vanish.
    scale = select(
        large > 2.0**500,
        Const(x.type, 2.0**-600),
        select(large < 2.0**-500, Const(x.type, 2.0**600), 1.0),
    )
    a, b = a * scale, b * scale
    flat = (large == 0) | ((b == math.inf) & ~both)
    one = Const(x.type, 1.0)
    upright = (a == math.inf) & ~both
    a = select(flat, 0.0, select(both | upright, one, a))
    b = select(flat | both, one, select(upright, 0.0, b))
    value = _atan_of_ratio(a, b)
    left = bits(x) < 0
    value = select(left, math.pi - (value - 2 * HALF_PI[1]), value)
    value = copysign(value, y)
    return select((x != x) | (y != y), math.nan, value)


def _asin_near(a, z):
    return fma(polynomial(z, ASIN), z * a, a)


@in_double
def asin(x):
    """A polynomial up to one half; ``pi / 2 - 2 asin(sqrt((1 - x) / 2))`` beyond."""
    a = abs(x)
    outer = a > 0.5
    z = select(outer, (1.0 - a) * 0.5, a * a)
    s = select(outer, root(z), a)
    value = _asin_near(s, z)
    return copysign(select(outer, HALF_PI[0] - (value * 2.0 - HALF_PI[1]), value), x)


@in_double
def acos(x):
    """``pi / 2 - asin(x)`` in the middle; twice the half angle near the ends."""
    a = abs(x)
    outer = a > 0.5
    z = select(outer, (1.0 - a) * 0.5, a * a)
    s = select(outer, root(z), a)
    value = _asin_near(s, z)
    twice = value * 2.0
    ends = select(x < 0, math.pi - (twice - 2 * HALF_PI[1]), twice)
    signed = copysign(value, x)
    return select(outer, ends, HALF_PI[0] - (signed - HALF_PI[1]))


FUNCTIONS = (far_angle, sin, cos, tan, atan, atan2, asin, acos)
