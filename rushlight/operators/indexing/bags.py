"""What bags of rows are: their bounds, their values, and what is known about each."""

import math

from rushlight.core.dtypes import bfloat16, float16, int32, int64
from rushlight.core.tensor import Tensor
from rushlight.dispatch.python_key import listening, recording
from rushlight.operators import call as ops

MODES = "sum", "mean", "max"


def values_of_bags(weight, indices, bounds, mode, factors, options, length=None):
    """The sum, mean or maximum of the rows of each bag.

    Args:
        bounds: where each bag starts, and the last one ends.
        factors: one for each index, or None.
        options: the row that does not count or -1, and how the gradient is made.
        length: of each bag, where all have as many indices.
    """
    bags = bounds.shape[0] - 1
    padding = options[0]
    alone = not in_batch(weight, indices)
    try:
        if alone and mode == "max":
            return largest(weight, indices, bounds, padding)
        if alone and factors is None:
            return ops._bag_sum(weight, indices, bounds, mode == "mean", *options)
        rows = ops.embedding(weight, indices, *options)
    except IndexError:
        raise RuntimeError(
            "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to "
            f"be {first_outside(indices, weight.size(0))}\n  rows: {weight.size(0)}"
        ) from None
    # Half precision is summed in float32.
    half = rows.dtype in (float16, bfloat16)
    if half:
        rows = rows.float()
    if factors is not None:
        rows = rows * factors.to(rows.dtype).unsqueeze(-1)
    kept = None if padding < 0 else indices != padding
    bag_of = bag_of_each(indices, bounds, bags, length)
    result = reduce_bags(rows, bag_of, bags, mode, kept)
    return result.to(weight.dtype) if half else result


def largest(weight, input, bounds, padding):
    """The largest of each bag's rows, column by column; zero where a bag has none."""
    if not weight.size(0):
        return weight.new_zeros((bounds.numel() - 1, weight.size(1)))
    chosen = ops._bag_rows(weight.detach(), input, bounds, padding)
    return weight.gather(0, chosen.clamp_min(0)).masked_fill(chosen < 0, 0)


def bag_of_each(input, bounds, bags, length):
    """The number of each index's bag; that of no bag behind the last one's end."""
    if length is not None:
        return ops.arange(bags, device=input.device).repeat_interleave(length)
    place = ops.arange(input.numel(), device=input.device)
    return ops.searchsorted(bounds[1:], place, right=True)


def in_batch(*tensors):
    """Whether a transformation sees one of them as many."""
    return any(tensor._stand is not None for tensor in tensors)


def row_number(padding_idx, weight):
    if isinstance(padding_idx, Tensor) and padding_idx.ndim == 0:
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


def first_outside(input, rows):
    outside = (input < 0) | (input >= rows)
    return input[outside][0].item()


def check_bag_types(input, weight, offsets, per_sample_weights):
    if not weight.is_floating_point():
        raise RuntimeError(
            "expected scalar type Float, Double, Half or BFloat16 for weight but found "
            f"{weight.dtype.name.capitalize()}"
        )
    for name, tensor in (("indices", input), ("offsets", offsets)):
        if tensor is not None and tensor.dtype not in (int64, int32):
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


def bounds_from_offsets(input, offsets, include_last_offset):
    """Where each bag starts and the last one ends.

    Raises:
        RuntimeError: the offsets don't rise from 0 to the input's length at most.
    """
    length, count = input.numel(), offsets.numel()
    offsets = offsets.to(int64)
    if include_last_offset and count == 0:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if not count:
        return offsets.new_zeros(1)
    ops._check_bag_offsets(offsets, length)
    if include_last_offset:
        return offsets
    return ops.constant_pad_nd(offsets, [0, 1], length)


def reduce_bags(rows, bag_of, bags, mode, kept):
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


def embedding_bag_whole(
    weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
    include_last_offset, padding_idx=-1,
):  # fmt: skip
    """The values of bags, each index's bag, the bags' sizes, and the rows of maxima."""
    check_bag_types(indices, weight, offsets, per_sample_weights)
    bounds = bounds_from_offsets(indices, offsets, include_last_offset)
    options = padding_idx, scale_grad_by_freq, sparse
    values = values_of_bags(
        weight, indices, bounds, MODES[mode], per_sample_weights, options
    )
    entries, bags = offsets.shape[0], bounds.shape[0] - 1
    place = ops.arange(indices.numel(), device=indices.device)
    bag_of = ops.searchsorted(offsets.to(int64), place, right=True) - 1
    if mode == 0:
        none = offsets.new_zeros(bags)
        return values, bag_of if padding_idx >= 0 else bag_of[:0], none, none
    kept = (indices != padding_idx).to(int64)
    counts = bounds.new_zeros(entries).index_add(0, bag_of, kept)[:bags]
    if mode == 1:
        return values, bag_of, counts, counts
    chosen = ops._bag_rows(weight.detach(), indices, bounds, padding_idx)
    return values, bag_of, counts, chosen.clamp_min(0)


def embedding_bag_forward_only(weight, indices, offsets, scale, mode, *rest):
    """The same; what is not known about sums has an entry for each offset."""
    values, bag_of, *known = embedding_bag_whole(
        weight, indices, offsets, scale, mode, *rest
    )
    if mode == 0:
        known = [offsets.new_zeros(offsets.shape[0])] * 2
    return values, bag_of, *known


def embedding_bag(
    weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
    include_last_offset, padding_idx=None,
):  # fmt: skip
    """`embedding_bag_whole`, with a row that does not count by its number from either end.

    Raises:
        RuntimeError: there is no such mode.
    """
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    padding = -1 if padding_idx is None else row_number(padding_idx, weight)
    learns = (
        weight.requires_grad or recording() or listening(weight)
    )  # nobody knows who runs a recording
    return (ops._embedding_bag if learns else ops._embedding_bag_forward_only)(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
        include_last_offset, padding,
    )  # fmt: skip
