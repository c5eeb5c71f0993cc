"""``rushlight.embedding_bag``: the values of bags and what is known about them."""

from __future__ import annotations

import rushlight as rl
from rushlight.nn._functions.sparse import embedding_bag as _bagged
from rushlight.operators import call

_MODES = ("sum", "mean", "max")


def embedding_bag(
    weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """Sums, means or maxima of the rows that are named in each bag.

    Args:
        weight: the table.
        indices: the rows of all bags, one bag after another.
        offsets: where each bag begins.
        mode: 0 for sums, 1 for means, 2 for maxima.
        padding_idx: a row that doesn't count.
        scale_grad_by_freq: whether a row's gradient is divided by how often it is named.
        sparse: whether the table's gradient is sparse.
        per_sample_weights: a factor for each index, for sums.
        include_last_offset: whether the last offset is the end of the last bag.

    Returns:
        The values, the bag of each index, how many rows each bag has, and for maxima the
        row that each came from.

    Raises:
        RuntimeError: there is no such mode.

    >>> table = torch.tensor([[1.0], [2.0], [4.0]])
    >>> rows, offsets = torch.tensor([0, 2, 1]), torch.tensor([0, 2])
    >>> torch.embedding_bag(table, rows, offsets)[0].flatten()
    tensor([5., 2.])
    """
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    values = _bagged(
        indices, weight, offsets, None, 2, scale_grad_by_freq, _MODES[mode], sparse,
        per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
    entries = offsets.shape[0]
    starts = offsets.to(rl.int64)
    place = call.arange(indices.numel())
    bag_of = call.searchsorted(starts, place, right=True) - 1
    if mode == 0:
        none = offsets.new_zeros(entries)
        return values, bag_of if padding_idx is not None else bag_of[:0], none, none
    kept = indices != padding_idx % weight.shape[0] if padding_idx is not None else None
    ones = call.ones_like(bag_of) if kept is None else kept.to(rl.int64)
    counts = starts.new_zeros(entries).index_add(0, bag_of, ones)
    if mode == 1:
        return values, bag_of, counts, counts
    return values, bag_of, counts, _largest(weight, indices, bag_of, kept, values)


def _largest(weight, indices, bag_of, kept, values):
    """The row that each maximum came from; the first of several."""
    rows = weight.detach()[indices]
    hit = rows == values.detach()[bag_of]
    if kept is not None:
        hit = hit & kept.unsqueeze(-1)
    last = indices.numel()
    place = call.where(hit, call.arange(last).unsqueeze(-1), last)
    first = call.full(list(values.shape), last, dtype=rl.int64)
    first = first.scatter_reduce(
        0, bag_of.unsqueeze(-1).expand(place.shape), place, "amin"
    )
    padded = call.cat([indices.to(rl.int64), indices.new_zeros(1).to(rl.int64)])
    return padded[first]
