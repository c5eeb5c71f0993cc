"""Convolutions of each channel by itself: vectors of channels, the taps added up."""

from __future__ import annotations

import functools

from rushlight.codegen.language import round as nearest
from rushlight.codegen.language import select
from rushlight.codegen.loops import f32, i32, loops, u8, vectorized
from rushlight.core.dtypes import int32, int64, uint8
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import fresh, run
from rushlight.operators.quantized.quantized import single


@loops
def depthwise_kernel(
    out: "u8*", x: "u8*", weight: "i32*", bias: "f32*", factor: "f32*", shape: "i64*",
    begin: int, end: int,
):  # fmt: skip
    """Results, channels innermost: sums of the taps, scaled, moved, rounded."""
    x_point, point, low = i32(shape[0]), f32(i32(shape[1])), f32(i32(shape[2]))
    channels, height, width = shape[3], shape[4], shape[5]
    kernel_h, kernel_w, stride_h, stride_w = shape[6], shape[7], shape[8], shape[9]
    dilation_h, dilation_w = shape[10], shape[11]
    rows, columns = shape[12], shape[13]
    for place in range(begin, end):
        line, column = place // width, place % width
        image, row = line // height, line % height
        start = (image * rows + row * stride_h) * columns + column * stride_w
        at = place * channels
        for c in vectorized(channels):
            total = i32(0)
            for a in range(kernel_h):
                for b in range(kernel_w):
                    pixel = start + a * dilation_h * columns + b * dilation_w
                    tap = i32(x[pixel * channels + c]) - x_point
                    total = total + tap * weight[(a * kernel_w + b) * channels + c]
            value = nearest((f32(total) + bias[c]) * factor[c]) + point
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
        self.taps = centred.t().contiguous()
        self.scales = scales
        self.bias = ops.zeros([rows.shape[0]]) if bias is None else bias.float()

    def requantized(self, windows, x_scale, x_point, scale, point, relu):
        """The integers of all results, channels innermost."""
        x, (height, width) = windows.x, windows.sizes
        both = self.scales * single(x_scale)
        count = x.shape[0] * height
        channels = x.shape[-1]
        out = fresh(x, (count * width, channels), uint8)
        shape = x_point, point, point if relu else 0, channels, height, width
        shape += (*windows.kernel, *windows.stride, *windows.dilation, *x.shape[1:3])
        factors = self.bias / both, both / single(scale)
        tensors = [out, x, self.taps, *factors, _shape(shape)]
        work = channels * windows.kernel[0] * windows.kernel[1]
        run(depthwise_kernel, tensors, [], count * width, work)
        return out
