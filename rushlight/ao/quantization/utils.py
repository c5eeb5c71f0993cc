"""What observers and workflows ask of schemes, types and configurations."""

import functools
import warnings

import rushlight as rl
from rushlight.ao.quantization.quant_type import QuantType

__all__ = [
    "MatchAllNode",
    "activation_dtype",
    "activation_is_dynamically_quantized",
    "activation_is_int8_quantized",
    "activation_is_statically_quantized",
    "calculate_qmin_qmax",
    "check_min_max_valid",
    "determine_qparams",
    "get_combined_dict",
    "get_qconfig_dtypes",
    "get_qparam_dict",
    "get_quant_type",
    "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations",
    "is_per_channel",
    "is_per_tensor",
    "qparams_between",
    "to_underlying_dtype",
    "validate_qmin_qmax",
    "weight_dtype",
    "weight_is_quantized",
]

_STORED = {
    "quint8": "uint8", "qint8": "int8", "qint32": "int32", "quint4x2": "uint8",
    "quint2x4": "uint8",
}  # fmt: skip
_PLAIN = "uint8 int8 uint16 int16 int32 float8_e5m2 float8_e4m3fn".split()
_STATIC = {*_STORED, *_PLAIN} - {"quint2x4", "uint16"}
_BITS = {
    "qint8": (-128, 127, -64, 63), "int8": (-128, 127, -64, 63),
    "quint8": (0, 255, 0, 127), "uint8": (0, 255, 0, 127),
    "qint32": (-(1 << 31), (1 << 31) - 1), "int32": (-(1 << 31), (1 << 31) - 1),
    "uint16": (0, (1 << 16) - 1), "int16": (-(1 << 15), (1 << 15) - 1),
    "float8_e4m3fn": (-448.0, 448.0), "float8_e5m2": (-57344.0, 57344.0),
}  # fmt: skip


class MatchAllNode:
    """A node that matches every node of a pattern."""


def get_combined_dict(default_dict, additional_dict):
    """A dictionary with the entries of another one over its own.

    >>> get_combined_dict({1: 2, 3: 4}, {3: 5})
    {1: 2, 3: 5}
    """
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme):
    """Whether all elements share a scale."""
    return qscheme in (rl.per_tensor_affine, rl.per_tensor_symmetric)


def is_per_channel(qscheme):
    """Whether each channel has a scale."""
    return qscheme in (
        rl.per_channel_affine,
        rl.per_channel_affine_float_qparams,
        rl.per_channel_symmetric,
    )


def is_symmetric(qscheme):
    """Whether zero is in the middle."""
    return qscheme in (rl.per_tensor_symmetric, rl.per_channel_symmetric)


def getattr_from_fqn(obj, fqn):
    """What a path of attributes leads to."""
    return functools.reduce(getattr, fqn.split("."), obj)


def _parent_name(target):
    """A path without its last name, and that name.

    >>> _parent_name("layers.0.weight"), _parent_name("weight")
    (('layers.0', 'weight'), ('', 'weight'))
    """
    before, _, name = target.rpartition(".")
    return before, name


def to_underlying_dtype(qdtype):
    """The type of the integers that a quantized type holds.

    Raises:
        AssertionError: it holds none.
    """
    name = qdtype.name
    if name not in _STORED and name not in _PLAIN:
        raise AssertionError(f"Unsupported dtype: {qdtype}")
    return getattr(rl, _STORED.get(name, name))


def get_qparam_dict(observer_or_fake_quant):
    """Scheme, type, scale, zero point and bounds, as reference modules take them."""
    seen = observer_or_fake_quant
    scheme = getattr(seen, "qscheme", None)
    if not scheme or getattr(seen, "is_placeholder", False):
        return {"qscheme": None, "dtype": seen.dtype}
    found = {"qscheme": scheme, "dtype": seen.dtype}
    if is_per_tensor(scheme):
        found["qscheme"] = rl.per_tensor_affine
    elif is_per_channel(scheme):
        if scheme == rl.per_channel_symmetric:
            found["qscheme"] = rl.per_channel_affine
        found["axis"] = seen.ch_axis
    else:
        raise RuntimeError(f"Unrecognized qscheme: {scheme}")
    found["scale"], found["zero_point"] = seen.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(seen, name):
            found[name] = getattr(seen, name)
    return found


def activation_dtype(qconfig):
    """The type that activations are observed for.

    Raises:
        AssertionError: there is no configuration.
    """
    _needed(qconfig, "activation dtype")
    return qconfig.activation().dtype


def weight_dtype(qconfig):
    """The type that weights are observed for.

    Raises:
        AssertionError: there is no configuration.
    """
    _needed(qconfig, "weight dtype")
    return qconfig.weight().dtype


def _needed(qconfig, what):
    if qconfig is None:
        raise AssertionError(f"qconfig must be provided to determine {what}")


def activation_is_statically_quantized(qconfig):
    """Whether scales of activations are known before a call."""
    static = {*_STATIC, "float16"} - {"quint4x2"}
    known = activation_dtype(qconfig).name in static
    return known and not activation_is_dynamically_quantized(qconfig)


def activation_is_dynamically_quantized(qconfig):
    """Whether activations are quantized by the scale that each asks for."""
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_int8_quantized(qconfig):
    """Whether activations become bytes."""
    return activation_dtype(qconfig).name in ("quint8", "qint8", "uint8", "int8")


def weight_is_quantized(qconfig):
    """Whether weights lose anything."""
    return weight_dtype(qconfig).name in {*_STATIC, "float16"} - {"qint32"}


def get_qconfig_dtypes(qconfig):
    """Types of activations and weights, and whether activations' scales are dynamic.

    Raises:
        AssertionError: there is no configuration.
    """
    _needed(qconfig, "extract dtypes")
    activation, weight = qconfig.activation(), qconfig.weight()
    return activation.dtype, weight.dtype, getattr(activation, "is_dynamic", False)


def get_quant_type(qconfig):
    """Whether a configuration is of dynamic, static or weight-only quantization.

    Raises:
        Exception: it is of none.
    """
    _needed(qconfig, "quant type")
    activation, weight = qconfig.activation(), qconfig.weight()
    dynamic = getattr(activation, "is_dynamic", False)
    if weight.dtype.name in _STATIC:
        if dynamic:
            return QuantType.DYNAMIC
        static = activation.dtype.name in _STATIC
        return QuantType.STATIC if static else QuantType.WEIGHT_ONLY
    if weight.dtype == rl.float16:
        if dynamic:
            return QuantType.DYNAMIC
        if activation.dtype == rl.float16:
            return QuantType.STATIC
    raise Exception(  # PyTorch's own type
        "Unrecognized dtype combination in get_quant_type: "
        f"activation({activation.dtype}),weight({weight.dtype})"
    )


def check_min_max_valid(min_val, max_val):
    """Whether extremes were seen.

    Raises:
        AssertionError: the least is greater than the greatest.
    """
    seen = min_val.numel() and max_val.numel()
    if seen and (min_val.ndim == 0 or max_val.ndim == 0):
        seen = not (min_val == float("inf") and max_val == float("-inf"))
    if not seen:
        warnings.warn(
            "must run observer before calling calculate_qparams. Returning default "
            "values.",
            stacklevel=2,
        )
        return False
    if rl.any(min_val > max_val):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


def qparams_between(
    min_val, max_val, low, high, dtype, eps, has_customized_qrange, qscheme
):
    """Scales and zero points of an observer, for values between extremes.

    Args:
        min_val, max_val: the extremes, of the tensor or of each channel.
        low, high: the least and the largest integer.
        dtype: the type of the integers.
        eps: the least scale.
        has_customized_qrange: whether the integers' bounds are the user's.
        qscheme: how they are laid.
    """
    if not check_min_max_valid(min_val, max_val):
        return rl.tensor([1.0]), rl.tensor([0])
    zeros = rl.zeros_like(min_val)
    least, most = rl.min(min_val, zeros), rl.max(max_val, zeros)
    points = rl.zeros(least.shape, dtype=rl.int64, device=least.device)
    if is_symmetric(qscheme):
        scale = rl.max(rl.max(-least, most) / (float(high - low) / 2), eps)
        points = points + _middle(dtype, low, high, has_customized_qrange)
    elif qscheme == rl.per_channel_affine_float_qparams:
        scale = (max_val - min_val) / float(high - low)
        scale = rl.where(scale > eps, scale, rl.ones_like(scale))
        points = -1 * min_val / scale
    else:
        scale = rl.max((most - least) / float(high - low), eps)
        points = low - rl.round(least / scale).to(rl.int32)
        points = rl.clamp(points, low, high)
    return scale.reshape([-1]), points.reshape([-1])


def _middle(dtype, low, high, has_customized_qrange):
    if dtype.name in ("quint8", "uint8"):
        return (low + high) // 2 if has_customized_qrange else 128
    return 1 << 15 if dtype.name == "uint16" else 0


def determine_qparams(
    min_val, max_val, quant_min, quant_max, dtype, eps, has_customized_qrange,
    qscheme=rl.per_tensor_affine,
):  # fmt: skip
    """`qparams_between` in double precision and whole numbers."""
    scale, points = qparams_between(
        min_val,
        max_val,
        quant_min,
        quant_max,
        dtype,
        eps,
        has_customized_qrange,
        qscheme,
    )
    return scale.to(rl.float64), points.to(rl.int64)


def validate_qmin_qmax(quant_min, quant_max):
    """Refuses bounds that do not hold zero, or none at all.

    Raises:
        AssertionError: they are such.
    """
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError(
            "qmin must be strictly less than qmax for user-specified quantization range."
        )


def calculate_qmin_qmax(
    quant_min, quant_max, has_customized_qrange, dtype, reduce_range
):
    """The bounds of a type's integers, or those given; with one bit less if asked for.

    Raises:
        AssertionError: the bounds given are wider than the type.

    >>> calculate_qmin_qmax(None, None, False, rl.quint8, True)
    (0, 127)
    """
    if not has_customized_qrange:
        if dtype.name not in _BITS:
            return 0, 15
        bounds = _BITS[dtype.name]
        return bounds[2:] if reduce_range and len(bounds) > 2 else bounds[:2]
    count = quant_max - quant_min + 1
    if dtype.name in ("qint8", "int8") and not 0 < count <= 256:
        raise AssertionError(
            "quantization range should be positive and not exceed the maximum bit range "
            "(=256)."
        )
    if dtype.name in ("qint32", "int32") and not 0 < count <= 1 << 32:
        raise AssertionError(
            "quantization range should be positive and not exceed the maximum bit range "
            "(=4294967296)."
        )
    if reduce_range:
        return quant_min // 2, quant_max // 2
    return quant_min, quant_max


def has_no_children_ignoring_parametrizations(module):
    """Whether a module has no modules but those of its parametrizations."""
    names = list(module._modules)
    return not names or names == ["parametrizations"]
