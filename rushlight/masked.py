"""Reductions and normalisations that leave masked-out elements out of account.

Each takes a ``mask``, true where an element counts, that broadcasts to the input. What
does not count is replaced by what changes nothing, such as zero in a sum. Results that no
element counts for are of that value; means and the like are NaN there.

>>> import rushlight as rl
>>> sum(rl.tensor([1.0, 2.0, 4.0]), mask=rl.tensor([True, False, True])).item()
5.0
"""

from __future__ import annotations

import math

import rushlight
from rushlight.ops import call as _call

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std",
    "sum", "var",
]  # fmt: skip


def _filled(input, mask, value):
    """The input with a value where it does not count.

    Raises:
        IndexError: the mask has more dimensions than the input.
    """
    if mask is None:
        return input
    return _call.where(_whole(mask, input), input, value)


def _whole(mask, input):
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher "
            "than of the input)"
        )
    return mask.to(rushlight.bool).expand(input.shape)


def _dims(input, dim):
    if dim is None:
        return tuple(range(input.ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return dims or tuple(range(input.ndim))


def _summed(input, dtype):
    """The type of sums and products: wide for integers."""
    if dtype is not None:
        return dtype
    return rushlight.int64 if input.dtype.category < 2 else input.dtype


def _limit(name, dtype, low):
    """The lowest or highest value of a type.

    Raises:
        NotImplementedError: the type is complex or boolean.
    """
    if dtype.category == 3 or dtype is rushlight.bool:
        kind = f"torch.{dtype.name}"
        raise NotImplementedError(f"identity of {name} on {kind} input")
    if dtype.is_floating_point:
        return -math.inf if low else math.inf
    info = rushlight.iinfo(dtype)
    return info.min if low else info.max


def _limited(name, input, mask, low):
    if mask is None:
        return input
    return _filled(input, mask, _limit(name, input.dtype, low))


def _cast(input, dtype):
    return input if dtype is None else input.to(dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Sum of what counts; zero where nothing does."""
    dtype = _summed(input, dtype)
    whole = _filled(input, mask, 0)
    return _call.sum(whole, _dims(input, dim), bool(keepdim), dtype=dtype)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Product of what counts; one where nothing does."""
    result = _filled(input, mask, 1).to(_summed(input, dtype))
    for axis in sorted(
        (d % max(input.ndim, 1) for d in _dims(input, dim)), reverse=True
    ):
        result = result.prod(axis, keepdim=bool(keepdim))
    return result


def cumsum(input, dim, *, dtype=None, mask=None):
    """Sums so far of what counts."""
    return _call.cumsum(_filled(input, mask, 0), dim, dtype=dtype or input.dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Products so far of what counts."""
    return _call.cumprod(_filled(input, mask, 1), dim, dtype=dtype or input.dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Largest of what counts; the lowest value of the type where nothing does."""
    input = _cast(input, dtype)
    whole = _limited("amax", input, mask, True)
    return _call.amax(whole, _dims(input, dim), bool(keepdim))


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Smallest of what counts; the highest value of the type where nothing does."""
    input = _cast(input, dtype)
    whole = _limited("amin", input, mask, False)
    return _call.amin(whole, _dims(input, dim), bool(keepdim))


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest of what counts is, in the input's type."""
    input = _cast(input, dtype)
    whole = _limited("argmax", input, mask, True)
    return _call.argmax(whole, dim, bool(keepdim)).to(input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest of what counts is, in the input's type."""
    input = _cast(input, dtype)
    whole = _limited("argmin", input, mask, False)
    return _call.argmin(whole, dim, bool(keepdim)).to(input.dtype)


def _count(input, dims, keepdim, mask):
    """How many elements count."""
    ones = _call.ones_like(input, dtype=rushlight.int64)
    return sum(ones, dims, keepdim=keepdim, mask=mask)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Mean of what counts; NaN where nothing does.

    Raises:
        ValueError: the type is of integers.
    """
    kind = input.dtype if dtype is None else dtype
    if kind.category < 2:
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a "
            f"floating point or complex dtype. Got: torch.{kind.name}"
        )
    dims = _dims(input, dim)
    if mask is None:
        return _call.mean(input, dims, bool(keepdim), dtype=kind)
    total = sum(input, dims, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _count(input, dims, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """Median of what counts; NaN where nothing does.

    Raises:
        ValueError: nothing counts, and the type has no NaN.
    """
    kind = input.dtype if dtype is None else dtype
    input = input.to(kind)
    if not kind.is_floating_point:
        if mask is not None and not _whole(mask, input).any(dim).all():
            raise ValueError(
                "masked median expects no fully masked out rows if dtype is not "
                "floating point"
            )
        input = input.to(rushlight.get_default_dtype())
    whole = _filled(input, mask, math.nan)
    return _call.nanmedian(whole, dim, bool(keepdim)).values.to(kind)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Norm of what counts, as a vector."""
    value = math.inf if ord == -math.inf else 0
    whole = _filled(input, mask, value)
    return _call.linalg_vector_norm(
        whole, ord, _dims(input, dim), bool(keepdim), dtype=dtype
    )


def var(
    input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):  # fmt: skip
    """Variance of what counts; NaN where too little does.

    Raises:
        ValueError: both ``correction`` and ``unbiased`` are given.
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, False)


def std(
    input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):  # fmt: skip
    """Standard deviation of what counts; NaN where too little does.

    Raises:
        ValueError: both ``correction`` and ``unbiased`` are given.
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, True)


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask, root):
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    kind = input.dtype if dtype is None else dtype
    compute = rushlight.float32 if kind.category < 2 else kind
    dims = _dims(input, dim)
    input = input.to(compute)
    count = _count(input, dims, True, mask)
    centre = sum(input, dims, keepdim=True, dtype=compute, mask=mask) / count
    gap = input - centre
    square = _call.real(gap * gap.conj()) if gap.is_complex() else gap * gap
    total = sum(square, dims, keepdim=keepdim, dtype=square.dtype, mask=mask)
    count = _count(input, dims, keepdim, mask) - correction
    result = total / _call.clamp(count, min=0)
    result = _call.sqrt(result) if root else result
    return result.to(kind) if kind.category > 1 else result


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax over what counts."""
    input = _cast(input, dtype)
    return _call.softmax(_filled(input, mask, -math.inf), dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """Logarithm of `softmax`."""
    input = _cast(input, dtype)
    return _call.log_softmax(_filled(input, mask, -math.inf), dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of what counts, negated."""
    input = _cast(input, dtype)
    return _call.softmax(-_filled(input, mask, math.inf), dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """What counts over its norm; zero elsewhere."""
    input = _cast(input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    return _filled(input, mask, 0) / _call.clamp(length, min=eps)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """Logarithm of the sum of the exponentials of what counts on either side."""
    left = _filled(_cast(input, dtype), input_mask, -math.inf)
    return _call.logaddexp(left, _filled(_cast(other, dtype), other_mask, -math.inf))


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Logarithm of the sum of the exponentials of what counts."""
    input = _cast(input, dtype)
    whole = _filled(input, mask, -math.inf)
    result = _call.logsumexp(whole, _dims(input, dim), bool(keepdim))
    return result.to(input.dtype)
