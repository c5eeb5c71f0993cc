"""Orthogonal polynomials: a recurrence, or for Chebyshev's a cosine where that is one.

Orders are truncated to integers; below zero all polynomials are zero. All are computed
in double precision: their terms nearly cancel.
"""

import math

from rushlight.codegen.frontend.branching import branching
from rushlight.codegen.frontend.pointwise import without_halves
from rushlight.codegen.language import acos, cos, sin
from rushlight.codegen.loops import T, f64, i64, loops_inline

NAN = math.nan


@loops_inline
def recurrence(x, n, first, second):
    """Chebyshev's: ``2 x p(k - 1) - p(k - 2)``."""
    value = first + f64(0)
    if n > 0:
        before = first + f64(0)
        value = second + f64(0)
        k = i64(1)
        while k < n and value == value:
            after = (x + x) * value - before
            before = value
            value = after
            k = k + 1
    return value


@loops_inline
def ends(x, n, up, down):
    """What polynomials are at one and, by the parity of the order, at minus one."""
    odd = n % 2 != 0
    value = f64(up) if x > f64(0) else (-f64(down) if odd else f64(down))
    return value


@loops_inline
def chebyshev_t(x, order):
    """cos(n arccos(x))."""
    n = i64(order)
    value = f64(0)
    if n >= 0:
        if abs(x) == f64(1):
            value = ends(x, n, 1, 1)
        elif n > 6 and abs(x) < f64(1):
            value = cos(f64(n) * acos(x))
        else:
            value = recurrence(x, n, f64(1), x)
    return value


@loops_inline
def chebyshev_u(x, order):
    """sin((n + 1) arccos(x)) / sin(arccos(x))."""
    n = i64(order)
    value = f64(0)
    if n >= 0:
        if abs(x) == f64(1):
            value = ends(x, n, n + 1, n + 1)
        elif n > 8 and abs(x) < f64(1):
            angle = acos(x)
            value = sin(f64(n + 1) * angle) / sin(angle)
        else:
            value = recurrence(x, n, f64(1), x + x)
    return value


@loops_inline
def chebyshev_v(x, order):
    """cos((n + 1/2) arccos(x)) / cos(arccos(x) / 2)."""
    n = i64(order)
    value = f64(0)
    if n >= 0:
        if abs(x) == f64(1):
            value = ends(x, n, 1, n + n + 1)
        elif n > 8 and abs(x) < f64(1):
            angle = acos(x)
            value = cos((f64(n) + f64(0.5)) * angle) / cos(angle * f64(0.5))
        else:
            value = recurrence(x, n, f64(1), x + x - f64(1))
    return value


@loops_inline
def chebyshev_w(x, order):
    """sin((n + 1/2) arccos(x)) / sin(arccos(x) / 2)."""
    n = i64(order)
    value = f64(0)
    if n >= 0:
        if abs(x) == f64(1):
            value = ends(x, n, n + n + 1, 1)
        elif n > 8 and abs(x) < f64(1):
            angle = acos(x)
            value = sin((f64(n) + f64(0.5)) * angle) / sin(angle * f64(0.5))
        else:
            value = recurrence(x, n, f64(1), x + x + f64(1))
    return value


@without_halves
@branching
def chebyshev_polynomial_t(x, n):
    """Of the first kind."""
    return T(chebyshev_t(f64(x), n))


@without_halves
@branching
def chebyshev_polynomial_u(x, n):
    """Of the second kind."""
    return T(chebyshev_u(f64(x), n))


@without_halves
@branching
def chebyshev_polynomial_v(x, n):
    """Of the third kind."""
    return T(chebyshev_v(f64(x), n))


@without_halves
@branching
def chebyshev_polynomial_w(x, n):
    """Of the fourth kind."""
    return T(chebyshev_w(f64(x), n))


@without_halves
@branching
def shifted_chebyshev_polynomial_t(x, n):
    """Of the first kind, from zero to one."""
    return T(chebyshev_t(f64(x) + f64(x) - f64(1), n))


@without_halves
@branching
def shifted_chebyshev_polynomial_u(x, n):
    """Of the second kind, from zero to one."""
    return T(chebyshev_u(f64(x) + f64(x) - f64(1), n))


@without_halves
@branching
def shifted_chebyshev_polynomial_v(x, n):
    """Of the third kind, from zero to one."""
    return T(chebyshev_v(f64(x) + f64(x) - f64(1), n))


@without_halves
@branching
def shifted_chebyshev_polynomial_w(x, n):
    """Of the fourth kind, from zero to one."""
    return T(chebyshev_w(f64(x) + f64(x) - f64(1), n))


@loops_inline
def hermite(x, order, factor, limit):
    """``factor (x p(k) - k p(k - 1))``; NaN beyond where all values overflow."""
    n = i64(order)
    value = f64(0)
    if n > limit:
        value = f64(NAN)
    elif n >= 0:
        before = f64(0)
        value = f64(1)
        k = i64(0)
        while k < n and value == value:
            after = f64(factor) * (x * value - f64(k) * before)
            before = value
            value = after
            k = k + 1
    return value


HERMITE_LIMIT = 512


@without_halves
@branching
def hermite_polynomial_h(x, n):
    """The physicists' polynomials."""
    return T(hermite(f64(x), n, 2, HERMITE_LIMIT))


@without_halves
@branching
def hermite_polynomial_he(x, n):
    """The probabilists' polynomials."""
    return T(hermite(f64(x), n, 1, HERMITE_LIMIT))


@without_halves
@branching
def laguerre_polynomial_l(x, n):
    """``(k + 1) p(k + 1) = (2 k + 1 - at) p(k) - k p(k - 1)``."""
    order = i64(n)
    at = f64(x)
    value = f64(0)
    if order >= 0:
        before = f64(0)
        value = f64(1)
        k = i64(0)
        while k < order and value == value:
            after = (f64(k + k + 1) - at) * value - f64(k) * before
            before = value
            value = after / f64(k + 1)
            k = k + 1
    return T(value)


@without_halves
@branching
def legendre_polynomial_p(x, n):
    """``(k + 1) p(k + 1) = (2 k + 1) x p(k) - k p(k - 1)``."""
    order = i64(n)
    at = f64(x)
    value = f64(0)
    if order >= 0:
        if abs(at) == f64(1):
            value = ends(at, order, 1, 1)
        else:
            before = f64(0)
            value = f64(1)
            k = i64(0)
            while k < order and value == value:
                after = f64(k + k + 1) * at * value - f64(k) * before
                before = value
                value = after / f64(k + 1)
                k = k + 1
    return T(value)
