"""Places of ragged tensors that indices or masks name, and batches cut into pieces."""

import rushlight as rl
from rushlight._value_types import writes
from rushlight.nested._internal.nested_tensor import (
    NestedTensor,
    values_of,
    wrapped,
    write,
)
from rushlight.nested._internal.rules import Rules
from rushlight.nested._internal.views import inner_dim, parts, wrap_dim

RULES = Rules()


def split_batch(nested, size):
    """The parts of a batch, as many as ``size`` together."""
    pieces, at = parts(nested), nested._ragged_idx
    step = max(1, size)
    return [
        _joined(pieces[start : start + step], at)
        for start in range(0, len(pieces), step)
    ]


@RULES("split")
def _split(op, nested, size, dim=0):
    """Pieces of a batch (which PyTorch cuts by `chunk` alone), or of inner dimensions."""
    if wrap_dim(nested.dim(), dim) == 0 and isinstance(size, int):
        return split_batch(nested, size)
    inner = inner_dim(nested, dim, "split")
    found = op.redispatch(None, values_of(nested), size, inner)
    return [wrapped(each, *nested.raggedness) for each in found]


def _joined(pieces, at):
    """Parts as a nested tensor."""
    values = rl.cat(list(pieces), at - 1)
    lengths = [0, *(piece.shape[at - 1] for piece in pieces)]
    offsets = rl.tensor(lengths, device=values.device).cumsum(0)
    return wrapped(values, offsets, None, at)


@RULES("masked_select")
def _masked_select(op, nested, mask):
    """What a mask of the same raggedness names, part by part.

    Raises:
        RuntimeError: there are more dimensions, or the mask is cut elsewhere.
    """
    if nested.dim() > 2:
        raise RuntimeError("masked_select only support 2-D selections currently")
    if not isinstance(mask, NestedTensor) or nested._size != mask._size:
        raise RuntimeError(
            f"Mask with shape {mask.shape} is not compatible with input's shape "
            f"{nested.shape}"
        )
    counts = mask._values
    if nested._lengths is not None:
        pieces = [p[m] for p, m in zip(parts(nested), parts(mask), strict=True)]
        return _joined(pieces, 1)
    before = rl.nn.functional.pad(counts.cumsum(0), (1, 0))
    found = values_of(nested).masked_select(counts)
    return wrapped(found, before[nested._offsets])


@RULES("index_put", "index_put_")
def _index_put(op, nested, indices, values, *accumulate):
    """Writes where indices name parts, and places in them.

    Raises:
        AssertionError: there are more indices than dimensions.
        RuntimeError: an index is beyond the end of its part.
    """
    if len(indices) > nested.dim():
        raise AssertionError(
            f"Too many indices: got {len(indices)} but tensor has {nested.dim()} "
            "dimensions"
        )
    at = nested._ragged_idx
    if len(indices) <= at:
        indices, repeated = _whole_parts(nested, indices)
        if repeated is not None and isinstance(values, rl.Tensor) and values.dim():
            raise RuntimeError(
                "index_put(): values for whole parts must be one number, got a tensor of "
                f"sizes {list(values.shape)}\n  remedy: index the ragged dimension too"
            )
    lengths = nested._lengths
    lengths = nested._offsets.diff() if lengths is None else lengths
    batch, along = indices[0], indices[at]
    if bool((along >= lengths[batch]).any()):
        raise RuntimeError("Some indices in the ragged dimension are out of bounds!")
    rows = nested._offsets[batch] + along
    inner = [*indices[1:at], rows, *indices[at + 1 :]]
    target = values_of(nested)
    found = rl.index_put(target, tuple(inner), values, *accumulate)
    if writes(op):
        return write(nested, found)
    return wrapped(found, *nested.raggedness)


def _whole_parts(nested, indices):
    """Indices that stop before the ragged dimension, with all of its places behind.

    Returns:
        The indices, and for each of their places which of the given it repeats.
    """
    lengths = nested._lengths
    lengths = nested._offsets.diff() if lengths is None else lengths
    given = rl.broadcast_tensors(*indices)
    given = [each.reshape(-1) for each in given]
    counts = lengths[given[0]]
    repeated = rl.arange(counts.numel()).repeat_interleave(counts)
    first = counts.cumsum(0) - counts
    along = rl.arange(repeated.numel()) - first[repeated]
    rows = [each[repeated] for each in given]
    missing = nested._ragged_idx - len(rows)
    if missing:  # whole dimensions between the batch and the ragged one
        raise RuntimeError(
            "index_put(): indices must reach the ragged dimension, or end before it"
        )
    return [*rows, along], repeated
