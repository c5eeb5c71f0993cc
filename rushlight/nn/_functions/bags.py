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
    place = call.arange(indices.numel(), device=indices.device)
    bag_of = call.searchsorted(starts, place, right=True) - 1
    if mode == 0:
        none = offsets.new_zeros(entries)
        return values, bag_of if padding_idx is not None else bag_of[:0], none, none
    kept = indices != padding_idx % weight.shape[0] if padding_idx is not None else None
    ones = call.ones_like(bag_of) if kept is None else kept.to(rl.int64)
    counts = starts.new_zeros(entries).index_add(0, bag_of, ones)
    if mode == 1:
        return values, bag_of, counts, counts
    bounds = starts
    if not include_last_offset:
        bounds = call.constant_pad_nd(starts, [0, 1], indices.numel())
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    chosen = call._bag_rows(weight.detach(), indices, bounds, padding)
    return values, bag_of, counts, chosen.clamp_min(0)
