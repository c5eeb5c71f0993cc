"""Convolution of images whose channels lie innermost, as a product of their pixels.

    out[p, o] = sum_k patch[p, k] * weight[k, o]

for ``p = (image, y, x)`` and ``k = (tap, channel)``: the product of `implicit_gemm` the
other way round. A line of taps sees adjacent pixels, whose channels are adjacent too, so that
a row of a patch is copied in a few pieces, and not at all where there is one tap without
steps. The gradient of the input is the same loop over that of the output, once for each phase
of the steps; that of the weight reads patches as its left operand, turned.

Follows Zhang et al., "High Performance Zero-Memory Overhead Direct Convolutions" (2018):
channels innermost keep vectors and panels whole whatever planes' sizes are.
"""

from dataclasses import replace

from rushlight.codegen.schedule.contraction import Tile
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, Ramp, Select, cast, i64, load, u32
from rushlight.kernels.conv.implicit_gemm import (
    Addend,
    Walk,
    convolution_tile,
    multiply_patches,
    read_ints,
)
from rushlight.kernels.conv.pixel_geometry import PIXEL_BAND, PIXEL_BLOCK, PIXEL_DEPTH
from rushlight.kernels.loop_helpers import (
    Operand,
    blocks_of,
    choose,
    maximum,
    minimum,
    moved,
    quotient,
    remainder,
    rolled,
    vector_loop,
)
from rushlight.kernels.matmul.contraction import Product

# The grid of positions and the pixels that they see; lines of taps, and the pixels of one.
PATCH_INTS = """
    images height width pixel channels grid_y grid_x first_y first_x step_y step_x
    lines lines_x tap_y tap_x run packed lines_block
""".split()
FORWARD_INTS = (
    *PATCH_INTS,
    *"""
    rows row_block groups out_pixel biased buffered out_image out_y out_x out_start
    """.split(),
)
WEIGHT_INTS = (*PATCH_INTS, *"rows row_block groups grad_pixel part_positions".split())


class Patches:
    """A block of rows of patches, of some lines of taps or a part of one.

    Attributes:
        line: elements that a line of taps sees of the channels of a group.
    """

    def __init__(self, b, n, tile, type):
        self.b, self.n, self.lanes, self.type = b, n, tile.lanes, type
        self.pitch = PIXEL_DEPTH + tile.lanes
        self.room = b.array("patches", type, PIXEL_BLOCK * self.pitch + tile.lanes)
        self.line = b.let("line", n["run"] * n["channels"])
        self.positions = b.let("positions", n["images"] * n["grid_y"] * n["grid_x"])

    def walk(self, start):
        """Over the positions from one on."""
        n = self.n
        return Walk(self.b, [Const(i64, 1), n["grid_y"], n["grid_x"]], start)

    def blocks(self, body):
        """Calls ``body(first line, lines, first element, elements)`` for all blocks of depth."""
        b, n = self.b, self.n
        with b.loop("l0", 0, n["lines"], n["lines_block"]) as l0:
            lines = b.let("count", minimum(n["lines"] - l0, n["lines_block"]))
            with b.loop("e0", 0, self.line, PIXEL_DEPTH) as e0:
                size = b.let("size", minimum(self.line - e0, PIXEL_DEPTH))
                body(l0, lines, e0, size)

    def at(self, source, start, count, *block):
        """The block of patches of ``count`` positions from ``start`` on, where it lies."""
        b, n = self.b, self.n
        with b.when(n["packed"] != 0):
            self.write(source, self.walk(start), count, *block)
        _, _, e0, _ = block
        first = moved(source, start * n["pixel"] + e0)
        packed = Operand(self.room, Const(i64, self.pitch), Const(i64, 1))
        in_place = Operand(first, n["pixel"], Const(i64, 1))
        return choose(b, n["packed"] != 0, packed, in_place, "patch")

    def write(self, source, walk, width, l0, lines, e0, size):
        """Copies lines of taps, one after another in each row.

        A copy may write beyond its end, where the next line then does.
        """
        b, n = self.b, self.n

        def run(column, count, image, z, y, x):
            across = b.let("across", x * n["step_x"] + n["first_x"])
            down = b.let("down", y * n["step_y"] + n["first_y"])
            rows = b.let("rows", moved(self.room, column * self.pitch))
            with b.loop("l", 0, lines) as k:
                number = b.let("number", l0 + k)
                at_y = quotient(number, n["lines_x"]) * n["tap_y"] + down
                at_y = b.let("at_y", at_y)
                at_x = remainder(number, n["lines_x"]) * n["tap_x"] + across
                at_x = b.let("at_x", at_x)
                inside = (at_y >= 0) & (at_y < n["height"])
                width = Select(inside, n["width"], Const(i64, 0))
                width = b.let("seen_width", width)
                line = (image * n["height"] + at_y) * n["width"]
                line = b.let("line", moved(source, line * n["pixel"] + e0))
                target = b.let("target", moved(rows, k * size))
                with b.loop("v", 0, count) as v:
                    place = b.let("place", at_x + v * n["step_x"])
                    to = b.let("to", moved(target, v * self.pitch))
                    self.copy(line, place, width, to, e0, size)

        walk.runs(width, run)

    def copy(self, line, x, width, target, e0, size):
        """A part of what one line of taps sees: zeros outside of the image."""
        b, n, lanes = self.b, self.n, self.lanes
        source = b.let("source", moved(line, x * n["pixel"]))
        whole = b.let("whole", (x >= 0) & (x + n["run"] <= width))

        def seen(v, mask, _):
            b.store(target, v, load(source, v, lanes, mask=mask))

        with b.when(whole):
            vector_loop(b, "v", 0, size, lanes, seen)
        with b.otherwise():
            low = minimum(maximum(-x, Const(i64, 0)), n["run"]) * n["channels"] - e0
            high = minimum(maximum(width - x, Const(i64, 0)), n["run"])
            low = b.let("low", low)
            limit = maximum(high * n["channels"] - e0 - low, Const(i64, 0))
            limit = b.let("limit", Broadcast(lanes, cast(u32, limit)))

            def some(v, mask, _):
                mask_of = Ramp(lanes, cast(u32, v - low), Const(u32, 1)) < limit
                mask_of = mask_of if mask is None else mask_of & mask
                value = load(source, v, lanes, mask=b.let("inside", mask_of))
                b.store(target, v, value)

            vector_loop(b, "v", 0, size, lanes, some)


def forward(name, type, tile) -> ir.Function:
    """Convolution; data: out, weight as ``[group, tap, channel, row]``, input, bias.

    The parallel axis counts blocks of positions, then bands of output channels, then groups.
    """
    b = Builder()
    n = read_ints(b, FORWARD_INTS)
    names = "out", "weight", "input", "bias"
    out, weight, source, bias = (
        b.let(key, ir.argument(i, type)) for i, key in enumerate(names)
    )
    patches = Patches(b, n, tile, type)
    buffer = b.array("buffer", type, PIXEL_BLOCK * tile.columns)
    buffered = b.let("is_buffered", n["buffered"] != 0)
    write = Product(b, tile, type)
    addend = PixelAddend(b, write, tile, bias, n["biased"] != 0)
    depth = b.let("depth_all", patches.line * n["lines"])
    across = b.let("across", blocks_of(patches.positions, Const(i64, PIXEL_BLOCK)))
    bands = b.let("bands", blocks_of(n["rows"], n["row_block"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        rest = b.let("rest", quotient(chunk, across))
        start = b.let("start", remainder(chunk, across) * PIXEL_BLOCK)
        row = b.let("row0", remainder(rest, bands) * n["row_block"])
        group = b.let("group", quotient(rest, bands))
        height = b.let("height", minimum(patches.positions - start, PIXEL_BLOCK))
        width = b.let("width", minimum(n["rows"] - row, n["row_block"]))
        channel = b.let("channel", group * n["rows"] + row)
        here = b.let("here", moved(source, group * n["channels"]))
        right = moved(weight, group * depth * n["rows"] + row)
        right = b.let("filters", right)
        result = b.let("result", moved(out, channel + n["out_start"]))
        pixels = Operand(moved(result, start * n["out_pixel"]), n["out_pixel"])
        rows = Operand(buffer, Const(i64, tile.columns))
        sums = choose(b, buffered, rows, pixels, "sums")
        addend.begin(channel, width)

        def block(l0, lines, e0, size):
            left = patches.at(here, start, height, l0, lines, e0, size)
            first = (l0 * patches.line + e0) * n["rows"]
            panel = Operand(b.let("panel", moved(right, first)), n["rows"])
            count = b.let("depth", lines * size)
            is_first = b.let("first", (l0 == 0) & (e0 == 0))
            multiply_patches(
                *(write, height, width, count, left, panel, sums, addend, is_first)
            )

        patches.blocks(block)
        with b.when(buffered):
            scatter(b, n, tile, patches.walk(start), height, width, buffer, result)
    return ir.kernel(name, rolled(b.statements))


def scatter(b, n, tile, walk, height, width, buffer, out):
    """Writes rows of a buffer to where their positions lie in the output."""

    def run(column, count, image, z, y, x):
        line = image * n["out_image"] + y * n["out_y"]
        with b.loop("v", 0, count) as v:
            source = b.let("source", moved(buffer, (column + v) * tile.columns))
            target = b.let("target", moved(out, line + (x + v) * n["out_x"]))

            def copy(o, mask, _):
                b.store(target, o, load(source, o, tile.lanes, mask=mask), mask)

            vector_loop(b, "o", 0, width, tile.lanes, copy)

    walk.runs(height, run)


class PixelAddend(Addend):
    """What is added to sums of the first block of the depth: a bias of each column, or none."""

    def __init__(self, b, write, tile, bias, biased):
        super().__init__(write)
        self.bias, self.biased = bias, biased
        self.values = b.array("biases", write.compute, tile.columns + tile.width)
        zero = Const(write.compute.vector(tile.lanes), 0)
        with b.loop("v", 0, tile.columns + tile.width, tile.lanes) as v:
            b.store(self.values, v, zero)

    def begin(self, channel, width):
        """Reads the biases of a chunk's channels."""
        b, lanes = self.b, self.write.tile.lanes
        with b.when(self.biased):
            bias = b.let("addend", moved(self.bias, channel))

            def copy(v, mask, _):
                b.store(self.values, v, load(bias, v, lanes, mask=mask), mask)

            vector_loop(b, "v", 0, width, lanes, copy)

    def at(self, first, bias, out, row, height):
        """The addend of a tile's rows, from a row on."""
        before = out.at(row)
        begin = Operand(self.values, Const(i64, 0), Const(i64, 1))
        return choose(
            self.b,
            first,
            begin,
            Operand(before.pointer, before.row, Const(i64, 1)),
            "begin",
        )


def weight_gradient(name, type, tile) -> ir.Function:
    """Parts of the weight's gradient, ``out[part, group, k, o]``; data: out, grad, input.

    The parallel axis counts bands of output channels, then groups, then parts.
    """
    b = Builder()
    n = read_ints(b, WEIGHT_INTS)
    out, grad, source = (
        b.let(key, ir.argument(i, type))
        for i, key in enumerate(("out", "grad", "input"))
    )
    patches = Patches(b, n, tile, type)
    write = Product(b, tile, type)
    addend = Addend(write)
    depth = b.let("depth_all", patches.line * n["lines"])
    bands = b.let("bands", blocks_of(n["rows"], n["row_block"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        over = b.let("over", quotient(chunk, bands))
        row = b.let("row0", remainder(chunk, bands) * n["row_block"])
        width = b.let("width", minimum(n["rows"] - row, n["row_block"]))
        group = b.let("group", remainder(over, n["groups"]))
        part = b.let("part", quotient(over, n["groups"]))
        begin = b.let("begin", part * n["part_positions"])
        end = b.let("end", minimum(begin + n["part_positions"], patches.positions))
        here = b.let("here", moved(source, group * n["channels"]))
        top = b.let("top", moved(grad, group * n["rows"] + row))
        result = b.let("result", moved(out, over * depth * n["rows"] + row))
        with b.loop("p0", begin, end, PIXEL_BLOCK) as p0:
            count = b.let("count", minimum(end - p0, PIXEL_BLOCK))
            first = b.let("first", p0 == begin)
            grads = b.let("grads", moved(top, p0 * n["grad_pixel"]))

            def block(
                l0, lines, e0, size, p0=p0, count=count, first=first, grads=grads
            ):
                left = patches.at(here, p0, count, l0, lines, e0, size)
                left = Operand(left.pointer, left.column, left.row)
                place = (l0 * patches.line + e0) * n["rows"]
                sums = Operand(b.let("sums", moved(result, place)), n["rows"])
                height = b.let("height", lines * size)
                right = Operand(grads, n["grad_pixel"])
                multiply_patches(
                    *(write, height, width, count, left, right, sums, addend, first)
                )

            patches.blocks(block)
    return ir.kernel(name, rolled(b.statements))


def pixel_tile(compute, target) -> Tile:
    """A product's tile, with as many columns as a chunk has output channels."""
    return replace(convolution_tile(compute, target), columns=PIXEL_BAND)
