"""Exponentials, logarithms, powers, and the hyperbolic functions made of them."""

from __future__ import annotations

import math

from rushlight.compiler import expr as ir
from rushlight.compiler.expr import Const, select
from rushlight.compiler.mathematics.formats import (
    bits,
    clamp,
    copysign,
    fma,
    format_of,
    from_bits,
    in_double,
    literal_bits,
    pick,
    polynomial,
    power_of_two,
    root,
)

INF, NAN = math.inf, math.nan
# ln 2 in two parts; the first has so few bits that its multiples are exact.
LN2 = (0.693145751953125, 1.4286068203094173e-06)
LN2_DOUBLE = (0.6931471803691238, 1.9082149292705877e-10)
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
    0.50000000000000129,
    0.166666666666667,
    0.041666666666514351,
    0.0083333333333069179,
    0.0013888888947325883,
    0.00019841269917982472,
    2.4801489594553797e-5,
    2.7557215770152794e-6,
    2.7631412802975812e-7,
    2.5118029327025386e-8,
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
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for the same f with s = f / (2 + f).
LOG_DOUBLE = (
    0.66666666666667349,
    0.39999999999411142,
    0.28571428743259533,
    0.22222198475695078,
    0.18183569780104415,
    0.15313901705913668,
    0.14797527163326504,
)

# (tanh(x) - x) / x^3 in x^2, on |x| < 0.62.
TANH = (
    -0.33333331110438195,
    0.13333218357616754,
    -0.053948359975070891,
    0.021709656894458156,
    -0.0082000599714362906,
    0.0021641957029827146,
)


def _reduced(x):
    """``x`` as ``k ln 2 + r`` with ``|r| <= ln(2) / 2``: the pair ``r, k``."""
    form = format_of(x)
    high, low = pick(x, LN2, LN2_DOUBLE)
    shifted = fma(x, LOG2_E, form.magic)
    k = bits(shifted) - literal_bits(form.magic, x)
    whole = shifted - form.magic
    return fma(whole, -low, fma(whole, -high, x)), k


def _exp_less_one(r):
    """``exp(r) - 1`` for a reduced argument."""
    return fma(polynomial(r, pick(r, EXP, EXP_DOUBLE)), r * r, r)


def _scaled(x, k):
    """``x`` times two to ``k``; in two steps, so that subnormals round once."""
    half = k >> 1
    return x * power_of_two(half, x) * power_of_two(k - half, x)


def exp(x):
    """``k = round(x / ln 2)``; a polynomial on the rest; scaled by two to ``k``."""
    r, k = _reduced(clamp(x, *pick(x, (-105.0, 89.0), (-746.0, 710.0))))
    return _scaled(_exp_less_one(r) + 1.0, k)


def exp2(x):
    """As `exp`, with an exact reduction."""
    form = format_of(x)
    x = clamp(x, *pick(x, (-151.0, 129.0), (-1076.0, 1025.0)))
    shifted = x + form.magic
    k = bits(shifted) - literal_bits(form.magic, x)
    rest = x - (shifted - form.magic)
    high, low = pick(x, LN2, LN2_DOUBLE)
    return _scaled(_exp_less_one(fma(rest, high, rest * low)) + 1.0, k)


def _expm1(x):
    """`expm1` without the care for negative zero."""
    r, k = _reduced(clamp(x, *pick(x, (-20.0, 89.0), (-40.0, 710.0))))
    scale = power_of_two(k - 1, x)  # half of it, which does not overflow
    return fma(_exp_less_one(r), scale, scale - 0.5) * 2.0


def expm1(x):
    """``2^k (exp(r) - 1) + (2^k - 1)``, exact near zero."""
    return select(x == 0, x, _expm1(x))


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


def _log_tail(f):
    """``log(1 + f) - f`` for a reduced argument."""
    if f.type.name == "float32":
        return f * f * fma(polynomial(f, LOG), f, -0.5)
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    return s * (half + z * polynomial(z, LOG_DOUBLE)) - half


def _log_of_parts(f, e):
    """``log(1 + f) + e ln 2``."""
    high, low = pick(f, LN2, LN2_DOUBLE)
    return fma(e, high, f + fma(e, low, _log_tail(f)))


def _log_edges(x, zero, inside):
    """The values of a logarithm where ``x - zero`` is not positive and finite."""
    outside = select(x == zero, Const(x.type, -INF), NAN)
    return select(x > zero, select(x == INF, x, inside), outside)


def log(x):
    """Exponent and fraction apart; a polynomial on the fraction."""
    return _log_edges(x, 0.0, _log_of_parts(*_split(x)))


def log1p(x):
    """As `log`, with the fraction of ``1 + x`` formed without rounding it first."""
    form = format_of(x)
    huge = x > 2.0**60
    scaled = select(huge, x * 2.0**-64, x)
    one = select(huge, Const(x.type, 0.0), 1.0)
    pattern = bits(scaled + one)
    k = (pattern - literal_bits(math.sqrt(0.5), x)) >> form.mantissa
    inverse = power_of_two(-k, x)
    f = fma(scaled, inverse, fma(one, inverse, -1.0))
    e = ir.cast(x.type, k) + select(huge, Const(x.type, 64.0), 0.0)
    result = _log_edges(x, -1.0, _log_of_parts(f, e))
    return select(x == 0, x, result)


def _log_in_base(x, high, low):
    """``log(m)`` times ``high + low`` as a sum of two, and ``e``, for ``x = m 2^e``."""
    f, e = _split(x)
    tail = _log_tail(f)
    total = f + tail
    lost = (f - total) + tail
    product = total * high
    rest = fma(total, high, -product) + fma(total, low, lost * high)
    return product, rest, e


def log2(x):
    """The exponent plus the fraction's logarithm over ``ln 2``."""
    product, rest, e = _log_in_base(
        x,
        *pick(
            x,
            (1.4426950216293335, 1.9259629911266175e-08),
            (LOG2_E, 2.0355273740931033e-17),
        ),
    )
    return _log_edges(x, 0.0, (e + product) + rest)


def log10(x):
    """The two parts of the logarithm over ``ln 10``."""
    product, rest, e = _log_in_base(
        x,
        *pick(
            x,
            (0.4342944920063019, -1.0103050052231683e-08),
            (0.4342944819032518, 1.098319650216765e-17),
        ),
    )
    high, low = pick(
        x,
        (0.3010300099849701, -1.4320988897559699e-08),
        (0.3010299956639812, -2.8037281277851704e-18),
    )
    return _log_edges(x, 0.0, fma(e, high, fma(e, low, rest) + product))


def sigmoid(x):
    """``1 / (1 + exp(-x))`` through ``exp(-|x|)``, which does not overflow."""
    small = exp(-abs(x))
    return select(x < 0, small, 1.0) / (small + 1.0)


def tanh(x):
    """``1 - 2 / (exp(2 |x|) + 1)``; near zero an odd polynomial.

    In float64 ``-t / (t + 2)`` with ``t = exp(-2 |x|) - 1``, which serves both.
    """
    a = abs(x)
    if x.type.name == "float64":
        t = _expm1(a * -2.0)
        return copysign(t / (t + 2.0), x)
    z = x * x
    near = fma(polynomial(z, TANH), z * x, x)
    far = 1.0 - 2.0 / (exp(a + a) + 1.0)
    return copysign(select(a < 0.62, near, far), x)


def _half_exp(x):
    """``exp(x) / 2``, which is finite a little further than ``exp(x)``."""
    r, k = _reduced(clamp(x, *pick(x, (-104.0, 90.0), (-746.0, 711.0))))
    return _scaled(_exp_less_one(r) + 1.0, k - 1)


@in_double
def sinh(x):
    """``(t + t / (t + 1)) / 2`` with ``t = exp(|x|) - 1``; ``exp(|x|) / 2`` far out."""
    a = abs(x)
    t = _expm1(a)
    near = (t + t / (t + 1.0)) * 0.5
    return copysign(select(a > 40.0, _half_exp(a), near), x)


@in_double
def cosh(x):
    """``(e + 1 / e) / 2`` with ``e = exp(|x|)``."""
    half = _half_exp(abs(x))
    return half + 0.25 / half


@in_double
def asinh(x):
    """``log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))``; ``log(2 |x|)`` far out."""
    a = abs(x)
    far = a > 2.0**28
    near = select(far, Const(x.type, 1.0), a)
    square = near * near
    inner = near + square / (root(square + 1.0) + 1.0)
    value = log1p(select(far, a - 1.0, inner))
    return copysign(select(far, value + LOG_OF_TWO, value), x)


@in_double
def acosh(x):
    """``log1p(t + sqrt(2 t + t^2))`` with ``t = x - 1``; ``log(2 x)`` far out."""
    far = x > 2.0**28
    t = select(far, Const(x.type, 1.0), x - 1.0)
    inner = t + root(fma(t, t, t + t))
    value = log1p(select(far, x - 1.0, inner))
    return select(x < 1.0, NAN, select(far, value + LOG_OF_TWO, value))


@in_double
def atanh(x):
    """``log1p(2 x / (1 - x)) / 2``."""
    a = abs(x)
    return copysign(log1p((a + a) / (1.0 - a)) * 0.5, x)


def _log_in_two_parts(x):
    """``log(x)`` of a positive number as a sum of two, about 60 bits right."""
    f, e = _split(x)
    d = f + 2.0
    s = f / d
    rest = (fma(-s, d, f) - s * (f - (d - 2.0))) / d
    z = s * s
    tail = fma(rest, 2.0, s * z * polynomial(z, LOG_DOUBLE))
    high, low = LN2_DOUBLE
    whole = e * high
    head = whole + 2.0 * s
    # Neither summand dominates, so the sum's error is found the long way.
    back = head - whole
    error = (whole - (head - back)) + (2.0 * s - back)
    return head, error + fma(e, low, fma(e, high, -whole) + tail)


def _power_of_magnitude(x, y):
    """``x`` to ``y`` for positive finite ``x``."""
    high, low = _log_in_two_parts(x)
    product = high * y
    rest = fma(high, y, -product) + low * y
    limited = clamp(product, -800.0, 800.0)
    rest = select(product == limited, rest, 0.0)
    r, k = _reduced(limited)
    return _scaled(_exp_less_one(r + rest) + 1.0, k)


@in_double
def _pow_of_floats(x, y):
    """The power of the magnitude, then C's cases by sign, zero and infinity."""
    a = abs(x)
    value = _power_of_magnitude(a, y)
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
    exp2,
    expm1,
    log,
    log1p,
    log2,
    log10,
    sigmoid,
    tanh,
    sinh,
    cosh,
    asinh,
    acosh,
    atanh,
    pow_,
)
