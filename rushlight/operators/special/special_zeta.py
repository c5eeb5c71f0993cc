"""The Hurwitz zeta function, in double precision whatever the type."""

import math

from rushlight.codegen.frontend.branching import branching
from rushlight.codegen.frontend.pointwise import without_halves
from rushlight.codegen.language import exp, floor, log, pow
from rushlight.codegen.loops import T, f64, formula, loops_inline

INF, NAN = math.inf, math.nan
EPSILON = 2.0**-53
FINE = 1 + 1e-10  # a number that only float64 tells from one
TERMS_END = 9.0  # from here on the terms' derivatives give the rest of the sum
FARTHEST = -32.0  # below, the terms on both sides of zero are sums of their own
# B(2k) / (2k)!, the coefficients of Euler and Maclaurin's sum.
EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)  # fmt: skip


@formula
def rest_of_terms(s, end, power):
    """What follows the term ``power`` at ``end``, by Euler and Maclaurin's sum."""
    total = power * end / (s - 1.0) - 0.5 * power
    down = power / end
    rising = s
    for number, coefficient in enumerate(EULER_MACLAURIN):
        total = total + coefficient * rising * down
        low = 2.0 * number + 1.0
        rising = rising * (s + low) * (s + (low + 1.0))
        down = down / (end * end)
    return total


@loops_inline
def term_of(at, s, first):
    """``at^-s``; where the result is of single precision, by a plain exponential.

    Not where terms on both sides of zero cancel: those are to be exact.
    """
    fine = f64(T(FINE)) != 1.0
    value = f64(0)
    if fine or not first > 0.0 or s == INF:
        value = pow(at, -s)
    else:
        value = exp(-s * log(at))
    return value


@loops_inline
def sum_of_terms(s, q):
    """``q^-s + (q + 1)^-s + ...``, until terms no longer count.

    Where all terms vanish beside an infinite power, there is no sum but NaN.
    """
    total = term_of(q, s, q)
    at = q + 0.0
    power = f64(INF)
    steps = f64(0)
    counts = f64(1)
    while counts > 0.0 and (steps < TERMS_END or at <= TERMS_END):
        steps = steps + 1.0
        at = at + 1.0
        power = term_of(at, s, q)
        total = total + power
        if abs(power) < abs(total) * EPSILON:
            counts = f64(0)
    if counts > 0.0:
        total = total + rest_of_terms(s, at, power)
    return total


@loops_inline
def sum_across_zero(s, q):
    """The terms below zero, which are those of a positive argument, and those above.

    With ``f`` the distance to the integer towards zero, they are
    ``(-1)^s (f^-s + (f + 1)^-s + ... + |q|^-s)`` and ``(1 - f)^-s + (2 - f)^-s + ...``.
    """
    size = -q
    part = size - floor(size)
    below = sum_of_terms(s, part)
    beyond = sum_of_terms(s, size + 1.0)
    above = sum_of_terms(s, 1.0 - part)
    half = s * 0.5
    sign = f64(1) if half == floor(half) else f64(-1)
    return sign * (below - beyond) + above


@without_halves
@branching
def zeta(s, q):
    """Infinite at its poles; NaN below the order one, and for roots of negative terms."""
    order = f64(s)
    first = f64(q)
    value = f64(NAN)
    if order == 1.0:
        value = f64(INF)
    elif order < 1.0 or first != first:
        value = f64(NAN)
    elif first <= 0.0 and first == floor(first):
        value = f64(INF)
    elif first <= 0.0 and order != floor(order):
        value = f64(NAN)
    elif order == INF and first < 1.0:
        value = f64(INF)
    elif first < FARTHEST:
        value = sum_across_zero(order, first)
    else:
        value = sum_of_terms(order, first)
    return T(value)
