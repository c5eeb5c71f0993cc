"""Weights as quantized products take them: packed once, with what sums are scaled by."""

from __future__ import annotations

from rushlight.ao._operators.products import PackedWeight, number, product
from rushlight.core.dtypes import float32, int32
from rushlight.operators import call as ops
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
    """A packed weight of one group, and what its sums become.

    Args:
        rows: int8 of two dimensions, outputs and depth.
        scales: of the outputs, float32.
        points: zero points of the outputs, int32.
        bias: float32, or None.
    """

    def __init__(self, rows, scales, points, bias):
        self.weight = PackedWeight(rows)
        self.scales, self.points = scales, points
        self.bias = ops.zeros([rows.shape[0]]) if bias is None else bias.float()
        self.level = not bool(ops.any(points))  # whether all zero points are zero
        self.known = {}

    def operands(self, x_scale, x_point, scale, point, low):
        """What the epilogue reads, for an input and a result of some scales."""
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
            bounds = number(float(point)), number(float(low)), number(255.0)
            found = [offset, self.bias / both, factor, *bounds]
            if not self.level:
                found.append(self.points)
            self.known[key] = found
        return found

    def requantized(self, x, x_scale, x_point, scale, point, relu, out=None):
        """The product of unsigned bytes, as bytes of another scale.

        Args:
            x: the bytes, and their scale and zero point.
            scale, point: of the results.
            relu: whether what is below zero becomes zero.
            out: where results may go.
        """
        low = point if relu else 0
        others = self.operands(x_scale, x_point, scale, point, low)
        return self.product(x, "requantized", others, x.dtype, out)

    def numbers(self, x, x_scale, x_point, relu):
        """The product of unsigned bytes, as numbers."""
        sums = self.weight.sums
        if not self.level:
            sums = sums - self.points * self.weight.depth
        low = number(0.0 if relu else float("-inf"))
        scale = ops.full([], single(x_scale), dtype=float32)
        rows = ops.full([1, 1], x_point, dtype=int32).expand([x.shape[0], 1])
        others = [sums, self.bias, self.scales, scale, rows, low]
        if not self.level:
            others.append(self.points)
        return self.product(x, "numbered", others, float32)

    def product(self, x, name, others, stored, out=None):
        """The product with an epilogue that may want the sums of rows."""
        if not self.level:
            name += "_by_rows"
            others = [*others, ops.sum(x, [1], True, dtype=int32)]
        return product(x, self.weight, name, others, stored, out)


def scales_of(weight, outputs):
    """For each output of a quantized weight a scale and a zero point."""
    _, scale, point, axis = parts(weight)
    if axis is None:
        scales = ops.full([outputs], single(scale), dtype=float32)
        return scales, ops.full([outputs], point, dtype=int32)
    return scale.to(float32), point.to(int32)


class PackedParams:
    """A weight and a bias that a quantized operator takes; a scripted class in PyTorch."""

    kind = ""

    def __repr__(self):
        return f"ScriptObject <__torch__.torch.classes.quantized.{self.kind}>"

    def _type(self):
        return f"__torch__.torch.classes.quantized.{self.kind}"

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

    def __getstate__(self):
        return (self.settings(), self._type())

    def __setstate__(self, state):
        self.__init__(*state[0])
