"""Special functions: Bessel and Airy functions, inverses of the normal distribution.

All are computed in double precision, whatever the type. Most are Chebyshev series on
both sides of some argument: of the function itself, over its leading factors, and of what
is left of its asymptotic form. Zeros are factors as well, so that the values around them
keep their digits.
"""

import math

from rushlight.codegen import language as L
from rushlight.codegen.frontend.pointwise import without_halves
from rushlight.codegen.language import pointwise
from rushlight.core.dtype import finfo
from rushlight.operators import call as ops
from rushlight.operators.special import special_tables as tables

INF, NAN = math.inf, math.nan
ROOT_HALF = math.sqrt(0.5)
SQRT_TWO_PI = math.sqrt(2 * math.pi)
TWO_OVER_PI = 2 / math.pi
TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
# Zeros of functions: each as the nearest double, and what is missing.
J0_ZEROS = (
    (2.404825557695773, -1.176691651530894e-16),
    (5.520078110286311, 8.088597146146722e-17),
)
J1_ZEROS = (
    (3.8317059702075125, -1.5269184090088067e-16),
    (7.015586669815619, -9.414165653410389e-17),
)
AIRY_ZEROS = (
    (-2.338107410459767, -3.912260409818305e-17),
    (-4.08794944413097, -3.387261694242901e-16),
)
AIRY_RIGHT_START = 1.8856180831641267  # 2/3 x^1.5 at 2
AIRY_LEFT_START = 7.453559924999299  # and at 5


def series(t, coefficients):
    """A Chebyshev series, by Clenshaw's recurrence."""
    first, second = 0.0 * t, 0.0 * t
    twice = t + t
    for value in reversed(coefficients[1:]):
        first, second = L.fma(twice, first, value - second), first
    return L.fma(t, first, coefficients[0] - second)


def wide(x):
    """A real value in double precision."""
    L.real_only(x)
    return L.cast(x, "float64")


# ---- modified Bessel functions


i0 = pointwise(L.i0, error_name="i0_vml_cpu")
i1 = pointwise(L.i1)
i0e = pointwise(L.scaled_i0)
i1e = pointwise(L.scaled_i1)


@without_halves
@pointwise
def modified_bessel_i0(x):
    """`i0`, by another name."""
    return L.i0(x)


@without_halves
@pointwise
def modified_bessel_i1(x):
    """`i1`, by another name."""
    return L.i1(x)


def inside(x, most):
    """A positive argument up to where a series ends; one instead of others.

    Where there is no logarithm, something close to zero would be slow: processors take a
    hundred steps for numbers below the smallest normal one.
    """
    return L.select(x > 0.0, L.minimum(x, most), 1.0)


def log_half(x):
    """The logarithm of half a positive number, which may be the smallest there is."""
    small = x < 1.0
    # no digit is lost: below one, both have one sign
    return L.log(L.select(small, x, x * 0.5)) - L.select(small, math.log(2), 0.0 * x)


def second_kind(x, near, tail, scaled):
    """K from what it is up to two, and the scaled series beyond."""
    far = series(4.0 / L.maximum(x, 2.0) - 1.0, tail) / L.sqrt(x)
    decay = L.exp(-L.maximum(x, 0.0))
    value = L.select(
        x <= 2.0, near / decay if scaled else near, far if scaled else far * decay
    )
    return L.select(x == 0, INF, L.select(x < 0, NAN, value))


def k0_of(x, scaled):
    """K0, or that times ``exp(x)``."""
    small = inside(x, 2.0)
    rest = series(small * small * 0.5 - 1.0, tables.K0_NEAR)
    near = rest - log_half(small) * L.i0(small)
    return second_kind(x, near, tables.K0_FAR, scaled)


def k1_of(x, scaled):
    """K1, or that times ``exp(x)``."""
    small = inside(x, 2.0)
    rest = series(small * small * 0.5 - 1.0, tables.K1_NEAR) / small
    near = rest + log_half(small) * L.i1(small)
    return second_kind(x, near, tables.K1_FAR, scaled)


@without_halves
@pointwise
def modified_bessel_k0(x):
    """The modified Bessel function of the second kind, of order zero."""
    return k0_of(wide(x), False)


@without_halves
@pointwise
def modified_bessel_k1(x):
    """The modified Bessel function of the second kind, of order one."""
    return k1_of(wide(x), False)


@without_halves
@pointwise
def scaled_modified_bessel_k0(x):
    """`modified_bessel_k0` times ``exp(x)``."""
    return k0_of(wide(x), True)


@without_halves
@pointwise
def scaled_modified_bessel_k1(x):
    """`modified_bessel_k1` times ``exp(x)``."""
    return k1_of(wide(x), True)


# ---- Bessel functions


def from_zeros(x, zeros):
    """The product of ``x^2 - z^2``, exact near every zero."""
    product = None
    for high, low in zeros:
        factor = ((x - high) - low) * ((x + high) + low)
        product = factor if product is None else product * factor
    return product


def near_square(a):
    """The argument of series in ``x^2`` up to eight."""
    a = L.minimum(a, 8.0)
    return a * a * (1 / 32) - 1.0


def wave(a, p, q, order, shifted):
    """The far form: amplitude times cosine, or a quarter turn ``shifted`` the sine.

    The phase is ``a`` less ``pi / 4``, or for order one ``3 pi / 4``.
    """
    a = L.maximum(a, 8.0)
    ratio = 8.0 / a
    t = 2.0 * ratio * ratio - 1.0
    p, q = series(t, p), ratio * series(t, q)
    s, c = L.sin(a), L.cos(a)
    cosine, sine = (s + c, s - c) if order == 0 else (s - c, -(s + c))
    total = p * sine + q * cosine if shifted else p * cosine - q * sine
    return total * L.sqrt(1 / (math.pi * a))


def near_j0(a):
    return series(near_square(a), tables.J0_NEAR) * from_zeros(a, J0_ZEROS)


def near_j1(a):
    return a * series(near_square(a), tables.J1_NEAR) * from_zeros(a, J1_ZEROS)


@without_halves
@pointwise
def bessel_j0(x):
    """The Bessel function of the first kind, of order zero."""
    a = abs(wide(x))
    far = wave(a, tables.P0_FAR, tables.Q0_FAR, 0, False)
    return L.select(a <= 8.0, near_j0(a), far)


@without_halves
@pointwise
def bessel_j1(x):
    """The Bessel function of the first kind, of order one."""
    x = wide(x)
    a = abs(x)
    far = wave(a, tables.P1_FAR, tables.Q1_FAR, 1, False)
    return L.select(a <= 8.0, near_j1(x), L.select(x < 0, -far, far))


@without_halves
@pointwise
def bessel_y0(x):
    """The Bessel function of the second kind, of order zero."""
    x = wide(x)
    a = inside(x, 8.0)
    rest = series(near_square(a), tables.Y0_NEAR)
    near = rest + TWO_OVER_PI * L.log(a) * near_j0(a)
    far = wave(x, tables.P0_FAR, tables.Q0_FAR, 0, True)
    value = L.select(x <= 8.0, near, far)
    return L.select(x == 0, -INF, L.select(x < 0, NAN, value))


@without_halves
@pointwise
def bessel_y1(x):
    """The Bessel function of the second kind, of order one."""
    x = wide(x)
    a = inside(x, 8.0)
    rest = series(near_square(a), tables.Y1_NEAR) * a
    near = rest + TWO_OVER_PI * (L.log(a) * near_j1(a) - 1.0 / a)
    far = wave(x, tables.P1_FAR, tables.Q1_FAR, 1, True)
    value = L.select(x <= 8.0, near, far)
    return L.select(x == 0, -INF, L.select(x < 0, NAN, value))


@without_halves
@pointwise
def spherical_bessel_j0(x):
    """sin(x) / x, one at zero and zero far out."""
    x = wide(x)
    square = x * x
    total = 0.0 * square
    for k in range(7, 0, -1):  # the power series up to one half
        total = (total + 1.0) * square * (-1.0 / (2 * k * (2 * k + 1)))
    value = L.select(abs(x) < 0.5, 1.0 + total, L.sin(x) / x)
    return L.select(abs(x) == INF, 0.0, value)


@without_halves
@pointwise
def airy_ai(x):
    """The Airy function Ai."""
    x = wide(x)
    a = abs(x)
    zeta = a * L.sqrt(a) * (2 / 3)
    root = L.sqrt(L.sqrt(a))
    middle = series((x + 1.5) * (2 / 7), tables.AIRY_MIDDLE)
    for high, low in AIRY_ZEROS:
        middle = middle * ((x - high) - low)
    right = series(2.0 * AIRY_RIGHT_START / zeta - 1.0, tables.AIRY_RIGHT)
    right = right * L.exp(-zeta) / (2 * math.sqrt(math.pi) * root)
    ratio = AIRY_LEFT_START / zeta
    t = 2.0 * ratio * ratio - 1.0
    p, q = series(t, tables.AIRY_LEFT_P), series(t, tables.AIRY_LEFT_Q) / zeta
    s, c = L.sin(zeta), L.cos(zeta)
    left = ((c + s) * p + (s - c) * q) * (ROOT_HALF / math.sqrt(math.pi)) / root
    value = L.select(x > 2.0, right, L.select(x < -5.0, left, middle))
    value = L.select(x > 104.0, 0.0, value)
    return L.select(a == INF, NAN, value)


# ---- the normal distribution


@without_halves
@pointwise
def ndtri(p):
    """The inverse of `ndtr`, of which `erfcinv` is another form."""
    return 0.0 - L.erfcinv(wide(p) * 2.0) * math.sqrt(2)


@without_halves
@pointwise
def erfcx(x):
    """``exp(x^2) erfc(x)``; what squaring loses is made up for."""
    x = wide(x)
    a = abs(x)
    right = L.scaled_erfc(a)
    square = x * x
    lost = L.fma(x, x, -square)
    power = L.exp(square)
    power = L.select(square < 700.0, L.fma(power, lost, power), power)
    return L.select(x < 0, L.select(a > 27.0, INF, 2.0 * power - right), right)


# ---- gradients and other names


def i1_slope(self, result):
    """``I0(x) - I1(x) / x``; one half at zero, and at NaN."""
    nonzero = _is_nonzero(self)
    safe = ops.where(nonzero, self, 1.0)
    slope = ops.i0(safe) - result / safe
    return ops.where(nonzero, slope, 0.5)


def _is_nonzero(x):
    return ops.abs(x) > finfo(x.dtype).eps


def i1e_slope(self, result):
    """``I0e(x) - (sign(x) + 1 / x) I1e(x)``; one half at zero, and at NaN."""
    nonzero = _is_nonzero(self)
    safe = ops.where(nonzero, self, 1.0)
    slope = ops.special_i0e(safe) - result * (ops.sgn(safe) + 1 / safe)
    return ops.where(nonzero, slope, 0.5)


def special_round(self, decimals):
    """`round`."""
    return ops.round(self, decimals=decimals)


def special_gamma_gradient(grad, self, other):
    """The integrand."""
    power = (self - 1) * ops.log(other) - other - ops.lgamma(self)
    return grad * ops.exp(power)
