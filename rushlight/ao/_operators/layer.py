"""What layers of integers end in: a residual, an activation, integers or numbers."""

from rushlight.ao._operators import conv, linear
from rushlight.ao._operators.packed import LinearPackedParams
from rushlight.ao._operators.products import number, whole_number
from rushlight.core.dtypes import float32, int8, int32, uint8
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.quantized import inverse_of, made, parts, single

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


class Layer:
    """A product or convolution of integers, before it is known what it ends in.

    Args:
        x, x_scale, x_point: the integers, and what they stand for: numbers, or tensors.
        params: the packed weight.
    """

    def __init__(self, x, x_scale, x_point, params):
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


def finished(layer, scale, point, dtype, name, args, algorithm, join=None):
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


def joined(other, scale, point, name, alpha):
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


def ending(activation, check, joins=False):
    """A layer of quantized tensors with a packed weight, as an operator.

    Args:
        activation: its name.
        check: of the input and the weight.
        joins: whether another quantized tensor is added before the activation.
    """

    def apply(x, *given):
        other = given[:joins]
        packed, scale, point, *settings = given[joins:]
        check(x, packed)
        levels, x_scale, x_point, _ = parts(x)
        join = None
        if joins:
            join = joined(*parts(other[0])[:3], "sum", 1)
        layer = Layer(levels, x_scale, x_point, packed)
        out = finished(layer, scale, point, uint8, activation, settings, "", join)
        return made(out, float(scale), int(point))

    return apply
