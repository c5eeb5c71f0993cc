"""Distributions as launches over random bits, for programs that are recorded to run elsewhere.

The bits are the generator's own, in its order (`runtime.cpu.random_bits`): what comes out is
what `random.distributions` fills memory with, to the last bit.
"""

import math

from rushlight.core.dtypes import float32, float64, int64
from rushlight.core.roles import host
from rushlight.operators import call as ops
from rushlight.random import distributions


def _bits(like, wide):
    out = ops.empty(like.shape, dtype=int64)
    host.random_bits.draw_bits(out, wide)
    return out


def _bernoulli(like, p, one=1.0):
    """``one`` where 53 bits, a number below 1, are less than ``p``, else 0."""
    kept = _bits(like, True) < math.ceil(p * 2.0**53)
    return kept if one == 1.0 else kept.to(like.dtype) * one


def _uniform(like, low, high):
    """Numbers in ``[low, high)`` of 24 bits; None for what is rounded otherwise."""
    if like.dtype is float64 and low == 0.0:
        numbers = _bits(like, True).to(float64) * 2.0**-53
        return numbers if high == 1.0 else _below(numbers * high, 0.0, high)
    if like.dtype is not float32:
        return None
    first, end = _single(low), _single(high)
    width = _single(end - first)
    numbers = _bits(like, False).to(float64) * 2.0**-24
    if (low, high) != (0.0, 1.0):
        numbers = _below((numbers * width + first).to(float32), first, end)
    return numbers


def _single(number):
    return distributions.single_quotient(number, 1.0)


def _below(numbers, low, high):
    return ops.masked_fill(numbers, numbers == high, low)


_OF_BITS = {
    distributions.fill_bernoulli: _bernoulli,
    distributions.fill_uniform: _uniform,
}


def filled(like, fill, parameters):
    """What a function of `random.distributions` would fill a tensor with.

    Args:
        like: the tensor.
        fill: the function.
        parameters: what it is given behind the tensor.

    Returns:
        None where there are no launches for it.
    """
    transform = _OF_BITS.get(fill)
    return None if transform is None else transform(like, *parameters)
