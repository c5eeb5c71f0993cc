"""Order: sorting with its derivatives, the most frequent element, searching."""

import rushlight
from rushlight.ops import call as ops
from rushlight.ops import sorting_kernels
from rushlight.ops.native import REAL, require
from rushlight.ops.reduction import scatter_back, spread_evenly
from rushlight.ops.shared import wrap_dim

__all__ = ["scatter_back", "spread_evenly"]


def sort_stable(self, stable, dim, descending):
    """Every sort is stable."""
    return sorting_kernels.sort(self, dim, descending)


def argsort_stable(self, stable, dim, descending):
    """The positions of ``sort``."""
    return sorting_kernels.argsort(self, dim, descending)


def msort(self):
    """In order along the first dimension."""
    return ops.sort(self, 0)[0]


def mode(self, dim, keepdim):
    """The longest run of the sorted elements; the smallest of equally frequent ones."""
    require("mode_cpu", self.dtype, REAL | {11}, self)
    if self.ndim == 0:
        return ops.clone(self), ops.zeros((), dtype=rushlight.int64)
    dim = wrap_dim(dim, self.ndim)
    ordered, places = ops.sort(self, dim)
    ordered, places = ordered.movedim(dim, -1), places.movedim(dim, -1)
    same = ordered.unsqueeze(-1) == ordered.unsqueeze(-2)
    first = ops.argmax(same.sum(-1), -1, True)
    value = ops.gather(ordered, -1, first)
    last = (ordered == value).to(rushlight.int64).cumsum(-1).argmax(-1, True)
    place = ops.gather(places, -1, last)
    value, place = value.movedim(-1, dim), place.movedim(-1, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def searchsorted_scalar(sorted_sequence, self, out_int32, right, side, sorter):
    """The position of one number."""
    value = rushlight.tensor(self, device=sorted_sequence.device)
    return ops.searchsorted(
        sorted_sequence,
        value,
        out_int32=out_int32,
        right=right,
        side=side,
        sorter=sorter,
    )


def bucketize_scalar(self, boundaries, out_int32, right):
    """The bucket of one number."""
    value = rushlight.tensor(self, device=boundaries.device)
    return ops.bucketize(value, boundaries, out_int32=out_int32, right=right)
