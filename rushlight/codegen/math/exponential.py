"""Exponentials, logarithms, powers, and the hyperbolic functions made of them."""

import functools
import math
from decimal import Decimal, localcontext

from rushlight.codegen.math import series, tableless
from rushlight.codegen.math.formats import (
    bits,
    clamp,
    copysign,
    fma,
    format_of,
    from_bits,
    in_double,
    in_double_or_short,
    in_two_chains,
    literal_bits,
    nearest,
    pick,
    polynomial,
    power_of_two,
    root,
    rounded,
    short_quotient,
    spares_doubles,
)
from rushlight.codegen.math.pairs import (
    over,
    plus,
    product_of_two,
    sum_of_sorted,
    sum_of_two,
    times,
)
from rushlight.codegen.math.pieces import (
    fine_curve,
    looked_up,
    lookup,
    parts,
    permuted_floats,
    pieces,
    rows_from_memory,
    shortened,
    threads_alone,
)
from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Reinterpret, Type, select

INF, NAN = math.inf, math.nan
# ln 2 in two parts; the first has so few bits that its multiples are exact.
LN2 = (0.693145751953125, 1.4286068203094173e-06)
LN2_DOUBLE = (0.6931471803691238, 1.9082149292705877e-10)
# And to the nearest, with what that lacks.
LN2_NEAREST = (0.6931471824645996, -1.904654323148236e-09)
LN2_NEAREST_DOUBLE = (0.6931471805599453, 2.3190468138462996e-17)
LOG2_E = 1.4426950408889634
LOG_OF_TWO = 0.6931471805599453
# (exp(r) - 1 - r) / r^2 on |r| < ln(2) / 2, weighted so that exp's error is even.
EXP = (
    0.50000000783300751,
    0.1666666686331777,
    0.041666268497572555,
    0.0083332638023610827,
    0.0013946177498986781,
    0.00019918668424671308,
)
EXP_DOUBLE = (
    0.5,
    0.16666666666666677,
    0.0416666666666667,
    0.00833333333332157,
    0.0013888888888867468,
    0.00019841269886298197,
    2.4801587359647612e-05,
    2.755724401515314e-06,
    2.7557243335297865e-07,
    2.5109111148708663e-08,
    2.092431057861011e-09,
)
# The same by Chebyshev's polynomials, a term longer.
EXP_FINE = (
    0.5,
    0.16666666666666666,
    0.04166666666666668,
    0.008333333333333335,
    0.0013888888888879073,
    0.000198412698412585,
    2.4801587336443602e-05,
    2.755731925634968e-06,
    2.7557263277791584e-07,
    2.5052063493768333e-08,
    2.091813816945801e-09,
    1.6088928537542142e-10,
)
EXP_SHORT = (
    0.5,
    0.16666666718997508,
    0.041666666718980845,
    0.008333298483754886,
    0.001388885404961482,
    0.0001989927395864936,
    2.4859578222625295e-05,
)
# (log(1 + f) - f + f^2 / 2) / f^3 on sqrt(1/2) - 1 < f < sqrt(2) - 1.
LOG = (
    0.33333310457701741,
    -0.24999986524168809,
    0.20002225731547183,
    -0.16669253499067072,
    0.14218674525329535,
    -0.12384319180565399,
    0.11872844408624815,
    -0.11789906327867064,
    0.06915742297988115,
)
LOG_SHORT = (
    0.33333333384803754,
    -0.249999994987083,
    0.19999973727896375,
    -0.1666671980607466,
    0.14287886099982502,
    -0.12499927717186018,
    0.11048250377157395,
    -0.09931553137948022,
    0.09804564386097082,
    -0.09727659389760898,
    0.05555094556064493,
)
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for the same f with s = f / (2 + f); what the
# fine one lacks are its first two terms.
LOG_DOUBLE = (
    0.66666666666667349,
    0.39999999999411142,
    0.28571428743259533,
    0.22222198475695078,
    0.18183569780104415,
    0.15313901705913668,
    0.14797527163326504,
)
LOG_FINE = (
    0.2857142857142852,
    0.22222222222252974,
    0.18181818174426762,
    0.15384616335958234,
    0.133332608614381,
    0.11768076101800626,
    0.1043252514049795,
    0.10947750031480365,
)
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
THIRD = (0.3333333333333333, 1.850371707708594e-17)
TWO_FIFTHS = (0.4, -2.2204460492503132e-17)


def _reduced(x):
    """``x`` as ``k ln 2 + r + low`` with ``|r| <= ln(2) / 2``: ``r, low, k``."""
    form = format_of(x)
    high, low = pick(x, LN2, LN2_DOUBLE)
    shifted = fma(x, LOG2_E, form.magic)
    k = bits(shifted) - literal_bits(form.magic, x)
    whole = shifted - form.magic
    first = fma(whole, -high, x)
    r = fma(whole, -low, first)
    return r, fma(whole, -low, first - r), k


def _curve(r, low):
    """``exp(r + low) - 1 - r`` for a reduced argument."""
    return fma(polynomial(r, pick(r, EXP, EXP_DOUBLE)), r * r, low)


def _exp_of_parts(r, low):
    """``exp(r + low)`` for a reduced argument."""
    one, lost = sum_of_sorted(Const(r.type, 1.0), r)
    return one + (lost + _curve(r, low))


def scaled(x, k):
    """``x`` times two to ``k``; in two steps, so that subnormals round once."""
    half = k >> 1
    return x * power_of_two(half, x) * power_of_two(k - half, x)


def exp(x):
    """``k = round(x / ln 2)``; a polynomial on the rest; scaled by two to ``k``.

    Where a register holds a table, ``k`` counts parts of a power of two.

    Close to the ends of the range a float32 takes the way round by float64, and a float64
    is scaled in two steps: so that subnormal results are rounded once. A GPU's float32 is
    scaled so, too. Masked scores are common: zeros are no rare case.
    """
    if x.type.name == "float32" and threads_alone():
        return exp_of_normal(x)
    value = _exp_by_table(x) if permuted_floats() else exp_in_range(x)
    far = ir.Call("far_exp", x.type, x)
    rare = abs(x) > pick(x, 87.0, 708.0)
    if current().has_masks:  # a choice is part of an instruction
        is_zero = x < pick(x, -104.0, -746.0)
        rare, value = rare & ~is_zero, select(is_zero, 0.0, value)
    return ir.Rarely(rare, far, value)


# By how many parts of a power of two there are: of a float32 32 or 8, of a float64 16 or 4.
TERMS_OF_REST = {32: 2, 8: 3, 16: 6, 4: 8}


def _parts_of_a_power(x):
    """How many there are in the table, and the number that leaves them in the low bits.

    A whole number added to that is in the bits above them, and biased as an exponent.
    """
    form, intervals = format_of(x), permuted_floats()
    count = pick(x, intervals, intervals // 2)
    return count, form.magic + form.bias * count


@functools.cache
def _powers(count):
    """Two to every part of one."""
    with localcontext() as context:
        context.prec = 40
        return [(Decimal(2).ln() * k / count).exp() for k in range(count)]


@functools.cache
def _exp_of_rest(count, terms):
    """``(exp(r) - 1 - r) / r^2`` for half a part of ln 2."""
    with localcontext() as context:
        context.prec = 40
        series = [Decimal(1) / math.factorial(n) for n in range(2, 20)]
        reach = Decimal(LOG_OF_TWO) / (2 * count)
        return tuple(float(term) for term in shortened(series, reach, terms))


def _with_power_of_table(r, pattern, exact=None, beyond=None):
    """``exp(r)`` times the power of two whose parts the low bits of a pattern are.

    ``exact`` less ``beyond`` is what ``r`` was rounded from: the line is that one's.
    """
    count, _ = _parts_of_a_power(r)
    curve = polynomial(r, _exp_of_rest(count, TERMS_OF_REST[count]))
    power, lost = (lookup(pattern, r, part) for part in parts(_powers(count), r))
    # What is left is added last of the small parts: its sum with them is not rounded.
    square = r * r
    small = curve * square if beyond is None else fma(curve, square, -beyond)
    rest = fma(power, small, lost)
    whole = pattern >> count.bit_length() - 1 << format_of(r).mantissa
    line = r if exact is None else exact
    return (power + fma(power, line, rest)) * from_bits(whole, r)


def _exp_by_table(x):
    """`exp` of what is at most 87, or 708, and of NaN; of other numbers, anything."""
    count, magic = _parts_of_a_power(x)
    high, low = (part / count for part in pick(x, LN2, LN2_DOUBLE))
    shifted = fma(x, LOG2_E * count, magic)
    whole = shifted - magic
    first = fma(whole, -high, x)
    if count == 4:  # what is left is long enough for its rounding to be seen
        beyond = whole * low
        return _with_power_of_table(first - beyond, bits(shifted), first, beyond)
    return _with_power_of_table(fma(whole, -low, first), bits(shifted))


def far_exp(x):
    """The exponential beyond 87 on both sides, and of a float64 beyond 708; else anything."""
    if x.type.name == "float64":
        return exp_of_normal(x)
    edge = (abs(x) > 87.0) & (x > -104.0) & (x < 89.0)
    fine = ir.cast(x.type, exp_of_normal(ir.cast(ir.f64, x)))
    ends = select(x > 0.0, Const(x.type, INF), 0.0)
    return ir.Rarely(edge, fine, ends)


def exp_in_range(x, more=None):
    """`exp` of what is at most 87, or 708, and of NaN; of other numbers, anything.

    With ``more``, of a sum of two.
    """
    r, low, k = _reduced(x)
    low = low if more is None else low + more
    return _exp_of_parts(r, low) * power_of_two(k, x)


def short_exp(x):
    """`exp` of a float64 to ten digits, where the result is normal."""
    shifted = fma(x, LOG2_E, format_of(x).magic)
    k = bits(shifted) - literal_bits(format_of(x).magic, x)
    r = fma(shifted - format_of(x).magic, -LOG_OF_TWO, x)
    curve = fma(polynomial(r, EXP_SHORT), r * r, r + 1.0)
    return curve * power_of_two(k, x)


def exp_of_normal(x):
    """`exp` where nobody looks at the last bit of subnormal results."""
    r, low, k = _reduced(clamp(x, *pick(x, (-105.0, 89.0), (-746.0, 710.0))))
    return scaled(_exp_of_parts(r, low), k)


def exp_of_two(x, low, factor):
    """``exp(x + low)`` times a factor near one, subnormal results rounded twice."""
    r, rest, k = _reduced(x)
    return scaled(_exp_of_parts(*sum_of_two(r, rest + low)) * factor, k)


def exp_in_two_parts(x, low):
    """``exp(x + low)`` as a sum of two over a power of two, to about 60 bits."""
    r, rest, k = _reduced(x)
    square, lost = product_of_two(r, r)
    line, more = sum_of_sorted(r, square * 0.5)
    one, last = sum_of_sorted(Const(x.type, 1.0), line)
    curve = in_two_chains(r, square, EXP_DOUBLE[1:]) * (square * r)
    low = fma(rest + low, one + curve, lost * 0.5)
    return (*sum_of_sorted(one, last + (more + (curve + low))), k)


def exp2(x):
    """As `exp`, with an exact reduction."""
    if not permuted_floats():
        return far_exp2(x)
    count, magic = _parts_of_a_power(x)
    magic /= count
    shifted = x + magic
    r = (x - (shifted - magic)) * LOG_OF_TWO
    value = _with_power_of_table(r, bits(shifted))
    return ir.Rarely(
        abs(x) > pick(x, 126.0, 1022.0), ir.Call("far_exp2", x.type, x), value
    )


def far_exp2(x):
    """`exp2` of any number."""
    form = format_of(x)
    x = clamp(x, *pick(x, (-151.0, 129.0), (-1076.0, 1025.0)))
    shifted = x + form.magic
    k = bits(shifted) - literal_bits(form.magic, x)
    rest = x - (shifted - form.magic)
    high, low = pick(x, LN2_NEAREST, LN2_NEAREST_DOUBLE)
    r = rest * high
    return scaled(_exp_of_parts(r, fma(rest, low, fma(rest, high, -r))), k)


def _expm1(x):
    """Half of `expm1` as a sum of two, without the care for negative zero."""
    r, low, k = _reduced(clamp(x, *pick(x, (-20.0, 89.0), (-40.0, 710.0))))
    scale = power_of_two(k - 1, x)  # half of it, which does not overflow
    base, lost = sum_of_two(scale, Const(x.type, -0.5))
    square, square_low = product_of_two(r, r)
    line, rest = sum_of_sorted(r, square * 0.5)
    first, *others = pick(r, EXP, EXP_FINE)
    curve = polynomial(r, (first - 0.5, *others)) * square
    rest = rest + (fma(square_low, 0.5, fma(low, line, low)) + curve)
    high, more = sum_of_sorted(base, line * scale)
    return high, fma(rest, scale, more + lost)


def expm1(x):
    """``2^k (exp(r) - 1) + (2^k - 1)``, exact near zero."""
    high, low = _expm1(x)
    return select(abs(x) < format_of(x).tiny, x, (high + low) * 2.0)


def _split(x):
    """``x = m 2^e`` with ``m`` from sqrt(1/2) to sqrt(2): ``m - 1`` and ``e``."""
    form = format_of(x)
    small = x < form.tiny
    scaled = select(small, x * 2.0 ** (form.mantissa + 1), x)
    pattern = bits(scaled)
    e = (pattern - literal_bits(math.sqrt(0.5), x)) >> form.mantissa
    m = from_bits(pattern - (e << form.mantissa), x)
    shift = select(small, Const(x.type, form.mantissa + 1), 0.0)
    return m - 1.0, ir.cast(x.type, e) - shift


def _log_of_fraction(f):
    """``log(1 + f)`` of a reduced argument as a sum of two."""
    square, lost = product_of_two(f, f)
    half = square * 0.5
    high, low = sum_of_sorted(f, -half)
    low = fma(lost, -0.5, low)
    if f.type.name == "float32":
        return high, fma(square * f, polynomial(f, LOG), low)
    s = f / (f + 2.0)
    z = s * s
    return high, low + s * fma(polynomial(z, LOG_DOUBLE), z, half)


def _with_exponent(e, step, value, rest):
    """``e`` times the sum of two ``step``, plus another sum of two."""
    total, lost = sum_of_sorted(e * step[0], value)
    total = select(e == 0, value, total)
    return total + (select(e == 0, 0.0, lost) + fma(e, step[1], rest))


def _log_of_parts(f, e):
    """``log(1 + f) + e ln 2``."""
    return _with_exponent(e, pick(f, LN2, LN2_DOUBLE), *_log_of_fraction(f))


def _log_edges(x, zero, inside):
    """The values of a logarithm where ``x - zero`` is not positive and finite."""
    outside = select(x == zero, Const(x.type, -INF), NAN)
    return select(x > zero, select(x == INF, x, inside), outside)


def _normal_parts(x, least):
    """A positive normal number as ``m 2^e`` with ``m`` from ``least`` to twice that.

    Returns:
        ``m, e`` and the bits whose upper part is the exponent, all above it zero.
    """
    form = format_of(x)
    bias = form.bias << form.mantissa
    pattern = bits(x) - (literal_bits(least, x) - bias)
    fraction = pattern & ((1 << form.mantissa) - 1)
    m = from_bits(fraction + literal_bits(least, x), x)
    # Shifts and casts of signed words of 64 bits are several instructions by AVX2.
    pattern = Reinterpret(Type(f"uint{form.bits}").like(x.type), pattern)
    whole = 2.0**form.mantissa
    e = from_bits((pattern >> form.mantissa) | literal_bits(whole, x), x)
    return m, e - (whole + form.bias), pattern


def short_log(x):
    """`log` of a positive normal float64 to ten digits."""
    m, e, _ = _normal_parts(x, math.sqrt(0.5))
    f = m - 1.0
    value = fma(f * f, fma(f, polynomial(f, LOG_SHORT), -0.5), f)
    return fma(e, LOG_OF_TWO, value)


def log1p(x):
    """As `log`, with the fraction of ``1 + x`` formed without rounding it first."""
    return _log1p(x, None)


def _log1p(x, low):
    """`log1p` of ``x + low``, where there is a second part."""
    form = format_of(x)
    huge = x > 2.0**60
    scaled = select(huge, x * 2.0**-64, x)
    one = select(huge, Const(x.type, 0.0), 1.0)
    pattern = bits(scaled + one)
    k = (pattern - literal_bits(math.sqrt(0.5), x)) >> form.mantissa
    inverse = power_of_two(-k, x)
    f, lost = sum_of_two(scaled * inverse, fma(one, inverse, -1.0))
    lost = lost if low is None else fma(low, inverse, lost)
    e = ir.cast(x.type, k) + select(huge, Const(x.type, 64.0), 0.0)
    high, rest = _log_of_fraction(f)
    step = pick(x, LN2, LN2_DOUBLE)
    result = _with_exponent(e, step, high, rest + lost / (f + 1.0))
    result = _log_edges(x, -1.0, result)
    return select(abs(x) < form.tiny, x, result)


def _log_in_base(x, scale, step):
    """``scale log(m) + step e`` for ``x = m 2^e``; both factors are sums of two."""
    f, e = _split(x)
    value, rest = sum_of_sorted(*_log_of_fraction(f))
    product, lost = product_of_two(value, Const(x.type, scale[0]))
    rest = fma(rest, scale[0], fma(value, scale[1], lost))
    return _with_exponent(e, step, product, rest)


# One over the logarithm of a base, and the logarithm of two: float32's and float64's.
SCALES_OF_LOG2 = (
    (1.4426950216293335, 1.9259629911266175e-08),
    (LOG2_E, 2.0355273740931033e-17),
)
SCALES_OF_LOG10 = (
    (0.4342944920063019, -1.0103050052231683e-08),
    (0.4342944819032518, 1.098319650216765e-17),
)
STEPS_OF_LOG10 = (
    (0.301025390625, 4.6050389811952137e-06),
    (0.30102999566361177, 3.694239077158931e-13),
)


def far_log(x):
    """`log` of what is not normal and positive."""
    return _log_edges(x, 0.0, _log_of_parts(*_split(x)))


def far_log2(x):
    """As `far_log`."""
    scale = pick(x, *SCALES_OF_LOG2)
    return _log_edges(x, 0.0, _log_in_base(x, scale, (1.0, 0.0)))


def far_log10(x):
    """As `far_log`."""
    scale, step = pick(x, *SCALES_OF_LOG10), pick(x, *STEPS_OF_LOG10)
    return _log_edges(x, 0.0, _log_in_base(x, scale, step))


# Fractions are from here to twice that, by how many intervals they are cut into.
LEAST_FRACTIONS = {128: 181 / 256, 32: 45 / 64, 16: 11 / 16, 8: 11 / 16}
# By intervals, how far a number may be from the middle of its, in parts of it, and how many
# terms a series takes there: for the digits of float32, and of float64.
REACHES = {128: "0.00785", 32: "0.0313", 16: "0.0626", 8: "0.1251"}
TERMS_OF_LOG = {128: 7, 32: 5, 16: 12, 8: 6}
# To how many bits are inverses whose products are exact, or nearly so.
SHORT_INVERSES = {8: 4, 128: 8}


def _pieces_of_log(x):
    """How many intervals a logarithm has: of a float32 as many as one instruction picks.

    Choosing between registers of a longer table takes longer than further terms by AVX2;
    rows of a long one take less, but for as many lanes as those of float32.
    """
    if x.type.name == "float32":
        return 8 if permuted_floats() == 8 else 32
    return 128 if rows_from_memory() else 16


@functools.cache
def _middles(count):
    """Inverses of the middles of ``count`` intervals of the fraction, to ten bits.

    The two beside one have one. Some are to four or eight bits, so that a number's product
    with one, less one, hardly exceeds its format.
    """
    least = LEAST_FRACTIONS[count] * 2 * count
    below = int(2 * count - least)  # so many are below one, and half as wide
    inverses, whole = [], 2 ** SHORT_INVERSES.get(count, 10)
    for k in range(count):
        first = least + k if k < below else count + k - below
        middle = (first + 0.5) / (2 * count if k < below else count)
        inverses.append(round(whole / middle) / whole)
    inverses[below - 1] = inverses[below] = 1.0
    return tuple(inverses)


@functools.cache
def _logs_of_inverses(base, count):
    """Of each interval, in a base or e: to so few bits that sums are exact; the rest."""
    bits_below = 16 if count in (8, 32) else 41
    with localcontext() as context:
        context.prec = 40
        scale = Decimal(base).ln() if base else 1
        logs = [-Decimal(inverse).ln() / scale for inverse in _middles(count)]
        high = [round(float(log) * 2**bits_below) / 2**bits_below for log in logs]
        return high, [
            float(log - Decimal(h)) for log, h in zip(logs, high, strict=True)
        ]


@functools.cache
def _short_logs_of_inverses():
    """Of each interval of a float64."""
    return [-math.log(inverse) for inverse in _middles(16)]


@functools.cache
def _log_of_rest(first, terms, pieces):
    """``log(1 + r)`` from its power ``first`` on, as far as intervals reach."""
    with localcontext() as context:
        context.prec = 40
        series = [(-1) ** (n + 1) / Decimal(n) for n in range(first, first + 60)]
        reach = Decimal(REACHES[pieces])
        return tuple(float(term) for term in shortened(series, reach, terms))


def _by_exponent_range(x, count, columns):
    """A normal number as ``2^e (1 + r + lost) / inverse``, by the table's inverse.

    Returns:
        ``e, r, lost`` and what else there is of the interval; nothing is lost of few.
    """
    m, e, pattern = _normal_parts(x, LEAST_FRACTIONS[count])
    index = pattern >> format_of(x).mantissa + 1 - count.bit_length()
    inverse, *more = looked_up(index, x, [_middles(count), *columns])
    if count in SHORT_INVERSES:
        return e, fma(m, inverse, -1.0), None, more
    product = m * inverse
    return e, product - 1.0, fma(m, inverse, -product), more


def _log_by_table(x, base, step, scale):
    """The logarithm of a normal number: a table's, and a short series of the rest.

    ``step`` is the logarithm of two as a sum of two and ``scale`` that of e.
    """
    count = _pieces_of_log(x)
    logs = _logs_of_inverses(base, count)
    e, r, lost, (start, rest) = _by_exponent_range(x, count, logs)
    start = fma(e, step[0], start)
    rest = fma(e, step[1], rest) if step[1] else rest
    line, curve, square = _curve_of_log(r, lost, count)
    if scale:
        high = line * scale[0]
        more = fma(line, scale[1], fma(line, scale[0], -high))
        curve = curve if square is None else curve * square
        line, rest = high, rest + fma(curve, scale[0], more)
    else:
        rest = rest + curve if square is None else fma(curve, square, rest)
    total, lost = sum_of_sorted(start, line)
    return total + (lost + rest)


def _curve_of_log(r, lost, count):
    """``log(1 + r)`` as ``line + curve square``; a square of None stands for one."""
    terms = TERMS_OF_LOG[count]
    curve, square = polynomial(r, _log_of_rest(2, terms, count)), r * r
    if lost is None:
        return r, curve, square
    return r, fma(curve, square, fma(-r, lost, lost)), None


def log_of_normal(x):
    """`log` of a positive normal number; anything for others."""
    return _log_by_table(x, None, pick(x, LN2, LN2_DOUBLE), None)


def fine_log_of_normal(pair, halvings=0.0, third=False):
    """The logarithm of a float64 and a small second part, to 64 bits: a sum of two.

    Args:
        pair: both; the second may be None.
        halvings: of both, how often they are to be halved before.
        third: whether the third power is exact, too: 66 bits, as the largest powers need.
    """
    x, second = pair
    columns = *_logs_of_inverses(None, 16), _middles(16)
    e, r, lost, (high, low, inverse) = _by_exponent_range(x, 16, columns)
    if second is not None:
        lost = fma(second * power_of_two(-ir.cast(ir.i64, e), x), inverse, lost)
    e = e - halvings
    square, missed = product_of_two(r, r)
    start = fma(e, LN2_DOUBLE[0], high)
    total, first = sum_of_sorted(start, r)
    total, more = sum_of_sorted(total, square * -0.5)
    if third:
        cube, cube_missed = product_of_two(square, r)
        part, part_missed = product_of_two(cube, Const(x.type, THIRD[0]))
        total, most = sum_of_sorted(total, part)
        more = more + most
        cube_missed = fma(missed, r, cube_missed)
        missed = fma(cube_missed, THIRD[0], fma(missed, -0.5, part_missed))
        curve = fma(polynomial(r, _log_of_rest(4, 10, 16)), square * square, missed)
        curve = fma(cube, THIRD[1], curve)
    else:
        curve = fma(polynomial(r, _log_of_rest(3, 11, 16)), square * r, missed * -0.5)
    rest = fma(e, LN2_DOUBLE[1], low)
    rest = rest + fma(lost, fma(r, r - 1.0, 1.0), curve)
    return sum_of_sorted(total, (first + more) + rest)


def _log(x, name, *how):
    """By the table where a number is normal and positive."""
    far = ir.Call(f"far_{name}", x.type, x)
    return ir.Rarely(~_is_normal(x), far, _log_by_table(x, *how))


def _is_normal(x):
    """Whether a number is positive, normal and finite, by one comparison of its bits."""
    form = format_of(x)
    least = literal_bits(form.tiny, x)
    lowest = 1 << form.bits - 1  # what is below a normal number wraps to above it
    return (bits(x) - (least - lowest)) < (literal_bits(INF, x) - least - lowest)


def log(x):
    """Exponent and fraction apart; a polynomial on the fraction."""
    return _log(x, "log", None, pick(x, LN2, LN2_DOUBLE), None)


def log2(x):
    """The exponent plus the fraction's logarithm over ``ln 2``."""
    return _log(x, "log2", 2, (1.0, 0.0), pick(x, *SCALES_OF_LOG2))


def log10(x):
    """The exponent times ``log10(2)`` plus the fraction's logarithm over ``ln 10``."""
    return _log(x, "log10", 10, pick(x, *STEPS_OF_LOG10), pick(x, *SCALES_OF_LOG10))


def sigmoid(x):
    """``1 / (1 + exp(-x))`` through ``exp(-|x|)``, which does not overflow."""
    small = exp(-abs(x))
    return select(x < 0, small, 1.0) / (small + 1.0)


def tanh(x):
    """From a table's place by the rule for sums; of a float32, in pieces."""
    a = abs(x)
    if x.type.name == "float32" and threads_alone():
        return copysign(tableless.tanh(a, exp_in_range), x)
    if x.type.name == "float32":
        return copysign(_short_tanh(a), x)
    return copysign(_tanh_by_intervals(a), x)


TANH_INTERVALS = 64  # from one whole number to the next
LAST_PLACE = 20 * TANH_INTERVALS  # the function is one from before here on
TANH_OF_STEP = (  # tanh(d) / d - 1, in d^2
    -0.3333333333333333,
    0.1333333333333333,
    -0.05396821,
)


@functools.cache
def _tanh_of_intervals():
    """At places, and for as many as make a power of two."""
    with localcontext() as context:
        context.prec = 40
        shrink, small, values = (Decimal(-2) / TANH_INTERVALS).exp(), Decimal(1), []
        for _ in range(LAST_PLACE + 1):
            values.append((1 - small) / (1 + small))
            small *= shrink
    return values + [Decimal(1)] * (2048 - len(values))


def _tanh_by_intervals(a):
    """With ``t`` of a place and ``u`` of what is left: ``(t + u) / (1 + t u)``.

    As what it is more than ``t`` plus what is left.
    """
    end = LAST_PLACE / TANH_INTERVALS
    near = select(a > end, end, a)
    whole, index = nearest(near, float(TANH_INTERVALS))
    d = fma(whole, -1 / TANH_INTERVALS, near)
    t, low = (lookup(index, a, part) for part in parts(_tanh_of_intervals(), a))
    total, lost = sum_of_sorted(t, d)
    z = d * d
    more = polynomial(z, TANH_OF_STEP) * z
    line = fma(t, more, t)
    product = line * d
    square = product * product
    inverse = fma(1.0 - product, square, 1.0 - product)
    inverse = fma(inverse, square * square, inverse)
    share = fma(-line, total, more) * inverse
    return total + (fma(d, share, low) + lost)


TANH_END = 9.5  # from here on it rounds to one


def _tanh_pieces(first, each, count):
    """The middles of ``each`` pieces for each power of two, and one around zero.

    ``first`` is the exponent from which they go on.
    """
    return (
        (0.0, 2.0**first),
        *(
            ((2 * (each + k) + 1) / (2 * each) * 2.0**e, 2.0**e / (2 * each))
            for e in range(first, first + count)
            for k in range(each)
        ),
    )[:count]


def _short_tanh(a):
    """By pieces: four for each power of two, or two."""
    few = permuted_floats() == 8
    first, each, count, degree = (-3, 2, 16, 8) if few else (-4, 4, 32, 6)
    intervals = _tanh_pieces(first, each, count)
    near = select(a > TANH_END, TANH_END, a)
    shift = format_of(a).mantissa + 1 - each.bit_length()
    index = ((bits(near) - literal_bits(2.0**first, a)) >> shift) + 1
    index = select(index < 0, 0, index)
    d = near - lookup(index, a, [middle for middle, _ in intervals])
    high, low = fine_curve(d, index, pieces(series.tanh, intervals, degree))
    return high + low


def _half_exp(x):
    """``exp(x) / 2``, which is finite a little further than ``exp(x)``."""
    r, low, k = _reduced(clamp(x, *pick(x, (-104.0, 90.0), (-746.0, 711.0))))
    return scaled(_exp_of_parts(r, low), k - 1)


STEPS = 16  # of a power of two, in a table
COSH_OF_REST = (0.5, 0.041666666666666664)
SINH_OF_REST = (0.16666666666666666, 0.008333333333333333)


def _short_hyperbolic(x):
    """Half the sum and half the difference of ``exp(x)`` and its inverse.

    As both are of what is left of ``x`` beside a table's power of two: no digits are
    lost where they are close.
    """
    x = clamp(x, -100.0, 100.0)
    magic = format_of(x).magic
    shifted = fma(x, LOG2_E * STEPS, magic)
    k, whole = bits(shifted) - literal_bits(magic, x), shifted - magic
    r = fma(whole, -LOG_OF_TWO / STEPS, x)
    powers = [2.0 ** (j / STEPS - 1) for j in range(STEPS)]
    up, down = (
        from_bits(bits(lookup(n, x, powers)) + (n >> 4 << 52), x) for n in (k, -k)
    )
    z = r * r
    even = fma(polynomial(z, COSH_OF_REST), z, 1.0)
    odd = fma(polynomial(z, SINH_OF_REST) * z, r, r)
    total, gap = up + down, up - down
    return fma(total, even, gap * odd), fma(gap, even, total * odd)


@spares_doubles(in_double_or_short, False)
def sinh(x, short):
    """``t + t / (2 t + 1)`` with ``t = (exp(|x|) - 1) / 2``; ``exp(|x|) / 2`` far out."""
    if short:
        return copysign(_short_hyperbolic(x)[1], x)
    a = abs(x)
    high, low = sum_of_sorted(*_expm1(a))
    bottom, rest = sum_of_two(Const(x.type, 1.0), high * 2.0)
    value, more = over((high, low), (bottom, fma(low, 2.0, rest)))
    total, lost = sum_of_sorted(high, value)
    near = total + (lost + (low + more))
    near = select(a < format_of(x).tiny, a, near)
    return copysign(select(a > 40.0, _half_exp(a), near), x)


@spares_doubles(in_double_or_short, False)
def cosh(x, short):
    """``(e + 1 / e) / 2`` with ``e = exp(|x|)``."""
    if short:
        return _short_hyperbolic(x)[0]
    a = clamp(abs(x), *pick(x, (0.0, 90.0), (0.0, 711.0)))
    if x.type.name == "float32":
        half = _half_exp(a)
        return half + 0.25 / half
    high, low, k = exp_in_two_parts(a, Const(x.type, 0.0))
    scale = power_of_two(k - 1, x)
    half, rest = high * scale, low * scale
    other = 0.25 / half
    missed = fma(-other, half, 0.25) - other * rest
    total, lost = sum_of_sorted(half, other)
    near = total + (lost + fma(missed, other * 4.0, rest))
    return select(a < 40.0, near, scaled(high + low, k - 1))


@spares_doubles(in_double)
def asinh(x):
    """``log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))``; ``log(2 |x|)`` far out."""
    a = abs(x)
    far = a > 2.0**28
    near = select(far, Const(x.type, 1.0), a)
    square = near * near
    inner = near + square / (root(square + 1.0) + 1.0)
    value = log1p(select(far, a - 1.0, inner))
    return copysign(select(far, value + LOG_OF_TWO, value), x)


@spares_doubles(in_double)
def acosh(x):
    """``log1p(t + sqrt(2 t + t^2))`` with ``t = x - 1``; ``log(2 x)`` far out."""
    far = x > 2.0**28
    t = select(far, Const(x.type, 1.0), x - 1.0)
    inner = t + root(fma(t, t, t + t))
    value = log1p(select(far, x - 1.0, inner))
    return select(x < 1.0, NAN, select(far, value + LOG_OF_TWO, value))


@spares_doubles(in_double_or_short, False)
def atanh(x, short):
    """``log1p(2 x / (1 - x)) / 2``."""
    a = abs(x)
    if short:
        inside = select(a < 1.0, a, 0.5)
        value = short_log(short_quotient(1.0 + inside, 1.0 - inside)) * 0.5
        value = select(a < 2.0**-10, fma(a * a * a, 1 / 3, a), value)
        value = select(a < 1.0, value, select(a == 1.0, Const(x.type, INF), NAN))
        return copysign(value, x)
    bottom, lost = sum_of_sorted(Const(x.type, 1.0), -a)
    t, rest = over((a + a, Const(x.type, 0.0)), (bottom, lost))
    rest = select(a < 1.0, rest, 0.0)
    return copysign(_log1p(t, rest) * 0.5, x)


def log_in_two_parts(x):
    """``log(x)`` of a positive number as a sum of two.

    About 68 bits are right, which the largest powers need.
    """
    f, e = _split(x)
    high, low = pick(x, LN2, LN2_DOUBLE)
    zero, two = Const(x.type, 0.0), Const(x.type, 2.0)
    s = sum_of_sorted(*over((f, zero), sum_of_sorted(two, f)))
    z = times(s, s)
    rest = (z[0] * polynomial(z[0], LOG_FINE), zero)
    rest = plus(_pair(x, TWO_FIFTHS), rest)
    rest = plus(_pair(x, TWO_THIRDS), times(z, rest))
    fraction = plus((s[0] * 2.0, s[1] * 2.0), times(times(s, z), rest))
    whole, error = sum_of_two(e * high, fraction[0])
    return sum_of_sorted(whole, error + fma(e, low, fraction[1]))


def _pair(x, parts):
    first = rounded(parts[0], x)
    return Const(x.type, first), Const(x.type, parts[0] - first + parts[1])


def _short_power(x, y):
    """``x`` to ``y`` of float32 for positive ``x``, by way of float64.

    The logarithm's last digits are no digits of the result.
    """
    wide, power = ir.cast(ir.f64, x), ir.cast(ir.f64, y)
    m, e, pattern = _normal_parts(wide, LEAST_FRACTIONS[16])
    index = pattern >> format_of(wide).mantissa - 4
    r = fma(m, lookup(index, wide, _middles(16)), -1.0)  # exact
    start = fma(e, LOG_OF_TWO, lookup(index, wide, _short_logs_of_inverses()))
    log = start + fma(polynomial(r, _log_of_rest(2, 6, 16)), r * r, r)
    return ir.cast(x.type, short_exp(clamp(log * power, -200.0, 200.0)))


def _power_of_magnitude(x, y):
    """``x`` to ``y`` for positive finite ``x``; a device reads no tables for it."""
    if x.type.name == "float64" and not threads_alone():
        small = x < format_of(x).tiny
        whole = select(small, x * 2.0**54, x), None
        halvings = select(small, Const(x.type, 54.0), 0.0)
        high, low = fine_log_of_normal(whole, halvings, third=True)
    else:
        high, low = log_in_two_parts(x)
    product, rest = product_of_two(high, y)
    rest = fma(low, y, rest)
    limited = clamp(product, *pick(x, (-150.0, 150.0), (-800.0, 800.0)))
    rest = select(product == limited, rest, 0.0)
    r, lost, k = _reduced(limited)
    return scaled(_exp_of_parts(*sum_of_two(r, rest + lost)), k)


def _pow_of_floats(x, y):
    """The power of the magnitude, then C's cases by sign, zero and infinity."""
    a = abs(x)
    wide = x.type.name == "float32" and not threads_alone()
    value = (_short_power if wide else _power_of_magnitude)(a, y)
    grows = (a > 1.0) == (y > 0.0)
    extreme = (abs(y) == INF) | (a == INF) | (a == 0.0)
    value = select(extreme, select(grows, Const(x.type, INF), 0.0), value)
    whole = ir.Call("floor", y.type, y) == y
    half = y * 0.5
    odd = whole & (ir.Call("floor", y.type, half) != half) & (abs(y) < 2.0**53)
    negative = bits(x) < 0
    value = select(negative & odd, -value, value)
    bad = (x < 0.0) & ~whole & (a != INF)
    value = select(bad, NAN, value)
    value = select((x != x) | (y != y), NAN, value)
    return select((x == 1.0) | (y == 0.0) | ((a == 1.0) & (abs(y) == INF)), 1.0, value)


def _pow_of_integers(x, y):
    """Repeated squaring; a negative exponent leaves powers of one and minus one."""
    result, square, left = Const(x.type, 1), x, y
    for _ in range(x.type.bits - (1 if x.type.is_signed else 0)):
        result = select((left & 1) != 0, result * square, result)
        square = square * square
        left = left >> 1
    if not x.type.is_signed:
        return result
    sign = select((y & 1) != 0, x, 1)
    inverse = select((x == 1) | (x == -1), sign, 0)
    return select(y < 0, inverse, result)


def pow_(x, y):
    """``x`` to the power ``y``."""
    return _pow_of_floats(x, y) if x.type.is_float else _pow_of_integers(x, y)


pow_.__name__ = "pow"
FUNCTIONS = (
    exp,
    far_exp,
    exp2,
    far_exp2,
    expm1,
    log,
    far_log,
    log1p,
    log2,
    far_log2,
    log10,
    far_log10,
    sigmoid,
    tanh,
    sinh,
    cosh,
    asinh,
    acosh,
    atanh,
    pow_,
)
