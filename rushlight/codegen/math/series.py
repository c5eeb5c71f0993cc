"""Taylor series of functions around many places, in decimal digits to spare.

What a function satisfies gives its series: an equation between it and its slope. From
there come the pieces that a kernel looks up (see `pieces`): nothing is copied from a
table that nobody can check.
"""

import functools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

DIGITS = 90
TERMS = 44
ZERO, HALF, ONE, TWO = Decimal(0), Decimal("0.5"), Decimal(1), Decimal(2)


def exact(function):
    """A function whose decimals carry enough digits; what it answered is kept."""

    @functools.cache
    @functools.wraps(function)
    def careful(*args):
        with localcontext() as context:
            context.prec = DIGITS
            return function(*args)

    return careful


@exact
def pi() -> Decimal:
    """By Machin's formula."""
    return 4 * (4 * _short_angle(ONE / 5) - _short_angle(ONE / 239))


def _short_angle(x):
    total, power, n = ZERO, x, 1
    while abs(power) > Decimal(10) ** -(DIGITS + 5):
        total += power / n
        power, n = -power * x * x, n + 2
    return total


@exact
def half_root_pi() -> Decimal:
    """Half the square root of pi."""
    return pi().sqrt() / 2


@exact
def circle(angle) -> tuple[Decimal, Decimal]:
    """The sine and cosine of a small angle."""
    sums, term, n = [ZERO, ZERO], ONE, 0
    while abs(term) > Decimal(10) ** -DIGITS:
        sums[n % 2] += term * (-1 if n % 4 > 1 else 1)
        n += 1
        term = term * angle / n
    return sums[1], sums[0]


@exact
def error_function(x) -> Decimal:
    """The integral of ``2 exp(-t^2) / sqrt(pi)`` from 0 to ``x``."""
    term = total = x
    n = 0
    while term > Decimal(10) ** -DIGITS:
        n += 1
        term = term * 2 * x * x / (2 * n + 1)
        total += term
    return total * (-x * x).exp() / half_root_pi()


@exact
def scaled_complement(x) -> Decimal:
    """``exp(x^2) erfc(x)``: from two on by its continued fraction."""
    if x < 2:
        return (ONE - error_function(x)) * (x * x).exp()
    rest = x
    for n in range(2000, 0, -1):
        rest = x + Decimal(n) / 2 / rest
    return ONE / (rest * 2 * half_root_pi())


def _product(a, b, n):
    """Term ``n`` of the product of two series."""
    return sum((a[i] * b[n - i] for i in range(n + 1)), ZERO)


@exact
def tanh(x) -> list[Decimal]:
    """The slope is one less the square."""
    small = (-2 * x).exp()
    terms = [(ONE - small) / (ONE + small)]
    for n in range(TERMS):
        terms.append(((n == 0) - _product(terms, terms, n)) / (n + 1))
    return terms


@exact
def tan(x) -> list[Decimal]:
    """The slope is one more than the square."""
    sine, cosine = circle(x)
    terms = [sine / cosine]
    for n in range(TERMS):
        terms.append(((n == 0) + _product(terms, terms, n)) / (n + 1))
    return terms


@exact
def atan(x) -> list[Decimal]:
    """The slope times ``1 + x^2`` is one."""
    near, size = x, 0
    while abs(near) > Decimal("0.05"):  # half the angle
        near = near / (ONE + (ONE + near * near).sqrt())
        size += 1
    terms, slope, before = [_short_angle(near) * 2**size], ONE / (ONE + x * x), ZERO
    for n in range(TERMS):
        terms.append(slope / (n + 1))
        slope, before = -(2 * x * slope + before) / (ONE + x * x), slope
    return terms


@exact
def angle_to_right(x) -> list[Decimal]:
    """What the angle of ``1 / x`` is: a quarter turn less that of ``x``."""
    first, *rest = atan(x)
    return [pi() / 2 - first, *(-term for term in rest)]


@exact
def erf(x) -> list[Decimal]:
    """The slope is a curve whose own slope is ``-2 x`` times itself."""
    slope, before = (-x * x).exp() / half_root_pi(), ZERO
    terms = [error_function(x)]
    for n in range(TERMS):
        terms.append(slope / (n + 1))
        slope, before = -2 * (x * slope + before) / (n + 1), slope
    return terms


@exact
def normal(x) -> list[Decimal]:
    """Half of `erf` in units of a standard deviation."""
    unit = 1 / TWO.sqrt()
    return [term * unit**k / 2 for k, term in enumerate(erf(x * unit))]


@exact
def erfinv(x) -> list[Decimal]:
    """The slope is ``sqrt(pi) / 2 exp(y^2)``."""
    y = _inverse(x)
    terms, gauss, squares = [y], [(y * y).exp()], [y * y]
    for n in range(TERMS):
        terms.append(half_root_pi() * gauss[n] / (n + 1))
        squares.append(_product(terms, terms, n + 1))
        total = sum(
            ((j + 1) * squares[j + 1] * gauss[n - j] for j in range(n + 1)), ZERO
        )
        gauss.append(total / (n + 1))
    return terms


def _inverse(x):
    """Newton's method, whose digits double."""
    y = x * half_root_pi()
    for _ in range(200):
        step = (error_function(y) - x) * half_root_pi() * (y * y).exp()
        step = step / (ONE + y * step)
        y -= step
        if abs(step) < Decimal(10) ** (10 - DIGITS):
            break
    return y


@exact
def arc_over_root(z) -> list[Decimal]:
    """``asin(s) / s`` in ``z = s^2``: itself and ``2 z`` slopes are ``1 / sqrt(1 - z)``."""
    if z == 0:
        terms, term = [], ONE
        for n in range(TERMS):
            terms.append(term / (2 * n + 1))
            term = term * (2 * n + 1) / (2 * n + 2)
        return terms
    root = z.sqrt()
    right = ONE / (ONE - z).sqrt()
    terms = [atan(root * right)[0] / root]
    for n in range(TERMS):
        terms.append((right - (2 * n + 1) * terms[n]) / (2 * z * (n + 1)))
        right = right * (n + HALF) / ((n + 1) * (ONE - z))
    return terms


STEPS = 24  # how far the recurrence leads up before Stirling's series is taken


@functools.cache
def bernoulli(count) -> list[Fraction]:
    """Bernoulli's numbers of even order, from the second on."""
    numbers = [Fraction(1), Fraction(-1, 2)]  # from the first on
    for n in range(2, 2 * count + 1):
        total = Fraction(0)
        for k in range(n):
            total += math.comb(n + 1, k) * numbers[k]
        numbers.append(-total / (n + 1))
    return numbers[2::2]


@exact
def log_gamma(x) -> list[Decimal]:
    """Stirling's series far out, less the logarithms of the factors that lead there."""
    far = x + STEPS
    log = [far.ln(), *((-1) ** (n + 1) / (n * far**n) for n in range(1, TERMS + 1))]
    terms = [(far - HALF) * value for value in log]
    for n in range(TERMS):
        terms[n + 1] += log[n]
    terms[0] += (2 * pi()).ln() / 2 - far
    terms[1] -= 1
    for k, number in enumerate(bernoulli(STEPS), 1):
        power = 2 * k - 1  # of one over the argument
        term = Decimal(number.numerator) / number.denominator / (2 * k * power)
        term /= far**power
        for n in range(TERMS + 1):
            terms[n] += term
            term = -term * (power + n) / ((n + 1) * far)
    product = ONE
    for step in range(STEPS):
        product *= x + step
        inverse = -1 / (x + step)
        raised = ONE
        for n in range(1, TERMS + 1):
            raised *= inverse
            terms[n] += raised / n
    terms[0] -= product.ln()
    if x in (1, 2):
        terms[0] = ZERO
    return terms
