"""Convolutions of one channel each: a plane stays in registers' reach, and nothing is copied.

A tile is four rows of one vector of positions. Each row of the input is loaded once for
each column of the taps, and serves every row of the tile that sees it; what lies beyond
an edge is masked, which stands for zeros.
"""

from __future__ import annotations

from rushlight.codegen import expr as ir
from rushlight.codegen.builder import Builder
from rushlight.codegen.expr import Broadcast, Const, Ramp, cast, i32, i64, load
from rushlight.ops.contraction_loops import (
    lane_mask,
    moved,
    multiply_add,
    quotient,
    remainder,
    rolled,
)

INTS = """
    channels rows shared height width out_height out_width pad_y pad_x step_x biased
""".split()
ROWS = 4  # of a tile
MOST_TAPS = 49


def depthwise(name, type, lanes, taps) -> ir.Function:
    """Each output channel from one input channel, step one; chunks are output planes.

    Data: out, weight, input, bias. ``shared`` output channels read one input channel.

    Args:
        taps: rows and columns of a filter.
    """
    b = Builder()
    n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(INTS)}
    out, weight, source, bias = (
        b.let(key, ir.argument(i, type))
        for i, key in enumerate(("out", "weight", "input", "bias"))
    )
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        row = b.let("row", remainder(chunk, n["rows"]))
        image = quotient(chunk, n["rows"]) * n["channels"]
        plane = (image + quotient(row, n["shared"])) * (n["height"] * n["width"])
        from_ = b.let("plane", moved(source, plane))
        to = b.let("result", moved(out, chunk * n["out_height"] * n["out_width"]))
        tile = Tile(b, n, type, lanes, taps, from_, to)
        tile.read_weights(moved(weight, row * (taps[0] * taps[1])), bias, row)
        with b.loop("x", 0, n["out_width"], lanes) as x:
            tile.begin_columns(x)
            with b.loop("y", 0, n["out_height"], ROWS) as y:
                first = b.let("first", y - n["pad_y"])
                last = first + (ROWS + taps[0] - 2)
                inside = (first >= 0) & (last < n["height"])
                with b.when(inside):
                    tile.write(x, y, first, True)
                with b.otherwise():
                    tile.write(x, y, first, False)
    return ir.kernel(name, rolled(b.statements))


class Tile:
    """The tiles of one plane."""

    def __init__(self, b, n, type, lanes, taps, source, out):
        self.b, self.n, self.type, self.lanes = b, n, type, lanes
        self.taps, self.source, self.out = taps, source, out
        self.weights = self.bias = self.starts = self.masks = self.kept = None

    def read_weights(self, weight, bias, row):
        """A plane's filter, each weight in all lanes, and its bias."""
        b, lanes = self.b, self.lanes
        weight = b.let("filter", weight)
        self.weights = [
            [
                b.let("weight", Broadcast(lanes, load(weight, y * self.taps[1] + x)))
                for x in range(self.taps[1])
            ]
            for y in range(self.taps[0])
        ]
        self.bias = b.declare("bias", Const(self.type, 0))
        with b.when(self.n["biased"] != 0):
            b.assign(self.bias, load(bias, row))

    def begin_columns(self, x):
        """Where each column of the taps reads a vector of positions, and which lanes."""
        b, n, lanes = self.b, self.n, self.lanes
        self.starts, self.masks = [], []
        width = b.let("limit", Broadcast(lanes, cast(i32, n["width"])))
        for tap in range(self.taps[1]):
            start = b.let("start", x + n["step_x"] * tap - n["pad_x"])
            places = b.let("places", Ramp(lanes, cast(i32, start), Const(i32, 1)))
            zero = Const(i32.vector(lanes), 0)
            self.starts.append(start)
            self.masks.append(b.let("mask", (places >= zero) & (places < width)))
        self.kept = b.let("kept", lane_mask(lanes, n["out_width"] - x))

    def write(self, x, y, first, inside):
        """A tile's results; ``inside`` says that all rows that it reads are there."""
        b, n, lanes = self.b, self.n, self.lanes
        zero = Const(self.type.vector(lanes), 0)
        sums = [b.declare("sum", zero) for _ in range(ROWS)]
        for line in range(ROWS + self.taps[0] - 1):
            at = b.let("line", first + line)
            base = b.let("base", moved(self.source, at * n["width"]))
            there = None
            if not inside:
                there = b.let("there", (at >= 0) & (at < n["height"]))
                there = b.let("all", Broadcast(lanes, there))
            for tap, (start, mask) in enumerate(
                zip(self.starts, self.masks, strict=True)
            ):
                seen = mask if there is None else b.let("seen", mask & there)
                value = b.let("value", load(base, start, lanes, mask=seen))
                for i, total in enumerate(sums):
                    if 0 <= line - i < self.taps[0]:
                        weight = self.weights[line - i][tap]
                        b.assign(total, multiply_add(weight, value, total))
        bias = b.let("added", Broadcast(lanes, self.bias + Const(self.type, 0)))
        for i, total in enumerate(sums):
            place = (y + i) * n["out_width"] + x
            if i == 0:
                b.store(self.out, place, total + bias, self.kept)
                continue
            with b.when(y + i < n["out_height"]):
                b.store(self.out, place, total + bias, self.kept)
