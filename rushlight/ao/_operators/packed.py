"""Weights as quantized products take them: packed once, with what sums are scaled by."""

from rushlight.ao._operators.products import (
    PackedWeight,
    number,
    product,
    whole_number,
    window_sums,
)
from rushlight.core.dtypes import float32, int32, uint8
from rushlight.operators import call as ops
from rushlight.operators.extensions import CustomClass
from rushlight.operators.quantized.quantized import parts, single

MOST_KNOWN = 8  # scales of inputs and outputs whose operands are kept


def check_weight(weight, bias, outputs, operator):
    """Refuses a weight or a bias that has no product.

    Raises:
        RuntimeError: their types or sizes aren't right.
    """
    if weight.dtype.name != "qint8":
        raise RuntimeError(
            f"expected scalar type QInt8 but found {weight.dtype.name.upper()}\n"
            f"  operator: {operator}\n  remedy: quantize the weight to qint8"
        )
    if bias is None:
        return
    if bias.ndim != 1:
        raise RuntimeError(f"bias should be a vector (1D Tensor)\n  bias: {bias.shape}")
    if bias.shape[0] != outputs:
        raise RuntimeError(
            f"bias should have N elements: {outputs}\n  bias: {bias.shape}"
        )


class Scaled:
    """A packed weight, and what its sums become.

    Args:
        rows: int8 of two dimensions, outputs and the elements of a window.
        scales: of the outputs, float32.
        points: zero points of the outputs, int32.
        bias: float32, or None.
        groups, runs: as of a `PackedWeight`.
    """

    def __init__(self, rows, scales, points, bias, groups=1, runs=1):
        self.weight = PackedWeight(rows, groups, runs)
        self.scales, self.points = scales, points
        self.bias = ops.zeros([rows.shape[0]]) if bias is None else bias.float()
        self.level = not bool(ops.any(points))  # whether all zero points are zero
        self.sums = self.weight.sums
        if not self.level:
            self.sums = self.sums - points * self.weight.depth
        self.known = {}

    def operands(self, x_scale, x_point, scale, point, low):
        """What sums begin at and the epilogue reads, for some scales."""
        key = x_scale, x_point, scale, point, low
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            both = self.scales * single(x_scale)
            offset = self.weight.sums * -x_point
            if not self.level:
                offset = offset + self.points * (x_point * self.weight.depth)
            factor = both / single(scale)
            bounds = number(float(low - point)), number(float(255 - point))
            point = whole_number(point)
            others = [self.bias / both, factor, point, *bounds]
            if not self.level:
                others.append(self.points)
            found = self.known[key] = others, self.weight.spread(offset)
        return found

    def requantized(self, x, windows, x_scale, x_point, scale, point, relu):
        """The product of unsigned bytes, as bytes of another scale.

        Args:
            x, windows: the bytes as `windows.room` has them, and where windows lie.
            x_scale, x_point: of the bytes.
            scale, point: of the results.
            relu: whether what is below zero becomes zero.
        """
        low = point if relu else 0
        others, start = self.operands(x_scale, x_point, scale, point, low)
        return self.product(x, windows, "requantized", others, uint8, start)

    def numbers(self, x, windows, x_scale, x_point, relu):
        """The product of unsigned bytes, as numbers.

        Args:
            x, windows: as of `requantized`.
            x_scale, x_point: tensors of one number.
            relu: whether what is below zero becomes zero.
        """
        low = number(0.0 if relu else float("-inf"))
        others = [self.sums, self.bias, self.scales, x_scale, x_point, low]
        if not self.level:
            others.append(self.points)
        return self.product(x, windows, "numbered", others, float32)

    def product(self, x, windows, name, others, stored, start=None):
        """The product with an epilogue that may want the sums of windows."""
        if not self.level:
            name += "_by_rows"
            others = [*others, window_sums(x, windows, self.weight)]
        return product(x, windows, self.weight, name, others, stored, start)


def scales_of(weight, outputs):
    """For each output of a quantized weight a scale and a zero point."""
    _, scale, point, axis = parts(weight)
    if axis is None:
        scales = ops.full([outputs], single(scale), dtype=float32)
        return scales, ops.full([outputs], point, dtype=int32)
    return scale.to(float32), point.to(int32)


class PackedParams(CustomClass):
    """A weight and a bias that a quantized operator takes; a scripted class in PyTorch."""

    namespace, state_type = "quantized", "Tuple[Tensor, Optional[Tensor]]"

    def unpack(self):
        """The weight and the bias."""
        return self.weight, self.bias

    def __deepcopy__(self, memo):
        return type(self)(*self.settings())

    def __reduce__(self):
        return type(self), self.settings()


class LinearPackedParams(PackedParams):
    """The weight of a linear layer.

    Args:
        weight: qint8 of two dimensions.
        bias: float32, or None.
    """

    kind = "LinearPackedParamsBase"

    def __init__(self, weight, bias=None):
        if weight.ndim != 2:
            raise RuntimeError(
                "The weight tensor for quantized::linear_prepack (fbgemm) should be "
                f"2-dimensional.\n  weight: {list(weight.shape)}"
            )
        check_weight(weight, bias, weight.shape[0], "quantized::linear_prepack")
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        self.weight, self.bias = weight, bias
        self.scaled = Scaled(
            parts(weight)[0], *scales_of(weight, weight.shape[0]), bias
        )

    def settings(self):
        """What it is made of."""
        return self.weight, self.bias

    stored = settings

    def __getstate__(self):
        return (self.settings(), self._type())

    def __setstate__(self, state):
        self.__init__(*state[0])
