"""Products of a few rows with a matrix whose rows are adjacent, as tiles of dot products.

Linear layers of small batches: ``out[i, j] = sum_k a[i, k] w[j, k] + added[i, j]``. Panels of
``w`` would be transposed for so few rows that it takes as long as their products. Here both
operands are read as they lie, vectors along the depth; a tile is four rows by as many columns
as there are registers for, and lanes are added up at its end.
"""

from __future__ import annotations

from rushlight.codegen.target import current
from rushlight.core.launch_args import ARRAYS
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Call, Const, Select, Type, cast, i64, load
from rushlight.kernels.loop_helpers import (
    DEPTH_BLOCK,
    Beside,
    apply,
    blocks_of,
    lane_mask,
    minimum,
    moved,
    multiply_add,
    planned,
    quotient,
    remainder,
    rolled,
)

MOST_ROWS = 24  # of the left operand; more pay for panels
MOST_COLUMNS = 256  # of a chunk: results that wait for what is behind them
HEIGHTS = 4, 3, 2, 1  # rows of tiles


def columns_of_tile():
    """Columns of a tile: twelve sums in sixteen registers, 24 in 32."""
    return 6 if current().registers >= 32 else 3


def dot_tiles(name, a_type, b_type, compute, lanes, after=None) -> ir.Function:
    """The product; data and integers as for `contraction.product`.

    The parallel axis counts blocks of columns, then batches; a chunk has all rows.

    Args:
        after: what is behind the sums, as `contraction.After`.
    """
    b = Builder()
    n = planned(b, "product")
    stored = compute if after is None else Type(after.stored)
    types = {"out": stored, "a": a_type, "b": b_type, "added": compute}
    p = {key: b.let(key, ir.argument(ARRAYS[key], t)) for key, t in types.items()}
    kinds = () if after is None else after.others
    besides = [Beside(b, k, kind, along) for k, (kind, along) in enumerate(kinds)]
    tiles = Tiles(b, n, compute, lanes)
    waiting = None
    if after is not None:
        waiting = b.array("waiting", compute, MOST_ROWS * MOST_COLUMNS)
    across = b.let("across", blocks_of(n["columns"], n["column_block"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        batch = b.let("batch", quotient(chunk, across))
        j0 = b.let("j0", remainder(chunk, across) * n["column_block"])
        width = b.let("width", minimum(n["columns"] - j0, n["column_block"]))
        starts = {"out": j0, "a": 0, "b": j0 * n["b_column"], "added": j0}
        here = {
            key: b.let(key, moved(p[key], batch * n[f"{key}_batch"] + start))
            for key, start in starts.items()
        }
        target = (here["out"], n["out_row"])
        if after is not None:
            target = waiting, Const(i64, MOST_COLUMNS)
        tiles.run(here, target, width)
        if after is not None:
            with b.loop("r", 0, n["rows"]) as r:
                line = b.let("line", moved(waiting, r * MOST_COLUMNS))
                row = b.let("row", moved(here["out"], r * n["out_row"]))
                others = [one.at(batch, 0, j0).at(r, 0) for one in besides]
                apply(b, after, line, row, width, others)
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
                result = moved(target[0], first * target[1] + j)
                ends = [
                    (b.let("addend", addend), before_row),
                    (b.let("result", result), target[1]),
                ]
                line = b.let("line", moved(here["a"], first * n["a_row"]))
                self.heights(HEIGHTS, rows, line, columns, masks, ends)
                b.assign(i, i + rows)

    def heights(self, heights, rows, line, columns, masks, ends):
        """The tile of as many rows as there are."""
        if len(heights) == 1:
            self.tile(heights[0], line, columns, masks, ends)
            return
        with self.b.when(rows == heights[0]):
            self.tile(heights[0], line, columns, masks, ends)
        with self.b.otherwise():
            self.heights(heights[1:], rows, line, columns, masks, ends)

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
        b, n, lanes = self.b, self.n, self.lanes
        sums = [[b.declare("sum", self.zero) for _ in columns] for _ in lines]

        def step(k, kept=None):
            others = [
                b.let("other", cast(self.compute, load(c, k, lanes, mask=kept)))
                for c in columns
            ]
            for row, totals in zip(lines, sums, strict=True):
                value = load(row, k, lanes, mask=kept)
                value = b.let("value", cast(self.compute, value))
                for total, other in zip(totals, others, strict=True):
                    b.assign(total, multiply_add(value, other, total))

        end = b.let("end", minimum(first + DEPTH_BLOCK, n["depth"]))
        whole = b.let("whole", end - remainder(end - first, lanes))
        with b.loop("k", first, whole, lanes) as k:
            step(k)
        with b.when(whole < end):
            step(whole, b.let("mask", lane_mask(lanes, end - whole)))
        for r, totals in enumerate(sums):
            for c, total in enumerate(totals):
                at = r * self.pitch + c
                value = Call("reduce_add", self.compute, total)
                b.store(self.totals, at, load(self.totals, at) + value)
