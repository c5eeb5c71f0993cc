"""Activations: operators with PyTorch's ``inplace`` and ``dim`` conventions."""

import warnings

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.operators import call


def relu(input, inplace=False):
    """``max(input, 0)`` of each element.

    >>> relu(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return call.relu_(input) if inplace else call.relu(input)


def relu6(input, inplace=False):
    """Each element kept between 0 and 6.

    >>> relu6(rl.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """
    return call.relu6_(input) if inplace else call.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``.

    Args:
        alpha: the factor of what is below zero.

    >>> elu(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return call.elu_(input, alpha) if inplace else call.elu(input, alpha)


def selu(input, inplace=False):
    """A scaled ``elu`` that keeps activations normalised.

    >>> selu(rl.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return call.selu_(input) if inplace else call.selu(input)


def celu(input, alpha=1.0, inplace=False):
    """``max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)``.

    Args:
        alpha: the factor of what is below zero.

    >>> celu(rl.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.0000])
    """
    return call.celu_(input, alpha) if inplace else call.celu(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``x`` where positive, else ``negative_slope * x``.

    Args:
        negative_slope: the factor of negative elements.

    >>> leaky_relu(rl.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    if inplace:
        return call.leaky_relu_(input, negative_slope)
    return call.leaky_relu(input, negative_slope)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Each element kept between ``min_val`` and ``max_val``.

    Args:
        min_val: the lower bound.
        max_val: the upper bound.

    >>> hardtanh(rl.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return call.hardtanh_(input, min_val, max_val)
    return call.hardtanh(input, min_val, max_val)


def hardsigmoid(input, inplace=False):
    """``clamp(x / 6 + 1 / 2, 0, 1)``.

    >>> hardsigmoid(rl.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return call.hardsigmoid_(input) if inplace else call.hardsigmoid(input)


def hardswish(input, inplace=False):
    """``x * hardsigmoid(x)``.

    >>> hardswish(rl.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """
    return call.hardswish_(input) if inplace else call.hardswish(input)


def silu(input, inplace=False):
    """``x * sigmoid(x)``.

    >>> silu(rl.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    return call.silu_(input) if inplace else call.silu(input)


def mish(input, inplace=False):
    """``x * tanh(softplus(x))``.

    >>> mish(rl.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """
    return call.mish_(input) if inplace else call.mish(input)


def threshold(input, threshold, value, inplace=False):
    """``x`` where greater than ``threshold``, else ``value``.

    Args:
        threshold: what elements must be above to stay.
        value: what the others become.

    >>> threshold(rl.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    if inplace:
        return call.threshold_(input, threshold, value)
    return call.threshold(input, threshold, value)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """``leaky_relu`` with slopes drawn between ``lower`` and ``upper`` in training.

    Args:
        lower: the smallest slope.
        upper: the largest slope.
        training: whether slopes are drawn; otherwise it is the middle of both.

    >>> rrelu(rl.tensor([-2.4, 2.0]), 0.1, 0.4)
    tensor([-0.6000,  2.0000])
    """
    if inplace:
        return call.rrelu_(input, lower, upper, training)
    return call.rrelu(input, lower, upper, training)


def tanh(input):
    """Hyperbolic tangent of each element.

    >>> tanh(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return call.tanh(input)


def sigmoid(input):
    """``1 / (1 + exp(-x))``.

    >>> sigmoid(rl.tensor([0.0, 1.0]))
    tensor([0.5000, 0.7311])
    """
    return call.sigmoid(input)


def tanhshrink(input):
    """``x - tanh(x)``.

    >>> tanhshrink(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return input - call.tanh(input)


def softsign(input):
    """``x / (1 + |x|)``.

    >>> softsign(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5000])
    """
    return input / (input.abs() + 1)


def glu(input, dim=-1):
    """The first half along a dimension, times the sigmoid of the second.

    Args:
        input: elements of an even size along ``dim``.
        dim: the dimension.

    >>> glu(rl.tensor([1.0, 2.0, 0.0, 1.0]))
    tensor([0.5000, 1.4621])
    """
    return call.glu(input, dim)


def _implied_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call "
        "to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """Exponentials along a dimension, scaled to the sum 1.

    Args:
        dim: the dimension along which the results sum to one.

    >>> softmax(rl.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """
    if dim is None:
        dim = _implied_dim("softmax", input.dim(), _stacklevel)
    if dtype is None:
        return call.softmax(input, dim)
    return call.softmax(input, dim, dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """``softmax`` of the negated input.

    Args:
        dim: the dimension along which the results sum to one.

    >>> softmin(rl.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.6652, 0.2447, 0.0900])
    """
    if dim is None:
        dim = _implied_dim("softmin", input.dim(), _stacklevel)
    return softmax(-input, dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """Logarithm of ``softmax``, computed without overflow.

    Args:
        dim: the dimension along which the exponentials of the results sum to one.

    >>> log_softmax(rl.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([-2.4076, -1.4076, -0.4076])
    """
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

    >>> _ = rl.manual_seed(0)
    >>> gumbel_softmax(rl.tensor([0.0, 1.0]), hard=True)
    tensor([0., 1.])
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


describe_arguments(
    globals(),
    input="the elements, of any shape.",
    inplace="whether the input itself is written to.",
    dtype="what the input is converted to before.",
)
