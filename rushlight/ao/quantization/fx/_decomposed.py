"""``ops.quantized_decomposed``: quantization as functions of plain tensors of integers.

Graphs of export-based workflows have these in place of quantized tensors. They are
compositions, so that they run wherever their operators do, on fake tensors too.
"""

import rushlight as rl
from rushlight.ao.quantization.utils import determine_qparams, validate_qmin_qmax
from rushlight.library import Library, impl

__all__ = [
    "FakeQuantPerChannel",
    "choose_qparams_per_token",
    "choose_qparams_per_token_asymmetric",
    "choose_qparams_symmetric_tensor",
    "choose_qparams_tensor",
    "convert_element_type",
    "dequantize_per_channel",
    "dequantize_per_channel_group",
    "dequantize_per_tensor",
    "dequantize_per_tensor_tensor",
    "dequantize_per_tensor_tensor2",
    "dequantize_per_token",
    "fake_quant_per_channel",
    "quantize_per_channel",
    "quantize_per_channel_group",
    "quantize_per_tensor",
    "quantize_per_tensor_tensor",
    "quantize_per_tensor_tensor2",
    "quantize_per_token",
    "quantized_decomposed_lib",
]

quantized_decomposed_lib = Library("quantized_decomposed", "DEF")
_DTYPE_TO_QVALUE_BOUNDS = {
    rl.uint8: (0, 255),
    rl.int8: (-128, 127),
    rl.uint16: (0, 2**16 - 1),
    rl.int16: (-(2**15), 2**15 - 1),
    rl.int32: (-(2**31), 2**31 - 1),
    rl.float8_e5m2: (rl.finfo(rl.float8_e5m2).min, rl.finfo(rl.float8_e5m2).max),
    rl.float8_e4m3fn: (rl.finfo(rl.float8_e4m3fn).min, rl.finfo(rl.float8_e4m3fn).max),
}
_HALVES = (rl.float16, rl.bfloat16)


def _quant_min_max_bounds_check(quant_min, quant_max, dtype):
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype: {dtype}")
    low, high = _DTYPE_TO_QVALUE_BOUNDS[dtype]
    if quant_min < low:
        raise AssertionError(
            "quant_min out of bounds for dtype, "
            f"quant_min_lower_bound: {low} quant_min: {quant_min}"
        )
    if quant_max > high:
        raise AssertionError(
            "quant_max out of bounds for dtype, "
            f"quant_max_upper_bound: {high} quant_max: {quant_max}"
        )


def _operator(schema):
    """Defines an operator of the library, and makes a function what it does."""

    def register(function):
        quantized_decomposed_lib.define(schema)
        name = schema.partition("(")[0]
        impl(quantized_decomposed_lib, name, "CompositeExplicitAutograd")(function)
        return function

    return register


def _in_single(input):
    return input.to(rl.float32) if input.dtype in _HALVES else input


def _checked(input, wanted):
    if input.dtype != wanted:
        raise AssertionError(
            f"Expecting input to have dtype: {wanted}, but got {input.dtype}"
        )


# -- one scale for a tensor ------------------------------------------------------------


@_operator(
    "quantize_per_tensor(Tensor input, float scale, int zero_point, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    """The integers round(input / scale) + zero_point, kept within bounds.

    Args:
        input: float32, or a half that is widened.
        scale: the step of a level.
        zero_point: the integer of zero.
        quant_min, quant_max: the bounds.
        dtype: the type of the result.

    >>> quantize_per_tensor(rl.tensor([-1.0, 0.26, 9.0]), 0.1, 3, 0, 20, rl.uint8)
    tensor([ 0,  6, 20], dtype=rushlight.uint8)
    """
    input = _in_single(input)
    _checked(input, rl.float32)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    levels = rl.round(input * (1.0 / scale)) + zero_point
    return rl.clamp(levels, quant_min, quant_max).to(dtype)


@_operator(
    "quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_tensor_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    """`quantize_per_tensor` whose scale and zero point are tensors of one element."""
    _of_one(scale, zero_point)
    input = _in_single(input)
    _checked(input, rl.float32)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    levels = rl.round(input * (1.0 / scale).to(rl.float32)) + zero_point
    return rl.clamp(levels, quant_min, quant_max).to(dtype)


@_operator(
    "quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, "
    "Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_tensor_tensor2(input, scale, zero_point, quant_min, quant_max, dtype):
    """`quantize_per_tensor` whose bounds are tensors of one element, too."""
    _of_one(scale, zero_point)
    levels = rl.round(_in_single(input) * (1.0 / scale).to(rl.float32)) + zero_point
    return rl.minimum(rl.maximum(levels, quant_min), quant_max).to(dtype)


def _of_one(scale, zero_point):
    for name, one in (("scale", scale), ("zero_point", zero_point)):
        if one.numel() != 1:
            raise AssertionError(
                f"Expecting {name} tensor to be one element, but received : {one.numel()}"
            )


@_operator(
    "dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, "
    "int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor(
    input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None
):
    """The numbers (input - zero_point) * scale.

    Args:
        input: integers.
        scale: the step of a level.
        zero_point: the integer of zero.
        quant_min, quant_max: not looked at.
        dtype: the type of ``input``.
        out_dtype: the type of the result, float32 where it is left out.
    """
    _checked(input, dtype)
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype in dequantize_per_tensor: {dtype}")
    return (input.to(out_dtype or rl.float32) - zero_point) * scale


@_operator(
    "dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
    "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None)"
    " -> Tensor"
)
def dequantize_per_tensor_tensor(
    input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None
):
    """`dequantize_per_tensor` whose scale and zero point are tensors of one element."""
    _of_one(scale, zero_point)
    _checked(input, dtype)
    found = (input.to(rl.float32) - zero_point) * scale.to(rl.float32)
    return found.to(out_dtype or rl.float32)


@_operator(
    "dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, "
    "Tensor quant_min, Tensor quant_max, ScalarType dtype, *, "
    "ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor_tensor2(
    input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None
):
    """`dequantize_per_tensor` whose bounds are tensors of one element, too."""
    return dequantize_per_tensor_tensor(
        input, scale, zero_point, None, None, dtype, out_dtype=out_dtype
    )


def _chosen(input, qmin, qmax, eps, dtype, scheme):
    _checked_any(input)
    validate_qmin_qmax(qmin, qmax)
    low, high = rl.aminmax(input)
    return determine_qparams(
        low, high, qmin, qmax, dtype, rl.tensor([eps]), False, scheme
    )


def _checked_any(input):
    if input.dtype not in (rl.float32, *_HALVES):
        raise AssertionError(
            "Expecting input to have dtype torch.float32/16/b16, "
            f"but got dtype: {input.dtype}"
        )


@_operator(
    "choose_qparams.tensor(Tensor input, int quant_min, int quant_max, "
    "float eps, ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_tensor(input, qmin, qmax, eps, dtype):
    """The scale and zero point that take a tensor's least and largest to the bounds.

    Args:
        input: floats.
        qmin, qmax: the bounds of the integers.
        eps: the least scale.
        dtype: the type of the integers.
    """
    return _chosen(input, qmin, qmax, eps, dtype, rl.per_tensor_affine)


@_operator(
    "choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, "
    "float eps, ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_symmetric_tensor(input, qmin, qmax, eps, dtype):
    """`choose_qparams_tensor` with zero in the middle."""
    return _chosen(input, qmin, qmax, eps, dtype, rl.per_tensor_symmetric)


def _of_sizes_alone(input, *_):
    scale = rl.empty(1, dtype=rl.float64, device=input.device)
    return scale, scale.to(rl.int64)


for _name in ("choose_qparams.tensor", "choose_qparams_symmetric.tensor"):
    quantized_decomposed_lib.impl(_name, _of_sizes_alone, "Meta")


# -- one scale for a channel -----------------------------------------------------------


def _along(values, input, axis):
    """The numbers of channels, as they meet the tensor."""
    sizes = [1] * input.dim()
    sizes[axis] = -1
    return values.reshape(sizes)


def _channels(input, axis):
    if not axis < input.dim():
        raise AssertionError(f"Expecting axis to be < {input.dim()}")


@_operator(
    "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype):
    """`quantize_per_tensor` with a scale and a zero point for each channel.

    Args:
        input: float32, or a half that is widened.
        scales, zero_points: one number a channel.
        axis: the dimension of channels.
        quant_min, quant_max: the bounds.
        dtype: the type of the result.
    """
    input = _in_single(input)
    _checked(input, rl.float32)
    _channels(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    inverse = _along(1.0 / scales, input, axis)
    levels = rl.round(input * inverse) + _along(zero_points, input, axis)
    return rl.clamp(levels, quant_min, quant_max).to(dtype)


@_operator(
    "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, "
    "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None)"
    " -> Tensor"
)
def dequantize_per_channel(
    input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None
):
    """`dequantize_per_tensor` with a scale and a zero point for each channel."""
    _checked(input, dtype)
    _channels(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    out_dtype = out_dtype or rl.float32
    found = input if zero_points is None else input - _along(zero_points, input, axis)
    return (found * _along(scales, input, axis)).to(out_dtype)


class FakeQuantPerChannel(rl.autograd.Function):
    """Integers of channels and back, with the gradient of what was within bounds."""

    @staticmethod
    def forward(ctx, input, scales, zero_points, axis, quant_min, quant_max):
        _checked(scales, rl.float32)
        _checked(zero_points, rl.int32)
        _checked(_in_single(input), rl.float32)
        inverse = _along(1.0 / scales, input, axis)
        zeros = _along(zero_points, input, axis)
        levels = rl.round(_in_single(input) * inverse) + zeros
        ctx.save_for_backward((levels >= quant_min).logical_and(levels <= quant_max))
        kept = rl.clamp(levels, quant_min, quant_max)
        return ((kept - zeros) * _along(scales, input, axis)).to(input.dtype)

    @staticmethod
    def backward(ctx, gy):
        (within,) = ctx.saved_tensors
        return gy * within, None, None, None, None, None


@_operator(
    "fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
    "int quant_min, int quant_max) -> Tensor"
)
def fake_quant_per_channel(input, scales, zero_points, axis, quant_min, quant_max):
    """Numbers as integers of channels can show them."""
    return FakeQuantPerChannel.apply(
        input, scales, zero_points, axis, quant_min, quant_max
    )


# -- one scale for a token -------------------------------------------------------------


def _per_token_quant_qparam_dim_check(input, scales, zero_points):
    tokens = input.numel() // input.size(-1)
    if tokens != scales.numel():
        raise AssertionError(f"num_tokens: {tokens} scales: {scales.size()}")
    if tokens != zero_points.numel():
        raise AssertionError(f"num_tokens: {tokens} zero_points: {zero_points.size()}")


@_operator(
    "choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_per_token(input, dtype):
    """Scales that take the largest magnitude of each token to 127; zero is zero."""
    scales = input.abs().amax(dim=-1, keepdim=True)
    if scales.dtype == rl.float16:
        scales = scales.float()
    if dtype != rl.int8:
        raise ValueError(f"unsupported dtype in choose_qparams_per_token: {dtype}")
    return scales.clamp(min=1e-5).div(127), rl.zeros_like(scales)


def _asymmetric(input):
    least, largest = -128, 127
    low = rl.amin(input, dim=-1, keepdim=True).clamp(max=0)
    high = rl.amax(input, dim=-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / float(largest - least)).clamp(min=rl.finfo(rl.float32).eps)
    below, above = low / scale, high / scale
    nearer = (least + below) + (largest + above) > 0
    zero = rl.where(nearer, least - below, largest - above)
    zero = rl.clamp(zero, least, largest).round()
    return scale.to(rl.float64), zero.to(rl.int64)


@_operator(
    "_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> "
    "(Tensor, Tensor)"
)
def _choose_qparams_per_token_asymmetric_impl(input, dtype):
    return _asymmetric(input)


@_operator(
    "choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> "
    "(Tensor, Tensor)"
)
def choose_qparams_per_token_asymmetric(input, dtype):
    """Scales and zero points that take each token's least and largest to int8's."""
    return _asymmetric(input)


@_operator(
    "quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype):
    """The integers of tokens, each with its scale and zero point."""
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    _per_token_quant_qparam_dim_check(input, scales, zero_points)
    levels = input.mul(1.0 / scales).add(zero_points).round()
    return levels.clamp(quant_min, quant_max).to(dtype)


@_operator(
    "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
    "int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor"
)
def dequantize_per_token(
    input, scales, zero_points, quant_min, quant_max, dtype, output_dtype=rl.float32
):
    """The numbers of tokens' integers."""
    return ((input - zero_points) * scales).to(output_dtype)


# -- one scale for a group of a row ----------------------------------------------------


def _grouped(input, scales, zero_points, group_size, zeros_may_miss):
    if not (group_size > 1 or input.shape[-1] == scales.shape[-1] == 1):
        raise AssertionError("group_size must be > 1, or the rows of one element")
    if input.shape[-1] % group_size:
        raise AssertionError(
            f"input.shape[-1] ({input.shape[-1]}) must be divisible by {group_size}"
        )
    rows = input.reshape(-1, group_size)
    zeros = None if zero_points is None else zero_points.reshape(-1, 1)
    if zeros is None and not zeros_may_miss:
        raise AssertionError("zero_points are needed")
    return rows, scales.reshape(-1, 1), zeros


@_operator(
    "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, "
    "int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor"
)
def quantize_per_channel_group(
    input, scales, zero_points, quant_min, quant_max, dtype, group_size=128
):
    """The integers of rows whose groups of elements have a scale each.

    Args:
        input: floats of (rows, columns).
        scales, zero_points: (rows, columns / group_size).
        quant_min, quant_max: the bounds.
        dtype: the type of the result.
        group_size: how many neighbours share a scale.
    """
    rows, steps, zeros = _grouped(input, scales, zero_points, group_size, False)
    levels = rows.mul(1.0 / steps).add(zeros).round()
    return levels.clamp(quant_min, quant_max).to(dtype).reshape_as(input)


@_operator(
    "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, "
    "int quant_min, int quant_max, ScalarType dtype, int group_size, "
    "ScalarType output_dtype) -> Tensor"
)
def dequantize_per_channel_group(
    w_int8, scales, zero_points, quant_min, quant_max, dtype, group_size=128,
    output_dtype=rl.float32,
):  # fmt: skip
    """The numbers of rows whose groups of integers have a scale each."""
    rows, steps, zeros = _grouped(w_int8, scales, zero_points, group_size, True)
    rows = rows if zeros is None else rows - zeros
    return (rows * steps).reshape_as(w_int8).to(output_dtype)


@_operator("convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor")
def convert_element_type(input, dtype):
    """The tensor in another type; no pass folds it into what stands before it."""
    return input.to(dtype, copy=True)
