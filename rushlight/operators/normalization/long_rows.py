"""Norms of rows of millions: their sums are those of reductions, which lose no digits.

The kernels of `normalization` add a row up in a few running sums, whose error grows with
the row; a reduction adds blocks and then their sums.
"""

from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.half_precision import statistics_dtype

LONG = 2**20  # elements of a row from which on its sums go through reductions


_loses_digits = KernelTable(
    cpu=lambda _: True, cuda=lambda _: False, meta=lambda _: False
)


def are_long(size, x):
    """Whether rows of ``size`` elements beside ``x`` are summed by reductions."""
    return size > LONG and _loses_digits(x.device)


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


def rms_norm(x, n, weight, eps):
    """Rows of the last ``n`` dimensions over the roots of their mean squares, scaled.

    Returns:
        Those, and one over the roots.
    """
    wide = x.to(statistics_dtype(x.dtype))
    rstd = ops.rsqrt((wide * wide).mean(list(range(x.ndim - n, x.ndim)), True) + eps)
    result = wide * rstd
    result = result if weight is None else result * weight
    return result.to(x.dtype), rstd


def layer_norm_parameters(grad, x, center, rstd, shape, dtype):
    """Gradients of a layer norm's weight and bias: sums over millions of rows."""
    wide = statistics_dtype(x.dtype)
    rows = [t.reshape(center.numel(), -1).to(wide) for t in (grad, x)]
    unit = (rows[1] - center.unsqueeze(-1)) * rstd.unsqueeze(-1)
    sums = (rows[0] * unit).sum([0]), rows[0].sum([0])
    return tuple(each.reshape(shape).to(dtype) for each in sums)


def group_norm(x, weight, bias, sizes, eps):
    """The group norm of ``x``, and the groups' means and reciprocal deviations.

    Args:
        sizes: samples, groups, channels of a group, elements of a channel.
    """
    planes = x.reshape(sizes).to(statistics_dtype(x.dtype))
    spread, center = ops.var_mean(planes, [2, 3], correction=0, keepdim=True)
    rstd = ops.rsqrt(spread + eps)
    result = (planes - center) * rstd
    channels = [1, sizes[1], sizes[2], 1]
    result = result if weight is None else result * weight.reshape(channels)
    result = result if bias is None else result + bias.reshape(channels)
    pairs = sizes[:2]
    return result.to(x.dtype).view_as(x), center.reshape(pairs), rstd.reshape(pairs)


def group_norm_backward(grad, x, center, rstd, weight, sizes):
    """Gradients of a group norm's input, weight and bias.

    Args:
        sizes: samples, groups, channels of a group, elements of a channel.
    """
    wide = statistics_dtype(x.dtype)
    grads, planes = (t.reshape(sizes).to(wide) for t in (grad, x))
    each = [*sizes[:2], 1, 1]
    rstd = rstd.reshape(each)
    unit = (planes - center.reshape(each)) * rstd
    along, sums = (grads * unit).sum([3], True), grads.sum([3], True)
    scale = 1 if weight is None else weight.to(wide).reshape([1, *sizes[1:3], 1])
    size = sizes[2] * sizes[3]
    slope = (along * scale).sum([2], True) / size
    shares = (sums * scale).sum([2], True) / size
    d_input = (grads * scale - shares - unit * slope) * rstd
    d_weight, d_bias = (part.sum([0]).reshape(-1) for part in (along, sums))
    return d_input.to(x.dtype).view_as(x), d_weight, d_bias
