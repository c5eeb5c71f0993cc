"""Functions of quantized tensors, with scales and zero points of results."""

import warnings

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.modules.utils import _ntuple

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu",
    "clamp", "conv1d", "conv2d", "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh",
    "interpolate", "leaky_relu", "linear", "max_pool1d", "max_pool2d", "threshold",
    "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _check(input, name):
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def _same_scale(name, function, said=None):
    """A function of integers whose results have the scale of what comes in."""

    def apply(input, *args, **kwargs):
        _check(input, said or name)
        return function(input, *args, **kwargs)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""`nn.functional.{name}` of a quantized tensor, in its scale.

    Args:
        input: the quantized tensor.
        args, kwargs: as for the function of numbers.

    Raises:
        ValueError: it is not quantized.
    """
    return apply


avg_pool2d = _same_scale("avg_pool2d", F.avg_pool2d)
avg_pool3d = _same_scale("avg_pool3d", F.avg_pool3d)
adaptive_avg_pool2d = _same_scale(
    "adaptive_avg_pool2d", F.adaptive_avg_pool2d, "functional.adaptive_avg_pool2d"
)
adaptive_avg_pool3d = _same_scale(
    "adaptive_avg_pool3d", F.adaptive_avg_pool3d, "functional.adaptive_avg_pool3d"
)


def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None
):
    """`nn.functional.interpolate` of a quantized tensor, in its scale."""
    _check(input, "interpolate")
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """A quantized tensor between two bounds."""
    _check(input, "hardtanh")
    return F.hardtanh(input, min_val, max_val, inplace)


def hardsigmoid(input, inplace=False):
    """`nn.functional.hardsigmoid` of a quantized tensor, in the range of a unit."""
    _check(input, "hardsigmoid")
    return F.hardsigmoid(input, inplace)


def clamp(input, min_, max_):
    """A quantized tensor between two bounds, in its scale."""
    _check(input, "clamp")
    return rl.clamp(input, min_, max_)


def threshold(input, threshold, value):
    """A quantized tensor with a value in place of what is not above a threshold."""
    _check(input, "threshold")
    if threshold is None or value is None:
        word = "threshold" if threshold is None else "value"
        raise ValueError(f"Input to '{word}' must be specified!")
    return rl.ops.quantized.threshold(input, threshold, value)


def elu(input, scale, zero_point, alpha=1.0):
    """`nn.functional.elu` in a given scale and zero point."""
    _check(input, "elu")
    return rl.ops.quantized.elu(input, scale, zero_point, alpha)


def celu(input, scale, zero_point, alpha=1.0):
    """`nn.functional.celu` in a given scale and zero point."""
    _check(input, "celu")
    return rl.ops.quantized.celu(input, scale, zero_point, alpha)


def hardswish(input, scale, zero_point):
    """`nn.functional.hardswish` in a given scale and zero point."""
    _check(input, "hardswish")
    return rl.ops.quantized.hardswish(input, scale, zero_point)


def leaky_relu(input, negative_slope=0.01, inplace=False, scale=None, zero_point=None):
    """`nn.functional.leaky_relu` of a quantized tensor.

    Args:
        input: the quantized tensor.
        negative_slope: what numbers below zero are multiplied with.
        inplace: whether the tensor itself is changed.
        scale, zero_point: of the result; the tensor's where one is left out.

    Raises:
        AssertionError: the tensor itself is to have another scale.
    """
    if scale is None or zero_point is None:
        return F.leaky_relu(input, negative_slope, inplace)
    if inplace:
        raise AssertionError("Cannot rescale with `inplace`")
    given = negative_slope, False, scale, int(zero_point)
    return rl.ops.quantized.leaky_relu(input, *given)


# ---- products


def linear(input, weight, bias=None, scale=None, zero_point=None):
    """A quantized tensor times a quantized matrix.

    The matrix is packed at each call; `nn.quantized.Linear` packs it once.

    Args:
        input: ``[*, in_features]``, quantized.
        weight: ``[out_features, in_features]``, ``qint8``.
        bias: ``[out_features]``, numbers.
        scale, zero_point: of the result; those of ``input`` where left out.
    """
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    packed = rl.ops.quantized.linear_prepack(weight, bias)
    return rl.ops.quantized.linear(input, packed, scale, zero_point)


def _output(scale=1.0, zero_point=0, dtype=rl.quint8):
    """The last arguments of a convolution; the type is not looked at."""
    return scale, zero_point


def _convolution(count, shape):
    name = f"conv{count}d"

    def apply(
        input, weight, bias, stride=1, padding=0, dilation=1, groups=1,
        padding_mode="zeros", *scaled, **more,
    ):  # fmt: skip
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        for tensor, wanted, word in (
            (input, rl.quint8, "activation"), (weight, rl.qint8, "weight"),
        ):  # fmt: skip
            if tensor.dtype != wanted:
                raise NotImplementedError(
                    f"Only torch.{wanted.name} is supported for {word} tensor!"
                )
        if input.ndim != count + 2:
            raise ValueError(f"Input shape must be `({shape})`!")
        scale, zero_point = _output(*scaled, **more)
        sizes = map(_ntuple(count), (stride, padding, dilation))
        prepack = getattr(rl.ops.quantized, f"{name}_prepack")
        packed = prepack(weight, bias, *sizes, groups)
        return getattr(rl.ops.quantized, name)(input, packed, scale, zero_point)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""A convolution of a quantized tensor with quantized weights.

    Args:
        input: ``({shape})``, ``quint8``.
        weight: ``qint8``.
        bias: numbers.
        stride, padding, dilation, groups: as for `nn.functional.{name}`.
        padding_mode: only ``zeros``.
        scaled, more: ``scale`` and ``zero_point`` of the result, 1 and 0 if left out.

    Raises:
        NotImplementedError: another type, or another padding.
        ValueError: another shape.
    """
    return apply


conv1d = _convolution(1, "N, C, L")
conv2d = _convolution(2, "N, C, H, W")
conv3d = _convolution(3, "N, C, D, H, W")


# ---- the largest of windows


def _max_pool(function):
    name = function.__name__

    def apply(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False,
    ):  # fmt: skip
        if return_indices:
            raise NotImplementedError("return_indices is not yet implemented!")
        return function(input, kernel_size, stride, padding, dilation, ceil_mode)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""`nn.functional.{name}` of a quantized tensor, in its scale.

    Raises:
        NotImplementedError: places are asked for.
    """
    return apply


max_pool1d, max_pool2d = map(_max_pool, (F.max_pool1d, F.max_pool2d))


# ---- older names of `interpolate`


def _deprecated(name):
    warnings.warn(
        f"nn.quantized.functional.{name} is deprecated. Use "
        "nn.quantized.functional.interpolate instead.",
        stacklevel=3,
    )


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """`interpolate`, by its older name."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input, size=None, scale_factor=None):
    """`interpolate` between corners, by its older name."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


def upsample_nearest(input, size=None, scale_factor=None):
    """`interpolate` of nearest places, by its older name."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor)
