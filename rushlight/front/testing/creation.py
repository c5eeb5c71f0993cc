"""Tensors with drawn elements, for tests."""

import math
import warnings

import rushlight as rl
from rushlight.core.dtype import FLOATING, OPAQUE

_NARROW = (rl.float8_e4m3fn, rl.float8_e5m2, rl.float8_e4m3fnuz, rl.float8_e5m2fnuz)


def make_tensor(
    *shape, dtype, device, low=None, high=None, requires_grad=False, noncontiguous=False,
    exclude_zero=False, memory_format=None,
):  # fmt: skip
    """A tensor with elements drawn evenly from ``[low, high)``.

    Args:
        shape: sizes, one by one or as one sequence.
        dtype: of the elements.
        device: of the tensor.
        low, high: the bounds, held within what the type can be; by default -9 and 9 or
            10, and 0 and 2 for truth values.
        noncontiguous: leave gaps between the elements.
        exclude_zero: put the least positive number in the place of zeros.
        memory_format: of the result.

    Raises:
        ValueError: bounds or options contradict each other.
        TypeError: the type cannot be drawn.

    >>> make_tensor(2, 3, dtype=rl.int64, device="cpu", low=1, high=2)
    tensor([[1, 1, 1],
            [1, 1, 1]])
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    sizes = tuple(shape)
    whole = dtype.category < FLOATING
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got {noncontiguous=} and {memory_format=}"
        )
    if requires_grad and whole:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but "
            f"got {dtype=}"
        )
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    if noncontiguous:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    result = _drawn(sizes, dtype, device, low, high, whole)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if whole else rl.finfo(dtype).tiny
    if not whole and dtype not in _NARROW:
        result.requires_grad_(requires_grad)
    return result


def _drawn(sizes, dtype, device, low, high, whole):
    if dtype is rl.bool:
        low, high = _bounds(low, high, dtype, (0, 2), (0, 2))
        return rl.randint(low, high, sizes, device=device, dtype=dtype)
    if whole:
        facts = rl.iinfo(dtype)
        most = facts.max + (0 if dtype is rl.int64 else 1)
        low, high = _bounds(low, high, dtype, (facts.min, most), (-9, 10))
        return rl.randint(low, high, sizes, device=device, dtype=dtype)
    if dtype.category >= OPAQUE:
        raise TypeError(
            f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor"
            "()."
        )
    facts = rl.finfo(dtype)
    low, high = _bounds(low, high, dtype, (facts.min, facts.max), (-9, 9))
    kind = rl.float32 if dtype in _NARROW else dtype
    result = rl.empty(sizes, device=device, dtype=kind)
    parts = rl.view_as_real(result) if dtype.is_complex else result
    if high - low >= rl.finfo(parts.dtype).max:  # the range itself is no number
        parts.uniform_(low / 2, high / 2).mul_(2)
    else:
        parts.uniform_(low, high)
    return result.to(dtype)


def _bounds(low, high, dtype, limits, usual):
    """The bounds, held within the type's limits."""
    low = usual[0] if low is None else low
    high = usual[1] if high is None else high
    least, most = limits
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and dtype.category >= FLOATING:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex "
            "types is deprecated since 2.1 and will be removed in 2.3. Use "
            "`torch.full(...)` instead.",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but "
            f"{dtype} only supports [{least}, {most})"
        )
    low, high = min(max(low, least), most), min(max(high, least), most)
    return (
        (math.ceil(low), math.ceil(high)) if dtype.category < FLOATING else (low, high)
    )
