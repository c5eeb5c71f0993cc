"""Between numbers and the integers that stand for them: one pass each.

Numbers that all elements share are passed by their bits, as integers of the kernel.
"""

import struct

from rushlight.codegen.language import bits_of, float_of, fma, select
from rushlight.codegen.language import round as nearest
from rushlight.codegen.loops import A, T, f32, i32, i64, loops, u8, vectorized
from rushlight.core.dtypes import float32, int32, uint8
from rushlight.core.layout import contiguous_format
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh, run
from rushlight.operators.shape.formats import format_of

# Added to a number of less than 2^22: the sum's last bits are the nearest integer, ties to even.
ROUNDING, ROUNDING_BITS = 1.5 * 2**23, 0x4B400000
LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "int32": (-(1 << 31), (1 << 31) - 1)}


@loops
def quantize_kernel(
    out: "T*", x: "f32*", inverse: int, point: int, low: int, high: int, later: int,
    wide: int, begin: int, end: int,
):  # fmt: skip
    """Steps from the zero point, rounded to even before it is added or after.

    The scale and the zero point of bytes go in with one rounding, those of wider
    integers with two, as in PyTorch: that decides which way a tie goes.

    What is no number is the greatest of bytes, and the least of wider integers.
    """
    scale = float_of(i32(inverse))
    for i in vectorized(begin, end):
        if later:
            moved = nearest(A(x[i] * scale)) + A(point)
        elif wide:
            moved = A(nearest(x[i] * scale + f32(point)))
        else:
            moved = nearest(fma(x[i], scale, f32(point)))
        if wide:
            held = select(moved > A(high), A(high), moved)
        else:
            held = select(moved < A(high), moved, A(high))
        out[i] = T(select(held > A(low), held, A(low)))


@loops
def dequantize_kernel(
    out: "f32*", x: "T*", scale: int, point: int, begin: int, end: int
):
    """Integers less the zero point, times the scale."""
    factor = float_of(i32(scale))
    for i in vectorized(begin, end):
        out[i] = f32(i32(x[i]) - i32(point)) * factor


@loops
def lookup_kernel(out: "T*", x: "u8*", table: "T*", begin: int, end: int):
    """What a table says of each byte."""
    for i in range(begin, end):
        out[i] = table[i64(x[i])]


@loops
def combine_kernel(
    out: "T*", x: "T*", y: "T*", left: int, right: int, result: int, bounds: int,
    times: int, wide: int, begin: int, end: int,
):  # fmt: skip
    """The sum of two, or their product, in a scale and a zero point of its own.

    Each operand's scale and zero point are one integer, as are the least and the greatest
    result; of the result's scale it is the inverse. Bounds of bytes are whole numbers that
    a float has, so that they hold before rounding as well as after it.
    """
    a, b = float_of(i32(left >> 32)), float_of(i32(right >> 32))
    factor = float_of(i32(result >> 32))
    a_point, b_point = i32(left), i32(right)
    a_start, b_start = -a * f32(a_point), -b * f32(b_point)
    point, low, high = f32(i32(result)), f32(i32(bounds >> 32)), f32(i32(bounds))
    start = i32(result) - i32(ROUNDING_BITS)
    for i in vectorized(begin, end):
        if times:
            product = (i32(x[i]) - a_point) * (i32(y[i]) - b_point)
            value = f32(product) * factor
        else:
            first = fma(f32(x[i]), a, a_start)
            value = (first + fma(f32(y[i]), b, b_start)) * factor
        if wide:
            moved = nearest(value) + point
            held = select(moved < high, moved, high)
            out[i] = T(select(held > low, held, low))
        else:
            held = select(value < high - point, value, high - point)
            held = select(held > low - point, held, low - point)
            out[i] = T(bits_of(held + f32(ROUNDING)) + start)


def packed(high, low):
    """Two integers of 32 bits as one of 64."""
    return (high << 32) | (low & 0xFFFFFFFF)


def bits(value):
    """The bits of a number in single precision, as an integer.

    >>> bits(1.0) == 0x3F800000
    True
    """
    return struct.unpack("<i", struct.pack("<f", value))[0]


def quantize(x, integers, inverse, point, later=False, bounds=None):
    """Elements as integers; in the order of the elements' memory.

    Args:
        integers: their dtype.
        inverse: of the scale.
        later: whether the zero point is added to what is rounded.
        bounds: the least and the greatest integer, by default of the dtype.
    """
    x = in_format(x)
    out = _laid(x, integers)
    low, high = bounds or LIMITS[integers.name]
    wide = int(integers is int32)
    ints = [bits(inverse), point, low, high, int(later), wide]
    kinds = {"T": integers.name, "A": "float64" if wide else "float32"}
    kinds |= {"later": int(later), "wide": wide}
    run(quantize_kernel, [out, x], ints, x.numel(), 2, **kinds)
    return out


def dequantize(x, scale, point):
    """Integers as the numbers that they stand for."""
    x = in_format(x)
    out = _laid(x, float32)
    ints = [bits(scale), point]
    run(dequantize_kernel, [out, x], ints, x.numel(), 1, T=x.dtype.name)
    return out


def combine(x, y, inverse, point, bounds, times):
    """A sum or a product of integers of two scales.

    Args:
        x, y: integers of the same sizes and strides, scale and zero point.
        inverse: what the sum, or the product of steps, is multiplied by.
        bounds: the least and the greatest integer.
    """
    (a, a_scale, a_point), (b, b_scale, b_point) = x, y
    out = _laid(a, a.dtype)
    ints = [packed(bits(a_scale), a_point), packed(bits(b_scale), b_point)]
    wide = int(a.dtype is int32)
    ints += [packed(bits(inverse), point), packed(*bounds), int(times), wide]
    kinds = {"T": a.dtype.name, "times": int(times), "wide": wide}
    run(combine_kernel, [out, a, b], ints, a.numel(), 2, **kinds)
    return out


def look_up(x, table):
    """What a table of 256 elements says of each byte."""
    out = _laid(x, table.dtype)
    octets = x if x.dtype.name == "uint8" else x.view(uint8)
    run(lookup_kernel, [out, octets, table], [], x.numel(), 2, T=table.dtype.name)
    return out


def kept_format(x):
    """The order that results have: rows, or channels last where they lie so; no other."""
    return format_of(x) or contiguous_format


def in_format(x):
    """The elements in that order: the tensor itself if they are."""
    return x.contiguous(memory_format=kept_format(x))


def _laid(x, dtype):
    """Memory for as many elements in the same order."""
    if x.is_contiguous():
        return fresh(x, x.shape, dtype)
    return ops.empty_like(x, dtype=dtype)
