"""Padding, and other ways of rearranging elements in space."""

from __future__ import annotations

from rushlight.ops import call
from rushlight.ops.padding import blocks


def pad(input, pad, mode="constant", value=None):
    """Add elements before and after the last dimensions.

    Args:
        input: any tensor; the modes other than ``"constant"`` pad the last one, two
            or three dimensions of a sample.
        pad: ``(before, after)`` of the last dimension, then of the one before it, and
            so on; negative numbers cut off.
        mode: ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        value: what ``"constant"`` puts there; 0 where it is left out.
    """
    return call.pad(input, pad, mode, value)


def _two(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of an image as columns: ``(N, C * kh * kw, L)``."""
    return call.im2col(input, *map(_two, (kernel_size, dilation, padding, stride)))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sum columns ``(N, C * kh * kw, L)`` into the image that they are windows of."""
    size, kernel, dilation, padding, stride = map(
        _two, (output_size, kernel_size, dilation, padding, stride)
    )
    batched = input.dim() == 3
    columns_in = input if batched else input.unsqueeze(0)
    rows, columns = blocks(size, kernel, dilation, padding, stride)
    samples, depth, length = columns_in.shape
    if length != rows * columns or depth % (kernel[0] * kernel[1]):
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, expected size of input's dimension "
            f"2 to match the calculated number of sliding blocks {rows} * {columns} = "
            f"{rows * columns}, but got input.size(2)={length}."
        )
    channels = depth // (kernel[0] * kernel[1])
    parts = columns_in.reshape(samples, channels, kernel[0], kernel[1], rows, columns)
    result = input.new_zeros(
        (samples, channels, size[0] + 2 * padding[0], size[1] + 2 * padding[1])
    )
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            window = result[
                :,
                :,
                top : top + rows * stride[0] : stride[0],
                left : left + columns * stride[1] : stride[1],
            ]
            window[:, :, :rows, :columns].add_(parts[:, :, i, j])
    result = result[
        :, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]
    ]
    return result if batched else result.squeeze(0)
