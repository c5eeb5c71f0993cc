"""Activation functions, their gradients and the gradients of those."""

import math

from rushlight.codegen import language as L
from rushlight.codegen.language import pointwise
from rushlight.core.dtype import finfo
from rushlight.core.dtypes import float64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.elementwise.binary import UNORDERED
from rushlight.operators.loop_calls import require
from rushlight.operators.shared import followed, has_elements, readable
from rushlight.operators.type_groups import FLOATS
from rushlight.random import distributions

SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805
INVERSE_SQRT_TWO_PI = 1 / math.sqrt(2 * math.pi)
TANH_SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


@pointwise(error_name="clamp_min_scalar_cpu", complex_error=UNORDERED)
def relu(x):
    """Not below zero; NaN and negative zero stay."""
    return L.clamp(x, 0)


@pointwise
def threshold(x, limit, value):
    """``x`` above the limit, else ``value``."""
    return L.select(x <= limit, value, x)


@pointwise
def threshold_backward(x, grad, limit):
    """The gradient above the limit; laid out as ``x`` is, which comes first."""
    return L.select(x <= limit, 0, grad)


def check_approximation(approximate):
    """Refuses anything but the two ways of computing gelu.

    Raises:
        RuntimeError: another word was given.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")


@pointwise(error_name="GeluKernelImpl")
def gelu(x, approximate):
    """x times the normal distribution function, or its tanh approximation.

    ``(1 + tanh(u)) / 2`` is the sigmoid of ``2 u``, which does not cancel where it is small.
    """
    check_approximation(approximate)
    if approximate == "tanh":
        return x * L.sigmoid(2 * TANH_SCALE * (x + CUBIC * x * x * x))
    return x * L.normal_cdf(x)


@pointwise(error_name="GeluBackwardKernelImpl")
def gelu_backward(grad, x, approximate):
    """Distribution plus x times density."""
    if approximate == "tanh":
        s = L.sigmoid(2 * TANH_SCALE * (x + CUBIC * x * x * x))
        inner = 2 * TANH_SCALE * (1 + 3 * CUBIC * x * x)
        return grad * (s + x * (s * (1 - s)) * inner)
    return grad * (L.normal_cdf(x) + x * L.exp(-0.5 * x * x) * INVERSE_SQRT_TWO_PI)


@pointwise
def silu(x):
    """x sigmoid(x)."""
    return x * L.sigmoid(x)


@pointwise
def gate(x, y):
    """x sigmoid(y)."""
    return x * L.sigmoid(y)


@pointwise
def silu_backward(grad, x):
    """The product rule."""
    s = L.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


def log1p_exp(x):
    """log(1 + exp(x)) without overflow."""
    return L.maximum(x, 0) + L.log1p(L.exp(-abs(x)))


@pointwise
def mish(x):
    """x tanh(softplus(x))."""
    return x * L.tanh(log1p_exp(x))


@pointwise
def mish_backward(grad, x):
    """The product rule."""
    t = L.tanh(log1p_exp(x))
    return grad * (t + x * (1 - t * t) * L.sigmoid(x))


@pointwise
def elu(x, alpha, scale, input_scale):
    """Linear above zero, a scaled expm1 below."""
    below = L.expm1(L.clamp(x, None, 0) * input_scale) * (alpha * scale)
    return L.select(x <= 0, below, x * scale)


@pointwise
def elu_backward(grad, alpha, scale, input_scale, x, is_result):
    """From the input or, where that is gone, from the result."""
    if is_result:
        below = input_scale * (x + alpha * scale)
    else:
        below = input_scale * alpha * scale * L.exp(L.minimum(x, 0) * input_scale)
    return grad * L.select(x <= 0, below, scale)


@pointwise
def leaky_relu(x, negative_slope):
    """A smaller slope below zero."""
    return L.select(x > 0, x, x * negative_slope)


@pointwise
def leaky_relu_backward(x, grad, negative_slope):
    """The slope at the input; the result has its sign."""
    return L.select(x > 0, grad, grad * negative_slope)


@pointwise
def softplus(x, beta, limit):
    """Linear where beta x is above the limit."""
    scaled = x * beta
    return L.select(scaled > limit, x, log1p_exp(scaled) / beta)


@pointwise
def softplus_backward(grad, x, beta, limit):
    """The logistic function, one above the limit."""
    scaled = x * beta
    return L.select(scaled > limit, grad, grad * L.sigmoid(scaled))


@pointwise(error_name="clamp_scalar_cpu", complex_error=UNORDERED)
def hardtanh(x, low, high):
    """Between two bounds."""
    return L.clamp(x, low, high)


@pointwise
def hardtanh_backward(grad, x, low, high):
    """The gradient strictly between the bounds."""
    return L.select((x <= low) | (x >= high), 0, grad)


@pointwise
def hardsigmoid(x):
    """x / 6 + 1/2 between 0 and 1."""
    return L.minimum(L.maximum(x + 3, 0), 6) / 6


@pointwise(error_name="hardsigmoid_backward")
def hardsigmoid_backward(grad, x):
    """A sixth of the gradient on the slope."""
    return L.select((x > -3) & (x < 3), grad / 6, 0)


@pointwise
def hardswish(x):
    """x hardsigmoid(x)."""
    return x * L.minimum(L.maximum(x + 3, 0), 6) / 6


@pointwise
def hardswish_backward(grad, x):
    """Zero, a line, one."""
    return L.select(x <= -3, 0, L.select(x >= 3, grad, grad * (x / 3 + 0.5)))


@pointwise
def hardshrink(x, lambd):
    """Zero within the band."""
    return L.select((x >= -lambd) & (x <= lambd), 0, x)


@pointwise
def hardshrink_backward(grad, x, lambd):
    """The gradient outside the band."""
    return L.select((x >= -lambd) & (x <= lambd), 0, grad)


@pointwise
def softshrink_kernel(x, lambd):
    """Zero within the band, moved by its half width outside."""
    low = L.select(x < -lambd, x + lambd, x * 0)
    return L.select(x > lambd, x - lambd, low)


@pointwise
def log_sigmoid(x):
    """-softplus(-x)."""
    return L.minimum(x, 0) - L.log1p(L.exp(-abs(x)))


@pointwise
def log_sigmoid_backward(grad, x):
    """The logistic function of the opposite; nothing is subtracted from one."""
    return grad * L.sigmoid(-x)


@pointwise(error_name="prelu_cpu")
def prelu_kernel(x, weight):
    """The slope is an operand."""
    return L.select(x > 0, x, x * weight)


def threshold_backward_of(grad_output, self, threshold):
    """The kernel takes the other order."""
    return ops._threshold_backward(self, grad_output, threshold)


def leaky_relu_backward_of(grad_output, self, negative_slope, self_is_result):
    """The kernel takes the other order.

    Raises:
        RuntimeError: a negative slope, where only the result is there.
    """
    if self_is_result and negative_slope < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope "
            "which is not supported. Please call the forward function out of place."
        )
    return ops._leaky_relu_backward(self, grad_output, negative_slope)


def relu6(self):
    """Between 0 and 6."""
    return ops.hardtanh(self, 0, 6)


def selu(self):
    """``elu`` with the constants that keep mean 0 and variance 1."""
    return ops.elu(self, SELU_ALPHA, SELU_SCALE)


def celu(self, alpha):
    """``elu`` with the exponent divided by alpha.

    Raises:
        RuntimeError: alpha is zero.
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return ops.elu(self, alpha, 1.0, 1.0 / alpha)


def softshrink(self, lambd):
    """Towards zero by ``lambd``.

    Raises:
        RuntimeError: ``lambd`` is negative, or complex.
    """
    if isinstance(lambd, complex):
        raise RuntimeError("value cannot be converted to type double without overflow")
    require("softshrink_check", self.dtype, FLOATS, self)
    largest = finfo(self.dtype).max
    if not 0 <= lambd <= largest:
        raise RuntimeError(
            f"lambda must be in range [0, {largest:g}] for input dtype "
            f"{TYPE_NAMES.get(self.dtype.name)}, but found {float(lambd):g}"
        )
    return ops._softshrink(self, lambd)


def prelu(self, weight):
    """The slopes laid along the channels.

    Raises:
        RuntimeError: there are neither one slope nor as many as channels.
    """
    if weight.ndim > 1:
        raise RuntimeError(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = "
            f"{weight.ndim}"
        )
    if self.dtype != weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {self.dtype} and {weight.dtype}"
        )
    if weight.numel() != 1:
        if self.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self.shape[1] if self.ndim > 1 else 1
        if self.ndim == 0 or channels != weight.numel():
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter "
                f"numbers = {weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape([-1, *[1] * (self.ndim - 2)])
    elif weight.ndim and self.ndim == 0:
        weight = weight.reshape([])
    return ops._prelu_kernel(self, weight)


def rrelu(self, lower, upper, training, generator):
    """``leaky_relu`` with slopes drawn between two bounds in training.

    Raises:
        RuntimeError: a bound is not finite, or the bounds are crossed.
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, complex):
            raise RuntimeError(
                "value cannot be converted to type double without overflow"
            )
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise RuntimeError(
            "Lower bound should be less than or equal to the upper bound"
        )
    if not training:
        return ops.leaky_relu(self, (lower + upper) / 2).contiguous()
    require("rrelu_with_noise_out_cpu", self.dtype, (6, 7, 15), self)
    # Slopes are drawn for the elements that need one, in their order.
    values = self.detach().contiguous()
    return _leak(values.device, values, self, generator, lower, upper)


def _leak_in_order(device, values, self, generator, lower, upper):
    if not readable(values) or followed():
        return _leak_by_mask(device, values, self, generator, lower, upper)
    slopes = ops.empty_like(values)
    source = distributions.plain_address(values)
    if source:
        distributions.fill_slopes(
            generator, distributions.plain_address(slopes), values.numel(),
            values.dtype.code, source, lower, upper,
        )  # fmt: skip
    return slopes * self


def _leak_by_mask(_, values, self, generator, lower, upper):
    if not has_elements(values):
        return ops.ones_like(values) * self
    sloped = values <= 0
    count = int(sloped.sum())
    slopes = ops.empty(count, dtype=float64, device=self.device)
    slopes = slopes.uniform_(lower, upper, generator=generator).to(values.dtype)
    return ops.ones_like(values).masked_scatter_(sloped, slopes) * self


def _leak_by_draws(_, values, self, generator, lower, upper):
    """Draws for all elements: who needs none is not known without waiting."""
    slopes = ops.empty_like(values).uniform_(lower, upper, generator=generator)
    return ops.where(values <= 0, slopes, 1) * self


_leak = KernelTable(cpu=_leak_in_order, cuda=_leak_by_draws, meta=_leak_by_mask)


def glu(self, dim):
    """``a * sigmoid(b)`` of the two halves.

    Raises:
        RuntimeError: the dimension can't be halved.
        NotImplementedError: the input is not of real floats.
    """
    if self.ndim == 0:
        raise RuntimeError(
            "glu does not support scalars because halving size must be even"
        )
    dim = wrap_dim(dim, self.ndim)
    if self.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size "
            f"{self.shape[dim]}"
        )
    if not self.dtype.is_floating_point:
        kind = TYPE_NAMES.get(self.dtype.name, self.dtype.name)
        raise NotImplementedError(f"\"glu_cpu\" not implemented for '{kind}'")
    return ops._gate(*self.chunk(2, dim))


def gelu_second_gradient(grad, grad_output, x, approximate):
    """The derivative of ``gelu_backward`` with respect to the input."""
    both = grad * grad_output
    if approximate == "tanh":
        t = ops.tanh(TANH_SCALE * (x + CUBIC * x * x * x))
        inner = TANH_SCALE * (1 + 3 * CUBIC * x * x)
        bend = 6 * TANH_SCALE * CUBIC * x - 2 * t * inner * inner
        slope = ops.cosh(TANH_SCALE * (x + CUBIC * x * x * x)).square().reciprocal()
        return both * slope * (inner + 0.5 * x * bend)
    return both * (2 - x * x) * (ops.exp(-0.5 * x * x) * INVERSE_SQRT_TWO_PI)


def silu_second_gradient(grad, grad_output, x):
    """The derivative of ``silu_backward`` with respect to the input."""
    s = ops.sigmoid(x)
    return grad * grad_output * (s * (1 - s) * (2 + x * (1 - 2 * s)))


def mish_second_gradient(grad, grad_output, x):
    """The derivative of ``mish_backward`` with respect to the input."""
    s, t = ops.sigmoid(x), ops.tanh(ops.softplus(x))
    return grad * grad_output * ((1 - t * t) * s * (2 + x * (1 - s - 2 * t * s)))


def elu_second_gradient(grad, grad_output, alpha, scale, input_scale, is_result, x):
    """The derivative of ``elu_backward`` with respect to its last argument."""
    both = grad * grad_output * input_scale
    if not is_result:
        both = both * (alpha * scale * input_scale) * ops.exp(x * input_scale)
    return ops.masked_fill(both, ~(x < 0), 0)  # a NaN's slope does not change either


def log_sigmoid_second_gradient(grad, grad_output, x):
    """The slope of the logistic function, from the side where it is small."""
    return grad * grad_output * -(ops.sigmoid(x) * ops.sigmoid(-x))


def softplus_second_gradient(grad, grad_output, x, beta, threshold):
    """The derivative of ``softplus_backward`` with respect to the input."""
    s = ops.sigmoid(x * beta)
    slope = grad * grad_output * (s * (1 - s) * beta)
    return ops.masked_fill(slope, x * beta > threshold, 0)


def hardswish_second_gradient(grad, grad_output, x):
    """A third on the slope."""
    inside = (x > -3) & (x < 3)
    return ops.where(inside, grad * grad_output / 3, 0)
