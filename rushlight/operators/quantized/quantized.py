"""Quantized tensors: integers that stand for numbers by scales and zero points."""

import math

from rushlight.core import dtypes, sparse
from rushlight.core import layout as layouts
from rushlight.core.dtype import get_default_dtype
from rushlight.core.dtypes import float32, int32, int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.qscheme import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_tensor_affine,
)
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn_once
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.quantized.fake_quantize import choose_parameters

# quantized type -> type of its integers, least and greatest
KINDS = {
    "quint8": ("uint8", 0, 255),
    "qint8": ("int8", -128, 127),
    "qint32": ("int32", -(1 << 31), (1 << 31) - 1),
}
QUANTIZED = {integers: name for name, (integers, _, _) in KINDS.items()}


class Affine:
    """What a quantized tensor is made of.

    Args:
        integers: the elements as they are stored.
        scale, zero_point: numbers; or tensors, one element for each channel.
        axis: the dimension of the channels; None for one scale for all.
    """

    __slots__ = ("axis", "integers", "scale", "zero_point")

    def __init__(self, integers, scale, zero_point, axis=None):
        self.integers = integers
        self.scale = scale
        self.zero_point = zero_point
        self.axis = axis


def made(integers, scale, zero_point, axis=None):
    """A quantized tensor of parts that go together."""
    dtype = getattr(dtypes, QUANTIZED[integers.dtype.name])
    return sparse.make(
        DispatchKey.QuantizedCPU, list(integers.shape), dtype, integers.device,
        layouts.strided, Affine(integers, scale, zero_point, axis),
    )  # fmt: skip


def parts(tensor):
    """Integers, scale, zero point and axis."""
    found = sparse.parts_of(tensor)
    return found.integers, found.scale, found.zero_point, found.axis


def like(tensor, integers):
    """Other integers with the same parameters."""
    _, scale, zero_point, axis = parts(tensor)
    return made(integers, scale, zero_point, axis)


# ---- making


def _kind(dtype, what):
    warn_once(
        "torch.quantize_per_tensor, torch.quantize_per_channel and other quantized tensor "
        "creation functions that produce quantized tensors are deprecated and will be "
        "removed in a future release. Please see "
        "https://github.com/pytorch/ao for an alternative."
    )
    if dtype.name not in KINDS:
        raise RuntimeError(
            f"ScalarType {scalar_name(dtype)} is not supported in new_qtensor."
        )
    integers, low, high = KINDS[dtype.name]
    return getattr(dtypes, integers), low, high


def _floats(self):
    if self.dtype is not float32:
        raise RuntimeError(
            f"Quantize only works on Float Tensor, got {scalar_name(self.dtype)}"
        )


def _check_point(name, zero_point, low, high):
    for bad, word in (
        (zero_point > high, "above upper"),
        (zero_point < low, "below lower"),
    ):
        if bad:
            raise RuntimeError(f"{name} zero_point {zero_point} is {word} bound.")


def quantize_per_tensor(self, scale, zero_point, dtype):
    """Steps are rounded to even, then held within the integers' range.

    Raises:
        RuntimeError: a type or the zero point isn't right.
    """
    integers, low, high = _kind(dtype, self)
    _floats(self)
    _check_point("quantize_tensor_per_tensor_affine", zero_point, low, high)
    inverse = 1.0 / float(make_tensor(scale)) if scale else math.inf
    steps = ops.round((self * inverse).double() + zero_point)
    if not scale:
        steps = ops.full_like(self, zero_point)
        steps = ops.where(self < 0, low, ops.where(self > 0, high, steps))
    wide = ops.clamp(steps.double(), low, high)
    return made(wide.to(integers), float(scale), int(zero_point))


def quantize_by_tensors(self, scale, zero_point, dtype):
    """The numbers are read from their tensors."""
    return ops.quantize_per_tensor(self, scale.item(), int(zero_point.item()), dtype)


def quantize_several(tensors, scales, zero_points, dtype):
    """Each tensor by its own numbers."""
    return tuple(
        quantize_by_tensors(tensor, scale, point, dtype)
        for tensor, scale, point in zip(tensors, scales, zero_points)
    )


def _across(self, axis):
    across = [1] * self.ndim
    across[axis] = -1
    return across


def quantize_per_channel(self, scales, zero_points, axis, dtype):
    """Each channel by its own numbers; zero points that are floats stay floats.

    Raises:
        RuntimeError: the numbers are not as many as the channels.
    """
    integers, low, high = _kind(dtype, self)
    _floats(self)
    axis = wrap_dim(axis, self.ndim)
    if scales.numel() != zero_points.numel():
        raise RuntimeError("number of elements in scales and zero_points must match")
    if scales.numel() != self.shape[axis]:
        raise RuntimeError(
            f"length of scales must equal to channel, expected {self.shape[axis]} got, "
            f"{scales.numel()}"
        )
    across = _across(self, axis)
    floating = zero_points.dtype.is_floating_point
    if floating:
        scales, zero_points = scales.float(), zero_points.float()
    else:
        scales, zero_points = scales.double(), zero_points.to(int64)
    inverse = (1.0 / scales.float()).reshape(across)
    points = zero_points.reshape(across)
    steps = self * inverse
    steps = ops.round((steps if floating else steps.double()) + points)
    wide = ops.clamp(steps.double(), low, high)
    return made(wide.to(integers), scales.clone(), zero_points.clone(), axis)


def quantize_dynamically(self, dtype, reduce_range):
    """The scale that takes in all elements, of one bit less where that is asked for.

    Raises:
        RuntimeError: the type is not one of eight bits.
    """
    if dtype.name not in ("qint8", "quint8"):
        raise RuntimeError(f"dtype {_name(dtype)}not supported")
    _, low, high = KINDS[dtype.name]
    if reduce_range:
        low, high = int(low / 2), high // 2
    least = self.min().item() if self.numel() else 0.0
    most = self.max().item() if self.numel() else 0.0
    scale, point = _parameters(least, most, low, high)
    return ops.quantize_per_tensor(self, scale, point, dtype)


def _parameters(least, most, low, high):
    least, most = min(least, 0.0), max(most, 0.0)
    scale = (most - least) / (high - low)
    _, point = choose_parameters(least, most, low, high)
    return (scale if scale >= 6.1e-5 else 6.1e-5 if scale else 0.1), point


def _name(dtype):
    return {"qint32": "QInt32", "qint8": "QInt8", "quint8": "QUInt8"}.get(
        dtype.name, scalar_name(dtype)
    )


def of_integers(self, scale, zero_point):
    """The integers are copied.

    Raises:
        RuntimeError: no quantized type has such integers.
    """
    _integers(self)
    return made(self.clone(), float(scale), int(zero_point))


def _integers(self):
    if self.dtype.name not in QUANTIZED:
        raise RuntimeError(
            "a quantized tensor is made of uint8, int8 or int32, but got "
            f"{TYPE_NAMES[self.dtype.name]}"
        )


def of_integers_by_channel(self, scale, zero_point, axis):
    """The integers are copied.

    Raises:
        RuntimeError: no quantized type has such integers.
    """
    _integers(self)
    axis = wrap_dim(axis, self.ndim)
    return made(self.clone(), scale.double(), zero_point.to(int64), axis)


def empty_affine(
    size, dtype, layout, device, pin_memory, scale, zero_point, memory_format
):
    """Integers of undefined contents."""
    integers, _, _ = _kind(dtype or get_default_dtype(), None)
    return made(ops.empty(list(size), dtype=integers), float(scale), int(zero_point))


def empty_quantized(size, qtensor, dtype, layout, device, pin_memory, memory_format):
    """The parameters stay."""
    integers = parts(qtensor)[0]
    return like(qtensor, ops.empty(list(size), dtype=integers.dtype))


def empty_like(self, dtype, layout, device, pin_memory, memory_format):
    """Integers of undefined contents."""
    return like(self, ops.empty_like(parts(self)[0]))


# ---- reading


def numbers(self):
    """The integers less the zero point, times the scale, in single precision."""
    integers, scale, zero_point, axis = parts(self)
    if axis is None:
        gap = integers.to(int32) - zero_point
        return gap.float() * make_tensor(scale, dtype=float32)
    across = _across(integers, axis)
    if zero_point.dtype.is_floating_point:
        whole = integers.float() - zero_point.reshape(across)
    else:
        whole = (integers.to(int64) - zero_point.reshape(across)).float()
    return whole * scale.float().reshape(across)


def dequantize(self):
    """The numbers of a quantized tensor; any other's elements as float32."""
    return ops._dequantize(self) if self.is_quantized else self.to(float32)


def dequantize_several(tensors):
    """Each tensor's numbers."""
    return tuple(dequantize(tensor) for tensor in tensors)


def int_repr(self):
    """A copy of the integers."""
    return parts(self)[0].clone()


def _one(self, at):
    found = parts(self)
    if found[3] is not None:
        raise RuntimeError(
            "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false."
        )
    return found[at]


def q_scale(self):
    """The scale for all elements.

    Raises:
        RuntimeError: each channel has its own.
    """
    return _one(self, 1)


def q_zero_point(self):
    """The zero point for all elements.

    Raises:
        RuntimeError: each channel has its own.
    """
    return _one(self, 2)


def _each(self, at):
    found = parts(self)
    if found[3] is None:
        raise RuntimeError(
            "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() "
            "== kPerChannelAffineFloatQParams to be true, but got false."
        )
    return found[at]


def q_per_channel_scales(self):
    """A scale for each channel.

    Raises:
        RuntimeError: there is one for all.
    """
    return _each(self, 1)


def q_per_channel_zero_points(self):
    """A zero point for each channel.

    Raises:
        RuntimeError: there is one for all.
    """
    return _each(self, 2)


def q_per_channel_axis(self):
    """The dimension of the channels.

    Raises:
        RuntimeError: there are none.
    """
    return _each(self, 3)


def qscheme(self):
    """One scale for all, or one for each channel."""
    _, _, zero_point, axis = parts(self)
    if axis is None:
        return per_tensor_affine
    if zero_point.dtype.is_floating_point:
        return per_channel_affine_float_qparams
    return per_channel_affine


# ---- operators on the integers


def on_integers(name):
    """An operator that moves elements, applied to the integers."""
    function = getattr(ops, name)

    def apply(self, *args):
        found = parts(self)
        if found[3] is not None and name != "clone":
            raise RuntimeError(
                f"{name} of a tensor quantized per channel is not supported"
            )
        return made(function(found[0], *args), *found[1:])

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the integers."
    return apply


def contiguous(self, memory_format):
    """Row by row."""
    return like(self, parts(self)[0].contiguous())


def clone(self, memory_format):
    """The integers are copied."""
    return like(self, parts(self)[0].clone())


def relu(self):
    """Integers below the zero point become it."""
    integers, scale, zero_point, axis = parts(self)
    if axis is not None:
        raise RuntimeError("relu of a tensor quantized per channel is not supported")
    return made(ops.clamp(integers, min=zero_point), scale, zero_point)


def clamp(self, min, max):
    """Bounds are quantized too."""
    integers, scale, zero_point, _ = parts(self)
    _, low, high = KINDS[self.dtype.name]

    def step(bound):
        if bound is None:
            return None
        return builtin_min(builtin_max(round(bound / scale) + zero_point, low), high)

    return made(ops.clamp(integers, step(min), step(max)), scale, zero_point)


builtin_min, builtin_max = min, max


def copy_(self, src, non_blocking):
    """Numbers are quantized by the target's parameters; integers are taken over.

    Raises:
        RuntimeError: the target is not quantized, or the types differ.
    """
    if not self.is_quantized:
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, "
            "please use dequantize to get a float Tensor from a quantized Tensor"
        )
    integers, scale, zero_point, axis = parts(self)
    if src.is_quantized:
        if src.dtype is not self.dtype:
            raise RuntimeError(
                "Quantized Copy only works with Tensors of the same type"
            )
        taken = parts(src)
        found = Affine(taken[0].expand(integers.shape).clone(), *taken[1:])
        return sparse.put(self, list(self.shape), found)
    if axis is None:
        fresh = quantize_per_tensor(src.float(), scale, zero_point, self.dtype)
    else:
        fresh = quantize_per_channel(src.float(), scale, zero_point, axis, self.dtype)
    integers.copy_(parts(fresh)[0])
    return self


def fill_(self, value):
    """One number everywhere."""
    return copy_(self, ops.full(list(self.shape), float(value)), False)


def refuse_conversion(
    self, dtype, layout, device, pin_memory, non_blocking, memory_format
):
    """Only between quantized types, or none.

    Raises:
        RuntimeError: another type is asked for.
    """
    if dtype is not None and dtype is not self.dtype:
        raise RuntimeError(
            "Creation of quantized tensor requires quantized dtype like torch.quint8"
        )
    return clone(self, memory_format)


def equal(self, other):
    """Whether parameters and integers are equal."""
    if not self.is_quantized or not other.is_quantized:
        return False
    one, two = parts(self), parts(other)
    if self.dtype is not other.dtype or one[3] != two[3] or self.shape != other.shape:
        return False
    if one[3] is None:
        same = one[1] == two[1] and one[2] == two[2]
    else:
        same = ops.equal(one[1], two[1]) and ops.equal(one[2], two[2])
    return bool(same and ops.equal(one[0], two[0]))


def compared(name):
    """A comparison of the numbers."""
    function = getattr(ops, name)

    def compare(self, other):
        other = dequantize(other) if isinstance(other, Tensor) else other
        return function(dequantize(self), other)

    compare.__name__ = name
    compare.__doc__ = f"``{name}`` of the numbers."
    return compare


def cat(tensors, dim):
    """All in the first tensor's parameters."""
    first = tensors[0]
    _, scale, zero_point, _ = parts(first)
    joined = ops.cat([dequantize(tensor) for tensor in tensors], dim)
    return quantize_per_tensor(joined, scale, zero_point, first.dtype)


def largest(self):
    """The largest element."""
    return like(self, ops.max(parts(self)[0]))


def smallest(self):
    """The smallest element."""
    return like(self, ops.min(parts(self)[0]))


def mean(self, dtype):
    """The mean, quantized again."""
    integers = parts(self)[0]
    return like(self, ops.round(integers.double().mean()).to(integers.dtype))


def sigmoid(self):
    """Between zero and one, which takes all integers of eight bits."""
    _, low, high = KINDS[self.dtype.name]
    scale = 1 / 256 if high - low == 255 else 1.0 / (1 << 32)
    return quantize_per_tensor(dequantize(self).sigmoid(), scale, low, self.dtype)


def on_numbers(name):
    """An operator applied to the numbers, its result in the same parameters."""
    function = getattr(ops, name)

    def apply(self, *args):
        _, scale, zero_point, _ = parts(self)
        result = function(dequantize(self), *args)
        return quantize_per_tensor(result, scale, zero_point, self.dtype)

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the numbers, quantized again."
    return apply


def with_places(name):
    """An operator that moves elements and says from where."""
    function = getattr(ops, name)

    def apply(self, *args):
        values, places = function(parts(self)[0], *args)
        return like(self, values), places

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the integers."
    return apply


def _pooled(name, self, args):
    integers, scale, zero_point, _ = parts(self)
    pooled = getattr(ops, name)(integers.float(), *args)
    return made(pooled.to(integers.dtype), scale, zero_point)


def max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """Integers are in the order of the numbers."""
    return _pooled(
        "max_pool1d", self, (kernel_size, stride, padding, dilation, ceil_mode)
    )


def max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """Integers are in the order of the numbers."""
    return _pooled(
        "max_pool2d", self, (kernel_size, stride, padding, dilation, ceil_mode)
    )


def max_pool3d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """Integers are in the order of the numbers."""
    return _pooled(
        "max_pool3d", self, (kernel_size, stride, padding, dilation, ceil_mode)
    )


def batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point):
    """The numbers are normalized, then quantized again."""
    numbers = ops.batch_norm(
        dequantize(input), weight, bias, mean, var, False, 0.0, eps, False
    )
    return quantize_per_tensor(numbers, output_scale, output_zero_point, input.dtype)
