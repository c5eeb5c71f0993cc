"""``ops.onednn``: layers of plain tensors of integers, as lowered graphs call them.

A layer takes integers with their scale and zero point, and gives integers of another scale,
or numbers; an activation, and a residual before it, are part of the call. The products are
those of ``ops.quantized``. A weight is packed when it is first used, and stays packed as
long as it is there. The operators are defined when the namespace is first asked for.
"""

from rushlight.ao._operators.conv import ConvPackedParams
from rushlight.ao._operators.layer import Layer, finished, joined
from rushlight.ao._operators.packed import LinearPackedParams
from rushlight.core.dtypes import float32, uint8
from rushlight.dispatch.library import Library
from rushlight.operators import call as ops
from rushlight.operators.quantized.quantized import made
from rushlight.utils.weak import WeakIdKeyDictionary

_packed = WeakIdKeyDictionary()


def packed(weight, scale, point, bias, settings=()):
    """A weight as products read it, the same as long as its tensors are what they were.

    Args:
        weight: int8, outputs first.
        scale, point: tensors of one number, or of one for each output.
        bias: float32, or None.
        settings: of a convolution: stride, padding, dilation and groups.
    """
    of = weight, scale, point, bias
    key = *(t if t is None else (id(t), t._version) for t in of), *map(str, settings)
    known = _packed.get(weight)
    if known is None or known[0] != key:
        axis = 0 if scale.numel() > 1 else None
        if axis is None:
            scale, point = scale.item(), int(point.item())
        make = ConvPackedParams if settings else LinearPackedParams
        params = make(made(weight, scale, point, axis), bias, *settings)
        known = _packed[weight] = key, params, of[1:]  # which keep their `id`
    return known[1]


def pointwise(binary, windows):
    """A layer as an operator, and what it gives of tensors that have a shape alone.

    Args:
        binary: whether another value is added before the activation; where that is called
            "sum" and not "add", the result is written to it.
        windows: whether it is a convolution.
    """
    bias = 6 + binary
    first = bias + 1 + 4 * windows

    def layer(*given):
        scale, point, dtype, *how, name, args, algorithm = given[first:]
        weight = packed(*given[3:6], given[bias], given[bias + 1 : first])
        found = Layer(*given[:3], weight)
        if not how or how[2] == "none":
            return finished(found, scale, point, dtype or uint8, name, args, algorithm)
        other, join = given[6], joined(given[6], *how)
        dtype = dtype or uint8
        if how[2] == "sum":
            dtype = other.dtype
        out = finished(found, scale, point, dtype, name, args, algorithm, join)
        return other.copy_(out) if how[2] == "sum" else out

    def of_sizes(*given):
        x, weight = given[0].to(float32), given[3].to(float32)
        if windows:
            *how, groups = given[bias + 1 : first]
            out = ops.convolution(x, weight, None, *how, False, [0], groups)
        else:
            out = ops.linear(x, weight)
        return out.to(given[first + 2] or uint8)

    return {"CPU": layer, "Meta": of_sizes}


def _as_it_is(weight, *settings):
    """The weight: it is packed when it is first used, with its scales and its bias."""
    return weight


_ENDS = "float output_scale, int output_zero_point, ScalarType? output_dtype"
_WINDOWS = "int[] stride, int[] padding, int[] dilation, int groups"
_UNARY = (
    "str unary_post_op, Scalar?[] unary_post_op_args, str unary_post_op_algorithm",
    "str? unary_attr, Scalar?[] unary_scalars, str? unary_algorithm",
)
_BINARY = (
    "float other_scale, int other_zp, str binary_post_op, float binary_alpha",
    "float accum_scale, int accum_zero_point, str binary_attr, Scalar? alpha",
)


def operators():
    """Schemas, and functions by key; an input's scale is a number, or a tensor of one."""
    as_it_is = dict.fromkeys(("CPU", "Meta"), _as_it_is)
    yield "qlinear_prepack(Tensor weight, int[]? x_shape) -> Tensor", as_it_is
    yield (
        "qconv_prepack(Tensor weight, Tensor w_scales, float x_scale, int x_zp, "
        f"{_WINDOWS}, int[]? x_shape=None) -> Tensor",
        as_it_is,
    )
    for kinds, alone, both in (
        (("float", "int"), "", ".binary"),
        (("Tensor", "Tensor"), ".tensor", ".binary_tensor"),
    ):
        given = "Tensor qx, {} x_scale, {} x_zero_point, Tensor qw, ".format(*kinds)
        given += "Tensor w_scale, Tensor w_zero_point"
        yield (
            f"qlinear_pointwise{alone}({given}, Tensor? bias, {_ENDS}, str post_op_name, "
            "Scalar?[] post_op_args, str post_op_algorithm) -> Tensor",
            pointwise(False, False),
        )
        yield (
            f"qlinear_pointwise{both}({given}, Tensor? other, Tensor? bias, {_ENDS}, "
            f"{_BINARY[0]}, {_UNARY[0]}) -> Tensor",
            pointwise(True, False),
        )
        for count in ("", "2d") if alone else ("", "1d", "2d", "3d"):
            yield (
                f"qconv{count}_pointwise{alone}({given}, Tensor? bias, {_WINDOWS}, "
                f"{_ENDS}, str attr, Scalar?[] scalars, str? algorithm) -> Tensor",
                pointwise(False, True),
            )
        yield (
            f"qconv2d_pointwise{both}({given}, Tensor(a!) qaccum, Tensor? bias, {_WINDOWS}, "
            f"{_ENDS}, {_BINARY[1]}, {_UNARY[1]}) -> Tensor",
            pointwise(True, True),
        )


LIBRARY = Library("onednn", "DEF")
for _schema, _functions in operators():
    _name = LIBRARY.define(_schema)
    for _key, _function in _functions.items():
        LIBRARY.impl(_name, _function, _key)
