"""The error function, its complement and their inverses."""

import functools
import math
from decimal import Decimal, localcontext

from rushlight.codegen.math import exponential, series, tableless
from rushlight.codegen.math.formats import (
    bits,
    copysign,
    fma,
    format_of,
    in_double,
    in_double_or_short,
    literal_bits,
    nearest,
    pick,
    polynomial,
    root,
    rounded,
    spares_doubles,
)
from rushlight.codegen.math.pairs import (
    fine_polynomial,
    over,
    product_of_two,
    sum_of_sorted,
    sum_of_two,
    times,
)
from rushlight.codegen.math.pieces import (
    curve,
    equal_widths,
    fine_columns,
    fine_curve,
    fine_sum,
    from_zero,
    looked_up,
    parts,
    permuted_floats,
    pieces,
    rows_from_memory,
    shortened,
    threads_alone,
)
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, select

INF, NAN = math.inf, math.nan
HALF_ROOT_PI = math.sqrt(math.pi) / 2
# erf(x) / x - 1 in x^2, with what rounding takes, on |x| < 0.52.
ERF_NEAR = (
    (0.1283791670955126, -1.2420117505217519e-17),
    -0.37612638903183754,
    0.11283791670955126,
    -0.02686617064513123,
    0.005223977625441488,
    -0.0008548327023303128,
    0.0001205533296202085,
    -1.4925648615623984e-05,
    1.6462011747297795e-06,
    -1.6361844944563347e-07,
    1.4707893817832903e-08,
    -1.0858836294075625e-09,
)
# (1 + 2 x) exp(x^2) erfc(x) in (x - 4) / (x + 4), for every x >= 0.
SCALED_ERFC = (
    (1.2329951186255526, -4.6253150592485926e-17),
    (-0.1396211168405625, -7.920295762714695e-18),
    (0.015379652102620043, 6.4364383942886495e-19),
    (0.06809705425469156, -4.747020235607462e-18),
    (-0.10103906603632537, 3.699512620428033e-18),
    0.09373283499839584,
    -0.06633036581163648,
    0.037167515536647974,
    -0.01619773406615478,
    0.0050319699857911335,
    -0.0007577732176142052,
    -0.00019925673458236713,
    0.00015062129605999415,
    -2.439910833468714e-05,
    -1.1220708546043924e-05,
    5.7096544390313675e-06,
    2.907848733187481e-07,
    -8.257804110500615e-07,
    7.916369346046848e-08,
    1.1126050755484608e-07,
    -2.2220122206286085e-08,
    -1.580646665088583e-08,
    4.2561156654757476e-09,
    2.4940689040274898e-09,
    -7.153308961616151e-10,
    -4.3059406134376354e-10,
    1.0615184480128002e-10,
    7.360684069654692e-11,
    -1.2408813845227347e-11,
    -1.0240482290319963e-11,
    8.282508455753682e-13,
    7.99250022733669e-13,
)
# x sqrt(pi) exp(x^2) erfc(x) in 1 / x^2 far out, less one.
SCALED_ERFC_TAIL = (-0.5, 0.75, -1.875, 6.5625)
# The inverse of erf over its argument a, in -log(1 - a^2) up to five.
ERFINV_NEAR = (
    0.8862269259834256,
    0.2320136360489977,
    0.011549628771727806,
    -0.002336144427612425,
    -0.0001261178285939345,
    4.456915706736076e-05,
    3.331105346921971e-06,
    -1.5175960280333922e-06,
    6.466321027721052e-08,
    2.072803054987327e-08,
    -2.9612460261028082e-09,
    1.2346577114502573e-10,
)
# The inverse beyond, in sqrt(-log(1 - a^2)) less the middle of its range up to 6.1.
OUTER_MIDDLE = 4.168033988749895
ERFINV_OUTER = (
    4.009444611268787,
    1.0098491613786023,
    0.0008692789330166235,
    -0.0006774666514488051,
    0.00023300659819260066,
    -6.546412117001419e-05,
    1.602632484180193e-05,
    -3.559112258087262e-06,
    9.746278493615061e-07,
    -1.404650281524429e-07,
    -1.6880363873560716e-07,
    8.479978482412156e-08,
    -1.5053680767778597e-09,
    -3.463186995314341e-09,
)
# And over that root, in one over it less this middle: up to where erfc vanishes.
FAR_MIDDLE = 0.24185497293246072
ERFINV_FAR = (
    0.9615652537728127,
    -0.19939106047853686,
    0.0663050287896331,
    0.5828763082669103,
    -0.9019513363989511,
    1.0125590923666248,
    -4.261560936994817,
    1.1137857930158097,
    21.77836988522453,
    42.40332735762627,
    -588.915409250849,
    1381.5656959785053,
)


# How many pieces, how wide, of what degree, and from where on it rounds to one.
ERF_PIECES = 32, 1 / 8, 5, 3.93
FEW_ERF_PIECES = 8, 17 / 32, 9, 3.93
ERF_PIECES_DOUBLE = 16, 25 / 64, 14, 5.95
# The same of the normal distribution's distance from a half, right beside one.
NORMAL_PIECES = 32, 23 / 128, 4, 5.66
FEW_NORMAL_PIECES = 8, 3 / 4, 7, 5.6
# Two over the root of pi in two parts, and what lifts the smallest numbers.
SLOPE_OF_ERF = (1.128379225730896, -5.863538342219759e-08)
SLOPE_OF_ERF_DOUBLE = (1.1283791670955126, 1.533545961316588e-17)
RAISED = 2.0**64


def erf(x):
    """By pieces of equal width or places, up to where it rounds to one."""
    if x.type.name == "float64" and rows_from_memory():
        return copysign(_erf_on_grid(abs(x)), x)
    a = abs(x)
    if x.type.name == "float32" and threads_alone():
        return copysign(tableless.erf(a, exponential.exp_in_range), x)
    narrow = FEW_ERF_PIECES if permuted_floats() == 8 else ERF_PIECES
    count, step, degree, end = pick(x, narrow, ERF_PIECES_DOUBLE)
    near = select(a > end, end, a)
    whole, index = nearest(near, 1 / step)
    d = fma(whole, -step, near)
    rows = pieces(series.erf, equal_widths(count, step), degree)
    high, low = fine_curve(d, index, rows)
    # What rounding takes from a product is lost where that is subnormal.
    large, (slope, beyond) = x * RAISED, pick(x, SLOPE_OF_ERF, SLOPE_OF_ERF_DOUBLE)
    line = fma(large, slope, large * beyond) * (1 / RAISED)
    return select(a < format_of(x).tiny * 64.0, line, copysign(high + low, x))


def normal_cdf(x):
    """The normal distribution function, right to the last place of one.

    Pieces of its distance from a half: what is small beside one may round to zero, as
    ``1 + erf`` does, but half of the terms do that ``erf`` takes for its own last place.
    """
    if x.type.name != "float32" or threads_alone():
        return (ir.Call("erf", x.type, x * math.sqrt(0.5)) + 1.0) * 0.5
    few = permuted_floats() == 8
    count, step, degree, end = FEW_NORMAL_PIECES if few else NORMAL_PIECES
    a = abs(x)
    whole, index = nearest(a, 1 / step)
    rows = pieces(series.normal, equal_widths(count, step), degree)
    distance = curve(fma(whole, -step, a), index, rows)
    return copysign(select(a > end, 0.5, distance), x) + 0.5


def _erf_over_x(x):
    """``erf(x) / x - 1`` near zero, as a sum of two."""
    return fine_polynomial((x * x, None), ERF_NEAR)


def _slow_part(x):
    """``exp(x^2) erfc(x)`` for ``x`` from zero on, as a sum of two.

    A polynomial in a variable that folds the half line. What the variable's rounding
    takes is multiplied by the slope, which follows from the function itself.
    """
    top, top_low = sum_of_two(x, Const(x.type, -4.0))
    bottom, bottom_low = sum_of_two(x, Const(x.type, 4.0))
    t, lost = over((top, top_low), (bottom, bottom_low))
    high, low = fine_polynomial((t, None), SCALED_ERFC)
    line, line_low = sum_of_two(x + x, Const(x.type, 1.0))
    inverse = 1.0 / line
    part = high * inverse
    slope = fma(part, 2.0, line * fma(x + x, part, -2 / math.sqrt(math.pi)))
    low = low + slope * (lost * bottom * bottom * 0.125)
    rest = fma(-part, line, high) + fma(-part, line_low, low)
    return sum_of_sorted(part, rest * inverse)


def _gauss(x):
    """``exp(-x^2)`` as a sum of two over a power of two."""
    square, lost = product_of_two(x, x)
    return exponential.exp_in_two_parts(-square, -lost)


def _erfc_parts(x):
    """`erfc` for ``x`` from zero to 27.3 as a sum of two over a power of two."""
    high, low, k = _gauss(x)
    high, low = times((high, low), _slow_part(x))
    return high, low, k


def _short_far_erfc(x):
    """`erfc` of a float32 from `ERFC_END` on in size, to its last bits."""
    a = abs(x)
    near = select(a > 10.5, 10.5, a)
    square, lost = product_of_two(near, near)
    power = exponential.exp_of_two(-square, -lost, _tail_of_erfc(near))
    return select(x != x, x, select(x < 0, Const(x.type, 2.0), power))


def _tail_of_erfc(x):
    """``exp(x^2) erfc(x)`` far out."""
    inverse = 1.0 / x
    square = inverse * inverse
    tail = polynomial(square, SCALED_ERFC_TAIL) * square
    factor = 1 / math.sqrt(math.pi)
    return fma(tail, factor, factor) / x


@in_double
def _fine_far_erfc(x):
    a = abs(x)
    near = select(a < 27.3, a, 27.3)
    high, low, k = _erfc_parts(near)
    right = exponential.scaled(high + low, k)
    one, lost = sum_of_sorted(Const(x.type, 2.0), -right)
    value = select(x < 0, one + lost, right)
    value = select(a < 27.3, value, select(x < 0, Const(x.type, 2.0), 0.0))
    value = select(x != x, x, value)
    close = select(a < 0.5, x, 0.0)
    one, lost = sum_of_sorted(Const(x.type, 1.0), -close)
    erf_high, erf_low = _erf_over_x(close)
    small = one + fma(-close, erf_high, fma(-close, erf_low, lost))
    return select(a < 0.5, small, value)


def far_erfc(x):
    """`erfc` of any number; of a GPU's float32, of one from `ERFC_END` on."""
    alone = x.type.name == "float32" and threads_alone()
    return (_short_far_erfc if alone else _fine_far_erfc)(x)


# From one whole number to the next are so many places, and so far do they go. A float32
# has twice as many: what lies between is a smaller share, and so are its roundings.
ERFC_INTERVALS, ERFC_INTERVALS_DOUBLE = 256, 128
ERFC_END = 8


@functools.cache
def _heights_and_slopes(each):
    """`erfc` at the places, and the size of its slope there: in decimals."""
    with localcontext() as context:
        context.prec = 40
        # From the last place on it rises by what is between, which a series tells.
        step, place = Decimal(1) / each, Decimal(ERFC_END)
        gauss = (-place * place).exp() / series.half_root_pi()
        height = series.scaled_complement(place) * gauss * series.half_root_pi()
        growth, change = ((2 * place - step) * step).exp(), (-2 * step * step).exp()
        heights, slopes = [], []
        for _ in range(ERFC_END * each):
            # (exp(-(r - t)^2))' = 2 (r - t) exp(-(r - t)^2)
            before, term, power = Decimal(0), gauss, step
            for n in range(1, 17):
                height += term * power / n
                before, term = term, 2 * (place * term - before) / n
                power *= step
            place -= step
            gauss, growth = gauss * growth, growth * change
            heights.append(height)
            slopes.append(gauss)
        return heights[::-1], slopes[::-1]


@functools.cache
def _moment(power, reach, count):
    """The integral of ``s^power exp(-w s)`` for ``s`` from 0 to 1, in powers of ``w``.

    With a reach of None, the first terms: nearest where ``w`` is small.
    """
    with localcontext() as context:
        context.prec = 40
        terms, term = [], Decimal(1)
        for n in range(30):
            terms.append(term / (n + power + 1))
            term = -term / (n + 1)
        if reach is not None:
            terms = shortened(terms, Decimal(reach), count)
        return tuple(map(float, terms[:count]))


def _erfc_by_intervals(x):
    """`erfc` of a number whose size is at most `ERFC_END`, less half a step.

    From the nearest place ``r`` on it falls by its slope there, times the integral of
    ``exp(-2 r t - t^2)`` over the way ``d`` that is left; in ``2 r d`` and ``d^2``.
    """
    each = pick(x, ERFC_INTERVALS, ERFC_INTERVALS_DOUBLE)
    a = abs(x)
    end = ERFC_END - 1 / each
    near = select(a > end, end, a)
    whole, index = nearest(near, float(each))
    r = whole * (1 / each)
    d = near - r
    heights, slopes = _heights_and_slopes(each)
    columns = *parts(heights, x), [rounded(slope, x) for slope in slopes]
    high, low, slope = looked_up(index, x, columns)
    w, square = (r + r) * d, d * d
    reach = ERFC_END / each
    if x.type.name == "float32":
        way = polynomial(w, _moment(2, reach, 1))
        way = fma(-way, square, polynomial(w, _moment(0, reach, 4)))
    else:
        way = polynomial(w, _moment(4, reach, 3)) * -0.5
        way = fma(way, square, polynomial(w, _moment(2, reach, 6)))
        way = fma(-way, square, polynomial(w, _moment(0, reach, 8)))
    rest = fma(-slope * d, way, low)
    top, lost = sum_of_sorted(Const(x.type, 2.0), -high)
    return select(x < 0, top + (lost - rest), high + rest)


ERF_GRID = 128  # from one whole number to the next, of a float64


@functools.cache
def _erf_columns():
    """`erf` at the places and its slopes, with what rounding takes from them."""
    heights, slopes = _heights_and_slopes(ERF_GRID)
    with localcontext() as context:
        context.prec = 40
        heights = [Decimal(0), *(1 - height for height in heights[1:])]
        columns = []
        for numbers in heights, slopes:
            high = [float(number) for number in numbers]
            columns += high, [float(n - Decimal(h)) for n, h in zip(numbers, high)]
        return columns


def _erf_on_grid(a):
    """`erf` of a float64 from zero on, as `_erfc_by_intervals`; the line is exact."""
    end = ERF_PIECES_DOUBLE[-1]
    near = select(a > end, end, a)
    whole, index = nearest(near, float(ERF_GRID))
    d = fma(whole, -1 / ERF_GRID, near)
    high, low, slope, slope_low = looked_up(index, a, _erf_columns())
    w, square = whole * (2 / ERF_GRID) * d, d * d
    halves = [term / 2 for term in _moment(4, None, 2)]
    way = fma(square, -1 / 42, polynomial(w, halves))
    way = fma(-way, square, polynomial(w, _moment(2, None, 4)))
    way = fma(polynomial(w, _moment(0, None, 6)[1:]), w, -way * square)
    step = d * slope
    lost = fma(d, slope, -step)
    total, more = sum_of_sorted(high, step)
    return total + (more + fma(step, way, fma(d, slope_low, lost + low)))


def erfc(x):
    """By a table of places; far out ``exp(-x^2)`` times what is left."""
    far = ir.Call("far_erfc", x.type, x)
    return ir.Rarely(abs(x) > ERFC_END - 0.02, far, _erfc_by_intervals(x))


@spares_doubles(in_double)
def scaled_erfc(x):
    """``exp(x^2) erfc(x)`` for ``x`` from zero on."""
    far = x > 64.0
    high, low = _slow_part(select(far, 1.0, x))
    return select(far, _tail_of_erfc(x), high + low)


def _guess(inside, outer, short):
    """The inverse to nine digits, of ``erf = inside`` where ``erfc = outer``."""
    wide = exponential.short_log if short else exponential.log
    log = pick(outer, exponential.log_of_normal, wide)
    w = -log(outer * (inside + 1.0))
    if short:
        near = inside * polynomial(w, ERFINV_NEAR)
        return select(w > 5.0, polynomial(root(w) - OUTER_MIDDLE, ERFINV_OUTER), near)
    s = root(select(w > 5.0, w, 5.0))
    far = s * polynomial(1.0 / s - FAR_MIDDLE, ERFINV_FAR)
    near = inside * polynomial(select(w > 5.0, 5.0, w), ERFINV_NEAR)
    return select(w > 5.0, far, near)


def _inverse(inside, outer):
    """One step of Halley's method on a guess, which triples its digits."""
    y = _guess(inside, outer, False)
    high, low, k = _gauss(y)
    near = select(inside < 0.5, y, 0.0)
    first, second = _erf_over_x(near)
    near_step = fma(near, first, near - inside) + near * second
    quotient, rest = over((exponential.scaled(outer, -k), 0.0), (high, low))
    part, more = _slow_part(y)
    far_step = (quotient - part) + (rest - more)
    step = select(inside < 0.5, near_step / high, far_step) * HALF_ROOT_PI
    return y - step / fma(y, step, 1.0)  # Halley's: erf'' = -2 y erf'


INVERSE_END = 1 - 2.0**-8


@functools.cache
def _inverse_intervals(count):
    """Pieces of ``1 - a``, an eighth of them for each power of two, from one down.

    The first is around zero.
    """
    each = count // 8
    intervals = [(0.0, 0.5 / each)]
    for n in range(1, count):
        octave, part = divmod(n, each)
        scale = 2.0 ** -(octave + 1) / each
        intervals.append((1 - scale * (2 * each - part - 0.5), scale / 2))
    return intervals


def _pieces_of_inverse(x):
    """How many pieces the inverse has, and of what degree they are.

    A table of eight lies in a register by AVX2; of float64 a long one is read by rows.
    """
    if x.type.name == "float32":
        return (8, 10) if permuted_floats() == 8 else (32, 7)
    return (64, 11) if rows_from_memory() else (16, 18)


# Eight pieces are a power of two each, of what is left to one, from here down: below the
# first are the numbers up to 0.3, whose cubes are small beside them.
OCTAVE = 45 / 64
FEW_INVERSE_END = 1 - OCTAVE / 128


def _intervals_by_outer(outer):
    """The pieces in the order that the bits of ``1 - a`` count them, and its piece."""
    count, _ = _pieces_of_inverse(outer)
    shift = format_of(outer).mantissa + 4 - count.bit_length()
    if count == 8:
        index = (bits(outer) - literal_bits(OCTAVE, outer)) >> shift
        intervals = [
            (1 - 1.5 * OCTAVE * 2.0**-k, 0.5 * OCTAVE * 2.0**-k) for k in range(8)
        ]
        return index, ((0.0, 1 - OCTAVE), *intervals[:0:-1])
    index = bits(select(outer > 0.99, 0.99, outer)) >> shift
    start = literal_bits(0.99, outer) >> shift
    intervals = _inverse_intervals(count)
    return index, tuple(intervals[(start - k) % count] for k in range(count))


def _inverse_rows(x, intervals):
    """Polynomials of the pieces."""
    count, degree = _pieces_of_inverse(x)
    if count > 8:
        return pieces(series.erfinv, intervals, degree)
    (_, reach), *others = intervals
    first = from_zero(series.erfinv, reach, degree)
    return first, *pieces(series.erfinv, tuple(others), degree)


def _inverse_by_pieces(a):
    """The inverse of `erf` from 0 to `INVERSE_END`."""
    index, intervals = _intervals_by_outer(1.0 - a)
    middles = [middle for middle, _ in intervals]
    columns = middles, *fine_columns(_inverse_rows(a, intervals), a)
    middle, *numbers = looked_up(index, a, columns)
    high, low = fine_sum(a - middle, numbers)
    return high + low


@spares_doubles(in_double_or_short, True)
def far_erfinv(x, short):
    """A polynomial in ``log(1 - x^2)``, and a step of Halley's method."""
    a = abs(x)
    inside = select(a < 1.0, a, 0.0)
    outer = 1.0 - inside
    y = _guess(inside, outer, True) if short else _inverse(inside, outer)
    y = select(a == 1.0, INF, select(a < 1.0, y, NAN))
    return copysign(y, x)


def erfinv(x):
    """By pieces, which get shorter towards one; next to it from a logarithm."""
    a = abs(x)
    rare = a > (FEW_INVERSE_END if _pieces_of_inverse(x)[0] == 8 else INVERSE_END)
    if x.type.name == "float32":  # next to zero the second part has no digits left
        rare = rare | ((a < 2.0**-100) & (a > 0.0))
    far = ir.Call("far_erfinv", x.type, x)
    return ir.Rarely(rare, far, copysign(_inverse_by_pieces(a), x))


def far_erfcinv(x):
    """As `far_erfinv` of ``1 - x``, however small ``x`` is."""
    outer = select(x > 1.0, 2.0 - x, x)
    outer = select(outer > 0.0, outer, 1.0)
    y = _inverse(1.0 - outer, outer)
    y = select(x > 1.0, -y, y)
    edge = select(
        x == 0.0, Const(x.type, INF), select(x == 2.0, Const(x.type, -INF), NAN)
    )
    return select((x > 0.0) & (x < 2.0), y, edge)


@in_double
def erfcinv(x):
    """As `erfinv` of ``1 - x``, whose distance from a piece's middle is exact."""
    outer = select(x > 1.0, 2.0 - x, x)
    index, intervals = _intervals_by_outer(outer)
    middles = [1.0 - middle for middle, _ in intervals]
    columns = middles, *fine_columns(_inverse_rows(x, intervals), x)
    middle, *numbers = looked_up(index, x, columns)
    high, low = fine_sum(middle - outer, numbers)
    usual = select(x > 1.0, -(high + low), high + low)
    far = ir.Call("far_erfcinv", x.type, x)
    return ir.Rarely(~(outer >= 1 - INVERSE_END), far, usual)


FUNCTIONS = (
    erf,
    normal_cdf,
    far_erfinv,
    erfc,
    far_erfc,
    scaled_erfc,
    erfinv,
    erfcinv,
    far_erfcinv,
)
