"""Activations: operators with PyTorch's ``inplace`` and ``dim`` conventions."""

from __future__ import annotations

import warnings

import rushlight as rl
from rushlight.operators import call


def relu(input, inplace=False):
    """``max(input, 0)`` of each element."""
    return call.relu_(input) if inplace else call.relu(input)


def relu6(input, inplace=False):
    """Each element kept between 0 and 6."""
    return call.relu6_(input) if inplace else call.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return call.elu_(input, alpha) if inplace else call.elu(input, alpha)


def selu(input, inplace=False):
    """A scaled ``elu`` that keeps activations normalised."""
    return call.selu_(input) if inplace else call.selu(input)


def celu(input, alpha=1.0, inplace=False):
    """``max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)``."""
    return call.celu_(input, alpha) if inplace else call.celu(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``x`` where positive, else ``negative_slope * x``."""
    if inplace:
        return call.leaky_relu_(input, negative_slope)
    return call.leaky_relu(input, negative_slope)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Each element kept between ``min_val`` and ``max_val``."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return call.hardtanh_(input, min_val, max_val)
    return call.hardtanh(input, min_val, max_val)


def hardsigmoid(input, inplace=False):
    """``clamp(x / 6 + 1 / 2, 0, 1)``."""
    return call.hardsigmoid_(input) if inplace else call.hardsigmoid(input)


def hardswish(input, inplace=False):
    """``x * hardsigmoid(x)``."""
    return call.hardswish_(input) if inplace else call.hardswish(input)


def silu(input, inplace=False):
    """``x * sigmoid(x)``."""
    return call.silu_(input) if inplace else call.silu(input)


def mish(input, inplace=False):
    """``x * tanh(softplus(x))``."""
    return call.mish_(input) if inplace else call.mish(input)


def threshold(input, threshold, value, inplace=False):
    """``x`` where greater than ``threshold``, else ``value``."""
    if inplace:
        return call.threshold_(input, threshold, value)
    return call.threshold(input, threshold, value)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """``leaky_relu`` with slopes drawn between ``lower`` and ``upper`` in training."""
    if inplace:
        return call.rrelu_(input, lower, upper, training)
    return call.rrelu(input, lower, upper, training)


def tanh(input):
    """Hyperbolic tangent of each element."""
    return call.tanh(input)


def sigmoid(input):
    """``1 / (1 + exp(-x))``."""
    return call.sigmoid(input)


def tanhshrink(input):
    """``x - tanh(x)``."""
    return input - call.tanh(input)


def softsign(input):
    """``x / (1 + |x|)``."""
    return input / (input.abs() + 1)


def logsigmoid(input, *, out=None):
    """``log(sigmoid(x))`` without overflow."""
    return call.log_sigmoid(input, out=out)


def glu(input, dim=-1):
    """The first half along a dimension, times the sigmoid of the second."""
    return call.glu(input, dim)


def _implied_dim(name, ndim, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call "
        "to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """Exponentials along a dimension, scaled to the sum 1."""
    if dim is None:
        dim = _implied_dim("softmax", input.dim(), _stacklevel)
    if dtype is None:
        return call.softmax(input, dim)
    return call.softmax(input, dim, dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """``softmax`` of the negated input."""
    if dim is None:
        dim = _implied_dim("softmin", input.dim(), _stacklevel)
    return softmax(-input, dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """Logarithm of ``softmax``, computed without overflow."""
    if dim is None:
        dim = _implied_dim("log_softmax", input.dim(), _stacklevel)
    if dtype is None:
        return call.log_softmax(input, dim)
    return call.log_softmax(input, dim, dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A random one-hot vector, or a soft one, that gradients pass through.

    Args:
        logits: unnormalised log probabilities.
        tau: temperature; the smaller, the closer to one-hot.
        hard: return exactly one-hot values, with the soft ones' gradient.
        eps: has no effect.
        dim: the dimension of the alternatives.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    rows = rl.contiguous_format
    noise = -rl.empty_like(logits, memory_format=rows).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = rl.zeros_like(logits, memory_format=rows).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
