"""Circular functions and their inverses."""

from __future__ import annotations

import math

from rushlight.codegen import expr as ir
from rushlight.codegen.expr import Const, select
from rushlight.codegen.mathematics.angles import (
    HALF_PI,
    double_angle,
    single_angle,
    single_half_angle,
)
from rushlight.codegen.mathematics.formats import (
    bits,
    copysign,
    fma,
    in_double_or_short,
    polynomial,
    root,
    short_quotient,
    short_root,
)
from rushlight.codegen.mathematics.pairs import (
    over,
    product_of_two,
    sum_of_sorted,
    sum_of_two,
)

# (sin(x) - x) / x^3 and (cos(x) - 1 + x^2 / 2) / x^4 in x^2, on |x| < pi / 4.
# A float32 is computed in float64 with the short ones.
SIN = (
    -0.1666666664151636,
    0.008333329377095834,
    -0.00019839332367618714,
    2.718288006216278e-06,
)
COS = (
    0.04166666662276845,
    -0.0013888883743799778,
    2.4799516897192276e-05,
    -2.720995328552281e-07,
)
# And of the sine on |x| < pi / 2.
SIN_OF_HALF_TURN = (
    -0.1666666666387562,
    0.008333332767844436,
    -0.00019841086340620687,
    2.7536446866733923e-06,
    -2.4079804013060297e-08,
)
SIN_DOUBLE = (
    -0.16666666666666666,
    0.008333333333333323,
    -0.0001984126984125498,
    2.75573192141485e-06,
    -2.505210490112485e-08,
    1.605836531891973e-10,
    -7.5786332833682e-13,
)
COS_DOUBLE = (
    0.041666666666666664,
    -0.0013888888888888874,
    2.4801587301571435e-05,
    -2.755731921534782e-07,
    2.087675435972911e-09,
    -1.1470292530023025e-11,
    4.738075594471266e-14,
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
ATAN_SHORT = (
    -0.33333332504965796,
    0.1999990457231844,
    -0.14282028717958234,
    0.1104495750305602,
    -0.08477745337985435,
    0.04747045802205669,
)
ATAN_TO_ONE = (  # and up to one
    -0.33333333293301176,
    0.19999990275947271,
    -0.14285317963907304,
    0.1110470678864422,
    -0.09036742342070782,
    0.0741749696430051,
    -0.05760716083128117,
    0.038327445983064846,
    -0.019261081322765883,
    0.00620725453378005,
    -0.0009362994719496015,
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
ASIN_SHORT = (
    0.16666667196842327,
    0.07499947710324248,
    0.044660260845995794,
    0.030109213512702796,
    0.024624227475145262,
    0.007452360241229284,
    0.03471207896125568,
)


def _sine(r, low):
    """The sine of a reduced angle in two parts, as a sum of two."""
    z, z_low = product_of_two(r, r)
    cube, cube_low = product_of_two(z, r)
    low = fma(fma(z_low, r, cube_low), SIN_DOUBLE[0], low * fma(z, -0.5, 1.0))
    sixth, lost = product_of_two(cube, Const(r.type, SIN_DOUBLE[0]))
    high, rest = sum_of_sorted(r, sixth)
    tail = fma(polynomial(z, SIN_DOUBLE[1:]), cube * z, low)
    return high, rest + (lost + tail)


def _cosine(r, low):
    """The cosine of a reduced angle in two parts, as a sum of two."""
    z, lost = product_of_two(r, r)
    half = z * 0.5
    top = 1.0 - half
    rest = ((1.0 - top) - half) - fma(lost, 0.5, r * low)
    return top, fma(polynomial(z, COS_DOUBLE), z * z, rest)


def _short_sine(r):
    z = r * r
    return fma(polynomial(z, SIN), z * r, r)


def _short_cosine(r):
    z = r * r
    return fma(polynomial(z, COS), z * z, fma(z, -0.5, 1.0))


def _short_circular(x, ahead):
    """The sine of what is left of half turns, whose number says the sign."""
    r, k = single_half_angle(x, ahead)
    r = select(((k + ahead) & 1) != 0, -r, r)
    z = r * r
    return ir.cast(x.type, fma(polynomial(z, SIN_OF_HALF_TURN) * z, r, r))


def _circular(x, ahead):
    """The sine ``ahead`` quarter turns on: the quadrant picks the curve and the sign."""
    if x.type.name == "float32":
        return _short_circular(x, ahead)
    r, low, k = double_angle(x)
    (s, s_rest), (c, c_rest) = _sine(r, low), _cosine(r, low)
    sine, cosine = s + s_rest, c + c_rest
    odd = (k & 1) != 0
    value = select(odd, sine, cosine) if ahead else select(odd, cosine, sine)
    value = select(((k + ahead) & 2) != 0, -value, value)
    return ir.cast(x.type, value)


def sin(x):
    """The quadrant picks sine or cosine of the rest, and the sign."""
    return select(x == 0, x, _circular(x, 0))


def cos(x):
    """As `sin`, a quarter turn on."""
    return _circular(x, 1)


def tan(x):
    """Sine over cosine, turned over in odd quadrants."""
    if x.type.name == "float32":
        r, k = single_angle(x)
        odd = (k & 1) != 0
        sine, cosine = _short_sine(r), _short_cosine(r)
        top, bottom = select(odd, -cosine, sine), select(odd, sine, cosine)
        value = top / bottom
        return select(x == 0, x, ir.cast(x.type, value))
    r, low, k = double_angle(x)
    odd = (k & 1) != 0
    pairs = zip(sum_of_sorted(*_sine(r, low)), sum_of_sorted(*_cosine(r, low)))
    (top, bottom), (top_low, bottom_low) = (
        (select(odd, -c, s), select(odd, s, c)) for s, c in pairs
    )
    value, rest = over((top, top_low), (bottom, bottom_low))
    return select(x == 0, x, value + rest)


def _atan_of_ratio(y, x, short):
    """The angle of ``(x, y)`` for ``x, y >= 0``: folded twice, to ``tan(pi / 8)``.

    A sum of two, of which the first is a multiple of pi / 4 plus the ratio.
    """
    steep = y > x
    large, small = select(steep, y, x), select(steep, x, y)
    folds = small > large * 0.4142135623730951
    top, top_low = sum_of_two(small, select(folds, -large, Const(x.type, 0.0)))
    bottom, bottom_low = sum_of_sorted(large, select(folds, small, 0.0))
    if short:
        t = top / bottom
        rest = t * t * t * polynomial(t * t, ATAN_SHORT)
    else:
        t, t_low = over((top, top_low), (bottom, bottom_low))
        z = t * t
        rest = fma(polynomial(z, ATAN), z * t, t_low * fma(z, z - 1.0, 1.0))
    # The angle is 0, 1 or 2 times pi / 4, give or take the near one.
    turns = select(folds, Const(x.type, 0.5), select(steep, Const(x.type, 1.0), 0.0))
    high, low = sum_of_sorted(turns * HALF_PI[0], select(steep, -t, t))
    return high, low + fma(turns, HALF_PI[1], select(steep, -rest, rest))


def _short_atan(a):
    """Of what is not negative: of ``1 / a`` where that is below one."""
    steep = a > 1.0
    t = short_quotient(select(steep, 1.0, a), select(steep, a, 1.0))
    z = t * t
    value = fma(polynomial(z, ATAN_TO_ONE) * z, t, t)
    return select(steep, HALF_PI[0] - value, value)


@in_double_or_short
def atan(x, short):
    """The angle of the point ``(1, x)``."""
    a = abs(x)
    far = a > 2.0**60
    one = Const(x.type, 1.0)
    if short:
        return copysign(_short_atan(select(far, Const(x.type, 2.0**60), a)), x)
    high, low = _atan_of_ratio(select(far, one, a), one, short)
    return copysign(select(far, HALF_PI[0], high + low), x)


@in_double_or_short
def atan2(y, x, short):
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
    high, low = _atan_of_ratio(a, b, short)
    left = bits(x) < 0
    other, rest = sum_of_sorted(Const(x.type, math.pi), -high)
    value = select(left, other + (rest + (2 * HALF_PI[1] - low)), high + low)
    value = copysign(value, y)
    return select((x != x) | (y != y), math.nan, value)


def _asin_of_part(a, short):
    """The inverse sine of ``a``, or past one half that of ``sqrt((1 - a) / 2)``.

    The parts of a sum of two, and which of both it is.
    """
    outer = a > 0.5
    z = select(outer, (1.0 - a) * 0.5, a * a)
    s = select(outer, short_root(z) if short else root(z), a)
    if short:
        return s, z * s * polynomial(z, ASIN_SHORT), outer
    lost = fma(-s, s, z) / (s + s)
    lost = select(outer & (s > 0), lost, 0.0)
    rest = fma(polynomial(z, ASIN), z * s, lost * fma(z, 0.5, 1.0))
    return s, rest, outer


@in_double_or_short
def asin(x, short):
    """A polynomial up to one half; ``pi / 2 - 2 asin(sqrt((1 - x) / 2))`` beyond."""
    s, rest, outer = _asin_of_part(abs(x), short)
    if short:
        value = s + rest
        return copysign(select(outer, fma(value, -2.0, HALF_PI[0]), value), x)
    high, low = sum_of_sorted(Const(x.type, HALF_PI[0]), s * -2.0)
    value = high + (low + fma(rest, -2.0, HALF_PI[1]))
    return copysign(select(outer, value, s + rest), x)


@in_double_or_short
def acos(x, short):
    """``pi / 2 - asin(x)`` in the middle; twice the half angle near the ends."""
    s, rest, outer = _asin_of_part(abs(x), short)
    left = x < 0
    start = select(outer, select(left, Const(x.type, math.pi), 0.0), HALF_PI[0])
    start_low = select(
        outer, select(left, Const(x.type, 2 * HALF_PI[1]), 0.0), HALF_PI[1]
    )
    scale = select(outer, select(left, Const(x.type, -2.0), 2.0), -1.0)
    signed = select(outer | ~left, scale, 1.0)
    if short:
        return fma(s + rest, signed, start)
    high, low = sum_of_sorted(start, s * signed)
    return high + (low + fma(rest, signed, start_low))


FUNCTIONS = (sin, cos, tan, atan, atan2, asin, acos)
