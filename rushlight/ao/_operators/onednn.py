"""``ops.onednn``: layers of plain tensors of integers, as lowered graphs call them.

A layer takes integers with their scale and zero point, and gives integers of another scale,
or numbers; an activation, and a residual before it, are part of the call. The products are
those of ``ops.quantized``. A weight is packed when it is first used, and stays packed as
long as it is there. The operators are defined when the namespace is first asked for.
"""

from rushlight.ao._operators import conv, linear
from rushlight.ao._operators.packed import LinearPackedParams
from rushlight.ao._operators.products import number, whole_number
from rushlight.core.dtypes import float32, int8, int32, uint8
from rushlight.core.tensor import Tensor
from rushlight.dispatch.library import Library
from rushlight.operators import call as ops
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.quantized import inverse_of, made, single
from rushlight.utils.weak import WeakIdKeyDictionary

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": ops.relu,
    "leaky_relu": ops.leaky_relu,
    "tanh": ops.tanh,
    "gelu": ops.gelu,
    "hardtanh": ops.hardtanh,
    "hardswish": ops.hardswish,
    "swish": ops.silu,
}
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
        make = conv.ConvPackedParams if settings else LinearPackedParams
        params = make(made(weight, scale, point, axis), bias, *settings)
        known = _packed[weight] = key, params, of[1:]  # which keep their `id`
    return known[1]


class Layer:
    """A product or convolution of integers, before it is known what it ends in.

    Args:
        x, x_scale, x_point: the integers, and what they stand for: numbers, or tensors.
        weight: the arguments of `packed`.
    """

    def __init__(self, x, x_scale, x_point, *weight):
        params = packed(*weight)
        if x.dtype is int8:  # products take unsigned bytes
            x, x_point = ops.bitwise_xor(x.view(uint8), 128), x_point + 128
        self.scaled, self.order = params.scaled, None
        self.x_scale, self.x_point = x_scale, x_point
        if isinstance(params, LinearPackedParams):
            self.rows = linear.rows_of(x, params)
            self.shape = [*x.shape[:-1], params.weight.shape[0]]
        else:
            if isinstance(x_point, Tensor):  # what lies around an image
                self.x_point = int(x_point.item())
            *self.rows, self.shape = conv.rows_of(x, params, self.x_point)
            self.order = params.channels_second

    def _shaped(self, rows):
        out = rows.view(self.shape)
        return out if self.order is None else ops.permute(out, self.order)

    def integers(self, scale, point, relu):
        """The results as unsigned bytes of a scale and a zero point."""
        own = self.x_scale, self.x_point
        return self._shaped(
            self.scaled.requantized(*self.rows, *own, scale, point, relu)
        )

    def numbers(self, relu):
        """The results as numbers."""
        scale, point = self.x_scale, self.x_point
        if isinstance(scale, Tensor):
            scale = scale.to(float32).view([])
        else:
            scale = number(single(scale))
        if isinstance(point, Tensor):
            point = point.to(int32).view([])
        else:
            point = whole_number(point)
        return self._shaped(self.scaled.numbers(*self.rows, scale, point, relu))


def _activated(value, name, args, algorithm):
    found = ACTIVATIONS.get(name)
    if found is None:
        raise RuntimeError(f"onednn: unsupported unary post op {name}")
    if name == "gelu":
        return found(value, approximate=algorithm or "none")
    return found(value, *args)


def _stored(value, scale, point, dtype):
    """Numbers as what a call gives: integers of a scale and a zero point, or numbers."""
    if dtype in (uint8, int8):
        return affine_kernels.quantize(value, dtype, inverse_of(scale), point, True)
    return value if dtype is float32 else value.to(dtype)


def _finished(layer, scale, point, dtype, name, args, algorithm, join=None):
    """What a layer ends in.

    Args:
        scale, point, dtype: of what the call gives.
        name, args, algorithm: the activation.
        join: from numbers to numbers, before the activation.
    """
    relu, direct = name == "relu", join is None and name in ("none", "relu")
    if direct and dtype is uint8 and not isinstance(layer.x_scale, Tensor):
        return layer.integers(scale, point, relu)
    value = layer.numbers(relu and direct)
    if not direct:
        value = value if join is None else join(value)
        value = _activated(value, name or "none", args, algorithm)
    return _stored(value, scale, point, dtype)


def _joined(other, scale, point, name, alpha):
    """What adds another value, integers or numbers, to a layer's numbers.

    As in PyTorch, "add" takes integers for numbers, "sum" for what they stand for;
    "dequantized_add" of lowered graphs does so, too, but writes nothing.
    """
    if name not in ("sum", "add", "dequantized_add"):
        raise RuntimeError(f"onednn: unsupported binary post op {name}")
    if name != "add" and other.dtype in (uint8, int8):
        other = affine_kernels.dequantize(other, scale, point)
    other = other if other.dtype is float32 else other.to(float32)
    return lambda value: ops.add(value, other, alpha=1 if alpha is None else alpha)


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
        made = Layer(*given[:6], given[bias], given[bias + 1 : first])
        if not how or how[2] == "none":
            return _finished(made, scale, point, dtype or uint8, name, args, algorithm)
        other, join = given[6], _joined(given[6], *how)
        dtype = dtype or uint8
        if how[2] == "sum":
            dtype = other.dtype
        out = _finished(made, scale, point, dtype, name, args, algorithm, join)
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
