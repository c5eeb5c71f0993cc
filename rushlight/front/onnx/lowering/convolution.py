"""Convolutions and windows over images."""

import rushlight as rl
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.operators import call


def spread(value, count):
    """A number for each of so many dimensions."""
    values = [value] * count if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def with_batch(g, value, rank, lower):
    """Runs a lowering of batches on what may be one example.

    Args:
        value: the value; without its batch it has one dimension less.
        rank: the number of dimensions with a batch.
        lower: called with the batch; gives a value, or a tuple of them.
    """
    if value.rank == rank:
        return lower(value)
    made = lower(g.unsqueeze(value, [0]))
    if isinstance(made, tuple):
        return tuple(g.op("Squeeze", one, g.ints([0]), dtype=one.dtype) for one in made)
    return g.op("Squeeze", made, g.ints([0]), dtype=made.dtype)


def _attributes(weight, stride, dilation, groups):
    """What both kinds of convolution say of their windows."""
    count = weight.rank - 2
    return {
        "kernel_shape": list(weight.shape[2:]),
        "strides": spread(stride, count),
        "dilations": spread(dilation, count),
        "group": groups,
    }


def _plain(g, input, weight, bias, stride, padding, dilation, groups):
    count = weight.rank - 2
    pads = None
    if padding == "same":
        pads = _same_pads(weight, spread(dilation, count))
    elif not isinstance(padding, str):
        pads = spread(padding, count) * 2
    options = _attributes(weight, stride, dilation, groups)
    return g.op("Conv", input, weight, bias, pads=pads, dtype=input.dtype, **options)


def _same_pads(weight, dilation):
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    before = [one // 2 for one in total]
    return before + [one - first for one, first in zip(total, before)]


def _transposed(
    g, input, weight, bias, stride, padding, output_padding, groups, dilation
):
    count = weight.rank - 2
    options = _attributes(weight, stride, dilation, groups)
    options["pads"] = spread(padding, count) * 2
    options["output_padding"] = spread(output_padding, count)
    return g.op("ConvTranspose", input, weight, bias, dtype=input.dtype, **options)


@lowers(call.conv1d, call.conv2d, call.conv3d)
def conv(g, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """A convolution."""
    return with_batch(
        g, input, weight.rank,
        lambda x: _plain(g, x, weight, bias, stride, padding, dilation, groups),
    )  # fmt: skip


@lowers(call.conv_transpose1d, call.conv_transpose2d, call.conv_transpose3d)
def conv_transpose(
    g, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
    dilation=1,
):  # fmt: skip
    """A transposed convolution."""
    rest = stride, padding, output_padding, groups, dilation
    return with_batch(
        g, input, weight.rank, lambda x: _transposed(g, x, weight, bias, *rest)
    )


@lowers(call.convolution)
def convolution(
    g,
    input,
    weight,
    bias,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
):
    """Either of them."""
    if transposed:
        rest = stride, padding, output_padding, groups, dilation
        return conv_transpose(g, input, weight, bias, *rest)
    return conv(g, input, weight, bias, stride, padding, dilation, groups)


# -- windows as columns ------------------------------------------------------------------


@lowers(call.im2col)
def im2col(g, self, kernel_size, dilation, padding, stride):
    """The windows of an image as columns."""
    return with_batch(
        g, self, 4, lambda x: _columns(g, x, kernel_size, dilation, padding, stride)
    )


def _columns(g, x, kernel_size, dilation, padding, stride):
    if not x.is_static(1, 2, 3):
        raise Unsupported("its image has open sizes")
    kernel, dilation, padding, stride = (
        spread(one, 2) for one in (kernel_size, dilation, padding, stride)
    )
    high, wide = (x.shape[2 + at] + 2 * padding[at] for at in range(2))
    rows, columns = (
        rl.arange(0, size - dilation[at] * (kernel[at] - 1), stride[at])[None, :]
        + rl.arange(kernel[at])[:, None] * dilation[at]
        for at, size in enumerate((high, wide))
    )
    indices = rows[:, None, :, None] * wide + columns[None, :, None, :]
    count = kernel[0] * kernel[1]
    indices = indices.reshape(count, -1)
    pads = [0, 0, *padding, 0, 0, *padding]
    framed = g.op("Pad", x, g.ints(pads), dtype=x.dtype)
    batch = g.size_of(x, 0)
    flat = g.reshape(framed, [batch, x.shape[1], high * wide])
    made = g.op("Gather", flat, g.const(indices, rl.int64), axis=2, dtype=x.dtype)
    return g.reshape(made, [batch, x.shape[1] * count, indices.shape[1]])


@lowers(call.col2im)
def col2im(g, self, output_size, kernel_size, dilation, padding, stride):
    """The sum of windows that are columns."""
    attributes = {
        "dilations": spread(dilation, 2),
        "pads": spread(padding, 2) * 2,
        "strides": spread(stride, 2),
    }
    sizes, kernel = g.sizes(output_size), g.ints(spread(kernel_size, 2))
    return with_batch(
        g, self, 3,
        lambda x: g.op("Col2Im", x, sizes, kernel, dtype=x.dtype, **attributes),
    )  # fmt: skip
