"""Convolutions of 3 x 3 taps by minimal filtering of images whose channels lie innermost.

A vector holds channels of one element of a square, where `winograd` has a square in each
lane: nothing is shuffled, and no lane is beyond an edge. Elements that the image lacks are
read from zeros. Products have squares as rows and channels as columns.

The gradient of a filter is the same product summed over squares (F(3 x 3, 2 x 2)):

    d_w = G' [ (A g A') * (B' d B) ] G

of squares of 4 x 4 inputs and 2 x 2 of the output's gradient: 16 products instead of 36.
"""

from dataclasses import replace
from functools import partial
from itertools import product

from rushlight.codegen.schedule.contraction import Tile
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, Select, i64, load
from rushlight.kernels.conv.conv_geometry import PIXEL_SQUARES, WINOGRAD_BAND
from rushlight.kernels.conv.implicit_gemm import (
    Addend,
    Walk,
    multiply_patches,
    read_ints,
)
from rushlight.kernels.conv.pixel_geometry import WINOGRAD_DEPTH as DEPTH
from rushlight.kernels.conv.winograd import (
    INTS,
    POINTS,
    SIDE,
    SKEW,
    STEP,
    TAPS,
    Block,
    Repair,
    is_spoilt,
    outputs_of,
    square_of_sums,
    transform_input,
    transformed,
    winograd_tile,
)
from rushlight.kernels.epilogue import OutputEpilogue
from rushlight.kernels.loop_helpers import (
    Operand,
    blocks_of,
    minimum,
    moved,
    multiply_add,
    quotient,
    remainder,
    rolled,
    vector_loop,
)
from rushlight.kernels.matmul.contraction import Product

GRADIENT_INTS = """
    channels rows height width out_height out_width pad_y pad_x squares_y squares_x
    images part_squares tap_row channel_row
""".split()


def convolution(name, type, tile) -> ir.Function:
    """`winograd.convolution` of channels-last operands; its data, integers and chunks.

    Filters lie as ``[point, channel, output channel]``, in the weight output channels are
    adjacent.
    """
    b = Builder()
    n = read_ints(b, INTS)
    names = "out", "filters", "input", "bias", "weight"
    data = [b.let(name, ir.argument(i, type)) for i, name in enumerate(names)]
    work = Work(b, n, type, tile)
    whole = OutputEpilogue.of(b, None, len(names))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        block = Block(b, n, data, whole, chunk, channels_last=True)
        with b.loop("c0", 0, n["channels"], DEPTH) as c0:
            depth = b.let("depth", minimum(n["channels"] - c0, DEPTH))
            work.squares.write(block.walk, block.width, block.source, c0, depth)
            work.multiply(block, c0, depth)
        work.finish(block)
        with b.when(is_spoilt(work)):
            PixelRepair(work, block).run()
    return ir.kernel(name, rolled(b.statements))


class Squares:
    """A block of transformed squares, ``[point, square, channel]``.

    Args:
        transform: of the values of a square along one axis.
        side: values that a square has along an axis.
        sizes: names of the images' height, width and channels.
        pads: names of the elements by which the first square begins outside, or None.
    """

    def __init__(self, work, transform, side, sizes, pads=None):
        self.b, self.n, self.tile = work.b, work.n, work.tile
        self.transform, self.side = transform, side
        self.height, self.width, self.channels = (self.n[key] for key in sizes)
        self.pads = [Const(i64, 0)] * 2 if pads is None else [self.n[k] for k in pads]
        self.nothing = work.nothing
        self.point = self.tile.columns * DEPTH + SKEW
        self.room = self.b.array("squares", work.type, POINTS * self.point)

    def pixels(self, source, image, y, x):
        """Where the elements of a square lie from a channel on, those outside in zeros."""
        b = self.b
        top, left = (
            b.let("edge", at * STEP - pad)
            for at, pad in zip((y, x), self.pads, strict=True)
        )
        columns = [b.let("column", left + s) for s in range(self.side)]
        across = [b.let("inside", (c >= 0) & (c < self.width)) for c in columns]
        lines = []
        for r in range(self.side):
            down = b.let("line", top + r)
            inside = b.let("inside", (down >= 0) & (down < self.height))
            line = b.let("line", (image * self.height + down) * self.width)
            lines.append(
                [
                    b.let(
                        "pixel",
                        Select(
                            inside & within,
                            moved(source, (line + c) * self.channels),
                            self.nothing,
                        ),
                    )
                    for c, within in zip(columns, across, strict=True)
                ]
            )
        return lines

    def write(self, walk, width, source, first, depth):
        """Transforms ``depth`` channels from one on of the next ``width`` squares."""
        b, lanes = self.b, self.tile.lanes
        source = b.let("here", moved(source, first))

        def body(column, image, y, x):
            lines = self.pixels(source, image, y, x)
            target = b.let("target", moved(self.room, column * DEPTH))

            def transform(c, mask, _):
                rows = [
                    [b.let("value", load(p, c, lanes, mask=mask)) for p in line]
                    for line in lines
                ]
                for y, row in enumerate(transformed(b, self.transform, rows)):
                    for x, value in enumerate(row):
                        at = (y * SIDE + x) * self.point + c
                        b.store(target, at, value, mask)

            vector_loop(b, "c", 0, depth, lanes, transform)

        each_square(b, walk, width, body)


def each_square(b, walk, width, body):
    """Calls ``body(column, image, y, x)`` to write what is done for each square."""

    def run(column, count, image, z, y, x):
        with b.loop("v", 0, count) as v:
            body(b.let("at", column + v), image, y, b.let("here", x + v))

    walk.runs(width, run)


class Work:
    """What a thread works in, and the steps of a chunk."""

    def __init__(self, b, n, type, tile):
        self.b, self.n, self.type, self.tile = b, n, type, tile
        size = max(DEPTH, WINOGRAD_BAND)
        self.nothing = zeros(b, type, size, tile.lanes)
        self.unseen = b.array("unseen", type, size)
        sizes = "height", "width", "channels"
        self.squares = Squares(self, transform_input, SIDE, sizes, ("pad_y", "pad_x"))
        self.pitch = WINOGRAD_BAND
        self.point = tile.columns * self.pitch + SKEW
        self.sums = b.array("sums_of", type, POINTS * self.point)
        self.write = Product(b, tile, type)
        self.addend = Addend(self.write)
        self.spoilt = b.declare("spoilt", Const(type.vector(tile.lanes), 0))

    def multiply(self, block, first, depth):
        """Adds the products of some channels to the sums of each place."""
        b, n = self.b, self.n
        with b.loop("place", 0, POINTS) as place:
            right = (place * n["channels"] + first) * n["rows"]
            right = b.let("right", moved(block.filters, right))
            left = b.let("left", moved(self.squares.room, place * self.squares.point))
            sums = b.let("sums", moved(self.sums, place * self.point))
            multiply_patches(
                *(self.write, block.width, block.height, depth),
                Operand(left, Const(i64, DEPTH), Const(i64, 1)),
                *(Operand(right, n["rows"]), Operand(sums, Const(i64, self.pitch))),
                *(self.addend, b.let("first", first == 0)),
            )

    def finish(self, block):
        """Outputs of all sums, and whether one of them is not finite."""
        b, lanes = self.b, self.tile.lanes
        zero = Const(self.type.vector(lanes), 0)
        b.assign(self.spoilt, zero)
        bias = b.let("bias", Select(self.n["biased"] != 0, block.bias, self.nothing))

        def body(column, image, y, x):
            targets = self.targets(block, image, y, x)
            source = b.let("source", moved(self.sums, column * self.pitch))

            def outputs(o, mask, _):
                added = b.let("added", load(bias, o, lanes, mask=mask))
                values = self.outputs(source, o, mask)
                for line, row in zip(values, targets, strict=True):
                    for value, target in zip(line, row, strict=True):
                        b.assign(self.spoilt, multiply_add(value, zero, self.spoilt))
                        b.store(target, o, value + added, mask)

            vector_loop(b, "o", 0, block.height, lanes, outputs)

        each_square(b, block.walk, block.width, body)

    def targets(self, block, image, y, x):
        """Where two by two outputs of a square go; nowhere if the output has none there."""
        b, n = self.b, self.n
        lines = []
        for i in range(STEP):
            down = b.let("line", y * STEP + i)
            line = b.let("line", (image * n["out_height"] + down) * n["out_width"])
            lines.append([])
            for j in range(STEP):
                across = b.let("column", x * STEP + j)
                inside = (down < n["out_height"]) & (across < n["out_width"])
                target = moved(block.out, (line + across) * n["rows"])
                lines[-1].append(b.let("to", Select(inside, target, self.unseen)))
        return lines

    def outputs(self, source, o, mask):
        """Two by two vectors of outputs from the sums of a square."""
        return outputs_of(self, source, self.point, o, mask)


def zeros(b, type, size, lanes):
    """An array of zeros."""
    room = b.array("zeros", type, size)
    for v in range(0, size, lanes):
        b.store(room, v, Const(type.vector(lanes), 0))
    return room


class PixelRepair(Repair):
    """Sums again, tap by tap, what is not finite where an operand is infinite or huge."""

    def run(self):
        """All outputs of the chunk."""
        b, work, block = self.b, self.work, self.block
        filters = self.has_huge_filters()
        lanes = work.tile.lanes
        bias = Select(self.n["biased"] != 0, block.bias, work.nothing)
        bias = b.let("bias", bias)

        def body(column, image, y, x):
            with b.when(filters | self.has_huge(image, y, x)):
                targets = work.targets(block, image, y, x)
                source = b.let("source", moved(work.sums, column * work.pitch))

                def outputs(o, mask, _):
                    added = b.let("added", load(bias, o, lanes, mask=mask))
                    values = work.outputs(source, o, mask)
                    sums = self.sums(image, y, x, o, mask)
                    values = self.finite_or_sums(values, sums)
                    for line, row in zip(values, targets, strict=True):
                        for value, target in zip(line, row, strict=True):
                            b.store(target, o, value + added, mask)

                vector_loop(b, "o", 0, block.height, lanes, outputs)

        each_square(b, block.walk, block.width, body)

    def filters_size(self):
        """Elements of the filters of a place: those of other chunks lie between."""
        n = self.n
        return (n["channels"] - 1) * n["rows"] + self.block.height

    def each_depth(self, image, y, x, body):
        """Calls ``body(pixels, first channel, number)`` for blocks of channels."""
        b, n = self.b, self.n
        with b.loop("c0", 0, n["channels"], DEPTH) as c0:
            depth = b.let("depth", minimum(n["channels"] - c0, DEPTH))
            source = moved(self.block.source, c0)
            body(self.work.squares.pixels(source, image, y, x), c0, depth)

    def has_huge(self, image, y, x):
        """Whether an input of a square is infinite or huge."""
        b, lanes = self.b, self.work.tile.lanes
        most = b.declare("most", self.zero)

        def channels(pixels, first, depth):
            def look(c, mask, _):
                for pixel in (p for line in pixels for p in line):
                    value = b.let("value", load(pixel, c, lanes, mask=mask))
                    self.larger(most, value)

            vector_loop(b, "c", 0, depth, lanes, look)

        self.each_depth(image, y, x, channels)
        return self.is_huge(most)

    def sums(self, image, y, x, o, mask):
        """Two by two vectors of outputs of some channels, tap by tap."""
        b, n, lanes = self.b, self.n, self.work.tile.lanes
        totals = [[b.declare("total", self.zero) for _ in "xx"] for _ in "yy"]

        def channels(pixels, first, depth):
            with b.loop("c", 0, depth) as c:
                start = b.let("start", (first + c) * n["weight_channel"] + o)
                for i, j in product(range(TAPS), range(TAPS)):
                    at = start + n["weight_y"] * i + n["weight_x"] * j
                    tap = load(self.block.weight, at, lanes, mask=mask)
                    tap = b.let("tap", tap)
                    for k, m in product(range(STEP), range(STEP)):
                        value = Broadcast(lanes, load(pixels[k + i][m + j], c))
                        total = totals[k][m]
                        b.assign(total, multiply_add(tap, value, total))

        self.each_depth(image, y, x, channels)
        return totals


def transform_gradient(rows):
    """``A g`` of two values along one axis."""
    a, b = rows
    return a, a + b, a - b, -b


def transform_back(b, rows):
    """``G' m`` of four values along one axis."""
    first, low, high, last = rows
    half = Const(first.type, 0.5)
    total = b.let("total", (low + high) * half)
    return first + total, (low - high) * half, total + last


def weight_gradient(name, type, tile) -> ir.Function:
    """Parts of the weight's gradient, ``out[part, k, output channel]``.

    Rows ``k`` are taps and channels, in the order that their steps say.
    The parallel axis counts blocks of output channels, then of channels, then parts of the
    squares. Data: out, grad, input.
    """
    b = Builder()
    n = read_ints(b, GRADIENT_INTS)
    out, grad, source = (
        b.let(key, ir.argument(i, type))
        for i, key in enumerate(("out", "grad", "input"))
    )
    work = WeightWork(b, n, type, tile)
    across, down = (
        b.let("blocks", blocks_of(n[key], Const(i64, DEPTH)))
        for key in ("rows", "channels")
    )
    squares = b.let("squares", n["squares_y"] * n["squares_x"])
    total = b.let("total", n["images"] * squares)
    sizes = [Const(i64, 1), n["squares_y"], n["squares_x"]]
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        rest = b.let("rest", quotient(chunk, across))
        o0 = b.let("o0", remainder(chunk, across) * DEPTH)
        c0 = b.let("c0", remainder(rest, down) * DEPTH)
        part = b.let("part", quotient(rest, down))
        height = b.let("height", minimum(n["channels"] - c0, DEPTH))
        width = b.let("width", minimum(n["rows"] - o0, DEPTH))
        begin = b.let("begin", part * n["part_squares"])
        end = b.let("end", minimum(begin + n["part_squares"], total))
        with b.loop("p0", begin, end, tile.columns) as p0:
            count = b.let("count", minimum(end - p0, tile.columns))
            walk = Walk(b, sizes, p0)
            work.squares.write(walk, count, source, c0, height)
            work.grads.write(walk, count, grad, o0, width)
            work.multiply(height, width, count, b.let("first", p0 == begin))
        row = part * n["channels"] * (TAPS * TAPS) + c0 * n["channel_row"]
        result = b.let("result", moved(out, row * n["rows"] + o0))
        work.finish(result, height, width)
    return ir.kernel(name, rolled(b.statements))


class WeightWork:
    """What a thread works in for some channels of a weight's gradient."""

    def __init__(self, b, n, type, tile):
        self.b, self.n, self.type, self.tile = b, n, type, tile
        self.nothing = zeros(b, type, DEPTH, tile.lanes)
        sizes = "height", "width", "channels"
        self.squares = Squares(self, transform_input, SIDE, sizes, ("pad_y", "pad_x"))
        sizes = "out_height", "out_width", "rows"
        self.grads = Squares(self, transform_gradient, STEP, sizes)
        self.point = DEPTH * DEPTH + SKEW
        self.sums = b.array("sums_of", type, POINTS * self.point)
        self.write = Product(b, tile, type)
        self.addend = Addend(self.write)

    def multiply(self, height, width, count, first):
        """Adds the products of some squares to the sums of each place."""
        b = self.b
        pitch, one = Const(i64, DEPTH), Const(i64, 1)
        with b.loop("place", 0, POINTS) as place:
            left, right, sums = (
                b.let(key, moved(room, place * point))
                for key, room, point in (
                    ("left", self.squares.room, self.squares.point),
                    ("right", self.grads.room, self.grads.point),
                    ("sums", self.sums, self.point),
                )
            )
            operands = (
                Operand(left, one, pitch),
                Operand(right, pitch),
                Operand(sums, pitch),
            )
            multiply_patches(
                self.write, height, width, count, *operands, self.addend, first
            )

    def finish(self, out, height, width):
        """Writes gradients of nine taps from the sums of sixteen places."""
        b, n, lanes = self.b, self.n, self.tile.lanes
        with b.loop("c", 0, height) as c:
            source = b.let("source", moved(self.sums, c * DEPTH))
            target = b.let("target", moved(out, c * n["channel_row"] * n["rows"]))

            def taps(o, mask, _, source=source, target=target):
                rows = square_of_sums(self, source, self.point, o, mask)
                back = partial(transform_back, b)
                for y, row in enumerate(transformed(b, back, rows)):
                    for x, value in enumerate(row):
                        tap = n["tap_row"] * (y * TAPS + x)
                        b.store(target, o + tap * n["rows"], value, mask)

            vector_loop(b, "o", 0, width, lanes, taps)


def pixel_tile(compute, target) -> Tile:
    """A product's tile, for so many squares at a time."""
    return replace(winograd_tile(compute, target), columns=PIXEL_SQUARES)
