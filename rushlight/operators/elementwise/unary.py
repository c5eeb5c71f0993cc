"""Functions of one tensor, element by element."""

import math

from rushlight.codegen import language as L
from rushlight.codegen.frontend.pointwise import without_halves
from rushlight.codegen.frontend.type_support import ALL_FLOAT8, SIGNED_FLOAT8
from rushlight.codegen.language import pointwise
from rushlight.core.dtype import BOOLEAN, FLOATING, can_cast, finfo, get_default_dtype
from rushlight.core.dtypes import bool_, float32
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.dispatch.python_key import listening
from rushlight.operators import call as ops
from rushlight.operators.operand_types import nan_to_num as refuse_complex_gradient
from rushlight.operators.shared import conjugated

LN2 = math.log(2)
MOST_DIGITS = 308  # the largest power of ten that a float64 can hold
MOST_FACTORIAL = 170  # the largest number whose factorial a float64 can hold
LN10 = math.log(10)
TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
HALF_SQRT_PI = math.sqrt(math.pi) / 2
SQRT_TWO_PI = math.sqrt(2 * math.pi)
INVERSE_SQRT_TWO_PI = 1 / SQRT_TWO_PI
RADIANS_PER_DEGREE = math.pi / 180
DEGREES_PER_RADIAN = 180 / math.pi


def vector_math(function, **support):
    """A kernel that PyTorch has among those of vectors, as its refusals say."""
    name = f"{function.__name__}_vml_cpu"
    return pointwise(function, error_name=name, **support)


exp = vector_math(L.exp)
exp2 = pointwise(L.exp2, error_name="exp2")
expm1 = vector_math(L.expm1)
log = vector_math(L.log)
log2 = vector_math(L.log2)
log10 = vector_math(L.log10)
log1p = vector_math(L.log1p)
sqrt = vector_math(L.sqrt)
rsqrt = pointwise(L.rsqrt)
square = pointwise(L.square, error_name="pow")
reciprocal = pointwise(L.reciprocal)
sin = vector_math(L.sin)
cos = vector_math(L.cos)
tan = vector_math(L.tan)
asin = vector_math(L.asin)
acos = vector_math(L.acos)
atan = vector_math(L.atan)
sinh = pointwise(L.sinh)
cosh = pointwise(L.cosh)
tanh = vector_math(L.tanh)
asinh = pointwise(L.asinh)
acosh = pointwise(L.acosh)
atanh = pointwise(L.atanh)
sigmoid = pointwise(L.sigmoid, error_name="sigmoid_cpu_reduced_float")
erf = vector_math(L.erf)
erfc = vector_math(L.erfc)
erfinv = vector_math(L.erfinv)
lgamma = vector_math(L.lgamma)
digamma = pointwise(L.digamma, error_name="digamma")
floor = vector_math(
    L.floor,
    complex_error=NotImplementedError("floor is not supported for complex inputs"),
)
ceil = vector_math(
    L.ceil,
    complex_error=NotImplementedError("ceil is not supported for complex inputs"),
)
trunc = vector_math(
    L.trunc,
    complex_error=NotImplementedError("trunc is not supported for complex inputs"),
)
round = vector_math(L.round)
sign = pointwise(
    L.sign,
    complex_error=NotImplementedError(
        "Unlike NumPy, torch.sign is not intended to support complex numbers. "
        "Please use torch.sgn instead."
    ),
)
sgn = pointwise(L.sgn, error_name="sign_cpu", complex_half=True)
signbit = pointwise(
    L.signbit,
    complex_error=NotImplementedError(
        "signbit is not implemented for complex tensors."
    ),
)
isnan = pointwise(L.isnan, float8=ALL_FLOAT8, complex_half=True)
isinf = pointwise(
    L.isinf, error_name="isinf", float8=("float8_e5m2",), complex_half=True
)
isfinite = pointwise(
    L.isfinite,
    error_name="isfinite",
    float8=("float8_e5m2", "float8_e8m0fnu"),
    complex_half=True,
)
logical_not = pointwise(L.logical_not)
abs = pointwise(
    L.absolute, error_name="abs_cpu", float8=SIGNED_FLOAT8, complex_half=True
)


@pointwise(complex_half=True)
def neg(x):
    """The additive inverse."""
    if x.type.is_bool:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    if L.is_complex(x):
        return 0 - x  # zeros come out positive
    return -x


@pointwise(error_name="conj_cpu", complex_half=True)
def conjugate(x):
    """The imaginary part's sign turned."""
    return L.conj(x)


@pointwise
def bitwise_not(x):
    """All bits flipped."""
    return ~x


@pointwise
def frac(x):
    """What ``trunc`` takes away."""
    return x - L.trunc(x)


@pointwise(complex_error=RuntimeError("isposinf does not support complex inputs."))
def isposinf(x):
    """Whether a value is +inf."""
    L.real_only(x)
    return x == math.inf if x.type.is_float else x != x


@pointwise(complex_error=RuntimeError("isneginf does not support complex inputs."))
def isneginf(x):
    """Whether a value is -inf."""
    L.real_only(x)
    return x == -math.inf if x.type.is_float else x != x


@pointwise(error_name="mul_cpu_reduced_float")
def deg2rad(x):
    """Degrees to radians."""
    return x * RADIANS_PER_DEGREE


@pointwise(error_name="mul_cpu_reduced_float")
def rad2deg(x):
    """Radians to degrees."""
    return x * DEGREES_PER_RADIAN


@pointwise
def sinc(x):
    """sin(pi x) / (pi x), one at zero."""
    angle = x * math.pi
    return L.select(x == 0, 1, L.sin(angle) / angle)


@pointwise
def logit(x, eps=None):
    """The log-odds; ``eps`` keeps the argument away from 0 and 1, unless it is negative."""
    L.real_only(x)
    if eps is not None:
        high = 1 - eps
        inside = L.select(x < eps, eps, L.select(x > high, high, x))
        x = L.select(eps < 0, x, inside)
    return L.log(x / (1 - x))


@pointwise
def logit_backward(grad, x, eps=None):
    """Zero outside [eps, 1 - eps]; NaN outside [0, 1] where there is no ``eps``."""
    low, outside = 0, math.nan
    if eps is not None:
        low = L.select(eps < 0, 0, eps)
        outside = L.select(eps < 0, L.constant(math.nan, x), 0)
    slope = grad / (x * (1 - x))
    return L.select((x < low) | (x > 1 - low), outside, slope)


@pointwise
def tanh_backward(grad, y):
    """The slope of tanh is one less its square."""
    return grad * L.conj(1 - y * y)


@pointwise
def sigmoid_backward(grad, y):
    """The slope of the logistic function from its value."""
    return grad * L.conj((1 - y) * y)


@pointwise
def replace_special(x, nan, posinf, neginf):
    """Given numbers in place of NaN, inf and -inf."""
    if not x.type.is_float:
        return x
    y = L.select(L.isnan(x), nan, x)
    y = L.select(x == math.inf, posinf, y)
    return L.select(x == -math.inf, neginf, y)


@pointwise(error_name="mul_cpu_reduced_float")
def ndtr(x):
    """The normal distribution function."""
    return 0.5 * L.erfc(x * -math.sqrt(0.5))


@without_halves
@pointwise
def log_ndtr(x):
    """Logarithm of ``ndtr``: by the scaled erfc on the left, by log1p on the right."""
    scaled = x * math.sqrt(0.5)
    left = L.log(0.5 * L.scaled_erfc(-L.minimum(scaled, 0))) - 0.5 * x * x
    right = L.log1p(-0.5 * L.erfc(L.maximum(scaled, -1)))
    return L.select(x < -1, left, right)


@pointwise
def entr(x):
    """-x log(x): zero at zero, -inf below."""
    inside = -x * L.log(x)
    return L.select(x > 0, inside, L.select(x == 0, 0, L.select(x < 0, -math.inf, x)))


@pointwise
def trigamma(x):
    """Asymptotic series after seven steps up; reflection for arguments below 1/2."""
    reflected = x < 0.5
    y = L.select(reflected, 1 - x, x)
    total = 1 / (y * y)
    for step in range(1, 7):
        total = total + 1 / ((y + step) * (y + step))
    z = y + 7
    w = 1 / (z * z)
    series = w * (1 / 6 - w * (1 / 30 - w * (1 / 42 - w * (1 / 30))))
    total = total + 1 / z * (1 + series) + w * 0.5
    sine = L.sin(x * math.pi)
    return L.select(reflected, (math.pi / sine) * (math.pi / sine) - total, total)


def sinc_gradient(grad, self):
    """(cos(pi x) pi x - sin(pi x)) / (pi x^2), zero where the square vanishes."""
    angle = self * math.pi
    square = self * self * math.pi
    slope = (angle * ops.cos(angle) - ops.sin(angle)) / square
    return grad * conjugated(ops.where(square == 0, 0.0, slope))


def cube(x):
    """``x * x * x``."""
    return x * x * x


def rsqrt_gradient(grad, result):
    """``-grad / 2`` times the result's third power."""
    if listening(grad):
        return conjugated(ops.pow(result, 3)) * (-0.5 * grad)
    return -0.5 * grad * cube(conjugated(result))


def acosh_slope(self):
    """The derivative's conjugate, on the branch that ``acosh`` takes."""
    if not self.is_complex():
        return ops.rsqrt(self * self - 1)
    return conjugated(ops.rsqrt(self + 1) * ops.rsqrt(self - 1))


def sgn_gradient(grad, self, result):
    """For complex numbers, the part of the gradient across the direction."""
    if not self.is_complex():
        return ops.zeros_like(grad)
    size = ops.abs(self)
    slope = grad / size - ops.real(grad / self) * result
    return ops.masked_fill(slope, size == 0, 0)


def logit_second_gradient(grad, grad_output, self, eps):
    """Gradient of ``logit_backward`` with respect to the input."""
    slope = grad * grad_output * (2 * self - 1) / (self * (1 - self)).square()
    low = 0 if eps is None or eps < 0 else eps
    return ops.where((self < low) | (self > 1 - low), 0.0, slope)


def nan_to_num(self, nan, posinf, neginf):
    """Zero for NaN and the dtype's extremes for infinities, unless told otherwise."""
    if self.is_complex():
        refuse_complex_gradient(self)
        parts = nan_to_num(
            ops.view_as_real(ops.resolve_conj(self)), nan, posinf, neginf
        )
        return ops.view_as_complex(parts)
    if not self.is_floating_point():
        return ops.clone(self)
    limits = finfo(self.dtype)
    return ops._nan_to_num(
        self,
        0.0 if nan is None else float(nan),
        limits.max if posinf is None else float(posinf),
        limits.min if neginf is None else float(neginf),
    )


@pointwise
def round_scaled(x, scale, down):
    """Scales, rounds, scales back."""
    if down:
        return L.round(x / scale) * scale
    return L.round(x * scale) / scale


def round_decimals(self, decimals):
    """To a number of digits behind the point, or before it.

    Raises:
        NotImplementedError: the input is not floating.
        ValueError: the number of digits is beyond 64 bits.
    """
    if not self.dtype.is_floating_point:
        kind = TYPE_NAMES.get(self.dtype.name, self.dtype.name)
        raise NotImplementedError(f"\"round_cpu\" not implemented for '{kind}'")
    if not -(2**63) <= decimals < 2**63:
        raise ValueError(f"Overflow when unpacking long long: {decimals}")
    if decimals == 0:
        return ops.round(self)
    digits = decimals if decimals > 0 else -decimals
    scale = 10.0**digits if digits <= MOST_DIGITS else math.inf
    return ops._round_scaled(self, scale, decimals < 0)


def positive(self):
    """The tensor itself.

    Raises:
        RuntimeError: the tensor is boolean.
    """
    if self.dtype.category == BOOLEAN:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


def isreal(self):
    """True everywhere, except at complex numbers with an imaginary part."""
    if self.is_complex():
        return ops.imag(self) == 0
    return ops.ones_like(self, dtype=bool_)


def polygamma(n, self):
    """Digamma and trigamma; higher orders through the Hurwitz zeta function.

    Raises:
        RuntimeError: the order is negative.
    """
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got n={n}")
    if n >= 2**63:
        raise ValueError(f"Overflow when unpacking long long: {n}")
    if n == 0:
        return ops.digamma(self)
    if n == 1:
        return ops._trigamma(self)
    sign = -1.0 if n % 2 == 0 else 1.0
    scale = float(math.factorial(n)) if n <= MOST_FACTORIAL else math.inf
    if self.dtype.is_floating_point and self.dtype.itemsize == 2:
        wide = self.to(float32)
        return (ops.special_zeta(n + 1, wide) * (sign * scale)).to(self.dtype)
    return ops.special_zeta(n + 1, self) * (sign * scale)


def polygamma_(self, n):
    """``polygamma`` written over its argument.

    Raises:
        RuntimeError: the argument is of integers, which the result can't be cast to.
    """
    result = polygamma(n, self.clone())
    if not can_cast(result.dtype, self.dtype):
        kinds = [TYPE_NAMES.get(t.dtype.name, t.dtype.name) for t in (result, self)]
        raise RuntimeError(
            f"result type {kinds[0]} can't be cast to the desired output type {kinds[1]}"
        )
    return self.copy_(result)


def mvlgamma(self, p):
    """Sum of log-gammas at steps of one half.

    Raises:
        RuntimeError: an argument is too small, or p is not positive.
    """
    if self.dtype.category == BOOLEAN:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    kind = self.dtype if self.dtype.category >= FLOATING else get_default_dtype()
    steps = ops.arange(p, dtype=kind, device=self.device) * -0.5
    terms = ops.lgamma(self.unsqueeze(-1) + steps)
    return terms.sum(-1) + p * (p - 1) / 4 * math.log(math.pi)
