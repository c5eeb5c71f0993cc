"""Convolutions of each channel by itself: vectors of channels, the taps added up."""

from __future__ import annotations

import functools

from rushlight.codegen.language import fma, select
from rushlight.codegen.language import round as nearest
from rushlight.codegen.loops import f32, i32, local, loops, u8, vectorized
from rushlight.core.dtypes import int32, int64, uint8
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import fresh, run
from rushlight.operators.quantized.quantized import single

MOST_TAPS = 512  # sums of more might not be exact
BLOCK = 64  # channels whose sums are kept while the taps are added up


@loops
def depthwise_kernel(
    out: "u8*", x: "u8*", weight: "f32*", shift: "f32*", bias: "f32*", factor: "f32*",
    shape: "i64*", begin: int, end: int,
):  # fmt: skip
    """Results, channels innermost: sums of the taps, scaled, moved, rounded.

    Behind the numbers of ``shape`` stands for each tap where its pixel is. Sums of so few
    products of bytes are exact in single precision.
    """
    point, low = f32(i32(shape[1])), f32(i32(shape[2]))
    channels, height, width = shape[3], shape[4], shape[5]
    stride_h, stride_w, rows, columns = shape[6], shape[7], shape[8], shape[9]
    taps = shape[10]
    sums = local("f32", 64)
    for block in range(begin, end):
        place, first = block // shape[11], block % shape[11] * 64
        line, column = place // width, place % width
        image, row = line // height, line % height
        start = (image * rows + row * stride_h) * columns + column * stride_w
        base, at = start * channels + first, place * channels + first
        count = min(64, channels - first)
        for c in vectorized(count):
            sums[c] = shift[first + c]
        for t in range(taps):
            pixel, tap = base + shape[12 + t] * channels, t * channels + first
            for c in vectorized(count):
                sums[c] = fma(f32(x[pixel + c]), weight[tap + c], sums[c])
        for c in vectorized(count):
            value = (sums[c] + bias[first + c]) * factor[first + c]
            value = nearest(value) + point
            value = select(value < f32(255), value, f32(255))
            out[at + c] = u8(select(value > low, value, low))


@functools.lru_cache(256)
def _shape(values):
    return tensor(values, dtype=int64)


class Weight:
    """The taps of each channel.

    Args:
        rows: int8 of two dimensions, channels and taps.
        scales, points, bias: of the channels, as in `packed.Scaled`.
    """

    def __init__(self, rows, scales, points, bias):
        centred = rows.to(int32) - points.unsqueeze(1)
        self.taps = centred.t().float().contiguous()
        self.sums = ops.sum(centred, [1]).float()
        self.scales = scales
        self.bias = ops.zeros([rows.shape[0]]) if bias is None else bias.float()

    def requantized(self, windows, x_scale, x_point, scale, point, relu):
        """The integers of all results, channels innermost."""
        x, (height, width) = windows.x, windows.sizes
        both = self.scales * single(x_scale)
        count = x.shape[0] * height
        channels = x.shape[-1]
        out = fresh(x, (count * width, channels), uint8)
        blocks = -(-channels // BLOCK)
        shape = x_point, point, point if relu else 0, channels, height, width
        taps = [
            a * windows.dilation[0] * x.shape[2] + b * windows.dilation[1]
            for a in range(windows.kernel[0])
            for b in range(windows.kernel[1])
        ]
        shape += (*windows.stride, *x.shape[1:3], len(taps), blocks, *taps)
        factors = self.bias / both, both / single(scale)
        tensors = [out, x, self.taps, self.sums * -x_point, *factors, _shape(shape)]
        total = count * width * blocks
        run(depthwise_kernel, tensors, [], total, BLOCK * len(taps))
        return out
