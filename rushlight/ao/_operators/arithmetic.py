"""Sums, products and joins of quantized tensors, in scales that are given or follow."""

from rushlight.ao._operators.linear import check_bytes
from rushlight.core import sparse
from rushlight.core.dtypes import int64
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.quantized import (
    KINDS,
    inverse_of,
    made,
    parts,
    single,
    steps_of,
)


def limits(x):
    """The least and the greatest integer of a quantized type."""
    return KINDS[x.dtype.name][1:]


def _same(a, b, word):
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{word} operands should have same data type.\n  qa: {a.dtype}\n"
            f"  qb: {b.dtype}"
        )
    for each in (a, b):
        if parts(each)[3] is not None:
            raise RuntimeError(f"Only per tensor quantization is supported in {word}.")


def _together(a, b):
    """Integers in one shape and order of memory."""
    if a.shape != b.shape:
        a, b = ops.broadcast_tensors([a, b])
    a = affine_kernels.in_format(a)
    if a.stride() == b.stride():
        return a, b
    return a, ops.copy_(ops.empty_like(a), b)


def combined(word, times, relu=False):
    """The sum of two quantized tensors, or their product, in a scale that is given."""

    def apply(qa, qb, scale, zero_point):
        _same(qa, qb, word)
        a, a_scale, a_point, _ = parts(qa)
        b, b_scale, b_point, _ = parts(qb)
        a, b = _together(a, b)
        inverse = inverse_of(scale)
        if times:
            inverse = single(single(single(a_scale) * single(b_scale)) * inverse)
        low, high = limits(qa)
        bounds = (max(low, zero_point) if relu else low), high
        x, y = (a, a_scale, a_point), (b, b_scale, b_point)
        out = affine_kernels.combine(x, y, inverse, zero_point, bounds, times)
        return made(out, float(scale), int(zero_point))

    return apply


def into(function):
    """A form that writes to a tensor whose scale and zero point results have."""

    def apply(*args):
        *given, out = args
        result = function(*given, out.q_scale(), out.q_zero_point())
        parts(out)[0].copy_(parts(result)[0])
        return out

    return apply


def into_scalar(function):
    """A form whose output takes the scale that follows from a number."""

    def apply(x, value, out):
        result = function(x, value)
        found, held = sparse.parts_of(result), sparse.parts_of(out)
        held.integers.copy_(found.integers)
        held.scale, held.zero_point = found.scale, found.zero_point
        return out

    return apply


def _value(b):
    return b.item() if isinstance(b, Tensor) else b


def add_scalar(relu=False):
    """A quantized tensor plus a number: its zero point moves, if that is possible."""

    def apply(qa, b):
        b = _value(b)
        levels, scale, point, _ = parts(qa)
        low, high = limits(qa)
        moved = point - round(b / scale)
        if low <= moved <= high:
            out, point = ops.clone(levels, memory_format=None), moved
        else:
            reach = moved - low if moved > high else high - moved
            end = high if moved > high else low
            fresh = reach / (high - low) * scale
            value = (levels.to(int64) - moved).float() * scale
            out = steps_of(value, levels.dtype, fresh, end, True)
            scale, point = fresh, end
        if relu:
            out = ops.clamp(out, min=point)
        return made(out, scale, point)

    return apply


def mul_scalar(relu=False):
    """A quantized tensor times a number: its scale changes."""

    def apply(qa, b):
        b = _value(b)
        levels, scale, point, _ = parts(qa)
        low, high = limits(qa)
        if b > 0:
            out, scale = ops.clone(levels, memory_format=None), scale * b
        elif b < 0:
            out = (low + high) - levels.to(int64)
            out, scale = out.to(levels.dtype), scale * -b
            point = high - (point - low)
        else:
            out, scale, point = ops.zeros_like(levels), 1.0, 0
        if relu:
            out = ops.clamp(out, min=point)
        return made(out, scale, point)

    return apply


def swapped(function):
    """The same with the number first."""
    return lambda b, qa: function(qa, b)


def joined(relu=False):
    """Quantized tensors one after another, in the first one's scale or another."""

    def apply(qx, dim, scale, zero_point):
        for x in qx:
            if x.dtype is not qx[0].dtype:
                raise RuntimeError("All dtypes must be the same.")
            if parts(x)[3] is not None:
                raise RuntimeError(
                    "Only per-tensor quantization is supported in 'cat'!"
                )
        first = parts(qx[0])
        scale = first[1] if scale is None else scale
        point = first[2] if zero_point is None else zero_point
        pieces = []
        for x in qx:
            levels, x_scale, x_point, _ = parts(x)
            if x_scale != scale or x_point != point:
                value = ops.dequantize(x)
                levels = steps_of(value, levels.dtype, scale, point)
            pieces.append(levels)
        out = ops.cat(pieces, dim)
        if relu:
            out = ops.clamp(out, min=point)
        return made(out, float(scale), int(point))

    return apply


def matmul(qa, qb, scale, zero_point):
    """The product of two quantized matrices, or batches of them."""
    _same(qa, qb, "MatMul")
    value = ops.matmul(ops.dequantize(qa), ops.dequantize(qb))
    levels = parts(qa)[0].dtype
    return made(steps_of(value, levels, scale, zero_point), scale, zero_point)


def clamp(qx, min, max):
    """Numbers held between bounds."""
    return ops.clamp(qx, min, max)


def relu6(qx, inplace=False):
    """Numbers held between 0 and 6."""
    levels, scale, point, _ = parts(qx)
    low, high = limits(qx)
    six = builtin_min(round(6.0 / scale) + point, high)
    out = ops.clamp(levels, point, six)
    if inplace:
        levels.copy_(out)
        return qx
    return made(out, scale, point)


builtin_min = min


def threshold(qx, threshold, value):
    """Numbers that are not above a threshold become a value."""
    levels, scale, point, _ = parts(qx)
    numbers = ops.dequantize(qx)
    numbers = ops.where(numbers > threshold, numbers, float(value))
    return made(steps_of(numbers, levels.dtype, scale, point), scale, point)


def prelu(qx, weight, scale, zero_point):
    """Numbers below zero times a weight, one for all or one for each channel.

    Those above zero are multiplied by one as the weight's scale can express it, which is
    less than one where the weight is small: so PyTorch has it.
    """
    check_bytes(qx)
    x, (kept, own_scale, own_point, _) = ops.dequantize(qx), parts(weight)
    one = steps_of(ops.full([], 1.0), kept.dtype, own_scale, own_point)
    one = ops.dequantize(made(one, own_scale, own_point))
    numbers = ops.where(x > 0, x * one, ops.prelu(x, ops.dequantize(weight)))
    levels = parts(qx)[0].dtype
    return made(steps_of(numbers, levels, scale, zero_point, True), scale, zero_point)
