"""Order: sorting with its derivatives, the most frequent element, searching."""

from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.reduction.reduction import scatter_back, spread_evenly
from rushlight.operators.sorting import sorting_kernels


def sort_stable(self, stable, dim, descending):
    """Every sort is stable."""
    return sorting_kernels.sort(self, dim, descending)


def argsort_stable(self, stable, dim, descending):
    """The positions of ``sort``."""
    return sorting_kernels.argsort(self, dim, descending)


def msort(self):
    """In order along the first dimension."""
    return ops.sort(self, 0)[0]


def unique_consecutive(self, return_inverse, return_counts, dim):
    """Elements, or slices, without repetitions next to each other."""
    if dim is None:
        return ops._unique_consecutive(self, return_inverse, return_counts)
    return ops.unique_dim_consecutive(self, dim, return_inverse, return_counts)


def searchsorted_scalar(sorted_sequence, self, out_int32, right, side, sorter):
    """The position of one number."""
    value = tensor(self, device=sorted_sequence.device)
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
    value = tensor(self, device=boundaries.device)
    return ops.bucketize(value, boundaries, out_int32=out_int32, right=right)
