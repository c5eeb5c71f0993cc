"""Softmax and its logarithm, forward and backward, over any axis."""

import math

from rushlight.codegen.language import exp, largest, log, rowwise, select, total
from rushlight.core.dtypes import float16, float32
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh, scalar_name
from rushlight.operators.normalization.rows import over


@rowwise(error_name="softmax_lastdim_kernel_impl")
def softmax_kernel(x, dim):
    """The largest exponent is zero, so nothing overflows."""
    mass = exp(x - largest(x, over=dim))
    return mass / total(mass, over=dim)


@rowwise
def safe_softmax_kernel(x, dim):
    """Zeros where all is minus infinity, whose distances from the largest are NaN."""
    top = largest(x, over=dim)
    mass = exp(x - top)
    return select(top == -math.inf, 0.0, mass / total(mass, over=dim))


@rowwise
def log_softmax_kernel(x, dim):
    """The distance from the logarithm of the mass."""
    shifted = x - largest(x, over=dim)
    return shifted - log(total(exp(shifted), over=dim))


@rowwise
def softmax_backward_kernel(grad, y, dim):
    """The gradient less its mean under the distribution."""
    return (grad - total(grad * y, over=dim)) * y


@rowwise
def log_softmax_backward_kernel(grad, y, dim):
    """The gradient less the distribution's share of its sum."""
    return grad - exp(y) * total(grad, over=dim)


def _forward(self, dim, kernel, name):
    """What a kernel makes; what is not floating has that only without elements."""
    if self.is_floating_point():
        return over(kernel, [self], dim)
    wrap_dim(dim, self.ndim)
    if self.numel():
        kind = TYPE_NAMES.get(self.dtype.name, self.dtype.name)
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind}'")
    return fresh(self, self.shape)


def softmax(self, dim, dtype):
    """In another dtype if one is given."""
    if dtype is not None:
        self = self.to(dtype)
    return ops._softmax(self, dim, False)


def log_softmax(self, dim, dtype):
    """In another dtype if one is given."""
    if dtype is not None:
        self = self.to(dtype)
    return ops._log_softmax(self, dim, False)


def softmax_forward(self, dim, half_to_float):
    """The kernel along ``dim``.

    Raises:
        NotImplementedError: the input isn't floating.
        IndexError: there is no such dimension.
    """
    return _forward(self, dim, softmax_kernel, "softmax_lastdim_kernel_impl")


def log_softmax_forward(self, dim, half_to_float):
    """The kernel along ``dim``.

    Raises:
        NotImplementedError: the input isn't floating.
        IndexError: there is no such dimension.
    """
    return _forward(self, dim, log_softmax_kernel, "log_softmax_lastdim_kernel_impl")


def _check_gradient(name, grad_output, output, input_dtype):
    if grad_output.shape != output.shape:
        raise RuntimeError(
            "Expected tensor for argument #1 'grad' to have same size as tensor for "
            f"argument #2 'output'; but {list(grad_output.shape)} does not equal "
            f"{list(output.shape)} (while checking arguments for {name})"
        )
    if grad_output.dtype is not output.dtype:
        raise RuntimeError(
            f"expected scalar type {scalar_name(grad_output.dtype)} but found "
            f"{scalar_name(output.dtype)}"
        )
    if input_dtype is float16 and grad_output.dtype is float32:
        raise RuntimeError("expected scalar type Float but found Half")


def softmax_backward_data(grad_output, output, dim, input_dtype):
    """From the result.

    Raises:
        RuntimeError: the gradient's sizes or type are not the result's.
    """
    _check_gradient("softmax_backward", grad_output, output, input_dtype)
    return over(softmax_backward_kernel, [grad_output, output], dim)


def log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """From the result.

    Raises:
        RuntimeError: the gradient's sizes or type are not the result's.
    """
    _check_gradient("log_softmax_backward", grad_output, output, input_dtype)
    return over(log_softmax_backward_kernel, [grad_output, output], dim)


def softmax_second_gradient(grad, grad_output, output, dim):
    """The derivative of ``softmax_backward_data`` with respect to the result."""
    mass = (grad_output * output).sum([dim], keepdim=True)
    spread = (grad * output).sum([dim], keepdim=True)
    return grad * (grad_output - mass) - grad_output * spread


def log_softmax_grad_gradient(grad, output, dim):
    """The derivative of ``log_softmax_backward_data`` with respect to the gradient."""
    return grad - (grad * ops.exp(output)).sum([dim], keepdim=True)


def log_softmax_second_gradient(grad, grad_output, output, dim):
    """The derivative of ``log_softmax_backward_data`` with respect to the result."""
    return -grad * ops.exp(output) * grad_output.sum([dim], keepdim=True)


def safe_softmax_forward(self, dim, dtype):
    """Where no element has a share, none gets one.

    Raises:
        NotImplementedError: the input isn't floating.
        IndexError: there is no such dimension.
    """
    if dtype is not None:
        self = self.to(dtype)
    return _forward(self, dim, safe_softmax_kernel, "softmax_lastdim_kernel_impl")
