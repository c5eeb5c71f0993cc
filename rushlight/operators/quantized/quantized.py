"""Quantized tensors: integers that stand for numbers by scales and zero points."""

import math
from ctypes import c_float

from rushlight.core import dtypes, sparse
from rushlight.core import layout as layouts
from rushlight.core.dtype import get_default_dtype
from rushlight.core.dtypes import float32, int64, uint8
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
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.fake_quantize import choose_parameters

# quantized type -> type of its integers, least and greatest
KINDS = {
    "quint4x2": ("uint8", 0, 15),  # two in a byte where they are asked for as integers
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


def made(integers, scale, zero_point, axis=None, dtype=None):
    """A quantized tensor of parts that go together, of the integers' type by default."""
    dtype = dtype or getattr(dtypes, QUANTIZED[integers.dtype.name])
    return sparse.make(
        DispatchKey.QuantizedCPU, list(integers.shape), dtype, integers.device,
        layouts.strided, Affine(integers, scale, zero_point, axis), integers,
    )  # fmt: skip


def parts(tensor):
    """Integers, scale, zero point and axis."""
    found = sparse.parts_of(tensor)
    return found.integers, found.scale, found.zero_point, found.axis


def per_tensor(tensor, refusal=None):
    """Integers, scale and zero point of a tensor with one scale for all.

    Args:
        refusal: what is said of others.

    Raises:
        RuntimeError: each channel has its own scale.
    """
    integers, scale, zero_point, axis = parts(tensor)
    if axis is not None:
        raise RuntimeError(refusal or NOT_PER_TENSOR)
    return integers, scale, zero_point


NOT_PER_TENSOR = (
    "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false."
)


def like(tensor, integers):
    """Other integers with the same parameters."""
    _, scale, zero_point, axis = parts(tensor)
    return made(integers, scale, zero_point, axis, tensor.dtype)


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
    steps = steps_of(self, integers, scale, zero_point, False, (low, high))
    return made(steps, float(scale), int(zero_point), None, dtype)


def steps_of(self, integers, scale, zero_point, later=False, bounds=None):
    """The integers that stand for numbers.

    Args:
        later: whether the zero point is added to what is rounded.
        bounds: the least and the greatest; of the integers' type by default.
    """
    if scale:
        inverse = inverse_of(scale)
        return affine_kernels.quantize(
            self, integers, inverse, zero_point, later, bounds
        )
    low, high = bounds or affine_kernels.LIMITS[integers.name]
    steps = ops.full_like(self, zero_point)
    steps = ops.where(self < 0, low, ops.where(self > 0, high, steps))
    return ops.clamp(steps.double(), low, high).to(integers)


def inverse_of(scale):
    """One over a scale, both in single precision."""
    return single(1.0 / single(scale))


def single(value):
    """A number as single precision holds it.

    >>> single(0.1), single(1e39)
    (0.10000000149011612, inf)
    """
    return c_float(value).value


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
        RuntimeError: there is no such dimension, or other channels than numbers.
    """
    integers, low, high = _kind(dtype, self)
    _floats(self)
    if not 0 <= axis < self.ndim:
        kind = "float qparams" if zero_points.dtype.is_floating_point else "affine"
        raise RuntimeError(
            f"Channel axis out of range in per channel {kind} quantization. "
            f"Got: {axis}Expected: [0, {self.ndim})"
        )
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
    elif dtype.name == "quint4x2":
        raise NotImplementedError(
            "\"quantize_tensor_per_channel_affine\" not implemented for 'QUInt4x2'\n"
            "  remedy: zero points that are float32"
        )
    else:
        scales, zero_points = scales.double(), zero_points.to(int64)
    inverse = (1.0 / scales.float()).reshape(across)
    points = zero_points.reshape(across)
    steps = ops.round(affine_kernels.in_format(self) * inverse + points)
    wide = ops.clamp(steps.double(), low, high)
    steps = wide.to(integers)
    return made(steps, scales.clone(), zero_points.clone(), axis, dtype)


def quantize_dynamically(self, dtype, reduce_range):
    """The scale that takes in all elements, of one bit less where that is asked for.

    Raises:
        RuntimeError: the type is not one of eight bits.
    """
    if dtype.name not in ("qint8", "quint8"):
        raise RuntimeError(f"dtype {quantized_name(dtype)}not supported")
    _, low, high = KINDS[dtype.name]
    if reduce_range:
        low, high = int(low / 2), high // 2
    scale, point = dynamic_parameters(self, low, high)
    return ops.quantize_per_tensor(self, scale, point, dtype)


def choose_qparams_per_tensor(self, reduce_range):
    """The scale and the zero point of unsigned bytes."""
    return dynamic_parameters(self, 0, 127 if reduce_range else 255)


NO_RANGE = "In ChooseQuantizationParams, min should be less than or equal to max"


def dynamic_parameters(x, low, high):
    """The scale and the zero point by which all elements are within some integers.

    Raises:
        RuntimeError: an element is not a number.
    """
    least = most = 0.0
    if x.numel():
        ends = ops.aminmax(x)
        least, most = ends[0].item(), ends[1].item()
    if math.isnan(least):
        raise RuntimeError(NO_RANGE)
    least, most = min(least, 0.0), max(most, 0.0)
    if math.isinf(most - least):
        return math.inf, -(
            1 << 31
        )  # what processors make of a quotient without a value
    return choose_parameters(least, most, low, high)


def quantized_name(dtype):
    """How PyTorch's messages call a type."""
    names = {"qint32": "QInt32", "qint8": "QInt8", "quint8": "QUInt8"}
    return (names | {"quint4x2": "QUInt4x2"}).get(dtype.name, scalar_name(dtype))


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
    if zero_point.dtype.is_floating_point:
        return made(self.clone(), scale.float(), zero_point.float(), axis)
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
    integers = parts(self)[0]
    kept = memory_format in (None, layouts.preserve_format)
    order = affine_kernels.kept_format(integers) if kept else memory_format
    return like(self, ops.empty_like(integers, memory_format=order))


# ---- reading


def numbers(self):
    """The integers less the zero point, times the scale, in single precision."""
    integers, scale, zero_point, axis = parts(self)
    if axis is None:
        return affine_kernels.dequantize(integers, scale, zero_point)
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
    """A copy of the integers; of those of four bits, two in each byte, the first lowest."""
    integers = parts(self)[0]
    if self.dtype.name != "quint4x2":
        return integers.clone(memory_format=affine_kernels.kept_format(integers))
    flat = ops.constant_pad_nd(integers.reshape([-1]), [0, integers.numel() % 2])
    return together(flat, 4)


def together(levels, bits):
    """Small integers side by side in bytes, the first in the lowest bits.

    Args:
        levels: uint8, whose last dimension whole bytes hold.
        bits: of each.
    """
    each = 8 // bits
    pieces = levels.reshape([*levels.shape[:-1], -1, each]).to(int64)
    weights = pieces.new_tensor([1 << bits * at for at in range(each)])
    return ops.sum(pieces * weights, [-1]).to(uint8)


def q_scale(self):
    """The scale for all elements.

    Raises:
        RuntimeError: each channel has its own.
    """
    return per_tensor(self)[1]


def q_zero_point(self):
    """The zero point for all elements.

    Raises:
        RuntimeError: each channel has its own.
    """
    return per_tensor(self)[2]


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


# ---- pooling and norms


def _pooled(name, self, args):
    integers, scale, zero_point = per_tensor(self)
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
    per_tensor(input)
    numbers = ops.batch_norm(
        dequantize(input), weight, bias, mean, var, False, 0.0, eps, False
    )
    return quantize_per_tensor(numbers, output_scale, output_zero_point, input.dtype)
