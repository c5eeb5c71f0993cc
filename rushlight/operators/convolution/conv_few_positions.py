"""Convolutions of few positions by many filters, whose channels lie innermost.

Where the output has fewer positions than channels, the weight is the largest operand: it is
read as it lies, by products with patches that are copied whole. Kernels over blocks of
positions would have it turned first, which takes as long as the product does.

    out[p, o] = sum_k patch[p, k] * weight[o, k]      for k = (tap, channel)
"""

import math

from rushlight.kernels.conv.conv_geometry import PARALLEL_WORK
from rushlight.operators import call as ops

# Positions that an output channel is worth: of squares, which save products, fewer.
POSITIONS, POSITIONS_OF_SQUARES = 1, 0.25


def are_few(shape, weight, groups, squares):
    """Whether a product with patches is better than kernels over blocks of positions.

    Args:
        shape: the output's.
        weight: the filters'.
        squares: the plan of transformed squares, or None.
    """
    images, rows, *sizes = shape
    few = rows * (POSITIONS if squares is None else POSITIONS_OF_SQUARES)
    positions = images * math.prod(sizes)
    work = positions * weight.numel()
    return groups == 1 and work > PARALLEL_WORK and positions < few


def patches(x, weight, sizes, stride, padding, dilation):
    """What each position sees, as a matrix; ``x`` and ``weight`` are channels last."""
    pixels = x.permute(0, 2, 3, 1)
    if any(padding):
        down, across = padding
        margins = [0, 0, across, across, down, down]
        pixels = ops.constant_pad_nd(pixels, margins)
    images, channels, taps = len(x), x.shape[1], weight.shape[2:]
    image, *lines, pixel = pixels.stride()
    steps = [line * step for line, step in zip(lines, stride, strict=True)]
    lines = [line * step for line, step in zip(lines, dilation, strict=True)]
    seen = pixels.as_strided(
        (images, *sizes, *taps, channels),
        (image, *steps, *lines, pixel),
        pixels.storage_offset(),
    )
    return seen.reshape(-1, math.prod(taps) * channels)


def filters(weight):
    """A weight whose channels are innermost as a matrix with a row for each output channel."""
    return weight.permute(0, 2, 3, 1).reshape(len(weight), -1)


def pixels_of(x):
    """The pixels of images as rows of a matrix."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def forward(x, weight, bias, sizes, *settings):
    """The output."""
    seen = patches(x, weight, sizes, *settings)
    out = (
        ops.mm(filters(weight), seen.t()).t().contiguous()
    )  # the weight is read in rows
    if bias is not None:
        out.add_(bias)
    return out.view(len(x), *sizes, len(weight)).permute(0, 3, 1, 2)


def input_gradient(grad, shape, weight, stride, padding, dilation):
    """The gradient of an input of a shape: of each tap what its positions give."""
    images, channels, *within = shape
    sizes, taps = grad.shape[2:], weight.shape[2:]
    seen = ops.mm(pixels_of(grad), filters(weight))
    if taps == stride == (1, 1) and not any(padding):
        return seen.view(images, *within, channels).permute(0, 3, 1, 2)
    seen = seen.view(images, *sizes, *taps, channels)
    whole = [size + 2 * margin for size, margin in zip(within, padding, strict=True)]
    out = ops.new_zeros(seen, (images, *whole, channels))
    for y in range(taps[0]):
        for x in range(taps[1]):
            down, across = (
                slice(tap * far, tap * far + (size - 1) * step + 1, step)
                for tap, far, size, step in zip((y, x), dilation, sizes, stride)
            )
            out[:, down, across].add_(seen[:, :, :, y, x])
    down, across = (
        slice(margin, margin + size)
        for margin, size in zip(padding, within, strict=True)
    )
    return out[:, down, across].contiguous().permute(0, 3, 1, 2)


def weight_gradient(grad, x, weight, *settings):
    """The gradient of a weight."""
    seen = patches(x, weight, grad.shape[2:], *settings)
    out = ops.mm(pixels_of(grad).t(), seen)
    rows, channels, *taps = weight.shape
    return out.view(rows, *taps, channels).permute(0, 3, 1, 2)
