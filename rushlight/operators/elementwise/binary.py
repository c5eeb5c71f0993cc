"""Functions of two or three tensors, element by element."""

import cmath
import math

from rushlight.codegen import language as L
from rushlight.codegen.frontend.type_support import ALL_FLOAT8
from rushlight.codegen.language import pointwise
from rushlight.core.dtype import BOOLEAN, FLOATING
from rushlight.core.dtypes import bool_, complex128, float32, float64, int32
from rushlight.core.factories import wrapped_number
from rushlight.core.layout import contiguous_format, preserve_format
from rushlight.core.state import is_recording
from rushlight.dispatch import python_key
from rushlight.dispatch.destination import withdraw_destination
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators import operand_types
from rushlight.operators.functions import result_type
from rushlight.operators.loop_calls import brief
from rushlight.operators.shape.copying import check_number
from rushlight.operators.shared import conjugated, has_elements, intercepted

LN2 = math.log(2)
LEAST_LIMIT = 127  # every integer type holds the numbers up to it

# What is raised where numbers are clamped that have no order.
UNORDERED = NotImplementedError("clamp is not supported for complex types")

maximum = pointwise(
    L.maximum,
    error_name="maximum_cpu",
    complex_error=RuntimeError("maximum not implemented for complex tensors."),
)
minimum = pointwise(
    L.minimum,
    error_name="minimum_cpu",
    complex_error=RuntimeError("minimum not implemented for complex tensors."),
)
atan2 = pointwise(L.atan2)
copysign = pointwise(L.copysign)
pow = pointwise(L.pow, error_name="pow")


def scale(y, alpha):
    """``alpha * y``, left out where alpha is one.

    Not so of complex numbers: PyTorch multiplies them with ``1 + 0i``, and what stands
    beside an infinity or NaN becomes NaN.
    """
    if not is_one(alpha):
        return alpha * y
    return y * whole(1, y) if L.is_complex(y) else y


def whole(number, like):
    """A whole number with the type of another value: beside no imaginary part is 0."""
    if not L.is_complex(like):
        return number
    part = L.real(like)
    return L.make_complex(L.constant(number, part), L.constant(0, part))


def less(x, y, alpha):
    """``x - alpha * y``: of complex numbers the sum with ``-1 + 0i`` times y."""
    if is_one(alpha) and L.is_complex(y):
        return x + y * whole(-1, y)
    return x - scale(y, alpha)


@pointwise(error_name="add_stub", complex_half=True)
def add(x, y, alpha=1):
    """``x + alpha * y``; for booleans, either of them."""
    if x.type.is_bool:
        return x | (y if is_one(alpha) else y & alpha)
    return x + scale(y, alpha)


def refuse_truth(x, name):
    """Refuses to divide truth values.

    Raises:
        NotImplementedError: the operands are boolean.
    """
    if x.type.is_bool:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")


@pointwise
def div_trunc(x, y):
    """Quotient rounded towards zero."""
    refuse_truth(x, "div_trunc")
    return L.trunc_div(x, y)


@pointwise
def fmod(x, y):
    """What is left of ``x``, with its sign."""
    refuse_truth(x, "fmod")
    return L.fmod(x, y)


def refuse_booleans(x):
    """Refuses to subtract truth values.

    Raises:
        RuntimeError: the operands are boolean.
    """
    if x.type.is_bool:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )


@pointwise(error_name="add_stub", complex_half=True)
def sub(x, y, alpha=1):
    """``x - alpha * y``."""
    refuse_booleans(x)
    return less(x, y, alpha)


@pointwise(error_name="add_stub", complex_half=True)
def rsub(x, y, alpha=1):
    """``y - alpha * x``."""
    refuse_booleans(x)
    return less(y, x, alpha)


@pointwise(float8=ALL_FLOAT8, complex_half=True)
def mul(x, y):
    """``x * y``; for booleans, both of them."""
    return x & y if x.type.is_bool else x * y


@pointwise
def div(x, y):
    """``x / y``."""
    return x / y


@pointwise
def rdiv(x, y):
    """``y / x``."""
    return y / x if L.rounded(x) is x else y * L.rounded(1 / x)


@pointwise(error_name="div_floor_cpu")
def floor_divide(x, y):
    """Quotient rounded down; floats by way of the remainder, as exact as that."""
    refuse_truth(x, "div_floor")
    if L.rounds_between(y):
        return floor_divide_halves(x, y)
    return L.floor_div(x, y)


def floor_divide_halves(x, y):
    """The same of halves, whose steps are rounded one by one as PyTorch's are."""
    quotient, rest = L.rounded(x / y), L.fmod(x, y)
    beyond = (abs(quotient) == math.inf) & (abs(x) != math.inf)
    whole = L.rounded(L.select(beyond, x, L.rounded(x - rest)) / y)
    below = (rest != 0) & ((y < 0) != (rest < 0))
    whole = L.select(below, L.rounded(whole - 1), whole)
    result = L.floor(whole)
    result = L.select(L.rounded(whole - result) > 0.5, L.rounded(result + 1), result)
    result = L.select(whole == 0, L.copysign(L.constant(0, x), quotient), result)
    return L.select(y == 0, quotient, result)


@pointwise
def rfloor_divide(x, y):
    """``floor_divide`` with the arguments exchanged."""
    return floor_divide.function(y, x)


@pointwise
def remainder(x, y):
    """What is left of ``x``, with the sign of ``y``."""
    refuse_truth(x, "remainder")
    return L.remainder(x, y)


@pointwise
def rremainder(x, y):
    """``remainder`` with the arguments exchanged."""
    refuse_truth(x, "remainder")
    return L.remainder(y, x)


@pointwise
def hypot(x, y):
    """The root of the squares and of what their sum lost, scaled within bounds."""
    L.real_only(x, y)
    x, y = abs(x), abs(y)
    high, low = L.maximum(x, y), L.minimum(x, y)
    short = getattr(x.type, "name", None) == "float32"
    most, least, step = (60, -40, 80) if short else (500, -400, 600)
    large, small = high > 2.0**most, high < 2.0**least
    scale = L.select(large, 2.0**-step, L.select(small, 2.0**step, L.constant(1, x)))
    back = L.select(large, 2.0**step, L.select(small, 2.0**-step, L.constant(1, x)))
    a, b = high * scale, low * scale
    square = a * a
    total = L.fma(b, b, square)
    lost = L.fma(a, a, -square) + L.fma(b, b, square - total)
    root = L.sqrt(total)
    rest = (L.fma(-root, root, total) + lost) / (root + root)
    length = L.select(total > 0, (root + rest) * back, high)
    return L.select((x == math.inf) | (y == math.inf), math.inf, length)


@pointwise
def logaddexp(x, y):
    """log(exp(x) + exp(y)); equal infinities differ by nothing."""
    if L.is_complex(x):
        return L.log_add_exp(x, y)
    gap = L.select(x == y, 0, -abs(x - y))
    return L.maximum(x, y) + L.log1p(L.exp(gap))


@pointwise
def logaddexp2(x, y):
    """log2(2^x + 2^y)."""
    gap = L.select(x == y, 0, -abs(x - y))
    return L.fma(L.log1p(L.exp2(gap)), 1 / LN2, L.maximum(x, y))


@pointwise
def nextafter(x, y):
    """One step of the bit pattern, in the stored type, towards ``y``."""
    own = L.cast(x, L.computing())
    bits = L.bits_of(own)
    one = L.constant(1, bits)
    outward = (y > x) == (x > 0)
    stepped = L.reinterpret(L.select(outward, bits + one, bits - one), own.type)
    tiny = L.cast(L.reinterpret(bits * 0 + one, own.type), x.type)
    stepped = L.select(x == 0, L.copysign(tiny, y), L.cast(stepped, x.type))
    stepped = L.select(x == y, y, stepped)
    return L.select(L.isnan(x) | L.isnan(y), x + y, stepped)


@pointwise(
    complex_error=RuntimeError("heaviside is not yet implemented for complex tensors.")
)
def heaviside(x, y):
    """1 above zero, ``y`` at zero, else 0."""
    step = L.select(x > 0, L.constant(1, x), L.constant(0, x))
    return L.select(x == 0, y, step)


@pointwise
def xlogy(x, y):
    """x log(y), zero for a zero ``x`` unless ``y`` is NaN."""
    L.real_only(x, y)
    return L.select(L.isnan(y), y, L.select(x == 0, 0, x * L.log(y)))


@pointwise
def xlog1py(x, y):
    """x log(1 + y), zero for a zero ``x`` unless ``y`` is NaN."""
    L.real_only(x, y)
    return L.select(L.isnan(y), y, L.select(x == 0, 0, x * L.log1p(y)))


@pointwise
def bitwise_and(x, y):
    """``x & y``."""
    return x & y


@pointwise
def bitwise_or(x, y):
    """``x | y``."""
    return x | y


@pointwise
def bitwise_xor(x, y):
    """``x ^ y``."""
    return x ^ y


@pointwise(error_name="lshift_cpu")
def bitwise_left_shift(x, y):
    """``x << y``; zero where all the bits leave."""
    gone = (y < 0) | (y >= x.type.bits)
    return L.select(gone, 0, x << L.select(gone, 0, y))


@pointwise(error_name="rshift_cpu")
def bitwise_right_shift(x, y):
    """``x >> y``; only the sign is left where all the bits leave."""
    last = x.type.bits - 1
    gone = (y < 0) | (y > last)
    left = x >> L.select(gone, last, y)
    return left if x.type.is_signed else L.select(gone, 0, left)


@pointwise
def rbitwise_left_shift(x, y):
    """``bitwise_left_shift`` with the arguments exchanged."""
    return bitwise_left_shift.function(y, x)


@pointwise
def rbitwise_right_shift(x, y):
    """``bitwise_right_shift`` with the arguments exchanged."""
    return bitwise_right_shift.function(y, x)


@pointwise(error_name="lerp_kernel_tensor")
def lerp(start, end, weight):
    """From the nearer end, so that both ends are met exactly."""
    gap = end - start
    near = start + weight * gap
    return L.select(abs(weight) < 0.5, near, end - gap * (whole(1, weight) - weight))


@pointwise(error_name="addcmul_cpu_out")
def addcmul(x, y, z, value=1):
    """``x + value * y * z``."""
    return x + scale(y, value) * z


@pointwise(error_name="addcdiv_cpu_out")
def addcdiv(x, y, z, value=1):
    """``x + value * y / z``."""
    return x + scale(y, value) / z


@pointwise(float8=ALL_FLOAT8, complex_half=True, moved_from=1)
def where(condition, x, y):
    """``x`` where the condition holds, else ``y``."""
    return L.select(L.truth(condition), x, y)


@pointwise(error_name="masked_fill", complex_half=True)
def masked_fill(x, mask, value):
    """``value`` where the mask holds, else ``x``."""
    return L.select(L.truth(mask), value, x)


@pointwise(error_name="clamp_scalar_cpu", complex_error=UNORDERED)
def clamp_both(x, low, high):
    """``x`` held between two bounds; the upper one wins if they cross."""
    return L.clamp(x, low, high)


@pointwise(error_name="clamp_min_scalar_cpu", complex_error=UNORDERED)
def clamp_min(x, low):
    """``x``, but not less than ``low``."""
    return L.clamp(x, low)


@pointwise(error_name="clamp_max_scalar_cpu", complex_error=UNORDERED)
def clamp_max(x, high):
    """``x``, but not more than ``high``."""
    return L.clamp(x, None, high)


@pointwise(complex_error=RuntimeError("fmax not implemented for complex tensors."))
def fmax(x, y):
    """The larger; the other side where one is NaN, the first of two zeros."""
    if x.type.is_bool:
        return x | y
    return L.select((x >= y) | L.isnan(y), x, y)


@pointwise(complex_error=RuntimeError("fmin not implemented for complex tensors."))
def fmin(x, y):
    """The smaller; the other side where one is NaN, the first of two zeros."""
    if x.type.is_bool:
        return x & y
    return L.select((x <= y) | L.isnan(y), x, y)


def is_one(value):
    """Whether a kernel's scale is the plain number one."""
    return isinstance(value, int) and value == 1


def is_tensor(value):
    """Whether an operand is a tensor, not a number."""
    return hasattr(value, "dtype")


def div_mode(self, other, rounding_mode):
    """Chooses the division.

    Raises:
        RuntimeError: the rounding mode is none of None, 'trunc', 'floor'.
    """
    if rounding_mode is None:
        return ops.div(self, other)
    if rounding_mode == "trunc":
        dtype = result_type(self, other)
        if dtype.is_floating_point and dtype.itemsize == 2:  # of the rounded quotient
            return ops.trunc(ops.div(self, other))
        return ops._div_trunc(self, other)
    if rounding_mode == "floor":
        return ops._div_floor(self, other)
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' "
        f"but found '{rounding_mode}'"
    )


def divide_mode(self, other, rounding_mode):
    """Another name of ``div``."""
    return ops.div(self, other, rounding_mode=rounding_mode)


def subtract(self, other, alpha):
    """Another name of ``sub``."""
    return ops.sub(self, other, alpha=alpha)


def add_to_number(self, other, alpha):
    """A number first: it stays as weak in promotion as it is second."""
    return ops.add(wrapped_number(self), other, alpha=alpha)


def sub_from_number(self, other, alpha):
    """A number first."""
    return ops.sub(wrapped_number(self), other, alpha=alpha)


def number_first(name):
    """An operator of two tensors with a number as the first of them."""

    def function(self, other):
        return getattr(ops, name)(wrapped_number(self), other)

    function.__name__ = function.__qualname__ = f"{name}_number"
    return function


def div_number_mode(self, other, rounding_mode):
    """A number first."""
    return ops.div(wrapped_number(self), other, rounding_mode=rounding_mode)


def remainder_of_scalar(self, other):
    """A number divided by each element: what is left."""
    return ops._rremainder(other, self)


@pointwise
def cube(x):
    """The third power, as products from the left."""
    return x * x * x


def pow_scalar(self, exponent):
    """Small whole powers by multiplication, roots by ``sqrt``, the rest by ``pow``.

    Raises:
        RuntimeError: an integer tensor is raised to a negative integer.
    """
    if exponent == 0 or exponent == 1:
        return plain_power(self, exponent)
    if self.dtype.itemsize == 2 and self.dtype.is_floating_point:
        if not isinstance(exponent, complex):
            check_number(self.dtype, exponent)
    if exponent == 2:
        if self.dtype.category >= FLOATING or isinstance(exponent, int):
            return ops.mul(self, self) if self.dtype.category else ops._pow(self, 2)
    elif self.dtype.category >= FLOATING:
        if exponent == 0.5:
            return ops.sqrt(self)
        if exponent == -1:
            return ops.reciprocal(self)
        if exponent == -0.5:
            return ops.rsqrt(self)
        if exponent == 3:
            if self.dtype.name in ("float32", "float64"):
                return ops._cube(self)
            withdraw_destination()  # the square may not take what it is multiplied by
            return ops.mul(ops.mul(self, self), self)  # halves are rounded in between
        if self.is_complex():
            return complex_power(self, exponent)
    elif isinstance(exponent, int):
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if exponent > LEAST_LIMIT:
            operand_types.power(self, exponent)
    return ops._pow(self, exponent)


def plain_power(self, exponent):
    """One, or the base itself, in the type that other powers would have."""
    dtype = result_type(self, exponent)
    # laid out as elementwise results are, not as copies
    form = contiguous_format if self.is_contiguous() else None
    if exponent == 0:
        return ops.ones_like(self, dtype=dtype, memory_format=form)
    if dtype == self.dtype:
        return ops.clone(self, memory_format=form)
    return self.to(dtype, memory_format=form or preserve_format)


def complex_power(self, exponent):
    """Powers of zero and infinity too where the exponent is a small whole number."""
    if exponent == -2:
        return ops.reciprocal(ops.mul(self, self))
    return ops._pow(self, exponent)


def pow_of_number(self, exponent):
    """One to any power is one, to NaN too."""
    if self == 1 and self is not True:
        dtype = result_type(self, exponent)
        rows = contiguous_format
        return ops.ones_like(exponent, dtype=dtype, memory_format=rows)
    return ops._pow_of_number(self, exponent)


def pow_gradient(grad, self, exponent):
    """``grad`` times the conjugate of ``exponent * self ** (exponent - 1)``.

    Zero for a zero exponent.
    """
    if not is_tensor(exponent):
        if exponent == 0:
            return ops.zeros_like(grad)
        if exponent == 2 and not (is_recording() or python_key.listening(grad)):
            return grad * (2 * conjugated(self))
        if isinstance(exponent, int) and exponent == -(2**63):
            exponent = float(exponent)  # there is none below it
        return grad * conjugated(exponent * self ** (exponent - 1))
    slope = exponent * ops.pow(self, exponent - 1)
    return ops.where(exponent == 0, 0.0, grad * conjugated(slope))


def pow_exponent_gradient(grad, self, exponent, result):
    """``grad`` times the conjugate of ``result * log(self)``.

    Zero where a zero base meets a power that is not negative.
    """
    if not is_tensor(self):
        if self == 0:
            return grad * ops.where(flat_power(exponent), 0.0, result * -math.inf)
        base = complex(self) if exponent.is_complex() else self
        return grad * conjugated(result * logarithm(base))
    if exponent.is_complex() or self.is_complex():
        flat = (self == 0) & flat_power(exponent)
    else:
        flat = (self == 0) & (exponent >= 0)
    base = self.to(result_type(self, exponent))
    return grad * conjugated(ops.where(flat, 0.0, result * ops.log(base)))


def flat_power(exponent):
    """Where powers of zero do not change with the exponent."""
    if exponent.is_complex():
        return (ops.imag(exponent) == 0) & (ops.real(exponent) >= 0)
    return exponent >= 0


def logarithm(number):
    """The logarithm of a Python number; NaN for the negative ones that are real."""
    if isinstance(number, complex):
        return cmath.log(number)
    return math.log(number) if number > 0 else math.nan


def rpow(self, other):
    """``other ** self``."""
    if is_tensor(other) or other == 1:
        return ops.pow(other, self)
    return ops._pow_of_number(other, self)


def is_complex(value):
    """Whether a tensor or a number is complex."""
    return value.is_complex() if is_tensor(value) else isinstance(value, complex)


def float_power(self, exponent):
    """Both sides as float64.

    Raises:
        RuntimeError: neither side is a tensor.
    """
    kind = float64
    if is_complex(self) or is_complex(exponent):
        kind = complex128
    if is_tensor(self):
        self = self.to(kind)
    if is_tensor(exponent):
        exponent = exponent.to(kind)
    return ops.pow(self, exponent)


def float_power_(self, exponent):
    """Written over a base that is in double precision already.

    Raises:
        RuntimeError: the base is of another type than the result.
    """
    kind = float64
    if is_complex(self) or is_complex(exponent):
        kind = complex128
    if kind != self.dtype:
        kinds = [TYPE_NAMES.get(each.name, each.name) for each in (self.dtype, kind)]
        raise RuntimeError(
            f"the base given to float_power_ has dtype {kinds[0]} but the operation's "
            f"result requires dtype {kinds[1]}"
        )
    return self.pow_(exponent.to(kind) if is_tensor(exponent) else exponent)


def share_where_larger(grad, self, other):
    """The gradient where ``self`` is larger, half of it at a tie."""
    at_tie = ops.where(self == other, grad / 2, grad)
    return ops.masked_fill_(at_tie, self < other, 0)  # which keeps the layout


def truth(condition):
    """A condition as a mask: bytes may serve as one."""
    return condition if condition.dtype is bool_ else condition != 0


def masked_fill_tensor(self, mask, value):
    """``masked_fill`` with the number in a tensor, which may want a gradient.

    Raises:
        RuntimeError: the tensor has dimensions.
    """
    if value.ndim:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor "
            f"with {value.ndim} dimension(s).\n  value: {brief(value)}"
        )
    unread = value._stand is not None or intercepted(value)
    if unread or (value.requires_grad and self.dtype.category >= FLOATING):
        if not unread and has_elements(value):
            check_number(self.dtype, value.item())
        if mask.dtype.category == BOOLEAN:
            # row by row, however the mask lies
            return ops.where(mask, value.to(self.dtype), self).contiguous()
    number = value.item() if has_elements(value) else 0
    return ops.masked_fill(self, mask, number)


def copysign_gradient(grad, self, result):
    """The sign that the result took, zero at zero."""
    return grad * ops.where(self == 0, 0.0, result / self)


@pointwise
def ldexp_steps(x, steps):
    """In three parts: the power alone may be out of range where the product is not."""
    steps = L.clamp(steps, -3000, 3000)
    part = L.exp2(L.floor(steps * (1 / 3)))
    return x * part * part * L.exp2(steps - 2 * L.floor(steps * (1 / 3)))


def scaled_type(dtype, steps):
    """Computed in double precision, and of the first input's type."""
    return "float64", (dtype.name,)


def powers_of_two(exponents, like=None):
    """Two to the power of each element, the two being of the type of ``like``."""
    if (
        like is None
        or like.dtype.category < FLOATING
        or like.dtype in (float32, exponents.dtype)
    ):
        whole = exponents.dtype.category < FLOATING
        return ops.pow(2.0, exponents) if whole else ops.exp2(exponents)
    return ops.pow(ops.full((), 2.0, dtype=like.dtype), exponents)


def ldexp(self, other):
    """``self * 2 ** other``; for integer powers of floats, of the floats' type.

    Raises:
        NotImplementedError: the powers are truth values, beside floats.
    """
    if not self.dtype.is_floating_point or other.dtype.category >= FLOATING:
        return self * powers_of_two(ops.contiguous(other), self)  # PyTorch's strides
    if other.dtype.category == BOOLEAN:
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
    return ops._ldexp(self, other.to(int32))


def atan2_gradient(grad, self, other, across):
    """``grad`` times a coordinate over the squared length, zero at the origin."""
    square = self * self + other * other
    slope = grad * across * square.reciprocal()
    return ops.where(square == 0, grad * across * 0, slope)


def xlogy_gradient(grad, self, other):
    """grad * log(other), zero where ``self`` is zero and other is not positive."""
    if is_tensor(other):
        # of the wider type: other's own may be too narrow for its logarithm
        return ops.xlogy(ops.masked_fill(grad, (self == 0) & (other <= 0), 0), other)
    logarithm = math.log(other) if other > 0 else -math.inf if other == 0 else math.nan
    return grad * ops.where((self == 0) & (not other > 0), 0.0, logarithm)


def xlog1py_gradient(grad, self, other):
    """grad * log1p(other), zero where ``self`` is zero and other is not above -1."""
    if is_tensor(other):
        kept = ops.masked_fill(grad, (self == 0) & (other <= -1), 0)
        return ops.special_xlog1py(kept, other)
    beyond = -math.inf if other == -1 else math.nan
    logarithm = math.log1p(other) if other > -1 else beyond
    return grad * ops.where((self == 0) & (not other > -1), 0.0, logarithm)


def quotient_of_number(value, tensor):
    """``value / tensor``, the number being rounded to the tensor's type before."""
    if tensor.dtype.itemsize == 2 and tensor.is_floating_point():
        value = ops.full((), value, dtype=tensor.dtype, device=tensor.device)
    return value / tensor


def where_nonzero(condition):
    """Positions of the true elements."""
    return ops.nonzero_numpy(condition)


def clamp(self, low, high):
    """The kernel for the bounds that are there.

    Raises:
        RuntimeError: neither bound is given.
    """
    if low is None and high is None:
        raise RuntimeError(
            "torch.clamp: At least one of 'min' or 'max' must not be None"
        )
    if low is None:
        return ops.clamp_max(self, high)
    if high is None:
        return ops.clamp_min(self, low)
    return ops._clamp(self, low, high)


def clamp_tensors(self, low, high):
    """``clamp`` with tensors as bounds."""
    return clamp(self, low, high)


def clamp_gradient(grad, self, low, high):
    """The gradient where the input was within the bounds."""
    if low is None and high is None:
        return grad
    inside = self <= high if low is None else self >= low
    if low is not None and high is not None:
        inside = inside & (self <= high)
    return ops.where(inside, grad, 0)


def clamp_gradients(grad, self, low, high, needs):
    """Each bound gets the gradient of the elements that it replaced."""
    d_self = d_low = d_high = None
    if needs & 1:
        d_self = ops.where((self >= low) & (self <= high), grad, 0)
    if needs & 2 and is_tensor(low):
        d_low = ops.where((low < high) & (self < low), grad, 0)
    if needs & 4 and is_tensor(high):
        d_high = ops.where((self > high) | (high < low), grad, 0)
    return d_self, d_low, d_high
