"""Norms of rows of millions: their sums are those of reductions, which lose no digits.

The kernels of `normalization` add a row up in a few running sums, whose error grows with
the row; a reduction adds blocks and then their sums.
"""

from rushlight.core.dtypes import float32
from rushlight.ops import call as ops

LONG = 2**20  # elements of a row from which on its sums go through reductions


def statistics_dtype(dtype):
    """The dtype to compute statistics in."""
    return float32 if dtype.itemsize == 2 else dtype


def layer_norm(input, n, weight, bias, eps, kept):
    """The layer norm over the last ``n`` dimensions, the means and reciprocal deviations.

    Args:
        kept: the dtype of the latter two.
    """
    dims = list(range(input.ndim - n, input.ndim))
    x = input.to(statistics_dtype(input.dtype))
    spread, center = ops.var_mean(x, dims, correction=0, keepdim=True)
    rstd = ops.rsqrt(spread + eps)
    result = (x - center) * rstd
    result = result if weight is None else result * weight
    result = result if bias is None else result + bias
    return result.to(input.dtype), center.to(kept), rstd.to(kept)


def rms_norm(x, size, eps):
    """Rows of ``size`` elements, each divided by the root of its mean square."""
    rows = x.reshape(-1, size)
    return (rows * ops.rsqrt((rows * rows).mean([1], True) + eps)).view_as(x)
