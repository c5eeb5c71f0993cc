"""Convolutions as products of matrices: for devices that have no kernels of their own.

The places that a kernel reaches from each place of the output are seen as a matrix, by
strides alone; one copy writes it out, and a product does the rest. The input's gradient
is taken tap after tap, so that every sum has one order.
"""

import itertools
from math import prod

from rushlight.core.layout import contiguous_format
from rushlight.operators import call as ops


def windows(input, kernel, output, stride, padding, dilation, groups):
    """What a kernel sees: ``(images, groups, channels * taps, positions)``, written out."""
    images, channels = input.shape[:2]
    if any(padding):
        margins = [p for size in reversed(padding) for p in (size, size)]
        input = ops.constant_pad_nd(input, margins, 0)
    input = input.contiguous()
    strides = input.stride()
    taps = [s * d for s, d in zip(strides[2:], dilation, strict=True)]
    steps = [s * d for s, d in zip(strides[2:], stride, strict=True)]
    seen = ops.as_strided(
        input, (images, channels, *kernel, *output), (*strides[:2], *taps, *steps)
    )
    depth = channels // groups * prod(kernel)
    return seen.reshape(images, groups, depth, prod(output))


def forward(input, weight, bias, shape, stride, padding, dilation, groups):
    """The output, of a shape that is known."""
    kernel, output = weight.shape[2:], shape[2:]
    rows = weight.shape[0] // groups
    columns = windows(input, kernel, output, stride, padding, dilation, groups)
    matrix = weight.reshape(groups, rows, columns.shape[2])
    result = ops.matmul(matrix, columns).reshape(shape)
    if bias is None:
        return result
    return result.add_(bias.reshape(-1, *[1] * len(output)))


def input_gradient(grad, shape, weight, stride, padding, dilation, groups):
    """The gradient of an input of a shape, one tap after another.

    The kernels multiply the zeros around ``grad``, too: that of an infinite weight
    would be NaN where that weight has no share in the gradient.
    """
    images, rows, *sizes = grad.shape
    wide = [size + 2 * p for size, p in zip(shape[2:], padding, strict=True)]
    result = ops.new_zeros(grad, (*shape[:2], *wide))
    lines = grad.reshape(images, groups, rows // groups, prod(sizes))
    blocks = weight.unflatten(0, (groups, rows // groups)).transpose(1, 2)
    for tap in itertools.product(*map(range, weight.shape[2:])):
        part = ops.matmul(blocks[(..., *tap)], lines)
        window = [
            slice(k * d, k * d + (size - 1) * s + 1, s)
            for k, d, s, size in zip(tap, dilation, stride, sizes, strict=True)
        ]
        result[(..., *window)].add_(part.reshape(*shape[:2], *sizes))
    for dim, (size, p) in enumerate(zip(shape[2:], padding, strict=True), 2):
        result = result.narrow(dim, p, size)
    return result.clone(memory_format=contiguous_format)


def weight_gradient(grad, input, shape, stride, padding, dilation, groups):
    """The gradients of a weight of a shape and of the bias."""
    images, rows, *output = grad.shape
    kernel = shape[2:]
    columns = windows(input, kernel, output, stride, padding, dilation, groups)
    depth, positions = columns.shape[2:]
    # the sum over images is part of the product's depth
    columns = columns.permute(1, 0, 3, 2).reshape(groups, images * positions, depth)
    lines = grad.reshape(images, groups, rows // groups, positions)
    lines = lines.permute(1, 2, 0, 3).reshape(
        groups, rows // groups, images * positions
    )
    d_weight = ops.matmul(lines, columns).reshape(shape)
    return d_weight, ops.sum(grad, [d for d in range(grad.ndim) if d != 1])
