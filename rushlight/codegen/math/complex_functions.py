"""Elementary functions at complex points: accurate, on the branches of C's library.

Parts of single precision are worked on in double, where squares neither overflow nor
cancel. What infinities and NaN give is chosen at the end, by `select`.
"""

import math

from rushlight.codegen.frontend.complexes import (
    Complex,
    is_infinite,
    is_nan,
    length,
    math_call,
    ordered,
)
from rushlight.ir import expr
from rushlight.ir.expr import Call, Const, Type, select

DOUBLE = "float64"
PI = math.pi


def _number(value, like):
    return Const(like.type, value)


def _copysign(x, y):
    x, y = expr.unify(x, y)
    return Call("copysign", x.type, x, y)


def _atan2(y, x):
    y, x = expr.unify(y, x)
    return Call("atan2", y.type, y, x)


def _square(x):
    return x * x


def wide(function):
    """Lets a function of complex values work in double precision."""

    def widened(z, *others):
        if z.type.name != "float32":
            return function(z, *others)
        double = Type(DOUBLE).like(z.type)
        result = function(*(Complex.of(one, double) for one in (z, *others)))
        if isinstance(result, Complex):
            return Complex.of(result, z.type)
        return expr.cast(z.type, result)

    widened.__name__ = function.__name__
    widened.__doc__ = function.__doc__
    return widened


def angle(z):
    """The angle of the point."""
    return _atan2(z.imag, z.real)


@wide
def exp(z):
    """``exp x cos y + i exp x sin y``; zeros stay zeros beside infinities."""
    x, y = z.real, z.imag
    far = abs(x) > 700.0
    half = math_call("exp", select(far & ~is_infinite(x), x * 0.5, x))
    again = select(far & ~is_infinite(x), half, 1.0)
    real = (half * math_call("cos", y)) * again
    imag = (half * math_call("sin", y)) * again
    lost = ~(abs(y) < math.inf)
    real = select(lost & (x == -math.inf), 0.0, select(lost & (x == math.inf), x, real))
    imag = select(lost & (x == -math.inf), 0.0, imag)
    return Complex(real, select(y == 0, y, imag))


def _squares_less_one(large, small):
    """``large ** 2 + small ** 2 - 1``, with what the squares lose to rounding."""
    p, q = large * large, small * small
    lost = math_call("fma", large, large, -p) + math_call("fma", small, small, -q)
    return ((p - 1.0) + q) + lost


@wide
def log(z):
    """The logarithm of the length, near the unit circle by what the squares exceed one."""
    large, small = ordered(z)
    near = (large > 0.5) & (large < 2.0)
    excess = _squares_less_one(large, small)
    size = select(
        near & (excess > -0.75) & (excess < 3.0),
        math_call("log1p", excess) * 0.5,
        _log_of_length(z, large, small),
    )
    return Complex(size, angle(z))


def _log_of_length(z, large, small):
    ratio = small / large
    ratio = select((large == 0) | (large == math.inf), 0.0, ratio)
    size = math_call("log", large) + math_call("log1p", ratio * ratio) * 0.5
    return select(is_infinite(z.real) | is_infinite(z.imag), math.inf, size)


@wide
def sqrt(z):
    """The root with a non-negative real part, scaled where squares leave the range."""
    large, _ = ordered(z)
    huge, tiny = large > 1e300, large < 1e-290
    one = _number(1.0, large)
    factor = select(huge, 0.0625, select(tiny, 2.0**600, one))
    back = select(huge, 4.0, select(tiny, 2.0**-300, one))
    z = Complex(z.real * factor, z.imag * factor)
    root = math_call("sqrt", (length(z) + abs(z.real)) * 0.5)
    other = select(root == 0, abs(z.imag), abs(z.imag) / (root + root))
    right = (z.real >= 0) | (root == 0)
    right = right | ((z.real == 0) & (z.imag == 0))
    real = select(right, root, other) * back
    imag = _copysign(select(right, other, root) * back, z.imag)
    infinite = is_infinite(z.imag)
    level = is_infinite(z.real) & ~infinite
    ahead = z.real > 0
    flat = _copysign(select(is_nan(z.imag), z.imag, z.imag * 0), z.imag)
    real = select(
        level, select(ahead, math.inf, select(is_nan(z.imag), z.imag, 0.0)), real
    )
    imag = select(
        level, select(ahead, flat, _copysign(_number(math.inf, imag), z.imag)), imag
    )
    return Complex(select(infinite, math.inf, real), select(infinite, z.imag, imag))


def _halves(x, y):
    """``sinh`` and ``cosh`` of ``x`` times ``cos`` and ``sin`` of ``y``, crosswise.

    Beyond the exponential's range, half of it is multiplied in twice.
    """
    sine, cosine = math_call("sin", y), math_call("cos", y)
    far = abs(x) > 700.0
    half = math_call("exp", select(is_infinite(x), abs(x), abs(x) * 0.5))
    half = select(far, half, 1.0)
    rising = _copysign(half * 0.5, x)
    s = select(far, rising, math_call("sinh", x))
    c = select(far, half * 0.5, math_call("cosh", x))
    return (
        (s * cosine) * half,
        (c * sine) * half,
        (c * cosine) * half,
        (s * sine) * half,
    )


@wide
def sinh(z):
    """``sinh x cos y + i cosh x sin y``; zeros stay zeros beside infinities."""
    x, y = z.real, z.imag
    real, imag, _, _ = _halves(x, y)
    lost = ~(abs(y) < math.inf)
    real = select((x == 0) | (lost & is_infinite(x)), x, real)
    real = select((x == 0) & ~lost, _copysign(x, x * math_call("cos", y)), real)
    imag = select(y == 0, y, imag)
    return Complex(real, imag)


@wide
def cosh(z):
    """``cosh x cos y + i sinh x sin y``; zeros stay zeros beside infinities."""
    x, y = z.real, z.imag
    _, _, real, imag = _halves(x, y)
    lost = ~(abs(y) < math.inf)
    real = select(lost & is_infinite(x), math.inf, real)
    flat = _copysign(_number(1.0, x), x)
    imag = select(y == 0, y * flat, imag)
    imag = select((x == 0) & lost, x, imag)
    return Complex(real, imag)


@wide
def tanh(z):
    """Over ``sinh^2 x + cos^2 y``; the limit far out."""
    x, y = z.real, z.imag
    sine, cosine = math_call("sin", y), math_call("cos", y)
    s, c = math_call("sinh", x), math_call("cosh", x)
    below = s * s + cosine * cosine
    real, imag = s * c / below, sine * cosine / below
    far = abs(x) > 22.0
    one = _copysign(_number(1.0, x), x)
    fade = math_call("exp", abs(x) * -2.0) * 4.0
    real = select(far, one, real)
    imag = select(far, fade * sine * cosine, imag)
    lost = ~(abs(y) < math.inf)
    level = is_infinite(x)
    phase = select((abs(y) > 1.0) & ~lost, sine * cosine, y)
    imag = select(level, _copysign(_number(0.0, y), phase), imag)
    imag = select(y == 0, y, imag)
    real = select(lost, select(x == 0, x, math.nan), real)
    return Complex(select(level, one, real), imag)


def _rotated(function):
    """``-i f(i z)`` for an odd ``f``: sin from sinh, asin from asinh and so on."""

    def rotated(z):
        w = function(Complex(-z.imag, z.real))
        return Complex(w.imag, -w.real)

    rotated.__doc__ = f"By {function.__name__}, a quarter turn away."
    return rotated


def cos(z):
    """By cosh, a quarter turn away."""
    return cosh(Complex(-z.imag, z.real))


def _roots(z):
    """The roots of ``1 - z`` and ``1 + z``, on the sides of the cuts that zeros tell."""
    return sqrt(Complex(1.0 - z.real, -z.imag)), sqrt(Complex(z.real + 1.0, z.imag))


def _asinh_real(x):
    """``asinh`` of a real value."""
    return math_call("asinh", x)


@wide
def asin(z):
    """Kahan's formula from the roots of ``1 - z`` and ``1 + z``."""
    x, y = z.real, z.imag
    low, high = _roots(z)
    real = _atan2(x, low.real * high.real - low.imag * high.imag)
    imag = _asinh_real(low.real * high.imag - low.imag * high.real)
    infinite = is_infinite(x) | is_infinite(y)
    real = select(infinite, _atan2(x, abs(y)), real)
    imag = select(infinite, _copysign(_number(math.inf, y), y), imag)
    real = select((x == 0) & is_nan(y), x, real)
    return Complex(_copysign(real, x), _copysign(imag, y))


@wide
def acos(z):
    """Kahan's formula from the roots of ``1 - z`` and ``1 + z``."""
    x, y = z.real, z.imag
    low, high = _roots(z)
    real = _atan2(low.real, high.real) * 2.0
    imag = _asinh_real(high.real * low.imag - high.imag * low.real)
    infinite = is_infinite(x) | is_infinite(y)
    real = select(infinite, _atan2(abs(y), x), real)
    imag = select(infinite, _copysign(_number(math.inf, y), -y), imag)
    real = select((x == 0) & is_nan(y), PI / 2, real)
    return Complex(real, _copysign(imag, -y))


@wide
def acosh(z):
    """A quarter turn from ``acos``, to where the real part is not negative."""
    w = acos(z)
    infinite = is_infinite(z.real) | is_infinite(z.imag)
    imag = select(infinite, _atan2(z.imag, z.real), _copysign(w.real, z.imag))
    return Complex(abs(w.imag), imag)


@wide
def atanh(z):
    """From the distances to -1 and 1, and the angle between them."""
    x, y = z.real, z.imag
    far = (abs(x) > 1e100) | (abs(y) > 1e100)
    u, v = select(far, 0.0, x), select(far, 0.0, y)
    near = _square(1.0 - abs(u)) + v * v
    real = math_call("log1p", abs(u) * 4.0 / near) * 0.25
    touching = (abs(u) == 1.0) & (abs(v) < 1e-8)
    real = select(touching, (math_call("log", abs(v)) - math.log(2)) * -0.5, real)
    real = _copysign(real, x)
    imag = _atan2(v * 2.0, (1.0 - u) * (u + 1.0) - v * v) * 0.5
    large, small = ordered(z)
    ratio = small / large
    inverse = x / large / large / (ratio * ratio + 1.0)
    infinite = is_infinite(x) | is_infinite(y)
    inverse = select(infinite, _copysign(_number(0.0, x), x), inverse)
    real = select(far, inverse, real)
    corner = _copysign(_number(PI / 2, y), y)
    imag = select(far, select(is_nan(y), y, corner), imag)
    real = select(is_nan(x) & ~infinite, x, real)
    imag = select((is_nan(x) & ~infinite) | is_nan(y), x + y, imag)
    real = select(is_nan(y) & ~infinite & (x != 0), y, select((x == 0), x, real))
    imag = select(infinite & is_nan(x), corner, imag)
    return Complex(real, imag)


@wide
def expm1(z):
    """``expm1 x cos y - 2 sin^2 (y/2)``, and the imaginary part of ``exp``."""
    half = math_call("sin", z.imag * 0.5)
    real = math_call("expm1", z.real) * math_call("cos", z.imag) - half * half * 2.0
    return Complex(real, math_call("exp", z.real) * math_call("sin", z.imag))


@wide
def log1p(z):
    """Near zero by how much the square of ``|1 + z|`` exceeds one."""
    x, y = z.real, z.imag
    excess = x * (x + 2.0) + y * y
    small = length(z) < 0.5
    near = select(excess == 0, x, math_call("log1p", excess) * 0.5)
    moved = Complex(x + 1.0, y)
    return Complex(select(small, near, math_call("log", length(moved))), angle(moved))


@wide
def log_add_exp(x, y):
    """``log(exp(x) + exp(y))``: the value with the larger real part is taken out."""
    swap = x.real < y.real
    high = Complex(select(swap, y.real, x.real), select(swap, y.imag, x.imag))
    low = Complex(select(swap, x.real, y.real), select(swap, x.imag, y.imag))
    both = log1p(exp(low - high)) + high
    level = is_infinite(high.real) & (high.real == low.real)
    above = log(exp(low) + exp(high))
    below = low.real < 0
    real = select(level, select(below, low.real, above.real), both.real)
    imag = select(level, select(below, low.imag, above.imag), both.imag)
    lost = is_nan(x.real) | is_nan(x.imag) | is_nan(y.real) | is_nan(y.imag)
    return Complex(select(lost, math.nan, real), select(lost, math.nan, imag))


def _cornered(z):
    """An infinite value as the corner or side of a unit square, NaN as zero."""
    return [
        _copysign(select(is_infinite(p), _number(1.0, p), 0.0), p)
        for p in (z.real, z.imag)
    ]


def _without_nan(z):
    return [select(is_nan(p), 0.0, p) for p in (z.real, z.imag)]


def _product(x, y):
    """``x y``; infinite beside an infinity, as C has it, where the formula gives NaN."""
    plain = x * y
    lost = is_nan(plain.real) & is_nan(plain.imag)
    left = is_infinite(x.real) | is_infinite(x.imag)
    right = is_infinite(y.real) | is_infinite(y.imag)
    (a, b), (c, d) = _cornered(x), _cornered(y)
    (e, f), (g, h) = _without_nan(x), _without_nan(y)
    a, b = select(left, a, e), select(left, b, f)
    c, d = select(right, c, g), select(right, d, h)
    mended = lost & (left | right)
    return Complex(
        select(mended, (a * c - b * d) * math.inf, plain.real),
        select(mended, (a * d + b * c) * math.inf, plain.imag),
    )


def pow(x, y):
    """``exp(y log(x))``."""
    return exp(_product(y, log(x)))


FUNCTIONS = {
    "exp": exp,
    "exp2": lambda z: exp(z * math.log(2)),
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "log2": lambda z: log(z) * (1 / math.log(2)),
    "log10": lambda z: log(z) * (1 / math.log(10)),
    "sqrt": sqrt,
    "rsqrt": lambda z: 1 / sqrt(z),
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "sin": _rotated(sinh),
    "cos": cos,
    "tan": _rotated(tanh),
    "asin": asin,
    "acos": acos,
    "atanh": atanh,
    "atan": _rotated(atanh),
    "asinh": _rotated(asin),
    "acosh": acosh,
    "sigmoid": lambda z: 1 / (exp(-z) + 1),
}


def complex_function(name, z) -> Complex:
    """A function of `language` at a complex point."""
    if name not in FUNCTIONS:
        raise TypeError(f"{name} is not defined on complex values")
    return FUNCTIONS[name](z)
