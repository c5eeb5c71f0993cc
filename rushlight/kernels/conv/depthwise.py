"""Convolutions of one channel each: a plane stays in registers' reach, and nothing is copied.

A tile is four rows of one vector of positions, one or two elements of the input apart: of
two, a vector is every other element of two adjacent ones. Each row of the input is loaded once for
each column of the taps, and serves every row of the tile that sees it; what lies beyond
an edge is masked, which stands for zeros. The weight's gradient goes over the same tiles:
what is loaded once is multiplied by every row of the output's gradient that it met.
"""

from __future__ import annotations

from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import (
    Broadcast,
    Const,
    Ramp,
    Shuffle,
    Type,
    cast,
    i32,
    i64,
    load,
)
from rushlight.kernels.loop_helpers import (
    Operand,
    apply,
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
WEIGHT_INTS = """
    channels rows shared height width out_height out_width pad_y pad_x step_x images
    part_images groups
""".split()
ROWS = 4  # of a tile
MOST_TAPS = 49


def depthwise(name, type, lanes, taps, strides, after=None) -> ir.Function:
    """Each output channel from one input channel; chunks are output planes.

    Data: out, weight, input, bias. ``shared`` output channels read one input channel.

    Args:
        taps: rows and columns of a filter.
        strides: rows, and one or two columns, from one position to the next.
        after: what is behind the sums, as `contraction.After`, of results of their type:
            a plane is gone over once more while it is in a cache.
    """
    b = Builder()
    n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(INTS)}
    out, weight, source, bias = (
        b.let(key, ir.argument(i, type))
        for i, key in enumerate(("out", "weight", "input", "bias"))
    )
    others = [
        b.let("beside", ir.argument(4 + k, Type(kind)))
        for k, (kind, _) in enumerate(() if after is None else after.others)
    ]
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        row = b.let("row", remainder(chunk, n["rows"]))
        image = quotient(chunk, n["rows"]) * n["channels"]
        plane = (image + quotient(row, n["shared"])) * (n["height"] * n["width"])
        from_ = b.let("plane", moved(source, plane))
        to = b.let("result", moved(out, chunk * n["out_height"] * n["out_width"]))
        tile = Tile(b, n, type, lanes, (taps, strides), from_, to)
        tile.read_weights(moved(weight, row * (taps[0] * taps[1])), bias, row)
        with b.loop("x", 0, n["out_width"], lanes) as x:
            tile.begin_columns(x)
            with b.loop("y", 0, n["out_height"], ROWS) as y:
                first = b.let("first", y * strides[0] - n["pad_y"])
                last = first + (tile.lines - 1)
                inside = (first >= 0) & (last < n["height"])
                with b.when(inside):
                    tile.write(x, y, first, True)
                with b.otherwise():
                    tile.write(x, y, first, False)
        if after is not None:
            size = b.let("size", n["out_height"] * n["out_width"])
            there = [
                Operand(moved(other, chunk * size if along else row), None)
                for other, (_, along) in zip(others, after.others, strict=True)
            ]
            apply(b, after, to, to, size, there)
    return ir.kernel(name, rolled(b.statements))


def depthwise_weights(name, type, lanes, taps, strides) -> ir.Function:
    """The weight's gradient; chunks are output channels of parts of the images.

    Data: sums, the output's gradient, input. A chunk's sums are its weights', then the
    bias's; those of the channels that read one input channel lie side by side.

    Args:
        taps, strides: as of `depthwise`.
    """
    b = Builder()
    n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(WEIGHT_INTS)}
    out, grad, source = (
        b.let(key, ir.argument(i, type))
        for i, key in enumerate(("out", "grad", "input"))
    )
    count = taps[0] * taps[1] + 1
    totals = b.array("totals", type, count * lanes)
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        row = b.let("row", remainder(chunk, n["rows"]))
        part = b.let("part", quotient(chunk, n["rows"]))
        with b.loop("k", 0, count) as k:
            b.store(totals, k * lanes, Const(type.vector(lanes), 0))
        begin = b.let("first_image", part * n["part_images"])
        end = ir.binary("min", begin + n["part_images"], n["images"])
        with b.loop("image", begin, b.let("end_image", end)) as image:
            plane = image * n["channels"] + quotient(row, n["shared"])
            from_ = b.let("plane", moved(source, plane * (n["height"] * n["width"])))
            area = n["out_height"] * n["out_width"]
            along = b.let("along", moved(grad, (image * n["rows"] + row) * area))
            shape = taps, strides
            WeightTile(b, n, type, lanes, shape, from_, along).add_to(totals)
        group = part * n["groups"] + quotient(row, n["shared"])
        column = remainder(row, n["shared"])
        with b.loop("k", 0, count) as k:
            total = ir.Call("reduce_add", type, load(totals, k * lanes, lanes))
            b.store(out, (group * count + k) * n["shared"] + column, total)
    return ir.kernel(name, rolled(b.statements))


class Tile:
    """The tiles of one plane.

    Args:
        shape: the rows and columns of a filter, and of its steps.

    Attributes:
        lines: rows of the input that a tile sees.
    """

    def __init__(self, b, n, type, lanes, shape, source, out):
        self.b, self.n, self.type, self.lanes = b, n, type, lanes
        (self.taps, self.strides), self.source, self.out = shape, source, out
        self.lines = (ROWS - 1) * self.strides[0] + self.taps[0]
        self.weights = self.bias = self.starts = self.masks = None
        self.seen = self.kept = None

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
        """Where each column of the taps reads vectors, and which of their lanes are there.

        Also which positions see an element there.
        """
        b, n, lanes, step = self.b, self.n, self.lanes, self.strides[1]
        self.starts, self.masks, self.seen = [], [], []
        for tap in range(self.taps[1]):
            start = b.let("start", x * step + n["step_x"] * tap - n["pad_x"])
            self.starts.append(start)
            parts = [self.within(start + lanes * k, 1) for k in range(step)]
            self.masks.append(parts)
            self.seen.append(parts[0] if step == 1 else self.within(start, step))
        self.kept = b.let("kept", lane_mask(lanes, n["out_width"] - x))

    def within(self, start, step):
        """Lanes whose columns are those of the input."""
        b, lanes = self.b, self.lanes
        places = Ramp(lanes, cast(i32, start), Const(i32, step))
        places = b.let("places", places)
        width = Broadcast(lanes, cast(i32, self.n["width"]))
        zero = Const(i32.vector(lanes), 0)
        return b.let("mask", (places >= zero) & (places < width))

    def line_of(self, first, line, inside):
        """What each column of the taps sees in one row of the input, and in which lanes."""
        b, n, lanes = self.b, self.n, self.lanes
        at = b.let("line", first + line)
        base = b.let("base", moved(self.source, at * n["width"]))
        there = None
        if not inside:
            there = b.let("there", (at >= 0) & (at < n["height"]))
            there = b.let("all", Broadcast(lanes, there))

        def joined(mask):
            return mask if there is None else b.let("seen", mask & there)

        for start, masks, seen in zip(self.starts, self.masks, self.seen, strict=True):
            masks = list(map(joined, masks))
            parts = [
                b.let("value", load(base, start + lanes * k, lanes, mask=mask))
                for k, mask in enumerate(masks)
            ]
            if len(parts) == 1:
                yield parts[0], masks[0]
            else:
                every_other = Shuffle(range(0, 2 * lanes, 2), *parts)
                yield b.let("value", every_other), joined(seen)

    def write(self, x, y, first, inside):
        """A tile's results; ``inside`` says that all rows that it reads are there."""
        b, n, lanes = self.b, self.n, self.lanes
        zero = Const(self.type.vector(lanes), 0)
        sums = [b.declare("sum", zero) for _ in range(ROWS)]
        for line in range(self.lines):
            for tap, (value, _) in enumerate(self.line_of(first, line, inside)):
                for i, total in enumerate(sums):
                    row = line - i * self.strides[0]
                    if 0 <= row < self.taps[0]:
                        weight = self.weights[row][tap]
                        b.assign(total, multiply_add(weight, value, total))
        bias = b.let("added", Broadcast(lanes, self.bias + Const(self.type, 0)))
        for i, total in enumerate(sums):
            place = (y + i) * n["out_width"] + x
            if i == 0:
                b.store(self.out, place, total + bias, self.kept)
                continue
            with b.when(y + i < n["out_height"]):
                b.store(self.out, place, total + bias, self.kept)


class WeightTile(Tile):
    """The tiles of one plane, and of the output's gradient there."""

    def add_to(self, totals):
        """Adds what the plane gives for each weight, and for the bias."""
        b, n, lanes = self.b, self.n, self.lanes
        zero = Const(self.type.vector(lanes), 0)
        self.bias = b.declare("bias", zero)
        self.weights = [
            [b.declare("weight", zero) for _ in range(self.taps[1])]
            for _ in range(self.taps[0])
        ]
        with b.loop("x", 0, n["out_width"], lanes) as x:
            self.begin_columns(x)
            with b.loop("y", 0, n["out_height"], ROWS) as y:
                first = b.let("first", y * self.strides[0] - n["pad_y"])
                last = first + (self.lines - 1)
                slopes = self.slopes(x, y)
                whole = y + ROWS <= n["out_height"]
                with b.when((first >= 0) & (last < n["height"]) & whole):
                    self.multiply(first, slopes, True)
                with b.otherwise():
                    self.multiply(first, slopes, False)
        every = [weight for line in self.weights for weight in line]
        for k, total in enumerate([*every, self.bias]):
            b.store(totals, k * lanes, load(totals, k * lanes, lanes) + total)

    def slopes(self, x, y):
        """The rows of the output's gradient in a tile, and which lanes are there."""
        b, n, lanes = self.b, self.n, self.lanes
        result = []
        for i in range(ROWS):
            there = Broadcast(lanes, y + i < n["out_height"])
            kept = self.kept if i == 0 else b.let("there", self.kept & there)
            place = (y + i) * n["out_width"] + x
            slope = b.let("slope", load(self.out, place, lanes, mask=kept))
            b.assign(self.bias, self.bias + slope)
            result.append((slope, kept))
        return result

    def multiply(self, first, slopes, inside):
        """A tile's products; ``inside`` says that all its rows are there.

        What is beyond an edge is not multiplied: beside it may be an infinity.
        """
        b = self.b
        for line in range(self.lines):
            for tap, (value, seen) in enumerate(self.line_of(first, line, inside)):
                seen = b.let("both", seen & self.kept)
                for i, (slope, there) in enumerate(slopes):
                    row = line - i * self.strides[0]
                    if 0 <= row < self.taps[0]:
                        met = seen if inside else seen & there
                        total = self.weights[row][tap]
                        more = multiply_add(slope, value, total)
                        b.assign(total, ir.select(met, more, total))
