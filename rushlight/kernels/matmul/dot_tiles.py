"""Products of a few rows with a matrix whose rows are adjacent, as tiles of dot products.

Linear layers of small batches: ``out[i, j] = sum_k a[i, k] w[j, k] + added[i, j]``. Panels of
``w`` would be transposed for so few rows that it takes as long as their products. Here both
operands are read as they lie, vectors along the depth; a tile is four rows by as many columns
as there are registers for, and lanes are added up at its end: the micro-kernel of dot
products (`kernels.micro_kernels`), without copies.

Follows the small and skinny products of Heinecke et al., "LIBXSMM" (2016), and of BLIS's
``sup`` kernels, which read operands where they lie.
"""

from functools import partial

from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Const, Select, cast, i64, load
from rushlight.kernels.epilogue import operands_of
from rushlight.kernels.loop_helpers import (
    DEPTH_BLOCK,
    Operand,
    first_of,
    lane_mask,
    minimum,
    moved,
    planned,
    rolled,
)
from rushlight.kernels.matmul.product_arguments import (
    arrays_of,
    blocks_across,
    columns_of_chunk,
)
from rushlight.kernels.micro_kernels import dot_products

MOST_ROWS = 24  # of the left operand; more pay for panels
MOST_COLUMNS = 256  # of a chunk: results that wait for what is behind them
HEIGHTS = 4, 3, 2, 1  # rows of tiles


def columns_of_tile():
    """Columns of a tile: twelve sums in sixteen registers, 24 in 32."""
    return 6 if current().registers >= 32 else 3


def dot_tiles(name, a_type, b_type, compute, lanes, epilogue=None) -> ir.Function:
    """The product; data and integers as for `contraction.product`.

    The parallel axis counts blocks of columns, then batches; a chunk has all rows.

    Args:
        epilogue: of the sums, as `Epilogue`, or None.
    """
    b = Builder()
    n = planned(b, "product")
    p = arrays_of(b, a_type, b_type, compute, epilogue)
    besides = operands_of(b, epilogue, "product")
    tiles = Tiles(b, n, compute, lanes)
    waiting = None
    if epilogue is not None:
        waiting = b.array("waiting", compute, MOST_ROWS * MOST_COLUMNS)
    across = blocks_across(b, n)
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        batch, j0, width = columns_of_chunk(b, n, chunk, across)
        starts = {"out": j0, "a": 0, "b": j0 * n["b_column"], "added": j0}
        here = {
            key: b.let(key, moved(p[key], batch * n[f"{key}_batch"] + start))
            for key, start in starts.items()
        }
        target = Operand(here["out"], n["out_row"])
        sums = target
        if epilogue is not None:
            sums = Operand(waiting, Const(i64, MOST_COLUMNS))
        tiles.run(here, sums, width)
        if epilogue is not None:
            others = [other.at(batch, 0, j0) for other in besides]
            epilogue.write_rows(b, n["rows"], width, sums, target, others)
    return ir.kernel(name, rolled(b.statements))


class Tiles:
    """Writes the tiles of one chunk."""

    def __init__(self, b, n, compute, lanes):
        self.b, self.n, self.compute, self.lanes = b, n, compute, lanes
        self.across = columns_of_tile()
        self.parts = range(0, self.across, lanes)
        self.pitch = len(self.parts) * lanes
        self.zero = Const(compute.vector(lanes), 0)
        self.totals = b.array("totals", compute, HEIGHTS[0] * self.pitch)
        self.nothing = b.array("nothing", compute, self.pitch)
        for room, size in (self.totals, HEIGHTS[0]), (self.nothing, 1):
            for v in range(0, size * self.pitch, lanes):
                b.store(room, v, self.zero)

    def run(self, here, target, width):
        """All tiles: the columns of one are read once for all rows."""
        b, n = self.b, self.n
        added = n["added"] != 0
        before = b.let("before", Select(added, here["added"], self.nothing))
        before_row = Select(added, n["added_row"], Const(i64, 0))
        before_row = b.let("before_row", before_row)
        with b.loop("j", 0, width, self.across) as j:
            columns = [
                b.let("column", moved(here["b"], at * n["b_column"]))
                for c in range(self.across)
                for at in [minimum(j + c, width - 1)]
            ]
            count = b.let("count", minimum(width - j, self.across))
            masks = [
                b.let("kept", lane_mask(self.lanes, count - v)) for v in self.parts
            ]
            i = b.declare("i", Const(i64, 0))
            with b.repeat(i < n["rows"]):
                first = b.let("first", i + 0)
                rest = b.let("rest", n["rows"] - first)
                # four and one, or four and two, hide less of their latency
                rows = Select((rest == 5) | (rest == 6), Const(i64, 3), rest)
                rows = b.let("rows", minimum(rows, HEIGHTS[0]))
                step = Select(added, j, Const(i64, 0))
                addend = moved(before, first * before_row + step)
                result = moved(target.pointer, first * target.row + j)
                ends = [
                    (b.let("addend", addend), before_row),
                    (b.let("result", result), target.row),
                ]
                line = b.let("line", moved(here["a"], first * n["a_row"]))
                *higher, least = HEIGHTS
                place = line, columns, masks, ends
                first_of(
                    b,
                    [(rows == h, partial(self.tile, h, *place)) for h in higher],
                    partial(self.tile, least, *place),
                )
                b.assign(i, i + rows)

    def tile(self, height, line, columns, masks, ends):
        """Dot products of some rows and columns, added up and stored."""
        b, n = self.b, self.n
        lines = [b.let("row", moved(line, n["a_row"] * r)) for r in range(height)]
        for at in range(0, height * self.pitch, self.lanes):
            b.store(self.totals, at, self.zero)
        with b.loop("block", 0, n["depth"], DEPTH_BLOCK) as k0:
            self.part(lines, columns, k0)
        (addend, addend_row), (result, result_row) = ends
        for r in range(height):
            for v, mask in zip(self.parts, masks, strict=True):
                value = load(self.totals, r * self.pitch + v, self.lanes)
                before = load(addend, addend_row * r + v, self.lanes, mask=mask)
                b.store(result, result_row * r + v, value + before, mask)

    def part(self, lines, columns, first):
        """Adds the dot products of one block of the depth to the totals."""
        b, n = self.b, self.n
        end = b.let("end", minimum(first + DEPTH_BLOCK, n["depth"]))
        rows = [partial(self.row_at, line) for line in lines]
        others = [partial(self.column_at, column) for column in columns]
        kind = self.compute.vector(self.lanes)
        sums = dot_products(b, kind, rows, others, (first, end))
        for r, line in enumerate(sums):
            for c, value in enumerate(line):
                at = r * self.pitch + c
                b.store(self.totals, at, load(self.totals, at) + value)

    def column_at(self, pointer, k, mask):
        """A vector of an operand as sums are computed."""
        return cast(self.compute, load(pointer, k, self.lanes, mask=mask))

    def row_at(self, pointer, k, mask):
        """The same, named: every column multiplies it."""
        return self.b.let("value", self.column_at(pointer, k, mask))
