"""Reductions and normalisations that leave masked-out elements out of account.

Each takes a ``mask``, true where an element counts, that broadcasts to the input. What
does not count is replaced by what changes nothing, such as zero in a sum. Results that no
element counts for are of that value; means and the like are NaN there.

>>> import rushlight as rl
>>> sum(rl.tensor([1.0, 2.0, 4.0]), mask=rl.tensor([True, False, True])).item()
5.0
"""

import math

import rushlight
from rushlight.core.docstrings import describe_arguments
from rushlight.core.dtype import FLOATING
from rushlight.masked import _sparse
from rushlight.operators import call as _call

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std",
    "sum", "var",
]  # fmt: skip


def _neutral(name, input):
    """What changes nothing about a result: below all, above all, zero or one.

    Raises:
        NotImplementedError: the type has no such value.
        TypeError: neither has the complex plane.
    """
    dtype = input.dtype
    if name in ("sum", "prod"):
        return int(name == "prod")
    low = name not in ("amin", "argmin")
    if dtype.is_floating_point or (name == "logsumexp" and dtype.is_complex):
        return -math.inf if low else math.inf
    if dtype is not rushlight.uint8 and not dtype.is_signed:
        raise NotImplementedError(f"identity of {name} on torch.{dtype.name} input")
    limits = rushlight.iinfo(dtype)
    return limits.min if low else limits.max


def _neutral_norm(input, ord):
    """What changes nothing about a norm.

    Raises:
        AssertionError: the smallest of numbers that are not real is asked for.
    """
    if ord != -math.inf:
        return 0
    if not input.dtype.is_floating_point:
        raise AssertionError(
            f"input must be floating point, got torch.{input.dtype.name}"
        )
    return math.inf


def _filled(name, input, mask, *details):
    """The input, with what changes nothing where an element does not count."""
    if mask is None:
        return input
    whole = _whole(mask, input)
    value = _neutral_norm(input, *details) if details else _neutral(name, input)
    return _put(whole, input, value)


def _put(mask, input, value):
    if input.layout is not rushlight.strided:
        return _sparse.where(mask, input, value)
    other = rushlight.tensor(value, dtype=input.dtype, device=input.device)
    return _call.where(mask, input, other)


def _whole(mask, input):
    """The mask, in the input's shape and layout.

    Raises:
        IndexError: the mask has more dimensions than the input.
        RuntimeError: a size of the mask does not fit.
        ValueError: the input's layout is none that is masked.
    """
    if input.layout not in _sparse.LAYOUTS:
        raise ValueError(
            "_input_mask expects strided or sparse COO or sparse CSR tensor but got "
            f"{input.layout}"
        )
    if mask.shape != input.shape:
        if mask.ndim > input.ndim:
            raise IndexError(
                "_input_mask expected broadcastable mask (got mask dimensionality "
                "higher than of the input)"
            )
        if mask.layout is rushlight.strided:
            mask = _call.broadcast_to(mask, input.shape)
        else:
            mask = _sparse.broadcast(mask.to_sparse_coo(), input.shape)
    if mask.layout is not input.layout or input.layout is not rushlight.strided:
        mask = _sparse.alike(mask, input)
    return mask.to(rushlight.bool)


def _reduced(name, input, dim, keepdim, dtype, mask):
    """A reduction of a sparse input; None of a dense one."""
    if input.layout is rushlight.strided:
        return None
    if rushlight.masked.is_masked_tensor(input):
        input, mask = input.get_data(), input.get_mask()
    _sparse.check_layout(name, input, mask)
    dims, whole = _dims(input, dim), _filled(name, input, mask)
    neutral = _neutral(name, whole)
    return _sparse.reduced(name, whole, dims, bool(keepdim), dtype, neutral)


def _dims(input, dim):
    """The dimensions to reduce, counted from the first and in order; all for none.

    Raises:
        IndexError: a dimension is not there.
        RuntimeError: a dimension is named twice.
    """
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    rank = max(input.ndim, 1)
    seen = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in seen:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if d >= rank or d < -rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, "
                f"{rank - 1}], but got {d})"
            )
        seen.append(d % rank)
    return tuple(sorted(seen))


def _summed(input, dtype):
    """The type of sums and products: wide for the usual integers."""
    if dtype is not None:
        return dtype
    narrow = "uint8", "bool", "int8", "int16", "int32"
    return rushlight.int64 if input.dtype.name in narrow else input.dtype


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Sum of what counts; zero where nothing does.

    >>> sum(rl.tensor([1, 5, 3]), mask=rl.tensor([True, False, True]))
    tensor(4)
    """
    dtype = _summed(input, dtype)
    dims = _dims(input, dim)
    found = _reduced("sum", input, dim, keepdim, dtype, mask)
    if found is not None:
        return found
    return _call.sum(_filled("sum", input, mask), dims, bool(keepdim), dtype=dtype)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Product of what counts; one where nothing does.

    >>> prod(rl.tensor([2, 3, 4]), mask=rl.tensor([True, False, True]))
    tensor(8)
    """
    dtype = _summed(input, dtype)
    dims = _dims(input, dim)
    result = _reduced("prod", input, dim, keepdim, dtype, mask)
    if result is not None:
        return result
    result = _filled("prod", input, mask).to(dtype=dtype)
    for axis in reversed(dims):
        result = result.prod(axis, keepdim=bool(keepdim))
    return result


def cumsum(input, dim, *, dtype=None, mask=None):
    """Sums so far of what counts.

    >>> cumsum(rl.tensor([2, 3, 4]), 0, mask=rl.tensor([True, False, True]))
    tensor([2, 2, 6])
    """
    dtype = input.dtype if dtype is None else dtype
    dim = _dims(input, dim)[0]
    return _call.cumsum(_filled("sum", input, mask), dim, dtype=dtype).to(dtype=dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Products so far of what counts.

    >>> cumprod(rl.tensor([2, 3, 4]), 0, mask=rl.tensor([True, False, True]))
    tensor([2, 2, 8])
    """
    dtype = input.dtype if dtype is None else dtype
    dim = _dims(input, dim)[0]
    result = _call.cumprod(_filled("prod", input, mask), dim, dtype=dtype)
    return result.to(dtype=dtype)


def _extreme(name, input, dim, keepdim, dtype, mask):
    dtype = input.dtype if dtype is None else dtype
    result = _reduced(name, input, dim, keepdim, dtype, mask)
    if result is not None:
        return result
    whole = _filled(name, input, mask)
    return getattr(_call, name)(whole, _dims(whole, dim), bool(keepdim)).to(dtype=dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Largest of what counts; the lowest value of the type where nothing does.

    >>> amax(rl.tensor([1, 5, 3]), mask=rl.tensor([True, False, True]))
    tensor(3)
    """
    return _extreme("amax", input, dim, keepdim, dtype, mask)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Smallest of what counts; the highest value of the type where nothing does.

    >>> amin(rl.tensor([1, 5, 3]), mask=rl.tensor([False, True, True]))
    tensor(3)
    """
    return _extreme("amin", input, dim, keepdim, dtype, mask)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest of what counts is, in the input's type.

    >>> argmax(rl.tensor([1, 5, 3]), dim=0, mask=rl.tensor([True, False, True]))
    tensor(2)
    """
    result = _call.argmax(_filled("argmax", input, mask), dim, bool(keepdim))
    return result.to(dtype=input.dtype if dtype is None else dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest of what counts is, in the input's type.

    >>> argmin(rl.tensor([1, 5, 3]), dim=0, mask=rl.tensor([False, True, True]))
    tensor(2)
    """
    result = _call.argmin(_filled("argmin", input, mask), dim, bool(keepdim))
    return result.to(dtype=input.dtype if dtype is None else dtype)


def _counted(input, dim, keepdim, dtype, mask):
    """How many elements count, and their sum."""
    if mask is None:
        ones = _call.ones(input.shape, dtype=rushlight.int64, device=input.device)
        count = sum(ones, dim, keepdim=keepdim)
    else:
        mask = _whole(mask, input)
        count = mask.sum(dim=dim, keepdim=bool(keepdim))
    return count, sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Mean of what counts; NaN where nothing does.

    Raises:
        ValueError: the type is of integers.

    >>> mean(rl.tensor([1.0, 5.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(2.)
    """
    kind = input.dtype if dtype is None else dtype
    if kind.category < FLOATING:
        source = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a "
            f"floating point or complex dtype. Got: torch.{kind.name}"
        )
    if input.layout is not rushlight.strided:
        _sparse.check_layout("mean", input, mask, ("strided", "sparse_csr"))
        # what is written down counts, and a group has an element at least
        whole, dims = _filled("sum", input, mask), _dims(input, dim)
        return _sparse.reduced("mean", whole, dims, bool(keepdim), kind, 0)
    count, total = _counted(input, dim, keepdim, kind, mask)
    return total / count


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """Median of what counts; NaN where nothing does.

    Raises:
        ValueError: nothing counts, and the type has no NaN.

    >>> median(rl.tensor([1.0, 5.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(1.)
    """
    kind = input.dtype if dtype is None else dtype
    dim = _dims(input, dim)[0]
    exact = not rushlight.is_floating_point(input)
    input = input.to(rushlight.float32) if exact else input
    if mask is not None:
        input = _put(_whole(mask, input), input, math.nan)
    result = _call.nanmedian(input, dim, keepdim).values
    if not exact:
        return result
    if bool(_call.isnan(result).any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating "
            "point"
        )
    return result.to(dtype=kind)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Norm of what counts, as a vector.

    Args:
        ord: the order of the norm.

    >>> norm(rl.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=rl.tensor([True, False, True]))
    tensor(5.)
    """
    dtype = input.dtype if dtype is None else dtype
    whole = _filled("norm", input, mask, ord)
    return _call.linalg_vector_norm(
        whole, ord, _dims(input, dim), bool(keepdim), dtype=dtype
    )


def var(
    input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):  # fmt: skip
    """Variance of what counts; NaN where too little does.

    Args:
        unbiased: whether the divisor is one less; replaced by ``correction``.
        correction: what is taken off the number of elements in the divisor.

    Raises:
        AssertionError: both ``correction`` and ``unbiased`` are given.

    >>> var(rl.tensor([1.0, 9.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(2.)
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):  # fmt: skip
    """Standard deviation of what counts; NaN where too little does.

    Args:
        unbiased: whether the divisor is one less; replaced by ``correction``.
        correction: what is taken off the number of elements in the divisor.

    Raises:
        AssertionError: both ``correction`` and ``unbiased`` are given.

    >>> std(rl.tensor([1.0, 9.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(1.4142)
    """
    spread = _spread(input, dim, unbiased, correction, keepdim, dtype, mask)
    return _call.sqrt(spread)


def _lost(unbiased, correction):
    """How many degrees of freedom the mean takes."""
    if correction is None:
        return 1.0 if unbiased is None or unbiased else 0.0
    if unbiased is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    return float(correction)


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask):
    lost = _lost(unbiased, correction)
    kind = input.dtype if dtype is None else dtype
    if dtype is None and kind.category < FLOATING:
        kind = rushlight.float32
    precise = kind if kind.category >= FLOATING else rushlight.float32
    count, total = _counted(input, dim, True, kind, mask)
    gap = _call.subtract(input, _call.divide(total, count))
    square = gap * gap.conj()
    total = sum(square, dim, keepdim=keepdim, dtype=precise, mask=mask)
    if not keepdim:
        count = count.reshape(total.shape)
    if lost:
        count = count.to(precise.to_real())
        count = _call.subtract(count, lost)
        count = _call.maximum(count, count.new_zeros([]))
    return _call.divide(total, count).to(dtype=kind)


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax over what counts.

    >>> softmax(rl.tensor([0.0, 1.0, 0.0]), 0, mask=rl.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    dtype = input.dtype if dtype is None else dtype
    dim = _dims(input, dim)[0]
    return _call.softmax(_filled("amax", input, mask), dim, dtype=dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """Logarithm of `softmax`.

    >>> log_softmax(rl.tensor([0.0, 1.0, 0.0]), 0, mask=rl.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    dtype = input.dtype if dtype is None else dtype
    dim = _dims(input, dim)[0]
    return _call.log_softmax(_filled("amax", input, mask), dim, dtype=dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of what counts, negated.

    >>> softmin(rl.tensor([0.0, 1.0, 0.0]), 0, mask=rl.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    dtype = input.dtype if dtype is None else dtype
    dim = _dims(input, dim)[0]
    return _call.softmax(-_filled("amin", input, mask), dim, dtype=dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """What counts over its norm; zero elsewhere.

    Args:
        ord: the order of the norm.
        eps: the smallest norm that is divided by.

    >>> normalize(rl.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=rl.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    whole = _filled("sum", input, mask)
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _call.divide(whole, _call.maximum(length, length.new_full([], eps)))


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """Logarithm of the sum of the exponentials of what counts on either side.

    Args:
        other: the second operand.
        input_mask: True where an element of the first counts.
        other_mask: True where an element of the second counts.

    >>> logaddexp(rl.tensor([0.0, 1.0]), rl.tensor([0.0, 1.0]), input_mask=rl.tensor([True, False]))
    tensor([0.6931, 1.0000])
    """
    left = _filled("logaddexp", input, input_mask)
    right = _filled("logaddexp", other, other_mask)
    return _call.logaddexp(left, right).to(
        dtype=input.dtype if dtype is None else dtype
    )


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Logarithm of the sum of the exponentials of what counts.

    >>> logsumexp(rl.tensor([0.0, 1.0, 0.0]), 0, mask=rl.tensor([True, False, True]))
    tensor(0.6931)
    """
    dims = _dims(input, dim)
    whole = _filled("logsumexp", input, mask)
    result = _call.logsumexp(whole, dims, keepdim)
    return result.to(dtype=input.dtype if dtype is None else dtype)


describe_arguments(
    globals(),
    input="the tensor.",
    dtype="what the input is converted to before.",
    dim="the dimensions; None takes all.",
    mask="True where an element counts; None lets all count.",
    keepdim="whether reduced dimensions stay, with size 1.",
)
