"""Incomplete gamma functions, in double precision whatever the type.

Near the order, and both large, Temme's uniform expansion; else the power series below the
order and the continued fraction above it. What is smaller is computed, so that it keeps
its digits.
"""

import math

from rushlight.codegen import language as L
from rushlight.codegen.frontend.branching import branching
from rushlight.codegen.language import erfc, exp, expm1, lgamma, log, sqrt
from rushlight.codegen.loops import T, f64, formula, loops_inline
from rushlight.operators.special import special_tables as tables

INF, NAN = math.inf, math.nan
TWO_PI = 2 * math.pi
ONE_OVER_ROOT = 1 / math.sqrt(TWO_PI)
FINE = 1 + 1e-10  # a number that only float64 tells from one


@formula
def gap_of_log(u):
    """``u - log1p(u)``: by its series where the two cancel."""
    total = 0.0 * u
    for k in range(20, 1, -1):
        total = total * u + (-1) ** k / k
    return L.select(abs(u) < 0.1, total * u * u, u - L.log1p(u))


@formula
def temme(a, eta):
    """Temme's sum: a polynomial in ``eta`` for each power of ``1 / a``."""
    total = 0.0 * a
    for row in reversed(tables.TEMME):
        inner = 0.0 * eta
        for value in reversed(row):
            inner = L.fma(inner, eta, L.constant(value, eta))
        total = total / a + inner
    return total


@formula
def log_gamma_near_one(a):
    """``log(gamma(1 + a))`` from zero to a half, by its power series."""
    total = 0.0 * a
    for value in reversed(LOG_GAMMA):
        total = total * a + value
    return total * a


@formula
def log_gamma_near_one_shorter(a):
    """The same for results of float32, even and odd powers side by side."""
    square = a * a
    even, odd = 0.0 * a, 0.0 * a
    for k in range(28, -1, -2):
        even = even * square + LOG_GAMMA[k]
        odd = odd * square + LOG_GAMMA[k + 1]
    return (odd * a + even) * a


def _zeta(k):
    """The Riemann zeta function at an integer from two on."""
    ends = 30
    total = sum(n**-k for n in range(1, ends))
    total += ends ** (1 - k) / (k - 1) + ends**-k / 2
    rising = k
    for j, weight in enumerate((1 / 12, -1 / 720, 1 / 30240)):
        total += weight * rising * ends ** (-k - 1 - 2 * j)
        rising *= (k + 2 * j + 1) * (k + 2 * j + 2)
    return total


LOG_GAMMA = [-0.5772156649015329] + [
    (-1) ** k * _zeta(float(k)) / k for k in range(2, 52)
]


@formula
def log_gamma_rest(a):
    """What Stirling's formula leaves of ``log(gamma(a))``, from ten on."""
    square = 1.0 / (a * a)
    total = 0.0 * a
    for value in reversed(
        (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
    ):
        total = total * square + value
    return total / a


@loops_inline
def least_share():
    """Terms below this share of a sum no longer count for the type."""
    fine = f64(T(FINE)) != 1.0
    return f64(1e-17) if fine else f64(1e-9)


@loops_inline
def log_of_power(a, x):
    """The logarithm of ``x^a / gamma(a + 1)`` for orders below ten."""
    value = f64(0)
    if a < 10.0:
        value = a * log(x) - log_gamma_next(a)
    return value


@loops_inline
def gamma_factor(a, x, power):
    """``x^a exp(-x) / gamma(a + 1)``; ``power`` is what `log_of_power` gives."""
    value = f64(0)
    if a < 10.0:
        value = exp(power - x)
    else:
        gap = gap_of_log((x - a) / a)
        value = exp(-a * gap - log_gamma_rest(a)) / sqrt(a * TWO_PI)
    return value


@loops_inline
def log_gamma_ten_on(a):
    """``log(gamma(10 + a) / sqrt(2 pi))``, by Stirling's formula."""
    at = a + 10.0
    value = (at - 0.5) * log(at) - at + log_gamma_rest(at)
    return value


@loops_inline
def nine_steps(a):
    """``gamma(10 + a) / gamma(1 + a)``."""
    first = ((a + 1.0) * (a + 2.0)) * ((a + 3.0) * (a + 4.0))
    value = first * (((a + 5.0) * (a + 6.0)) * ((a + 7.0) * (a + 8.0))) * (a + 9.0)
    return value


@loops_inline
def log_gamma_next(a):
    """``log(gamma(1 + a))``."""
    fine = f64(T(FINE)) != 1.0
    value = f64(0)
    if a <= 0.5 and fine:
        value = log_gamma_near_one(a)
    elif a <= 0.5:
        value = log_gamma_near_one_shorter(a)
    elif a < 10.0 and not fine:
        value = log_gamma_ten_on(a) - log(nine_steps(a) * ONE_OVER_ROOT)
    else:
        value = lgamma(a + 1.0)
    return value


@loops_inline
def gamma_series(a, x):
    """The lower integral over `gamma_factor`, by its power series."""
    fine = f64(T(FINE)) != 1.0
    least = least_share()
    total = f64(1)
    term = f64(1)
    if fine:
        place = a + 0.0
        while term > total * least:
            place = place + 1.0
            term = term * x / place
            total = total + term
    else:  # over a common denominator: a division takes as long as three terms
        scale = 1.0 / (a + 10.0)
        below = f64(1)
        step = x * scale
        factor = a * scale
        while term > total * least:
            for _ in range(4):  # to look takes as long as three terms
                factor = factor + scale
                term = term * step
                below = below * factor
                total = total * factor + term
        total = total / below
    return total


@loops_inline
def gamma_fraction(a, x):
    """The upper integral over `gamma_factor` and the order, by its continued fraction."""
    fine = f64(T(FINE)) != 1.0
    total = f64(0)
    if fine:
        total = fraction_by_lentz(a, x)
    else:
        total = fraction_by_wallis(a, x)
    return total


@loops_inline
def fraction_by_lentz(a, x):
    """The fraction by quotients that stay near one, a division for each."""
    least = least_share() * 10.0
    base = x + 1.0 - a
    front = f64(1e300)
    back = 1.0 / base
    total = back + 0.0
    change = f64(0)
    k = f64(0)
    while abs(change - 1.0) > least and k < 2000.0:
        k = k + 1.0
        step = -k * (k - a)
        base = base + 2.0
        back = 1.0 / (step * back + base)
        front = base + step / front
        change = back * front
        total = total * change
    return total


@loops_inline
def fraction_by_wallis(a, x):
    """The fraction by numerators and denominators, which are divided at the end.

    They are compared with those before them by their cross products, and are brought
    down together before they overflow.
    """
    least = least_share()
    base = x + 1.0 - a
    before = f64(0)
    below_before = f64(1)
    above = f64(1)
    below = base + 0.0
    far = True
    k = f64(0)
    while far and k < 2000.0:
        for _ in range(2):
            k = k + 1.0
            step = -k * (k - a)
            base = base + 2.0
            next_above = base * above + step * before
            next_below = base * below + step * below_before
            before = above
            below_before = below
            above = next_above
            below = next_below
        cross = above * below_before
        far = abs(cross - before * below) > least * abs(cross)
        if abs(below) > 1e100:
            before = before * 1e-140
            below_before = below_before * 1e-140
            above = above * 1e-140
            below = below * 1e-140
    return above / below


@loops_inline
def gamma_small(a, x, power):
    """The upper integral for small arguments, where it is nearly one."""
    fine = f64(T(FINE)) != 1.0
    least = f64(1e-18) if fine else f64(1e-10)
    total = f64(0)
    term = f64(1)
    k = f64(0)
    while abs(term) > least * abs(total) and k < 200.0:
        k = k + 1.0
        term = -term * x / k if fine else term * (x * (-1.0 / k))
        total = total + term / (a + k)
    less = expm1(power)
    mass = exp(power) if fine else less + 1.0
    value = -less - a * mass * total
    return value


@loops_inline
def gamma_large(a, x, sign):
    """Either integral where both are large and near each other, by Temme's expansion."""
    u = (x - a) / a
    gap = gap_of_log(u)
    eta = sqrt(gap + gap)
    eta = eta if u >= 0.0 else -eta
    rest = exp(-a * gap) / sqrt(a * TWO_PI) * temme(a, eta)
    value = 0.5 * erfc(sign * eta * sqrt(a * 0.5)) + sign * rest
    return value


@loops_inline
def is_large(a, x):
    """Whether `gamma_large` is the way."""
    near = abs(x - a) / a
    value = (a > 20.0) and (near < 0.3)
    return value


@loops_inline
def at_the_ends(a, x, low, high):
    """What an integral is where an argument is no positive number."""
    value = f64(NAN)
    if a < 0.0 or x < 0.0:
        value = f64(NAN)
    elif a == 0.0:
        value = high if x > 0.0 else f64(NAN)
    elif x == 0.0:
        value = low
    elif a == INF:
        value = f64(NAN) if x == INF else low
    elif x == INF:
        value = high
    return value


@branching
def igamma(a, x):
    """The lower incomplete gamma function over the whole."""
    plain = a > T(0) and x > T(0) and a < T(INF) and x < T(INF)
    first = f64(a) if plain else f64(1)  # elements that wait take no rare ways
    second = f64(x) if plain else f64(1)
    value = f64(NAN)
    if not plain:
        value = at_the_ends(f64(a), f64(x), f64(0), f64(1))
    elif is_large(first, second):
        value = gamma_large(first, second, -1.0)
    else:
        upper = second > 1.0 and second > first
        power = log_of_power(first, second)
        if upper and second < 1.1:
            value = gamma_small(first, second, power)
        else:
            value = gamma_share(first, second, power, upper)
        value = 1.0 - value if upper else value
    return T(value)


@loops_inline
def gamma_share(a, x, power, upper):
    """The upper integral by its fraction or the lower one by its series.

    What they have in common is computed once, whichever way elements that are worked on
    together go.
    """
    total = f64(0)
    if upper:
        total = gamma_fraction(a, x)
    else:
        total = gamma_series(a, x)
    value = total * gamma_factor(a, x, power) * (a if upper else 1.0)
    return value


@branching
def igammac(a, x):
    """The upper incomplete gamma function over the whole."""
    plain = a > T(0) and x > T(0) and a < T(INF) and x < T(INF)
    first = f64(a) if plain else f64(1)
    second = f64(x) if plain else f64(1)
    value = f64(NAN)
    if not plain:
        value = at_the_ends(f64(a), f64(x), f64(1), f64(0))
    elif is_large(first, second):
        value = gamma_large(first, second, 1.0)
    else:
        by_series = second < first
        if second <= 0.5:
            by_series = -0.4 / log(second) < first
        elif second < 1.1:
            by_series = second * 1.1 < first
        power = log_of_power(first, second)
        if second < 1.1 and not by_series:
            value = gamma_small(first, second, power)
        else:
            value = gamma_share(first, second, power, not by_series)
            value = 1.0 - value if by_series else value
    return T(value)
