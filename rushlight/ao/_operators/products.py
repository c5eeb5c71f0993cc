"""Products of bytes whose sums are scaled, moved and rounded before they are stored.

    out[i, j] = clamp(round((sum_k x[i, k] w[k, j] + offset[j] + bias[j]) factor[j]) + point)

Sums are exact in 32 bits. The weight is packed once: four neighbours along the depth are
one word, a row of words for each of them, as instructions that sum four products read it.
What is done to sums is an epilogue of the product's kernel.
"""

from __future__ import annotations

import functools

from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.language import cast, fma, maximum, minimum, select
from rushlight.codegen.language import round as nearest
from rushlight.core import dtypes
from rushlight.core.dtypes import float32, int8, int32
from rushlight.core.launch_args import TILED
from rushlight.core.roles import host
from rushlight.kernels.matmul.contraction import After, depth_of, kernel_after
from rushlight.operators import call as ops
from rushlight.operators.matmul import matmul_amx
from rushlight.operators.matmul.linalg import SUM_TYPES
from rushlight.operators.matmul.matmul_int8 import FOUR, has_fours

contraction = host.matmul
TILED_ROWS = 16  # fewer do not pay for packing the weight for the unit of tiles


class PackedWeight:
    """A matrix of signed bytes, one row an output, as products read it.

    Args:
        rows: int8 of two dimensions, outputs and depth.

    Attributes:
        sums: of each row, for inputs whose zero point is not zero.
        columns: how many outputs there are.
    """

    def __init__(self, rows):
        self.columns, self.depth = rows.shape
        self.sums = ops.sum(rows, [1], dtype=int32)
        wide = max(2, self.columns)  # kernels of one column read otherwise
        room = ops.zeros([wide, -(-max(1, self.depth) // FOUR) * FOUR], dtype=int8)
        room[: self.columns, : self.depth] = rows
        self.rows, self.wide = room, wide
        self.words = None

    @property
    def fours(self):
        """Words of four bytes: one row for each four of the depth."""
        if self.words is None:
            self.words = self.rows.view(int32).t().contiguous()
        return self.words


def _scaled(total, offset, bias, factor):
    return (cast(total + offset, "float32") + bias) * factor


def _stored(value, point, low, high):
    value = nearest(value) + point
    return maximum(minimum(value, high), low)


def requantized(total, offset, bias, factor, point, low, high):
    """Sums as integers of another scale and zero point."""
    return _stored(_scaled(total, offset, bias, factor), point, low, high)


def requantized_by_rows(
    total, offset, bias, factor, point, low, high, weight_point, row_sum
):
    """The same where the weight's zero points are not zero."""
    total = total - weight_point * row_sum
    return _stored(_scaled(total, offset, bias, factor), point, low, high)


def numbered(total, sums, bias, weight_scale, scale, point, low):
    """Sums as numbers; what is not above a lower bound is the bound."""
    total = total - sums * point
    value = fma(cast(total, "float32"), weight_scale * scale, bias)
    return select(value < low, low, value)


def numbered_by_rows(
    total, sums, bias, weight_scale, scale, point, low, weight_point, row_sum
):
    """The same where the weight's zero points are not zero."""
    total = total - weight_point * row_sum
    return numbered(total, sums, bias, weight_scale, scale, point, low)


_INT, _FLOAT, _ONE, _ROW = (
    ("int32", True), ("float32", True), ("float32", False), ("int32", False)
)  # fmt: skip
_NUMBERS = (_INT, _FLOAT, _FLOAT, _ONE, _ROW, _ONE)
EPILOGUES = {
    "requantized": (requantized, (_INT, _FLOAT, _FLOAT, _ONE, _ONE, _ONE)),
    "requantized_by_rows": (
        requantized_by_rows,
        (_INT, _FLOAT, _FLOAT, _ONE, _ONE, _ONE, _INT, _ROW),
    ),
    "numbered": (numbered, _NUMBERS),
    "numbered_by_rows": (numbered_by_rows, (*_NUMBERS, _INT, _ROW)),
}


@functools.cache
def _kernels(name, stored, way):
    """What finds the one kernel of a way to multiply: words, tiles, or 32-bit integers."""
    function, others = EPILOGUES[name]
    after = After(function, others, stored)
    digest = "".join(map(fingerprint, (function, numbered, _scaled, _stored)))
    words = f"_{name}_{stored}"

    @functools.cache
    def find(kind):
        if way == "tiles":
            types = "tiles_unsigned_fours", "uint8", "int8", "int32"
        elif way == "fours":
            types = "fours", "int32", "int32", "int32"
        else:
            types = "product", "int32", "int32", "int32"
        return kernel_after(*types, words, after, digest)

    return find


def _way(rows, depth, columns):
    tiled = rows >= TILED_ROWS and rows * depth * columns >= matmul_amx.LEAST_WORK
    if tiled and depth >= matmul_amx.LEAST and matmul_amx.has("int8"):
        return "tiles"
    return "fours" if has_fours() else "plain"


def product(x, weight, name, others, stored, out=None):
    """``epilogue(x @ weight, *others)`` of a matrix of unsigned bytes.

    Args:
        x: uint8 of two dimensions.
        weight: a `PackedWeight`.
        name: of an epilogue.
        others: its operands: a value for each column, for each row (``[rows, 1]``), or one.
        stored: the dtype of the results.
        out: where they may go: they do where it is row-major and of all columns.
    """
    rows, columns = x.shape[0], weight.columns
    if rows == 0 or columns == 0:
        return ops.empty([rows, columns], dtype=stored)
    if rows == 1:
        x = x.expand([2, x.shape[1]])
        others = [each.expand([2, 1]) if each.ndim == 2 else each for each in others]
    shape = x.shape[0], weight.wide
    seen = tuple(_wide(each, weight.wide).expand(shape) for each in others)
    way = _way(rows, x.shape[1], columns)
    fits = out is not None and tuple(out.shape) == shape and out.is_contiguous()
    out = out if fits else contraction.fresh(x, shape, stored)
    find = _kernels(name, stored.name, way)
    if way == "tiles":
        kept = matmul_amx.waiting(x, shape, int32, "int8")
        left, right = matmul_amx.lying(x, weight.rows[:, : x.shape[1]].t())
        contraction.product_after(out, left, right, int32, find, seen, kept, TILED)
    else:
        if way == "fours":
            left, right = _words(x, weight), weight.fours
        else:
            left, right = x.to(int32), weight.rows[:, : x.shape[1]].t().to(int32)
        deep = left.shape[1] > depth_of(SUM_TYPES["int8"])
        kept = contraction.fresh(x, shape, int32) if deep else None
        contraction.product_after(out, left, right, int32, find, seen, kept)
    if out.shape == (rows, columns):
        return out
    return out[:rows, :columns].contiguous()


def _wide(operand, columns):
    """Values of columns, of which a lone one is repeated."""
    if operand.ndim == 1 and operand.shape[0] == 1 and columns > 1:
        return operand.expand([columns]).contiguous()
    return operand


def _words(x, weight):
    """Rows of bytes as words of four; zeros fill the last up."""
    depth = x.shape[1]
    if depth % FOUR:
        room = ops.zeros([x.shape[0], weight.rows.shape[1]], dtype=dtypes.uint8)
        room[:, :depth] = x
        x = room
    return x.contiguous().view(int32)


@functools.lru_cache(4096)
def number(value):
    """A number as an operand of an epilogue."""
    return ops.full([], value, dtype=float32)
