"""Rounding to what quantized numbers can express, in floating-point numbers."""

import math
from ctypes import c_float

from rushlight.core.dtype import INTEGER
from rushlight.core.dtypes import bool_, float32, int32, int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.loop_calls import require, scalar_name
from rushlight.operators.type_groups import FLOATS

_TENSOR = "fake_quantize_tensor_cachemask_kernel_type_handling"
_CHANNEL = "fake_quantize_channel_cachemask_cpu_type_handling"


def _check_range(quant_min, quant_max, zero_point=None):
    if quant_min > quant_max:
        raise RuntimeError(
            "`quant_min` should be less than or         equal to `quant_max`."
        )
    if zero_point is not None and not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")


def _wide(self):
    return self.float() if self.dtype.itemsize == 2 else self


def _single(value):
    """A number as float32 holds it."""
    return make_tensor(value, dtype=float32)


def _rounded(self, scale, zero_point, quant_min, quant_max):
    """The rounded elements, and which of them were within the range."""
    wide = _wide(self)
    steps = wide * (1 / scale)
    if isinstance(zero_point, Tensor) and zero_point.dtype.is_floating_point:
        steps = ops.round(steps + zero_point)
    else:
        steps = ops.round(steps) + zero_point
    mask = (steps >= quant_min) & (steps <= quant_max)
    low, high = ops.full_like(steps, quant_min), ops.full_like(steps, quant_max)
    held = ops.fmin(ops.fmax(steps, low), high)
    return ((held - zero_point) * scale).to(self.dtype), mask


# ---- one scale for all


def per_tensor(self, scale, zero_point, quant_min, quant_max):
    """The first result of the operator that also keeps a mask."""
    return ops.fake_quantize_per_tensor_affine_cachemask(
        self, scale, zero_point, quant_min, quant_max
    )[0]


def per_tensor_of_tensors(self, scale, zero_point, quant_min, quant_max):
    """`per_tensor` with numbers that are in tensors."""
    on = ops.ones([1], dtype=int64)
    return ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self, scale, zero_point, on, quant_min, quant_max
    )[0]


def per_tensor_with_mask(self, scale, zero_point, quant_min, quant_max):
    """Steps are rounded to even, then held within the range.

    Raises:
        RuntimeError: the range is empty, or the zero point outside of it.
    """
    _check_range(quant_min, quant_max, zero_point)
    require(_TENSOR, self.dtype, FLOATS, self)
    return _rounded(self, _single(scale), zero_point, quant_min, quant_max)


def per_tensor_of_tensors_with_mask(
    self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
):
    """Where rounding is switched off elements pass.

    Raises:
        RuntimeError: the range is empty, or there are several scales.
    """
    _check_range(quant_min, quant_max)
    require(_TENSOR, self.dtype, FLOATS, self)
    if not fake_quant_enabled.item():
        return self.clone(), ops.ones_like(self, dtype=bool_)
    for tensor in (scale, zero_point):
        if tensor.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar"
            )
    return _rounded(
        self, scale.reshape([]).float(), int(zero_point.item()), quant_min, quant_max
    )


# ---- a scale for each channel


def per_channel(self, scale, zero_point, axis, quant_min, quant_max):
    """The first result of the operator that also keeps a mask."""
    return ops.fake_quantize_per_channel_affine_cachemask(
        self, scale, zero_point, axis, quant_min, quant_max
    )[0]


def per_channel_with_mask(self, scale, zero_point, axis, quant_min, quant_max):
    """Channels lie along one dimension.

    Raises:
        RuntimeError: scales and zero points don't go with the channels or the range.
    """
    for tensor, name, types in (
        (scale, "Scale", ("Float", "BFloat16")),
        (zero_point, "Zero-point", ("Int", "Float", "Half")),
    ):
        if scalar_name(tensor.dtype) not in types:
            words = "Int32, Float or Half" if "Int" in types else "Float or BFloat16"
            raise RuntimeError(
                f"{name} must be {words}, found {scalar_name(tensor.dtype)}"
            )
    _check_channels(self, scale, zero_point, quant_min, quant_max)
    axis = wrap_dim(axis, self.ndim)
    if scale.numel() != self.shape[axis]:
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )
    require(_CHANNEL, self.dtype, FLOATS, self)
    across = _across(self, axis)
    return _rounded(
        self,
        scale.float().reshape(across),
        zero_point.reshape(across),
        quant_min,
        quant_max,
    )


def _check_channels(self, scale, zero_point, quant_min, quant_max):
    if scale.ndim != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.ndim != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    _check_range(quant_min, quant_max)
    low, high = zero_point.min().item(), zero_point.max().item()
    if (
        zero_point.dtype.category == INTEGER
        and not quant_min <= low <= high <= quant_max
    ):
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")


def _across(self, axis):
    across = [1] * self.ndim
    across[axis] = -1
    return across


# ---- scales that learn


def _whole_point(zero_point, quant_min, quant_max):
    """A zero point that learns, as the whole number that it stands for."""
    whole = ops.floor(zero_point.float() + 0.5)
    return ops.clamp(whole, quant_min, quant_max).to(int32)


def learnable_per_tensor(self, scale, zero_point, quant_min, quant_max, grad_factor):
    """`per_tensor` with the scale and the zero point that have been learnt."""
    point = _whole_point(zero_point, quant_min, quant_max).reshape([])
    scale = scale.reshape([]).float()
    return _rounded(self, scale, point, quant_min, quant_max)[0]


def learnable_per_channel(
    self, scale, zero_point, axis, quant_min, quant_max, grad_factor
):
    """`per_channel` with the scales and the zero points that have been learnt."""
    across = _across(self, wrap_dim(axis, self.ndim))
    point = _whole_point(zero_point, quant_min, quant_max).reshape(across)
    scale = scale.float().reshape(across)
    return _rounded(self, scale, point, quant_min, quant_max)[0]


def _learnt(grad, self, scale, point, quant_min, quant_max):
    """Gradients of each element for itself, its scale and its zero point."""
    wide, grad = _wide(self), _wide(grad)
    steps = ops.round(wide * (1 / scale) + point)
    below, above = steps < quant_min, steps > quant_max
    outside = below | above
    held = ops.clamp(steps, quant_min, quant_max)
    value = (held - point) * scale
    slope = ops.where(outside, held - point, (value - wide) / scale)
    to_self = ops.where(outside, 0.0, grad)
    return to_self, grad * slope, ops.where(outside, -grad * scale, 0.0)


def learnable_per_tensor_gradients(
    grad, self, scale, zero_point, quant_min, quant_max, grad_factor
):
    """Sums of all elements' shares."""
    point = _whole_point(zero_point, quant_min, quant_max).reshape([])
    parts = _learnt(grad, self, scale.reshape([]).float(), point, quant_min, quant_max)
    to_scale = (parts[1].sum() * grad_factor).reshape(scale.shape).to(scale.dtype)
    to_point = (parts[2].sum() * grad_factor).reshape(zero_point.shape)
    return parts[0].to(self.dtype), to_scale, to_point.to(zero_point.dtype)


def learnable_per_channel_gradients(
    grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor
):
    """Sums of the shares of each channel's elements."""
    axis = wrap_dim(axis, self.ndim)
    across = _across(self, axis)
    point = _whole_point(zero_point, quant_min, quant_max).reshape(across)
    wide = scale.float().reshape(across)
    parts = _learnt(grad, self, wide, point, quant_min, quant_max)
    others = [d for d in range(self.ndim) if d != axis]
    summed = [part.sum(others) if others else part for part in parts[1:]]
    to_scale, to_point = (part * grad_factor for part in summed)
    return (
        parts[0].to(self.dtype),
        to_scale.to(scale.dtype),
        to_point.to(zero_point.dtype),
    )


# ---- what a range asks for


SMALL_SCALE = c_float(6.1e-5).value  # smaller ones have no inverse in some hardware


def choose_parameters(low, high, quant_min, quant_max, symmetric=False):
    """The scale and the zero point for numbers from ``low`` to ``high``.

    >>> choose_parameters(-1.0, 3.0, 0, 255)[1]
    64
    """
    low, high = min(low, 0.0), max(high, 0.0)
    symmetric = symmetric and low < 0 < high
    if symmetric:
        most = (quant_max - quant_min) // 2
        scale = max(abs(low) / (most + 1), abs(high) / most)
        low, high = -scale * (most + 1), scale * most
    scale = (high - low) / (quant_max - quant_min)
    held = c_float(scale).value
    if held == 0 or math.isinf(c_float(1 / held).value):
        scale = 0.1
    if scale < SMALL_SCALE:
        scale, before = SMALL_SCALE, scale
        if low == 0:
            high = scale * (quant_max - quant_min)
        elif high == 0:
            low = -scale * (quant_max - quant_min)
        else:
            low, high = low * scale / before, high * scale / before
    from_low, from_high = quant_min - low / scale, quant_max - high / scale
    error_low = abs(quant_min) + abs(low / scale)
    error_high = abs(quant_max) + abs(high / scale)
    point = from_low if error_low < error_high else from_high
    if symmetric:
        point = (quant_min + quant_max) / 2
    return scale, int(min(max(round(point), quant_min), quant_max))


def observed(
    self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
    averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant,
):  # fmt: skip
    """The extremes' moving averages give the scale, by which elements are rounded.

    Raises:
        RuntimeError: the channels' dimension isn't there.
    """
    if per_row_fake_quant and not -self.ndim <= ch_axis < self.ndim:
        raise RuntimeError(
            "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()"
        )
    if observer_on.item():
        _observe(
            self.detach(), running_min, running_max, scale, zero_point, averaging_const,
            quant_min, quant_max, ch_axis if per_row_fake_quant else None,
            symmetric_quant,
        )  # fmt: skip
    if not fake_quant_on.item():
        return self.clone()
    if per_row_fake_quant:
        return ops.fake_quantize_per_channel_affine(
            self, scale, zero_point, ch_axis, quant_min, quant_max
        )
    return ops.fake_quantize_per_tensor_affine(
        self, scale.item(), zero_point.item(), quant_min, quant_max
    )


def _observe(
    x, running_min, running_max, scale, zero_point, share, quant_min, quant_max, axis,
    symmetric,
):  # fmt: skip
    x, fresh = x.float(), running_min.numel() == 0
    if axis is None:
        low, high = x.min().reshape([1]), x.max().reshape([1])
    else:
        axis = wrap_dim(axis, x.ndim)
        rows = x.movedim(axis, 0).reshape([x.shape[axis], -1])
        low, high = ops.amin(rows, [1]), ops.amax(rows, [1])
        for kept in (running_min, running_max, scale, zero_point):
            if kept.numel() != low.numel():
                kept.resize_(low.shape)
    fresh = fresh or not bool(ops.isfinite(running_min).all().item())
    shape = running_min.shape
    if fresh:
        running_min.copy_(low.reshape(shape))
        running_max.copy_(high.reshape(shape))
    else:
        running_min.add_((low.reshape(shape) - running_min) * share)
        running_max.add_((high.reshape(shape) - running_max) * share)
    lows, highs = running_min.reshape([-1]).tolist(), running_max.reshape([-1]).tolist()
    found = [
        choose_parameters(a, b, quant_min, quant_max, symmetric)
        for a, b in zip(lows, highs)
    ]
    scale.copy_(make_tensor([each[0] for each in found]).reshape(scale.shape))
    zero_point.copy_(make_tensor([each[1] for each in found]).reshape(scale.shape))


def choose_qparams_optimized(input, numel, n_bins, ratio, bit_width):
    """From both ends the range is narrowed as long as something may be gained.

    Raises:
        RuntimeError: there are fewer elements than said.
    """
    if not 0 <= numel <= input.numel():
        raise RuntimeError("numel is out of the bound of input tensor")
    row = input.reshape([-1])[:numel].float()
    low, high = row.min().item(), row.max().item()
    step = (high - low) / n_bins
    least = int(n_bins * (1 - ratio)) * step
    best = loss = _loss(row, low, high, bit_width)
    at_low, at_high = low, high
    while at_low + least < at_high:
        from_low = _loss(row, at_low + step, at_high, bit_width)
        from_high = _loss(row, at_low, at_high - step, bit_width)
        if loss < min(from_low, from_high, best):  # neither way gains
            best, low, high = loss, at_low, at_high
        if from_low < from_high:
            loss, at_low = from_low, at_low + step
        else:
            loss, at_high = from_high, at_high - step
    return make_tensor([high]), make_tensor([low])


def _loss(row, low, high, bit_width):
    """How far a row is from what its quantized form says."""
    low = make_tensor(low).half().item()
    steps = (1 << bit_width) - 1
    scale = make_tensor((high - low) / steps).half().item() or 1.0
    taken = ops.clamp(ops.round((row - low) * (1.0 / scale)), 0, steps)
    return ops.linalg_vector_norm(taken * scale + low - row).item()
