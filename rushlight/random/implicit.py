"""How gamma and beta numbers move with their parameters at a fixed quantile.

If ``F(x; a)`` is the distribution function and ``f`` the density, then along ``F = const``

    dx/da = -(dF/da) / f.

Both functions have expansions whose ratio to the density is of order one, so they are
differentiated term by term and nothing underflows: a series or a continued fraction
carries its derivative along. (M. Figurnov, S. Mohamed, A. Mnih: Implicit
Reparameterization Gradients, 2018; the fractions are in the NIST handbook, 8.9 and 8.17.)
"""

import cython
from cython.cimports.libc.math import fabs, isfinite, log, sqrt
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.rushlight.core.dtype import CODE_FLOAT32
from cython.cimports.rushlight.random.distributions import BLOCK, left_of, load, store

STEPS = cython.declare(cython.int, 20000)
# Where an expansion ends, for elements of float64 and of float32.
PRECISION = cython.declare(cython.double, 1e-14)
SINGLE_PRECISION = cython.declare(cython.double, 1e-9)
# From this shape on the expansions get long, and a normal number's quantile is as good.
LARGE = cython.declare(cython.double, 1e5)
NAN = cython.declare(cython.double, float("nan"))


@cython.cfunc
@cython.exceptval(check=False)
def digamma(x: cython.double) -> cython.double:
    """The derivative of ``log(gamma(x))`` for positive ``x``."""
    total: cython.double = 0.0
    while x < 10:
        total = total - 1.0 / x
        x = x + 1.0
    y: cython.double = 1.0 / (x * x)
    tail: cython.double = y * (
        1.0 / 12
        - y
        * (
            1.0 / 120
            - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691.0 / 32760)))
        )
    )
    return total + log(x) - 0.5 / x - tail


# Gamma.


@cython.cfunc
@cython.exceptval(check=False)
def gamma_below(
    x: cython.double, a: cython.double, precision: cython.double
) -> cython.double:
    """From the series of the lower function: ``P / f = x / a * sum x^n / (a + 1)_n``."""
    term: cython.double = 1.0
    slope: cython.double = log(x) - digamma(a + 1)  # the logarithmic one of a term
    total: cython.double = slope
    inverse: cython.double
    n: cython.int
    for n in range(1, STEPS):
        inverse = 1.0 / (a + n)
        term = term * x * inverse
        slope = slope - inverse
        total = total + term * slope
        if term * (fabs(slope) + 1) < precision * fabs(total) and x < a + n:
            break
    return -total * x / a


@cython.cfunc
@cython.exceptval(check=False)
def gamma_above(
    x: cython.double, a: cython.double, precision: cython.double
) -> cython.double:
    """From the continued fraction of the upper function, ``Q / f = x * fraction``.

    The fraction is evaluated by Lentz's method with its derivative by ``a`` beside it.
    """
    b: cython.double = x + 1 - a
    c: cython.double = 1e300
    dc: cython.double = 0.0
    d: cython.double = 1.0 / b
    dd: cython.double = d * d  # b falls with a
    value: cython.double = d
    slope: cython.double = dd
    top: cython.double
    delta: cython.double
    change: cython.double
    n: cython.int
    for n in range(1, STEPS):
        top = -n * (n - a)
        b = b + 2
        # d = 1 / (top * d + b), c = b + top / c, and their derivatives.
        dd = -(n * d + top * dd - 1)
        d = 1.0 / (top * d + b)
        dd = dd * d * d
        dc = n / c - top * dc / (c * c) - 1
        c = b + top / c
        delta = c * d
        change = dc * d + c * dd
        slope = slope * delta + value * change
        value = value * delta
        if fabs(delta - 1) < precision and fabs(change) < precision:
            break
    return x * ((log(x) - digamma(a)) * value + slope)


@cython.cfunc
@cython.exceptval(check=False)
def gamma_large(x: cython.double, a: cython.double) -> cython.double:
    """For large shapes, where the signed root of the deviance stays nearly constant.

    The deviance is ``2 * (x - a - a * log(x / a))``; what the root leaves out moves the
    derivative by ``1 / (6 * a)``.
    """
    gap: cython.double = (x - a) / a
    slope: cython.double = log(x / a) * x / (x - a)
    if fabs(gap) < 1e-3:  # the same in powers of the gap
        slope = 1 + gap * (0.5 - gap * (1.0 / 6 - gap / 12))
    return slope + 1.0 / (6 * a)


@cython.cfunc
@cython.exceptval(check=False)
def gamma_gradient(
    x: cython.double, a: cython.double, precision: cython.double
) -> cython.double:
    """``dx/da`` of a gamma number of unit rate."""
    if not (x > 0 and a > 0 and isfinite(x) and isfinite(a)):
        return NAN
    if a > LARGE:
        return gamma_large(x, a)
    # Up to here the series loses no more than six of sixteen digits, and is faster.
    if x < a + 4 * sqrt(a) + 6:
        return gamma_below(x, a, precision)
    return gamma_above(x, a, precision)


def fill_gamma_gradient(
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    shapes: uintptr_t,
    numbers: uintptr_t,
):
    """The derivatives of gamma numbers of unit rate by their shapes, element by element."""
    block: cython.double[BLOCK]
    values: cython.double[BLOCK]
    precision: cython.double = SINGLE_PRECISION if code == CODE_FLOAT32 else PRECISION
    start: int64_t = 0
    i: cython.int
    size: cython.int
    while start < count:
        size = left_of(count, start)
        load(code, cython.cast(cython.p_char, shapes), start, block, size)
        load(code, cython.cast(cython.p_char, numbers), start, values, size)
        for i in range(size):
            block[i] = gamma_gradient(values[i], block[i], precision)
        store(code, cython.cast(cython.p_char, address), start, block, size)
        start += size


# Beta.


@cython.cfunc
@cython.exceptval(check=False)
def beta_series(
    x: cython.double,
    a: cython.double,
    b: cython.double,
    first: cython.double,
    precision: cython.double,
    slope: cython.p_double,
) -> cython.double:
    """The same as `beta_fraction`, from ``sum x^n (a + b)_n / (a + 1)_n``."""
    term: cython.double = 1.0
    steepness: cython.double = 0.0  # the logarithmic slope of a term
    value: cython.double = 1.0
    change: cython.double = 0.0
    inverse: cython.double
    n: cython.int
    for n in range(STEPS):
        inverse = 1.0 / (a + 1 + n)
        term = term * x * (a + b + n) * inverse
        steepness = steepness + 1.0 / (a + b + n) - first * inverse
        value = value + term
        change = change + term * steepness
        # What follows is a geometric series of a ratio below 0.8.
        if 5 * term * (1 + fabs(steepness)) < precision * value:
            break
    slope[0] = change
    return value


@cython.cfunc
@cython.exceptval(check=False)
def beta_fraction(
    x: cython.double,
    a: cython.double,
    b: cython.double,
    first: cython.double,
    precision: cython.double,
    slope: cython.p_double,
) -> cython.double:
    """What the incomplete beta function is of ``x^a (1 - x)^b / (a B(a, b))``.

    A series where its terms fall fast, else a continued fraction by Lentz's method.

    Args:
        first: 1 for the derivative by ``a``, 0 for the one by ``b``.
        precision: how little a step may change where the fraction ends.
        slope: gets the derivative.
    """
    if x < 0.8 and x * (a + b) < 0.8 * (a + 1):
        return beta_series(x, a, b, first, precision, slope)
    second: cython.double = 1 - first
    c: cython.double = 1.0
    dc: cython.double = 0.0
    top: cython.double = -(a + b) * x / (a + 1)
    dtop: cython.double = -x / (a + 1) - first * top / (a + 1)
    d: cython.double = 1.0 / (1.0 + top)
    dd: cython.double = -dtop * d * d
    value: cython.double = d
    change: cython.double = dd
    delta: cython.double
    ddelta: cython.double
    n: cython.int
    m: cython.double
    for n in range(2, STEPS):
        m = n >> 1
        if n & 1:
            top = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
            dtop = top * (
                1.0 / (a + b + m)
                + first * (1.0 / (a + m) - 1.0 / (a + 2 * m) - 1.0 / (a + 2 * m + 1))
            )
        else:
            top = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
            dtop = second * m * x / ((a + 2 * m - 1) * (a + 2 * m)) - first * top * (
                1.0 / (a + 2 * m - 1) + 1.0 / (a + 2 * m)
            )
        dd = dtop * d + top * dd
        d = 1.0 / (1.0 + top * d)
        dd = -dd * d * d
        dc = dtop / c - top * dc / (c * c)
        c = 1.0 + top / c
        delta = c * d
        ddelta = dc * d + c * dd
        change = change * delta + value * ddelta
        value = value * delta
        if fabs(delta - 1) < precision and fabs(ddelta) < precision:
            break
    slope[0] = change
    return value


@cython.cfunc
@cython.exceptval(check=False)
def beta_gradient(
    x: cython.double, a: cython.double, total: cython.double, precision: cython.double
) -> cython.double:
    """``dx/da / (1 - x)`` of a beta number of parameters ``a`` and ``total - a``."""
    b: cython.double = total - a
    slope: cython.double
    value: cython.double
    if x == 0:
        return 0.0
    if not (0 < x <= 1 and a > 0 and b > 0 and isfinite(total)):
        return NAN
    if x * (total + 2) < a + 1:
        value = beta_fraction(x, a, b, 1.0, precision, cython.address(slope))
        return -(value * (log(x) - digamma(a + 1) + digamma(total)) + slope) * x / a
    value = beta_fraction(1 - x, b, a, 0.0, precision, cython.address(slope))
    return (value * (log(x) - digamma(a) + digamma(total)) + slope) * x / b


def fill_beta_gradient(
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    numbers: uintptr_t,
    shapes: uintptr_t,
    totals: uintptr_t,
):
    """``dx/da / (1 - x)`` of beta numbers, element by element.

    For a component of a Dirichlet number and its own concentration that is the
    derivative, but for the factor that the other components share.
    """
    block: cython.double[BLOCK]
    values: cython.double[BLOCK]
    sums: cython.double[BLOCK]
    precision: cython.double = SINGLE_PRECISION if code == CODE_FLOAT32 else PRECISION
    start: int64_t = 0
    i: cython.int
    size: cython.int
    while start < count:
        size = left_of(count, start)
        load(code, cython.cast(cython.p_char, numbers), start, values, size)
        load(code, cython.cast(cython.p_char, shapes), start, block, size)
        load(code, cython.cast(cython.p_char, totals), start, sums, size)
        for i in range(size):
            block[i] = beta_gradient(values[i], block[i], sums[i], precision)
        store(code, cython.cast(cython.p_char, address), start, block, size)
        start += size
