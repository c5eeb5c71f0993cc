"""Looking up rows of a table."""

from __future__ import annotations

import math
import warnings

import rushlight as rl
from rushlight.operators import call

OLDER_ORDER = (
    "Argument order of nn.functional.embedding_bag was changed. Usage "
    "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
    "`embedding_bag(input, weight, ...)`."
)


def _renormalize(weight, indices, max_norm: float, norm_type: float) -> None:
    """Shorten the rows looked up to a length of ``max_norm``, in place."""
    with rl.no_grad():  # gradients and tangents are of what is looked up
        call.embedding_renorm_(weight.detach(), indices, max_norm, norm_type)


def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """The rows of ``weight`` that the numbers in ``input`` name.

    Args:
        input: row numbers, of any shape.
        weight: the table ``(rows, features)``.
        padding_idx: a row that gets no gradient.
        max_norm: rows that are longer are shortened in the table first.
        norm_type: the norm that ``max_norm`` is about.
        scale_grad_by_freq: divide gradients by how often a row was named.
        sparse: give the weight a sparse gradient.

    Raises:
        AssertionError: ``padding_idx`` names no row.
        IndexError: a number in ``input`` names no row.

    >>> table = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding(rl.tensor([1, 1, 0]), table)
    tensor([[3., 4.],
            [3., 4.],
            [1., 2.]])
    """
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx > 0:
        if padding_idx >= weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        if padding_idx < -weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = weight.size(0) + padding_idx
    if max_norm is not None:
        input = input.contiguous()
        _renormalize(weight, input, max_norm, norm_type)
    return call.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _check_bags(
    input, weight, offsets, per_sample_weights, mode, scale_grad_by_freq, sparse
):
    if per_sample_weights is not None:
        if input.shape != per_sample_weights.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is "
                "not None, then it must have the same shape as the input "
                f"({input.shape})"
            )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension "
            f"{input.dim()}"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a "
            "mini-batch of fixed length sequences. However, found offsets of type "
            f"{type(offsets)}"
        )
    if input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError(
            "max mode does not support scaling the gradient by the frequency"
        )
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights "
            f"is only supported for mode='sum' (got mode='{mode}')."
        )


def _equal_bounds(bags, length, device):
    """Where bags of one length begin, and the last one ends."""
    if not length:
        return rl.zeros(bags + 1, dtype=rl.int64, device=device)
    return rl.arange(0, bags * length + 1, length, device=device)


def _bags_of_parts(nested, weights):
    """The values of a nested tensor, whose parts are bags, and of their weights.

    Raises:
        ValueError: the weights are not nested.
    """
    if weights is not None:
        if not weights.is_nested:
            raise ValueError(
                "If input is nested, then per_sample_weights must be nested if specified"
            )
        weights = weights.values().reshape(-1)
    return nested.values().reshape(-1), weights


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum, mean or maximum of the rows named in each bag.

    Args:
        input: ``(bags, length)``, or all bags one after another.
        weight: the table ``(rows, features)``.
        offsets: where each bag starts in a one-dimensional ``input``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        per_sample_weights: a factor for each row named, with ``"sum"``.
        include_last_offset: whether ``offsets`` ends with the end of the last bag.
        padding_idx: a row that doesn't count.
        max_norm, norm_type, scale_grad_by_freq, sparse: as in ``embedding``.

    >>> table = rl.tensor([[1.0], [3.0], [5.0]])
    >>> embedding_bag(rl.tensor([[0, 1], [1, 2]]), table)
    tensor([[2.],
            [4.]])
    """
    if weight.dtype == rl.int64 and input.is_floating_point():
        warnings.warn(OLDER_ORDER, stacklevel=2)
        weight, input = input, weight
    if input.is_nested and input.dim() == 2:
        include_last_offset, offsets = True, input.offsets()
        input, per_sample_weights = _bags_of_parts(input, per_sample_weights)
    _check_bags(
        input, weight, offsets, per_sample_weights, mode, scale_grad_by_freq, sparse
    )
    if offsets is not None and offsets.dtype != input.dtype:
        common = rl.promote_types(input.dtype, offsets.dtype)
        input, offsets = input.to(common), offsets.to(common)
    _check_bag_types(input, weight, offsets, per_sample_weights)
    if not weight.device.has_memory:
        last = 1 if include_last_offset and offsets is not None else 0
        bags = input.shape[0] if input.dim() == 2 else offsets.numel() - last
        return weight.sum(0, dtype=weight.dtype).expand(bags, weight.size(1)).clone()
    length = None
    if input.dim() == 2:
        bags, length = input.shape
        bounds = _equal_bounds(bags, length, input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    else:
        bounds = _bounds_from_offsets(input, offsets, include_last_offset)
        bags = bounds.numel() - 1
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    padding = -1 if padding_idx is None else _row_number(padding_idx, weight)
    common = padding, scale_grad_by_freq, sparse
    alone = not _in_batch(weight, input)
    try:
        if alone and mode == "max":
            return _largest_rows(weight, input, bounds, padding)
        if alone and per_sample_weights is None:
            return call._bag_sum(weight, input, bounds, mode == "mean", *common)
        rows = call.embedding(weight, input, *common)
    except IndexError:
        raise RuntimeError(
            "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to "
            f"be {_first_outside(input, weight.size(0))}\n  rows: {weight.size(0)}"
        ) from None
    # Half precision is summed in float32.
    half = rows.dtype in (rl.float16, rl.bfloat16)
    if half:
        rows = rows.float()
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(rows.dtype).unsqueeze(-1)
    kept = None if padding_idx is None else input != padding
    bag_of = _bag_of_each(input, bounds, bags, length)
    result = _reduce_bags(rows, bag_of, bags, mode, kept)
    return result.to(weight.dtype) if half else result


def _largest_rows(weight, input, bounds, padding):
    """The largest of each bag's rows, column by column; zero where a bag has none."""
    if not weight.size(0):
        return weight.new_zeros((bounds.numel() - 1, weight.size(1)))
    chosen = call._bag_rows(weight.detach(), input, bounds, padding)
    return weight.gather(0, chosen.clamp_min(0)).masked_fill(chosen < 0, 0)


def _bag_of_each(input, bounds, bags, length):
    """The number of each index's bag; that of no bag behind the last one's end."""
    if length is not None:
        return rl.arange(bags, device=input.device).repeat_interleave(length)
    place = rl.arange(input.numel(), device=input.device)
    return rl.searchsorted(bounds[1:], place, right=True)


def _in_batch(*tensors):
    """Whether a transformation sees one of them as many."""
    return any(tensor._stand is not None for tensor in tensors)


def _row_number(padding_idx, weight):
    if isinstance(padding_idx, rl.Tensor) and padding_idx.ndim == 0:
        padding_idx = padding_idx.item()
    if (
        isinstance(padding_idx, bool)
        or hasattr(type(padding_idx), "__len__")
        or not hasattr(padding_idx, "__index__")
    ):
        raise TypeError(
            "embedding_bag(): argument 'padding_idx' (position 9) must be int, not "
            f"{type(padding_idx).__name__}"
        )
    if not -(1 << 63) <= padding_idx < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    rows = weight.size(0)
    if not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through "
            f"{rows - 1}, but got {padding_idx}"
        )
    return padding_idx % rows


def _first_outside(input, rows):
    outside = (input < 0) | (input >= rows)
    return input[outside][0].item()


def _check_bag_types(input, weight, offsets, per_sample_weights):
    if not weight.is_floating_point():
        raise RuntimeError(
            "expected scalar type Float, Double, Half or BFloat16 for weight but found "
            f"{weight.dtype.name.capitalize()}"
        )
    for name, tensor in (("indices", input), ("offsets", offsets)):
        if tensor is not None and tensor.dtype not in (rl.int64, rl.int32):
            raise RuntimeError(
                f"Expected tensor for argument #1 '{name}' to have one of the following "
                f"scalar types: Long, Int; but got {tensor.dtype.name} instead (while "
                "checking arguments for embedding_bag)"
            )
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            "embedding_bag: expected per_sample_weights to have the dtype of weight: "
            f"{weight.dtype}, but got {per_sample_weights.dtype}"
        )


def _bounds_from_offsets(input, offsets, include_last_offset):
    """Where each bag starts and the last one ends.

    Raises:
        RuntimeError: the offsets don't rise from 0 to the input's length at most.
    """
    length, count = input.numel(), offsets.numel()
    offsets = offsets.to(rl.int64)
    if include_last_offset and count == 0:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if not count:
        return offsets.new_zeros(1)
    call._check_bag_offsets(offsets, length)
    if include_last_offset:
        return offsets
    return call.constant_pad_nd(offsets, [0, 1], length)


def _reduce_bags(rows, bag_of, bags, mode, kept):
    """The rows of each bag put together, but for those that are not kept."""
    if mode == "max":
        if kept is not None:
            rows = rows.masked_fill(~kept.unsqueeze(-1), -math.inf)
        least = rows.new_full((bags + 1, rows.size(1)), -math.inf)
        index = bag_of.unsqueeze(-1).expand(rows.shape)
        found = least.scatter_reduce(0, index, rows, "amax")[:bags]
        return found.masked_fill(found == -math.inf, 0)
    if kept is not None:
        rows = rows.masked_fill(~kept.unsqueeze(-1), 0)
    total = rows.new_zeros((bags + 1, rows.size(1))).index_add(0, bag_of, rows)
    if mode == "sum":
        return total[:bags].clone()
    ones = rows.new_ones(bag_of.numel()) if kept is None else kept.to(rows.dtype)
    counts = rows.new_zeros(bags + 1).index_add(0, bag_of, ones)
    return total[:bags] / counts[:bags].clamp_min(1).unsqueeze(-1)
