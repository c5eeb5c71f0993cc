"""Convolutions of 3 x 3 taps by Winograd's minimal filtering, F(2 x 2, 3 x 3).

    out = A' [ (G w G') * (B' d B) ] A

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016): of a square of
4 x 4 inputs, 2 x 2 outputs are 16 products instead of 36. Summed over channels, the products
are 16 matrix products, one for each place in the square:

    for each chunk of the output                    (threads)
        for each block of channels                  squares of the input transformed, in cache
            for each of 16 places                   sums[o, p] += weight[o, c] square[c, p]
        sums transformed back, stored               2 x 2 outputs of each square

A square is a lane of a vector: rows are added up as they lie, then taken apart into even and
odd columns. Nothing is padded: lanes beyond an edge are masked, rows beyond it are zeros.

The coefficients of the input and of the sums are 0, 1 and -1, so that errors are those of
sums over channels, of which there are a ninth of the taps': they are half as large as those
of the sum over channels and taps. An element without a value spoils exactly the outputs that
see it. Infinities would be subtracted from one another, and products of huge values may
overflow on the way: outputs that are not finite are summed again tap by tap where an operand
is infinite or huge.
"""

from functools import partial
from itertools import product

from rushlight.codegen.schedule.contraction import Tile, matrix_tile
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import (
    AnyLane,
    Broadcast,
    Const,
    Ramp,
    Select,
    Shuffle,
    Type,
    Unary,
    cast,
    i64,
    load,
    u32,
)
from rushlight.kernels.conv.conv_geometry import WINOGRAD_BAND, WINOGRAD_SQUARES
from rushlight.kernels.conv.implicit_gemm import (
    Addend,
    Walk,
    multiply_patches,
    read_ints,
)
from rushlight.kernels.conv.pixel_geometry import WINOGRAD_DEPTH as DEPTH
from rushlight.kernels.epilogue import OutputEpilogue
from rushlight.kernels.loop_helpers import (
    Operand,
    blocks_of,
    lane_mask,
    minimum,
    moved,
    multiply_add,
    quotient,
    remainder,
    rolled,
    vector_loop,
)
from rushlight.kernels.matmul.contraction import Product

SIDE, TAPS, STEP = 4, 3, 2  # of a square, a filter, and from one square to the next
POINTS = SIDE * SIDE
SKEW = 16  # elements between places, so that they do not share a set of the cache
HUGE = {4: 1e16, 8: 1e150}  # products of such may overflow on the way

INTS = """
    channels rows height width out_height out_width pad_y pad_x squares_y squares_x
    images column_block row_block biased filter_row filter_channel
    weight_row weight_channel weight_y weight_x weight_start
""".split()
WEIGHT_INTS = """
    channels rows weight_row weight_channel weight_y weight_x weight_start
""".split()


def transform_input(rows):
    """``B' d`` of four values along one axis."""
    a, b, c, d = rows
    return a - c, b + c, c - b, b - d


def transform_filter(b, rows):
    """``G w`` of three values along one axis."""
    first, middle, last = rows
    half = Const(first.type, 0.5)
    ends = b.let("ends", first + last)
    return (first, (ends + middle) * half, (ends - middle) * half, last)


def transform_sums(rows):
    """``A' m`` of four values along one axis."""
    a, b, c, d = rows
    return a + b + c, b - c - d


def named_all(b, name, values):
    """Each value computed once."""
    return [b.let(name, value) for value in values]


def transformed(b, transform, rows, name=None):
    """A transform of a square's columns, then of what is left of its rows: row by row.

    Args:
        transform: of the values along one axis.
        rows: the square's values.
        name: of results, where each is to have one.
    """
    columns = [
        named_all(b, "part", transform(column)) for column in zip(*rows, strict=True)
    ]
    for row in zip(*columns, strict=True):
        found = transform(row)
        yield found if name is None else named_all(b, name, found)


def filters(name, type, lanes, channels_last=False) -> ir.Function:
    """Transformed filters, ``[point, output channel, channel]``; chunks are output channels.

    Data: out, weight. Steps of the weight may be negative: filters are flipped so.

    Args:
        channels_last: whether channels are adjacent in the weight, its step being 1.
    """
    b = Builder()
    n = read_ints(b, WEIGHT_INTS)
    out, weight = (
        b.let(key, ir.argument(i, type)) for i, key in enumerate(("out", "weight"))
    )
    with b.loop("row", ir.BEGIN, ir.END) as row:
        start = b.let("start", n["weight_start"] + row * n["weight_row"])

        def transform(c, mask, _):
            step = Const(i64, 1) if channels_last else n["weight_channel"]
            first = b.let("first", start + c * step)
            square = filter_squares(b, n, weight, first, step, lanes, mask)
            for point, value in enumerate(square):
                at = (n["rows"] * point + row) * n["channels"] + c
                b.store(out, at, value, mask)

        vector_loop(b, "c", 0, n["channels"], lanes, transform)
    return ir.kernel(name, rolled(b.statements))


def filter_squares(b, n, weight, first, step, lanes, mask):
    """The transformed filters of a vector of channels, point by point."""

    def tap(y, x):
        start = first + n["weight_y"] * y + n["weight_x"] * x
        channels = Ramp(lanes, start, step)
        return b.let("tap", load(weight, channels, lanes, mask=mask))

    taps = [[tap(y, x) for x in range(TAPS)] for y in range(TAPS)]
    for line in transformed(b, partial(transform_filter, b), taps):
        yield from line


def convolution(name, type, tile, epilogue=None) -> ir.Function:
    """Convolution by transformed filters; data: out, those, input, bias, weight.

    The parallel axis counts blocks of squares, of all images, then bands of output channels.

    Args:
        epilogue: of the sums, as `Epilogue`, of results of their type, or None.
    """
    b = Builder()
    n = read_ints(b, INTS)
    names = "out", "filters", "input", "bias", "weight"
    data = [b.let(name, ir.argument(i, type)) for i, name in enumerate(names)]
    whole = OutputEpilogue.of(b, epilogue, len(names))
    work = Work(b, n, type, tile)
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        block = Block(b, n, data, whole, chunk)
        with b.loop("c0", 0, n["channels"], DEPTH) as c0:
            depth = b.let("depth", minimum(n["channels"] - c0, DEPTH))
            work.squares_of(block, c0, depth)
            work.multiply(block, c0, depth)
        work.finish(block)
        with b.when(is_spoilt(work)):
            Repair(work, block).run()
        if epilogue is not None:
            go_over(b, n, block)
    return ir.kernel(name, rolled(b.statements))


class Block:
    """One chunk: some output channels at some squares.

    Attributes:
        source: the input from the first image on; ``walk``: over its squares.
        filters, weight, bias, out, epilogue: operands from the first output channel on.

    Args:
        channels_last: whether output channels are adjacent in results and filters.
    """

    def __init__(self, b, n, data, epilogue, chunk, channels_last=False):
        out, filters, source, bias, weight = data
        squares = b.let("squares", n["squares_y"] * n["squares_x"])
        total = b.let("total", n["images"] * squares)
        across = b.let("across", blocks_of(total, n["column_block"]))
        row = b.let("row0", quotient(chunk, across) * n["row_block"])
        start = b.let("j0", remainder(chunk, across) * n["column_block"])
        width = minimum(total - start, n["column_block"])
        self.width = b.let("width", width)
        self.height = b.let("height", minimum(n["rows"] - row, n["row_block"]))
        self.plane = b.let("plane", n["height"] * n["width"])
        self.area = b.let("area", n["out_height"] * n["out_width"])
        self.image = b.let("image", n["channels"] * self.plane)
        self.source = source
        place = row if channels_last else row * self.area
        self.out = b.let("result", moved(out, place))
        self.bias = b.let("addend", moved(bias, row))
        left = row if channels_last else row * n["filter_row"]
        self.filters = b.let("left", moved(filters, left))
        first = n["weight_start"] + row * n["weight_row"]
        self.weight = b.let("taps", moved(weight, first))
        self.epilogue = epilogue.at(b, place, row)
        sizes = [Const(i64, 1), n["squares_y"], n["squares_x"]]
        self.walk = Walk(b, sizes, start)


class Window:
    """Where a vector of squares lies in the input: four rows, and which lanes are there.

    Attributes:
        whole: whether all lanes of all its vectors lie within a row.
    """

    def __init__(self, work, block, image, y, x):
        b, n, lanes = work.b, work.n, work.tile.lanes
        self.b, self.lanes = b, lanes
        left = b.let("left_edge", x * STEP - n["pad_x"])
        top = b.let("top_edge", y * STEP - n["pad_y"])
        start = image * block.image
        self.lines, self.steps = [], []
        for r in range(SIDE):
            at = b.let("line", top + r)
            inside = b.let("inside", (at >= 0) & (at < n["height"]))
            line = moved(block.source, start + at * n["width"] + left)
            self.lines.append(b.let("line", Select(inside, line, work.nothing)))
            step = Select(inside, block.plane, Const(i64, 0))
            self.steps.append(b.let("line_step", step))
        self.whole = (left >= 0) & (left + (STEP * lanes + STEP) <= n["width"])
        self.left, self.width = left, n["width"]

    def masks(self):
        """The lanes that lie within a row, of each vector of `lines_of`."""
        limit = Broadcast(self.lanes, cast(u32, self.width))
        return [
            self.b.let("mask", Ramp(self.lanes, cast(u32, self.left + at), one) < limit)
            for one in [Const(u32, 1)]
            for at in self.starts
        ]

    @property
    def starts(self):
        """Where the vectors of a row begin: two adjacent ones, and those two further on."""
        return 0, self.lanes, STEP, STEP + self.lanes

    def lines_of(self, channel, masks):
        """Four adjacent vectors of each of the four rows of a channel."""
        return [
            [
                self.b.let("value", load(line, step * channel + at, self.lanes, mask=m))
                for at, m in zip(self.starts, masks, strict=True)
            ]
            for line, step in zip(self.lines, self.steps, strict=True)
        ]

    def columns(self, vectors):
        """Four columns of the squares, of the four vectors of one row."""
        low, high, next_low, next_high = vectors
        return [
            self.b.let("column", Shuffle(range(odd, 2 * self.lanes, 2), *pair))
            for pair in ((low, high), (next_low, next_high))
            for odd in (0, 1)
        ]


class Work:
    """What a thread works in, and the steps of a chunk."""

    def __init__(self, b, n, type, tile):
        self.b, self.n, self.type, self.tile = b, n, type, tile
        self.pitch = tile.columns + tile.lanes
        self.squares_point = DEPTH * self.pitch + SKEW
        self.sums_point = WINOGRAD_BAND * self.pitch + SKEW
        self.squares = b.array("squares", type, POINTS * self.squares_point)
        self.sums = b.array("sums_of", type, POINTS * self.sums_point)
        self.nothing = b.array("no_line", type, 4 * tile.lanes + STEP)
        zero = Const(type.vector(tile.lanes), 0)
        for v in range(0, 4 * tile.lanes, tile.lanes):
            b.store(self.nothing, v, zero)
        b.store(self.nothing, 3 * tile.lanes + STEP, zero)
        self.write = Product(b, tile, type)
        self.addend = Addend(self.write)
        self.spoilt = b.declare("spoilt", zero)

    def windows(self, block, body):
        """Calls ``body(window, column, count, image, y, x)`` for each vector of squares."""
        b, lanes = self.b, self.tile.lanes

        def run(column, count, image, z, y, x):
            with b.loop("v", 0, count, lanes) as v:
                here = b.let("here", x + v)
                window = Window(self, block, image, y, here)
                body(window, b.let("at", column + v), count - v, image, y, here)

        block.walk.runs(block.width, run)

    def squares_of(self, block, first, depth):
        """The transformed squares of some channels."""
        b = self.b

        def body(window, column, *_):
            target = b.let("target", moved(self.squares, column))

            def channels(masks):
                with b.loop("c", 0, depth) as c:
                    channel = b.let("channel", c + first)
                    to = b.let("to", moved(target, c * self.pitch))
                    self.square(window, window.lines_of(channel, masks), to)

            with b.when(window.whole):
                channels([None] * SIDE)
            with b.otherwise():
                channels(window.masks())

        self.windows(block, body)

    def square(self, window, lines, target):
        """The transformed squares of one channel."""
        lines = [
            named_all(self.b, "part", transform_input(line))
            for line in zip(*lines, strict=True)
        ]
        for y, row in enumerate(zip(*lines, strict=True)):
            for x, value in enumerate(transform_input(window.columns(row))):
                self.b.store(target, (y * SIDE + x) * self.squares_point, value)

    def multiply(self, block, first, depth):
        """Adds the products of some channels to the sums of each place."""
        b, n = self.b, self.n
        with b.loop("place", 0, POINTS) as place:
            start = place * n["rows"] * n["channels"] + first * n["filter_channel"]
            left = b.let("left", moved(block.filters, start))
            left = Operand(left, n["filter_row"], n["filter_channel"])
            right = b.let("right", moved(self.squares, place * self.squares_point))
            sums = b.let("sums", moved(self.sums, place * self.sums_point))
            pitch = Const(i64, self.pitch)
            multiply_patches(
                *(self.write, block.height, block.width, depth, left),
                *(Operand(right, pitch), Operand(sums, pitch), self.addend),
                b.let("first", first == 0),
            )

    def finish(self, block):
        """Outputs of all sums, and whether one of them is not finite."""
        b, lanes = self.b, self.tile.lanes
        zero = Const(self.type.vector(lanes), 0)
        b.assign(self.spoilt, zero)

        def body(_, column, count, image, y, x):
            target, source = self.place_of(block, column, image, y, x)
            left, both = self.kept(count, y, x)

            def rows(masks, kept):
                with b.loop("r", 0, block.height) as r:
                    values = self.outputs(source, r, kept)
                    for value in (v for line in values for v in line):
                        b.assign(self.spoilt, multiply_add(value, zero, self.spoilt))
                    bias = self.bias_of(block, r)
                    line = b.let("line", moved(target, r * block.area))
                    self.store(line, values, bias, both, masks)

            with b.when(left >= STEP * lanes):
                rows([None, None], None)
            with b.otherwise():
                rows(self.ends(left), b.let("mask", lane_mask(lanes, count)))

        self.windows(block, body)

    def place_of(self, block, column, image, y, x):
        """Where a vector of squares' first output goes, and where their sums lie."""
        b, n = self.b, self.n
        place = (image * n["rows"] * n["out_height"] + y * STEP) * n["out_width"]
        target = b.let("target", moved(block.out, place + x * STEP))
        return target, b.let("source", moved(self.sums, column))

    def kept(self, count, y, x):
        """How many outputs a row has from there on, and whether there are two rows."""
        b, n = self.b, self.n
        left = minimum(count * STEP, n["out_width"] - x * STEP)
        both = b.let("both", y * STEP + 1 < n["out_height"])
        return b.let("left_count", left), both

    def ends(self, left):
        """The lanes of two adjacent vectors that are outputs."""
        b, lanes = self.b, self.tile.lanes
        return [b.let("mask", lane_mask(lanes, left - at)) for at in (0, lanes)]

    def outputs(self, source, row, mask):
        """Two by two vectors of outputs from the sums of one channel."""
        at = self.b.let("at", row * self.pitch)
        return outputs_of(self, source, self.sums_point, at, mask)

    def bias_of(self, block, row):
        """What is added to a channel's outputs, in all lanes."""
        b = self.b
        bias = b.declare("bias", Const(self.type, 0))
        with b.when(self.n["biased"] != 0):
            b.assign(bias, load(block.bias, row))
        return b.let("bias", Broadcast(self.tile.lanes, bias + Const(self.type, 0)))

    def store(self, line, values, bias, both, masks):
        """Two rows of outputs, the second where there is one; columns side by side."""
        upper, lower = [self.joined(pair, bias) for pair in values]
        self.store_row(line, upper, masks)
        with self.b.when(both):
            below = self.b.let("below", moved(line, self.n["out_width"]))
            self.store_row(below, lower, masks)

    def joined(self, pair, bias):
        """Even and odd columns as two adjacent vectors."""
        lanes = self.tile.lanes
        pair = [self.b.let("value", value + bias) for value in pair]
        order = [i for pair in zip(range(lanes), range(lanes, 2 * lanes)) for i in pair]
        return [Shuffle(part, *pair) for part in (order[:lanes], order[lanes:])]

    def store_row(self, line, vectors, masks):
        """One row of outputs."""
        for k, (value, mask) in enumerate(zip(vectors, masks, strict=True)):
            self.b.store(line, k * self.tile.lanes, value, mask)


def square_of_sums(work, source, point, at, mask):
    """A vector of the sums of each of sixteen places, ``point`` elements apart."""
    b, lanes = work.b, work.tile.lanes
    return [
        [
            b.let("sum", load(source, at + place * point, lanes, mask=mask))
            for place in range(first, first + SIDE)
        ]
        for first in range(0, POINTS, SIDE)
    ]


def outputs_of(work, source, point, at, mask):
    """Two by two vectors of outputs from the sums of all places."""
    sums = square_of_sums(work, source, point, at, mask)
    return list(transformed(work.b, transform_sums, sums, "value"))


def is_spoilt(work):
    """Whether an output was not finite."""
    return AnyLane(work.b.let("unequal", ir.binary("ne", work.spoilt, work.spoilt)))


class Repair:
    """Sums again, tap by tap, what is not finite where an operand is infinite or huge."""

    def __init__(self, work, block):
        self.work, self.block, self.b, self.n = work, block, work.b, work.n
        self.zero = Const(work.type.vector(work.tile.lanes), 0)

    def run(self):
        """All outputs of the chunk."""
        b, work, block = self.b, self.work, self.block
        filters = self.has_huge_filters()

        def body(window, column, count, image, y, x):
            masks = window.masks()
            with b.when(filters | self.has_huge(window, masks)):
                target, source = work.place_of(block, column, image, y, x)
                left, both = work.kept(count, y, x)
                ends = work.ends(left)
                mask = b.let("mask", lane_mask(work.tile.lanes, count))
                with b.loop("r", 0, block.height) as r:
                    values = work.outputs(source, r, mask)
                    values = self.finite_or_sums(values, self.sums(window, masks, r))
                    line = b.let("line", moved(target, r * block.area))
                    work.store(line, values, work.bias_of(block, r), both, ends)

        work.windows(block, body)

    def finite_or_sums(self, values, sums):
        """Two by two vectors of outputs, or of the sums where those are not finite."""
        return [
            [
                self.b.let("value", self.finite_or(value, total))
                for value, total in zip(*pairs, strict=True)
            ]
            for pairs in zip(values, sums, strict=True)
        ]

    def finite_or(self, value, other):
        """The value where it is finite, and the other one elsewhere."""
        nothing = self.b.let("nothing", value - value)
        return ir.select(ir.binary("eq", nothing, nothing), value, other)

    def larger(self, most, value):
        """Keeps magnitudes that are larger than those so far; what has none is none."""
        size = self.b.let("size", Unary("abs", value))
        self.b.assign(most, ir.select(ir.binary("gt", size, most), size, most))

    def is_huge(self, most):
        """Whether a lane's magnitude is infinite, or products with it may be."""
        limit = Const(self.zero.type, HUGE[self.work.type.itemsize])
        return AnyLane(self.b.let("huge", ir.binary("gt", most, limit)))

    def has_huge_filters(self):
        """Whether a filter of the chunk is infinite or huge."""
        b, n, lanes = self.b, self.n, self.work.tile.lanes
        most = b.declare("most", self.zero)
        size = b.let("size_of", self.filters_size())
        with b.loop("place", 0, POINTS) as place:
            start = place * n["rows"] * n["channels"]
            line = b.let("line", moved(self.block.filters, start))
            with b.loop("c", 0, size, lanes) as c:
                mask = lane_mask(lanes, size - c)
                self.larger(most, b.let("value", load(line, c, lanes, mask=mask)))
        return b.let("huge_filters", self.is_huge(most))

    def filters_size(self):
        """Elements of the filters of a place that the chunk's lie among."""
        b, n = self.b, self.n
        last = (self.block.height - 1) * n["filter_row"]
        return b.let("size", last + (n["channels"] - 1) * n["filter_channel"] + 1)

    def has_huge(self, window, masks):
        """Whether an input of a vector of squares is infinite or huge."""
        b = self.b
        most = b.declare("most", self.zero)
        with b.loop("c", 0, self.n["channels"]) as c:
            for line in window.lines_of(c, masks):
                for value in line:
                    self.larger(most, value)
        return self.is_huge(most)

    def sums(self, window, masks, row):
        """Two by two vectors of outputs of one channel, tap by tap."""
        b, n, lanes = self.b, self.n, self.work.tile.lanes
        totals = [[b.declare("total", self.zero) for _ in "xx"] for _ in "yy"]
        filter_of = b.let("filter", moved(self.block.weight, row * n["weight_row"]))
        with b.loop("c", 0, n["channels"]) as c:
            taps = b.let("taps", moved(filter_of, c * n["weight_channel"]))
            square = [window.columns(line) for line in window.lines_of(c, masks)]
            for y, x in product(range(TAPS), range(TAPS)):
                tap = load(taps, n["weight_y"] * y + n["weight_x"] * x)
                tap = b.let("tap", Broadcast(lanes, tap))
                for i, j in product(range(STEP), range(STEP)):
                    total = totals[i][j]
                    b.assign(total, multiply_add(tap, square[y + i][x + j], total))
        return totals


def go_over(b, n, block):
    """Puts a chunk's outputs through their epilogue."""

    def run(column, count, image, z, y, x):
        wide = minimum(count * STEP, n["out_width"] - x * STEP)
        wide = b.let("wide", wide)
        with b.loop("r", 0, block.height) as r:
            for below in range(STEP):
                with b.when(y * STEP + below < n["out_height"]):
                    start = (image * n["rows"] + r) * n["out_height"] + y * STEP + below
                    at = b.let("at", start * n["out_width"] + x * STEP)
                    line = b.let("line", moved(block.out, at))
                    block.epilogue.write_row(b, line, line, wide, at, r)

    block.walk.runs(block.width, run)


def winograd_tile(compute, target) -> Tile:
    """A product's tile, for so many squares at a time."""
    tile = matrix_tile(compute, target)
    return Tile(tile.lanes, tile.rows, tile.vectors, DEPTH, WINOGRAD_SQUARES)
