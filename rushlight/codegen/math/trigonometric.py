"""Circular functions and their inverses."""

import functools
import math
from decimal import Decimal, localcontext

from rushlight.codegen.math import series
from rushlight.codegen.math.angles import (
    FAR,
    HALF_PI,
    NEAR,
    NEAR_EIGHTHS,
    TWO_OVER_PI,
    double_angle,
    near_angle,
    near_eighths,
    single_angle,
    single_half_angle,
)
from rushlight.codegen.math.formats import (
    bits,
    copysign,
    fma,
    format_of,
    from_bits,
    half_inverse_root,
    in_double_or_short,
    literal_bits,
    nearest,
    pick,
    polynomial,
    root,
    spares_doubles,
)
from rushlight.codegen.math.pairs import over, product_of_two, sum_of_sorted, sum_of_two
from rushlight.codegen.math.pieces import (
    equal_widths,
    fine_curve,
    from_zero,
    looked_up,
    parts,
    permuted_floats,
    pieces,
    rounded,
    rows_from_memory,
    steady_curve,
    tables_in_registers,
)
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, select

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
SIN_OF_PI = (
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
    return ir.cast(x.type, fma(polynomial(z, SIN_OF_PI) * z, r, r))


# The sines and cosines of parts of a half turn, and the series for the rest.
SIN_OF_PART = (
    -0.16666666666666666,
    0.008333333333333333,
    -0.0001984126984126984,
    2.755731922398589e-06,
)
COS_OF_PART = (
    -0.5,
    0.041666666666666664,
    -0.001388888888888889,
    2.48015873015873e-05,
    -2.755731922398589e-07,
)


def _parts_of_half_circle():
    """How many parts a half turn has, and how many terms their sines and cosines."""
    return (64, 3, 3) if rows_from_memory() else (16, 4, 5)


@functools.cache
def _sines_and_cosines(count):
    """Of the parts of a half turn, in decimals."""
    with localcontext() as context:
        context.prec = series.DIGITS
        pairs = [series.circle(series.pi() * k / count) for k in range(count)]
        sines, cosines = zip(*pairs, strict=True)
        return sines, (*cosines[: count // 2], Decimal(0), *cosines[count // 2 + 1 :])


def _circle(x, count, whole):
    """Sines and cosines of the parts of a half turn, and what rounding takes from them.

    With ``whole``, of a whole turn.
    """
    with localcontext() as context:
        context.prec = series.DIGITS
        tables = [part for c in _sines_and_cosines(count) for part in parts(c, x)]
    if whole:
        tables = [[*column, *(-number for number in column)] for column in tables]
    return tables


def _part_and_rest(x, ahead):
    """A float64 up to `FAR` as parts of a half turn and a rest in two parts.

    Returns:
        The row of the parts ``ahead`` quarter turns on, whether that is to be negated
        (None where the row is), and the rest.
    """
    count = _parts_of_half_circle()[0]
    scale = count // 2
    magic = format_of(x).magic
    shifted = fma(x, TWO_OVER_PI * scale, magic)
    k, index = shifted - magic, bits(shifted) + ahead * scale
    first = fma(k, -HALF_PI[0] / scale, x)  # exact, as in `double_angle`
    second, lost = product_of_two(k, Const(x.type, -HALF_PI[1] / scale))
    # All of the first is above the last bit of the second: nothing is lost.
    r, low = sum_of_sorted(first, second)
    whole = rows_from_memory()
    row = looked_up(index, x, _circle(x, count, whole))
    low = low + fma(k, -HALF_PI[2] / scale, lost)
    return row, None if whole else (index & count) != 0, r, low


def _rotated(high, rest, other, other_rest, r, around, down):
    """``high + rest`` turned by what is left, towards the other: a sum of two."""
    line, lost = product_of_two(other, r)
    total, more = sum_of_sorted(high, line)
    tail = fma(other, around, fma(high, down, fma(other_rest, r, rest) + lost))
    return total, more + tail


def _circular_of_rest(r, low, sines, cosines):
    """The sine less ``r`` and the cosine less one of a rest, by so many terms."""
    z = r * r
    around = fma(polynomial(z, SIN_OF_PART[:sines]) * z, r, low)
    return around, polynomial(z, COS_OF_PART[:cosines]) * z


def _circular_by_parts(x, ahead):
    """The sine of a float64 up to `FAR`: a table's parts, turned by what is left."""
    row, negative, r, low = _part_and_rest(x, ahead)
    high, more = _rotated(
        *row, r, *_circular_of_rest(r, low, *_parts_of_half_circle()[1:])
    )
    value = high + more
    return value if negative is None else select(negative, -value, value)


def _circular(x, ahead):
    """The sine ``ahead`` quarter turns on."""
    far = ir.Call("far_cos" if ahead else "far_sin", x.type, x)
    if x.type.name == "float64":
        return ir.Rarely(abs(x) > FAR, far, _circular_by_parts(x, ahead))
    if permuted_floats() != 8:
        return _short_circular(x, ahead)
    return ir.Rarely(~(abs(x) <= NEAR_EIGHTHS), far, _circular_by_eighths(x, ahead))


def _circular_by_eighths(x, ahead):
    """The sine of a float32 up to `NEAR_EIGHTHS`: a table's parts, turned by the rest."""
    r, low, index = near_eighths(x)
    index = index + 4 * ahead
    row = looked_up(index, x, _circle(x, 8, False))
    high, more = _rotated(*row, r, *_circular_of_rest(r, low, 3, 3))
    value = high + more
    sign = (index << 28) & literal_bits(-0.0, x)
    return from_bits(bits(value) ^ sign, x)


def _far_circular(x, ahead):
    """As `_circular`, however far: the quadrant picks the curve and the sign."""
    if x.type.name == "float32":
        return _short_circular(x, ahead)
    r, low, k = double_angle(x)
    (s, s_rest), (c, c_rest) = _sine(r, low), _cosine(r, low)
    sine, cosine = s + s_rest, c + c_rest
    odd = (k & 1) != 0
    value = select(odd, sine, cosine) if ahead else select(odd, cosine, sine)
    value = select(((k + ahead) & 2) != 0, -value, value)
    return ir.cast(x.type, value)


def far_sin(x):
    """The sine of a float64 beyond `FAR`, and of any float32."""
    return _far_circular(x, 0)


def far_cos(x):
    """As `far_sin`."""
    return _far_circular(x, 1)


def sin(x):
    """The quadrant picks sine or cosine of the rest, and the sign."""
    return select(x == 0, x, _circular(x, 0))


def cos(x):
    """As `sin`, a quarter turn on."""
    return _circular(x, 1)


def tan(x):
    """Sine over cosine, turned over in odd quadrants."""
    if x.type.name == "float32":
        if not tables_in_registers():
            return far_tan(x)
        far = ir.Call("far_tan", x.type, x)
        return ir.Rarely(~(abs(x) <= NEAR), far, _tan_by_pieces(x))
    if rows_from_memory() or tables_in_registers():
        far = ir.Call("far_tan", x.type, x)
        return ir.Rarely(~(abs(x) <= FAR), far, _tan_by_parts(x))
    return _far_tangent(x)


def _tan_by_parts(x):
    """The sine over the cosine of a float64 up to `FAR`."""
    (sine, sine_rest, cosine, cosine_rest), _, r, low = _part_and_rest(x, 0)
    around, down = _circular_of_rest(r, low, *_parts_of_half_circle()[1:])
    top = _rotated(sine, sine_rest, cosine, cosine_rest, r, around, down)
    bottom = _rotated(cosine, cosine_rest, -sine, -sine_rest, r, around, down)
    value, rest = over(sum_of_sorted(*top), sum_of_sorted(*bottom))
    return select(x == 0, x, value + rest)


def _far_tangent(x):
    """The same of any float64."""
    r, low, k = double_angle(x)
    odd = (k & 1) != 0
    pairs = zip(sum_of_sorted(*_sine(r, low)), sum_of_sorted(*_cosine(r, low)))
    (top, bottom), (top_low, bottom_low) = (
        (select(odd, -c, s), select(odd, s, c)) for s, c in pairs
    )
    value, rest = over((top, top_low), (bottom, bottom_low))
    return select(x == 0, x, value + rest)


def far_tan(x):
    """`tan` of any number; of a float32, by way of float64."""
    if x.type.name == "float64":
        return _far_tangent(x)
    r, k = single_angle(x)
    odd = (k & 1) != 0
    sine, cosine = _short_sine(r), _short_cosine(r)
    top, bottom = select(odd, -cosine, sine), select(odd, sine, cosine)
    return select(x == 0, x, ir.cast(x.type, top / bottom))


# The middles of pieces up to pi / 4: what is between two of them is exact.
WIDTH_OF_PIECES = 13 / 512
TAN_INTERVALS = tuple((k * WIDTH_OF_PIECES, WIDTH_OF_PIECES / 2) for k in range(32))


def _tan_by_pieces(x):
    """Of what is left of quarter turns; in odd ones, less one over that."""
    r, low, k = near_angle(x)
    a, sign = abs(r), bits(r) & literal_bits(-0.0, x)
    magic = format_of(x).magic
    shifted = fma(a, 1 / WIDTH_OF_PIECES, magic)
    d = fma(shifted - magic, -WIDTH_OF_PIECES, a)
    low = from_bits(bits(low) ^ sign, x)
    table = pieces(series.tan, TAN_INTERVALS, 4)
    high, rest = sum_of_sorted(*fine_curve(d, bits(shifted), table, low))
    inverse = -1.0 / high
    missed = fma(inverse, rest, fma(inverse, high, 1.0))
    value = select((k & 1) != 0, fma(missed, inverse, inverse), high)
    return from_bits(bits(value) ^ sign, x)


def _atan_of_ratio(y, x, short):
    """The angle of ``(x, y)`` for ``x, y >= 0``: folded twice, to ``tan(pi / 8)``.

    A sum of two, of which the first is a multiple of pi / 4 plus the ratio.
    """
    steep = y > x
    large, small = select(steep, y, x), select(steep, x, y)
    folds = small > large * 0.4142135623730951
    # The angle is 0, 1 or 2 times pi / 4, give or take the near one.
    phases = select(folds, Const(x.type, 0.5), select(steep, Const(x.type, 1.0), 0.0))
    if short:  # of singles in doubles: sums are exact, and one rounding is little
        t = (small - select(folds, large, 0.0)) / (large + select(folds, small, 0.0))
        t = fma(t * t * t, polynomial(t * t, ATAN_SHORT), t)
        return fma(phases, HALF_PI[0], select(steep, -t, t)), None
    top, top_low = sum_of_two(small, select(folds, -large, Const(x.type, 0.0)))
    bottom, bottom_low = sum_of_sorted(large, select(folds, small, 0.0))
    t, t_low = over((top, top_low), (bottom, bottom_low))
    z = t * t
    terms, right = pick(x, ATAN_SHORT, ATAN), pick(x, HALF_PI_SHORT, HALF_PI)
    rest = fma(polynomial(z, terms), z * t, t_low * fma(z, z - 1.0, 1.0))
    high, low = sum_of_sorted(phases * right[0], select(steep, -t, t))
    return high, low + fma(phases, right[1], select(steep, -rest, rest))


# Pieces of the angle of a ratio up to one, and of what it lacks to a quarter turn.
HALF_PI_SHORT = (1.5707963705062866, -4.371139000186243e-08)
RATIO_PIECES = 16, 67 / 1024, 5  # how many, how wide, of what degree
FEW_RATIO_PIECES = 8, 37 / 256, 7


def _short_atan(x):
    """Of a float32, in pieces: of ``1 / x`` where that is below one."""
    a = abs(x)
    a = select(a > 2.0**60, 2.0**60, a)
    steep = a > 1.0
    inverse = 1.0 / a
    ratio = select(steep, inverse, a)
    lost = select(steep, fma(-inverse, a, 1.0) * inverse, 0.0)
    few = permuted_floats() == 8
    count, step, degree = FEW_RATIO_PIECES if few else RATIO_PIECES
    whole, index = nearest(ratio, 1 / step)
    d = fma(whole, -step, ratio)
    rows = pieces(series.atan, equal_widths(count, step), degree)
    if few:
        high, low = fine_curve(d, index, rows, lost)
        right, rest = sum_of_sorted(Const(x.type, HALF_PI_SHORT[0]), -high)
        rest = rest + (HALF_PI_SHORT[1] - low)
        return copysign(select(steep, right + rest, high + low), x)
    index = select(steep, index | count, index & (count - 1))
    rows += pieces(series.angle_to_right, equal_widths(count, step), degree)
    high, low = fine_curve(d, index, rows, lost)
    return copysign(high + low, x)


def atan(x):
    """The angle of the point ``(1, x)``."""
    if x.type.name == "float32":
        return _short_atan(x)
    a = abs(x)
    far = a > 2.0**60
    one = Const(x.type, 1.0)
    high, low = _atan_of_ratio(select(far, one, a), one, False)
    return copysign(select(far, HALF_PI[0], high + low), x)


@spares_doubles(in_double_or_short, False)
def atan2(y, x, short):
    """The angle of ``(x, y)`` by octants; zeros and infinities as in C."""
    a, b = abs(y), abs(x)
    both = (a == math.inf) & (b == math.inf)
    if not short:
        level = a < b
        large = select(level, b, a)
        # Scaled so that neither the inverse nor the ratio's parts vanish.
        most, down, least, up = pick(x, (90, -40, -40, 80), (990, -90, -500, 600))
        scale = select(
            large > 2.0**most,
            Const(x.type, 2.0**down),
            select(large < 2.0**least, Const(x.type, 2.0**up), 1.0),
        )
        a, b = a * scale, b * scale
    flat = ((a == 0) & (b == 0)) | ((b == math.inf) & ~both)
    one = Const(x.type, 1.0)
    upright = (a == math.inf) & ~both
    a = select(flat, 0.0, select(both | upright, one, a))
    b = select(flat | both, one, select(upright, 0.0, b))
    high, low = _atan_of_ratio(a, b, short)
    left = bits(x) < 0
    if short:
        value = select(left, math.pi - high, high)
    else:
        right = pick(x, HALF_PI_SHORT, HALF_PI)
        other, rest = sum_of_sorted(Const(x.type, 2 * right[0]), -high)
        value = select(left, other + (rest + (2 * right[1] - low)), high + low)
    value = copysign(value, y)
    return select((x != x) | (y != y), math.nan, value)


# Pieces of ``asin(s) / s`` in ``s^2``.
ARC_PIECES = 32, 33 / 2048, 4


def _arc_less_one(z):
    """The series of ``asin(s) / s - 1`` in ``s^2``."""
    first, *rest = series.arc_over_root(z)
    return [first - 1, *rest]


def _short_arc(s, s_low, z, reach):
    """The inverse sine of a float32 in two parts, whose square is ``z``: as a sum of two.

    By AVX2 a polynomial for squares up to ``reach``, which is one half or a quarter.
    """
    if permuted_floats() == 8:
        terms = from_zero(_arc_less_one, reach, 6 if reach < 0.5 else 9)[1:]
        more = polynomial(z, [rounded(term, s) for term in terms]) * z
        return s, fma(s, more, fma(s_low, more, s_low))
    count, step, degree = ARC_PIECES
    whole, index = nearest(z, 1 / step)
    d = fma(whole, -step, z)
    rows = pieces(series.arc_over_root, equal_widths(count, step), degree)
    high, low = steady_curve(d, index, rows)
    value, lost = product_of_two(s, high)
    return value, fma(s, low, fma(s_low, high, lost))


def _half_chord(a):
    """``sqrt((1 - a) / 2)`` of a float32 as a sum of two, and its square."""
    gap, lost = sum_of_sorted(Const(a.type, 1.0), -a)
    z = gap * 0.5
    s = root(z)
    missed = fma(lost, 0.5, fma(-s, s, z))
    return s, missed * half_inverse_root(z), z


def _short_asin(x):
    """Of a float32: `asin`."""
    a = abs(x)
    outer = a > 0.5
    z = (1.0 - a) * 0.5  # exact where it counts
    s = root(z)
    low = fma(-s, s, z) * half_inverse_root(z)
    s, low, z = select(outer, s, a), select(outer, low, 0.0), select(outer, z, a * a)
    value, rest = _short_arc(s, low, z, 0.25)
    top, lost = sum_of_sorted(Const(x.type, HALF_PI_SHORT[0]), value * -2.0)
    far = top + (lost + fma(rest, -2.0, HALF_PI_SHORT[1]))
    return copysign(select(outer, far, value + rest), x)


def _short_acos(x):
    """Of a float32: `acos`."""
    value, rest = _short_arc(*_half_chord(abs(x)), 0.5)
    value, rest = value * 2.0, rest * 2.0
    top, lost = sum_of_sorted(Const(x.type, 2 * HALF_PI_SHORT[0]), -value)
    left = top + (lost + (2 * HALF_PI_SHORT[1] - rest))
    return select(x < 0, left, value + rest)


def _asin_of_part(a):
    """The inverse sine of ``a``, or past one half that of ``sqrt((1 - a) / 2)``.

    The parts of a sum of two, and which of both it is.
    """
    outer = a > 0.5
    z = select(outer, (1.0 - a) * 0.5, a * a)
    s = select(outer, root(z), a)
    lost = fma(-s, s, z) / (s + s)
    lost = select(outer & (s > 0), lost, 0.0)
    rest = fma(polynomial(z, ASIN), z * s, lost * fma(z, 0.5, 1.0))
    return s, rest, outer


def asin(x):
    """A polynomial up to one half; ``pi / 2 - 2 asin(sqrt((1 - x) / 2))`` beyond."""
    if x.type.name == "float32":
        return _short_asin(x)
    s, rest, outer = _asin_of_part(abs(x))
    high, low = sum_of_sorted(Const(x.type, HALF_PI[0]), s * -2.0)
    value = high + (low + fma(rest, -2.0, HALF_PI[1]))
    return copysign(select(outer, value, s + rest), x)


def acos(x):
    """``pi / 2 - asin(x)`` in the middle; twice the half angle near the ends."""
    if x.type.name == "float32":
        return _short_acos(x)
    left = x < 0
    s, rest, outer = _asin_of_part(abs(x))
    start = select(outer, select(left, Const(x.type, math.pi), 0.0), HALF_PI[0])
    start_low = select(
        outer, select(left, Const(x.type, 2 * HALF_PI[1]), 0.0), HALF_PI[1]
    )
    scale = select(outer, select(left, Const(x.type, -2.0), 2.0), -1.0)
    signed = select(outer | ~left, scale, 1.0)
    high, low = sum_of_sorted(start, s * signed)
    return high + (low + fma(rest, signed, start_low))


FUNCTIONS = (sin, far_sin, cos, far_cos, tan, far_tan, atan, atan2, asin, acos)
