"""Which memory format a tensor's strides are in, and results laid out alike."""

from rushlight.core.layout import channels_last as channels_last_
from rushlight.core.layout import channels_last_3d
from rushlight.operators import call

# The dimensions from the one that moves fastest, for images and for volumes.
_ORDERS = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


def is_channels_last(sizes, strides):
    """Whether strides say that channels lie innermost.

    Where sizes of one leave the choice open, the answer is no.

    >>> is_channels_last((2, 3, 4, 5), (60, 1, 15, 3))
    True
    >>> is_channels_last((2, 1, 1, 1), (1, 1, 1, 1))
    False
    """
    order = _ORDERS.get(len(sizes))
    if order is None or strides[1] == 0:
        return False
    least = 0
    for dim in order:
        if sizes[dim] == 0 or strides[dim] < least:
            return False
        if dim == 0 and least == strides[1]:
            return False
        least = strides[dim] * max(sizes[dim], 1)
    return True


def format_of(tensor):
    """The channels-last format that a tensor's strides are in, or None.

    Tensors of one channel, or of one place, may be contiguous in it.
    """
    ndim = tensor.ndim
    if ndim != 4 and ndim != 5:
        return None
    if tensor.stride(-1) < tensor.stride(1):  # as in most: channels lie apart
        return None
    return _named(ndim) if is_channels_last(tensor.shape, tensor.stride()) else None


def _named(ndim):
    return channels_last_ if ndim == 4 else channels_last_3d


def laid_out(result, format):
    """The result in a memory format; as it is where there is none to keep.

    Strides are the format's even where sizes of one would allow others. In ``"lines"``
    ``(N, C, L)`` has channels innermost, as an image of one row would have them.
    """
    if format == "lines":
        return laid_out(result.unsqueeze(2), channels_last_).squeeze(2)
    if format is None or result.ndim not in _ORDERS:
        return result
    if result.stride() == channels_last_strides(result.shape):
        return result
    return call.empty_like(result, memory_format=format).copy_(result)


def channels_last_strides(sizes):
    """The strides of a dense tensor with channels innermost.

    >>> channels_last_strides((2, 3, 1, 1))
    (3, 1, 3, 3)
    """
    strides, step = [0] * len(sizes), 1
    for dim in _ORDERS[len(sizes)]:
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def lines_channels_last(tensor):
    """Whether an image of one row, made of ``(N, C, L)``, is in channels last."""
    if tensor.ndim != 3 or tensor.stride(2) < tensor.stride(1):
        return False
    n, c, size = tensor.shape
    first, along, step = tensor.stride()
    return is_channels_last((n, c, 1, size), (first, along, size * step, step))


def odd_steps(x):
    """Whether there is a dimension of one element, and not all steps are row-major."""
    if 1 not in x.shape:
        return False
    step = 1
    for size, stride in zip(reversed(x.shape), reversed(x.stride()), strict=True):
        if stride != step:
            return True
        step *= size
    return False
