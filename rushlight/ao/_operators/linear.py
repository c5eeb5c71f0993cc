"""Linear layers of quantized weights: of quantized inputs, and of numbers."""

from math import prod

from rushlight.ao._operators import windows
from rushlight.ao._operators.dynamic import quantize
from rushlight.ao._operators.packed import LinearPackedParams, PackedParams
from rushlight.ao._operators.products import number, whole_number
from rushlight.core.dtypes import float16, float32, uint8
from rushlight.operators import call as ops
from rushlight.operators.extensions import CUSTOM, MAKERS
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.quantized import (
    inverse_of,
    made,
    parts,
    quantized_name,
    single,
)


def prepack(weight, bias=None):
    """A weight and a bias packed for products."""
    return LinearPackedParams(weight, bias)


def unpack(packed):
    """The weight and the bias that were packed."""
    return packed.unpack()


def check_input(x, packed):
    """Refuses an input that does not go with a weight.

    Raises:
        RuntimeError: its size or number of dimensions isn't right.
    """
    if x.ndim < 2:
        raise RuntimeError(
            "The dimension of input tensor should be larger than or equal to 2\n"
            f"  input: {list(x.shape)}"
        )
    if x.shape[-1] != packed.weight.shape[1]:
        raise RuntimeError(
            f"The number of rows in the packB should be equal to K: {x.shape[-1]}\n"
            f"  input: {list(x.shape)}\n  weight: {list(packed.weight.shape)}"
        )


def check_bytes(x):
    """Refuses integers that are not unsigned bytes of one scale.

    Raises:
        RuntimeError: they are others.
    """
    if x.dtype.name != "quint8":
        raise RuntimeError(
            f"Expected input data type QUInt8 but got {quantized_name(x.dtype)}"
        )


def check(x, packed):
    """Refuses an input that is none of bytes, or does not go with a weight."""
    check_bytes(x)
    check_input(x, packed)


def linear(x, packed, scale, point):
    """The product, in a scale and a zero point that are given."""
    return _linear(x, packed, scale, point, False)


def linear_relu(x, packed, scale, point):
    """The same; what is below zero becomes zero."""
    return _linear(x, packed, scale, point, True)


def _linear(x, packed, scale, point, relu):
    check(x, packed)
    levels, x_scale, x_point, _ = parts(x)
    rows = rows_of(levels, packed)
    out = packed.scaled.requantized(*rows, x_scale, x_point, scale, point, relu)
    return made(out.view([*x.shape[:-1], out.shape[-1]]), float(scale), int(point))


def rows_of(levels, packed, narrow=False):
    """Rows of bytes with room to read them by words, and where they are.

    Args:
        narrow: whether none is known to be above 128.
    """
    *counts, depth = levels.shape
    count = prod(counts)
    found = windows.rows_of(count, depth, packed.weight.shape[0], narrow)
    levels = levels.contiguous()
    if not narrow:
        found = found.suited(levels)
    if found.in_place:
        return levels, found
    around = (1, 1, count), windows.NOTHING, windows.NOTHING
    return windows.room(levels, found, around), found


def linear_dynamic(x, packed, reduce_range=False):
    """The product of numbers, quantized by the scale that they ask for."""
    return _dynamic(x, packed, reduce_range, False)


def linear_relu_dynamic(x, packed, reduce_range=False):
    """The same; what is below zero becomes zero."""
    return _dynamic(x, packed, reduce_range, True)


def shape_of_product(x, packed, reduce_range=False):
    """The product of what has a shape alone."""
    return ops.new_empty(x, [*x.shape[:-1], packed.weight.shape[0]])


def _dynamic(x, packed, reduce_range, relu):
    if x.dtype is not float32:
        raise RuntimeError(
            f"expected scalar type Float but found {scalar_name(x.dtype)}"
        )
    check_input(x, packed)
    levels, scale, point = quantize(x.detach(), reduce_range)
    rows = rows_of(levels, packed, bool(reduce_range))
    out = packed.scaled.numbers(*rows, scale, point, relu)
    return out if x.ndim == 2 else out.view([*x.shape[:-1], out.shape[-1]])


def int4_product(x, weight, group_size, scales):
    """The product with half bytes, whose group's size is a tensor."""
    return ops._weight_int4pack_mm_for_cpu(x, weight, int(group_size.item()), scales)


def outdated(unpacked):
    """Schemas of forms that PyTorch has for programs of old archives alone: they refuse."""
    for half in "", "_fp16":

        def prepack(weight, bias=None, half=half):
            raise RuntimeError(
                f"This model uses an outdated version of quantized.linear_prepack{half}. "
                "Please re-export your model using the newer definitions in "
                "torch.jit.quantized"
            )

        def unpack(weight):
            raise RuntimeError(
                "quantized.linear_unpack(Tensor) is unsupported! Please upgrade your model "
                "to use the newer quantized.linear_unpack(LinearPackedParamsBase) overload"
            )

        schema = (
            f"linear_prepack{half}_legacy(Tensor W, Tensor? B=None) -> Tensor W_prepack"
        )
        yield schema, "CPU" if half else "QuantizedCPU", prepack
        schema = f"linear_unpack{half}.legacy(Tensor W_prepack) -> {unpacked}"
        yield schema, "CPU", unpack


def from_numbers(x, x_scale, x_point, packed):
    """The product of numbers that are quantized first, as numbers."""
    return _between(x, x_scale, x_point, packed, False)


def from_numbers_relu(x, x_scale, x_point, packed):
    """The same; what is below zero becomes zero."""
    return _between(x, x_scale, x_point, packed, True)


def _between(x, x_scale, x_point, packed, relu):
    check_input(x, packed)
    x = x.detach()
    levels = affine_kernels.quantize(x, uint8, inverse_of(x_scale), x_point)
    scale, point = number(single(x_scale)), whole_number(x_point)
    out = packed.scaled.numbers(*rows_of(levels, packed), scale, point, relu)
    return out.view([*x.shape[:-1], out.shape[-1]])


class HalfLinearPackedParams(PackedParams):
    """The weight of a linear layer in half precision.

    Args:
        weight: float32 of two dimensions, whose elements are rounded.
        bias: float32, or None.
    """

    kind = "LinearPackedParamsBase"

    def __init__(self, weight, bias=None):
        limit = 65504.0
        held = ops.clamp(weight.detach(), -limit, limit)
        self.weight = held.to(float16).to(float32)
        self.bias = None if bias is None else bias.detach()

    def settings(self):
        """What it is made of."""
        return self.weight, self.bias

    stored = settings


def _of_state(state):
    weight, bias = state
    return (prepack if weight.is_quantized else prepack_half)(weight, bias)


MAKERS[f"{CUSTOM}quantized.{HalfLinearPackedParams.kind}"] = _of_state


def prepack_half(weight, bias=None):
    """A weight in half precision."""
    return HalfLinearPackedParams(weight, bias)


def linear_dynamic_half(x, packed):
    """The product with a weight in half precision, summed in single precision."""
    return ops.linear(x, packed.weight, packed.bias)


def linear_relu_dynamic_half(x, packed):
    """The same; what is below zero becomes zero."""
    return ops.relu(linear_dynamic_half(x, packed))


def linear_dynamic_half_unpacked(x, weight, bias):
    """The same with a weight that is not packed."""
    return linear_dynamic_half(x, HalfLinearPackedParams(weight, bias))
