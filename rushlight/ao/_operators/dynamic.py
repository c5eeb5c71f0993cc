"""Numbers quantized by the scale that they ask for, which stays in memory."""

from __future__ import annotations

import math

from rushlight.codegen.language import fma, isinf, select
from rushlight.codegen.language import round as nearest
from rushlight.codegen.loops import f32, f64, i32, local, loops, u8, vectorized
from rushlight.core.dtypes import float32, int32, uint8
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh, run_whole
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.fake_quantize import SMALL_SCALE
from rushlight.operators.quantized.quantized import (
    NO_RANGE,
    dynamic_parameters,
    inverse_of,
    single,
)

MOST = 1 << 17  # numbers that one thread quantizes sooner than several are woken


@loops
def dynamic_kernel(
    out: "u8*", scale: "f32*", point: "i32*", x: "f32*", count: int, top: int,
    begin: int, end: int,
):  # fmt: skip
    """Bytes of numbers, with the scale and zero point for all from the least to the most.

    As `choose_parameters` has it, in double precision.
    """
    lows = local("f32", 64)
    highs = local("f32", 64)
    for c in vectorized(64):
        lows[c] = f32(0)
        highs[c] = f32(0)
    whole = count // 64
    for block in range(whole):
        at = block * 64
        for c in vectorized(64):
            value = x[at + c]
            lows[c] = select(value < lows[c], value, lows[c])
            highs[c] = select(value > highs[c], value, highs[c])
    least, most = f32(0), f32(0)
    if count > 0:  # as in PyTorch, only the first element may be what has no order
        least = select(x[0] > f32(0), f32(0), x[0])
    for k in range(whole * 64, count):
        least = select(x[k] < least, x[k], least)
        most = select(x[k] > most, x[k], most)
    for c in range(64):
        least = select(lows[c] < least, lows[c], least)
        most = select(highs[c] > most, highs[c], most)
    low, high, steps = f64(least), f64(most), f64(top)
    raw = (high - low) / steps
    asked = select(isinf(f32(1) / f32(raw)), f64(0.1), raw)
    if asked < f64(SMALL_SCALE):
        before = asked
        asked = f64(SMALL_SCALE)
        if low == f64(0):
            high = asked * steps
        elif high == f64(0):
            low = -asked * steps
        else:
            low = low * asked / before
            high = high * asked / before
    from_low, from_high = -low / asked, steps - high / asked
    near_low = abs(low / asked) < steps + abs(high / asked)
    middle = nearest(select(near_low, from_low, from_high))
    middle = select(middle < steps, middle, steps)
    middle = select(middle > f64(0), middle, f64(0))
    scale[0] = f32(asked)
    point[0] = i32(middle)
    inverse, moved = f32(f64(1) / f64(f32(asked))), f32(middle)
    for k in vectorized(count):
        step = nearest(fma(x[k], inverse, moved))
        held = select(step < f32(255), step, f32(255))
        out[k] = u8(select(held > f32(0), held, f32(0)))


def quantize(x, reduce_range=False):
    """Numbers as unsigned bytes in row-major order, their scale and their zero point.

    Args:
        x: float32.
        reduce_range: whether bytes take seven bits.

    Returns:
        bytes, a float32 and an int32 of one element each.

    Raises:
        RuntimeError: the first element is not a number.
    """
    x = x.contiguous()
    top = 127 if reduce_range else 255
    if x.numel() > MOST:
        try:
            scale, point = dynamic_parameters(x, 0, top)
        except RuntimeError:
            if math.isnan(x.view(-1)[0].item()):
                raise
            scale, point = dynamic_parameters(ops.where(x == x, x, 0.0), 0, top)
        levels = affine_kernels.quantize(x, uint8, inverse_of(scale), point)
        scale = ops.full([], single(scale), dtype=float32)
        return levels, scale, ops.full([], point, dtype=int32)
    levels = fresh(x, x.shape, uint8)
    scale, point = fresh(x, (), float32), fresh(x, (), int32)
    ints = [x.numel(), top]
    run_whole(dynamic_kernel, [levels, scale, point, x], ints, 1)
    if math.isnan(scale.item()):
        raise RuntimeError(NO_RANGE)
    return levels, scale, point
