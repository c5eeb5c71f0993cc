"""Convolutions with few channels: vectors are read from the input itself.

Writing a patch element to a block costs as much as seven multiplications. Where few
output channels share it, the register tile reads each vector where it lies instead: a
tile is some rows of weights times four pieces of lines, and a table says how far each
channel and tap is from the first. Lines that end within a vector waste its last lanes.

A masked load is two instructions to a processor, and the second takes the place of a
multiplication. So tiles read whole vectors wherever these lie in the images: what is
behind a line's end goes to lanes that nobody stores. Sums over positions cannot have it
so: there pieces that fill their vector are read without masks, and no others.

Follows Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD
Architectures" (2018): register tiles over the images themselves.
"""

from dataclasses import replace
from functools import partial

from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Call, Const, Select, i64, load
from rushlight.kernels.conv.implicit_gemm import (
    AXES,
    FORWARD_INTS,
    WEIGHT_INTS,
    Block,
    Blocks,
    Patches,
    Walk,
    go_over,
    read_ints,
)
from rushlight.kernels.loop_helpers import (
    blocks_of,
    lane_mask,
    maximum,
    minimum,
    moved,
    quotient,
    remainder,
    rolled,
)
from rushlight.kernels.micro_kernels import outer_product, zero_sums

WEIGHT_ROWS = 4  # patch rows and output channels of a tile of weights
WEIGHT_COLUMNS = 6  # half as many where there are 16 registers, which hold no more sums
WEIGHT_TILES = 128  # tiles of sums that stay in the second-level cache
WEIGHT_POSITIONS = 1024  # that a tile's sums go over at a time
LAST_ROWS = 4, 2, 1  # of the tiles after the last whole one
MASKED_ROWS = 2, 1  # of tiles at the end of the images


def few_channels(name, type, tile, epilogue=None) -> ir.Function:
    """Convolution with few output channels; data and integers as for `forward`.

    Positions advance one element a step, and results lie as the positions do.

    Args:
        epilogue: of the sums, as `Epilogue`, of results of their type, or None.
    """
    b = Builder()
    n = read_ints(b, FORWARD_INTS)
    blocks = Blocks(b, n, type, epilogue)
    patches = Patches(b, n, tile, type)
    offsets = b.array("offsets", i64, tile.depth)
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        block = Block(blocks, chunk)
        list_targets(b, n, patches, block.start, block.width, tile.vectors)
        with b.loop("k0", 0, blocks.depth, tile.depth) as k0:
            depth = b.let("depth", minimum(blocks.depth - k0, tile.depth))
            patches.list_offsets(k0, depth, offsets)
            strip = Strip(b, n, tile, type, patches, offsets, depth, k0 == 0)
            strip.weights = b.let("weights", moved(block.weight, k0))
            strip.pitch, strip.bias = blocks.depth, block.bias
            strip.last = b.let("last", block.extent - patches.reach() - tile.lanes)
            with b.loop("piece", 0, patches.pieces + 0, tile.vectors) as piece:
                strip.all_rows(block.source, block.out, piece, block.height)
        if epilogue is not None:
            go_over(b, n, block)
    return ir.kernel(name, rolled(b.statements))


def list_targets(b, n, patches, start, width, vectors):
    """Lists pieces by their place in the output; empty ones fill the last tile."""
    grid = [n[f"grid_{a}"] for a in AXES]

    def place(column, image, z, y, x):
        return image * n["out_image"] + (z * grid[1] + y) * grid[2] + x

    patches.list_pieces(Walk(b, grid, start), width, place)
    with b.repeat(remainder(patches.pieces, Const(i64, vectors)) != 0):
        for table in (patches.targets, patches.sources, patches.counts):
            b.store(table, patches.pieces, Const(i64, 0))
        b.assign(patches.pieces, patches.pieces + 1)


class Strip:
    """Tiles over four pieces of the output: all rows, one block of the depth."""

    def __init__(self, b, n, tile, type, patches, offsets, depth, first):
        self.b, self.n, self.tile, self.type = b, n, tile, type
        self.patches, self.offsets, self.depth = patches, offsets, depth
        self.first = b.let("first", first)
        self.weights = self.pitch = self.bias = None

    def all_rows(self, source, out, piece, height):
        """The strip that starts at a piece, from the first row to the last."""
        b, tile, p = self.b, self.tile, self.patches
        lines, store_offsets, masks = [], [], []
        furthest = Const(i64, 0)
        for j in range(tile.vectors):
            begin = b.let("begin", load(p.sources, piece + j))
            furthest = b.let("furthest", maximum(furthest, begin))
            lines.append(b.let("line", moved(source, begin)))
            store_offsets.append(b.let("place", load(p.targets, piece + j)))
            masks.append(
                b.let("mask", lane_mask(tile.lanes, load(p.counts, piece + j)))
            )
        position = b.declare("position", Const(i64, 0))

        def repeated(rows, whole):
            with b.repeat(height - position >= rows):
                i = b.let("i", position + 0)
                self.rows(i, rows, lines, out, store_offsets, masks, whole)
                b.assign(position, position + rows)

        with b.when(furthest <= self.last):
            for rows in sorted({tile.rows, *LAST_ROWS}, reverse=True):
                repeated(rows, whole=True)
        with b.otherwise():
            for rows in MASKED_ROWS:
                repeated(rows, whole=False)

    def rows(self, i, rows, lines, out, store_offsets, masks, whole):
        """One register tile.

        Args:
            whole: whether vectors are read beyond the ends of their lines.
        """
        b, lanes = self.b, self.tile.lanes
        sums = zero_sums(b, self.type.vector(lanes), rows, len(lines))
        left = b.let("left", moved(self.weights, i * self.pitch))
        with b.loop("k", 0, self.depth) as k:
            offset = b.let("offset", load(self.offsets, k))
            along = [
                b.let("along", load(line, offset, lanes, mask=None if whole else mask))
                for line, mask in zip(lines, masks, strict=True)
            ]
            elements = (load(left, self.pitch * r + k) for r in range(rows))
            values = (b.let("value", Broadcast(lanes, e)) for e in elements)
            outer_product(b, sums, values, along)
        for r, line in enumerate(sums):
            self.finish(i + r, line, out, store_offsets, masks)

    def finish(self, row, line, out, store_offsets, masks):
        """Adds the bias, or what earlier blocks of the depth gave, and stores a row."""
        b, lanes = self.b, self.tile.lanes
        target = b.let("target", moved(out, row * self.n["out_row"]))
        with b.when(self.first & (self.n["biased"] != 0)):
            bias = b.let("bias", Broadcast(lanes, load(self.bias, row)))
            for total in line:
                b.assign(total, total + bias)
        with b.when(~self.first):
            for total, place, mask in zip(line, store_offsets, masks, strict=True):
                b.assign(total, total + load(target, place, lanes, mask=mask))
        for total, place, mask in zip(line, store_offsets, masks, strict=True):
            b.store(target, place, total, mask)


def few_weights(name, type, tile) -> ir.Function:
    """The weight's gradient where it is small; data and integers as `weight_gradient`.

    Vectors of sums run along the positions: six or three channels of the output's gradient by
    four rows of the patch matrix, added up over a part's images and then over lanes.
    """
    b = Builder()
    n = read_ints(b, WEIGHT_INTS)
    out, grad, source = (
        b.let(key, ir.argument(i, type))
        for i, key in enumerate(("out", "grad", "input"))
    )
    tiles = WeightTiles(b, n, tile, type)
    positions = b.let("positions", n["grid_z"] * n["grid_y"] * n["grid_x"])
    patches, rows = tiles.patches, tiles.list_offsets()
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        group = b.let("group", remainder(chunk, n["groups"]))
        part = b.let("part", quotient(chunk, n["groups"]))
        tiles.clear()
        begin = b.let("first_image", part * n["part_images"])
        end = b.let("end_image", minimum(begin + n["part_images"], n["images"]))
        with b.loop("p0", 0, positions, n["column_block"]) as p0:
            width = b.let("width", minimum(positions - p0, n["column_block"]))
            patches.list_pieces(Walk(b, [n[f"grid_{a}"] for a in AXES], p0), width)
            with b.loop("image", begin, end) as image:
                first = group * n["group_channels"] * n["channel"]
                here = b.let("here", moved(source, image * n["image"] + first))
                first = group * n["columns"] * n["grad_row"]
                top = moved(grad, image * n["grad_image"] + first + p0)
                tiles.each(partial(tiles.add, here, b.let("top", top)))
        result = b.let("result", moved(out, chunk * rows * n["columns"]))
        tiles.each(partial(tiles.store, result))
    return ir.kernel(name, rolled(b.statements))


def weight_columns():
    """Output channels of a tile of weights."""
    return WEIGHT_COLUMNS if current().registers >= 32 else WEIGHT_COLUMNS // 2


class WeightTiles:
    """Tiles of sums of a weight's gradient, which stay in the second-level cache.

    Attributes:
        across: output channels of a tile.
        size: elements of the sums of one.
        rows: of the patch matrix, and one of ones: its sums are the bias's gradient.
    """

    def __init__(self, b, n, tile, type):
        self.b, self.n, self.lanes, self.type = b, n, tile.lanes, type
        self.across = weight_columns()
        self.size = WEIGHT_ROWS * self.across * tile.lanes
        most = WEIGHT_TILES * (WEIGHT_COLUMNS // self.across)
        self.sums = b.array("sums", type, most * self.size)
        self.offsets = b.array("offsets", i64, WEIGHT_TILES * WEIGHT_ROWS)
        self.patches = Patches(b, n, replace(tile, columns=WEIGHT_POSITIONS), type)
        self.rows = None

    def list_offsets(self):
        """Lists where rows of the patch matrix begin; how many there are."""
        self.patches.list_offsets(Const(i64, 0), self.n["rows"], self.offsets)
        self.rows = self.b.let("rows_all", self.n["rows"] + 1)
        return self.rows

    def clear(self):
        """Sets all sums to zero."""
        b, n = self.b, self.n
        down = blocks_of(self.rows, Const(i64, WEIGHT_ROWS))
        count = down * blocks_of(n["columns"], Const(i64, self.across))
        with b.loop("clear", 0, count * self.size, self.lanes) as at:
            b.store(self.sums, at, Const(self.type.vector(self.lanes), 0))

    def each(self, body):
        """Calls ``body`` with first patch row, first channel and sums of every tile."""
        b, n = self.b, self.n
        number = b.declare("number", Const(i64, 0))
        with b.loop("o", 0, n["columns"], self.across) as o:
            with b.loop("k", 0, self.rows, WEIGHT_ROWS) as k:
                start = moved(self.sums, (number + 0) * self.size)
                body(k, o, b.let("kept", start))
                b.assign(number, number + 1)

    def add(self, source, grad, k, o, kept):
        """Adds the pieces of one block to a tile's sums.

        Rows and channels beyond the last repeat it.
        """
        b, n, lanes = self.b, self.n, self.lanes
        rows, columns = range(WEIGHT_ROWS), range(self.across)

        def at(r, c):
            return (r * self.across + c) * lanes

        sums = [
            [b.declare("sum", load(kept, at(r, c), lanes)) for c in columns]
            for r in rows
        ]
        starts = [load(self.offsets, minimum(k + r, n["rows"] - 1)) for r in rows]
        lines = [b.let("line", moved(source, start)) for start in starts]
        ones = [b.let("is_ones", Broadcast(lanes, k + r == n["rows"])) for r in rows]
        last = n["columns"] - 1
        tops = [
            b.let("top", moved(grad, minimum(o + c, last) * n["grad_row"]))
            for c in columns
        ]
        with b.when(k + WEIGHT_ROWS <= n["rows"]):
            add_pieces(b, self.patches, lines, tops, sums)
        with b.otherwise():
            add_pieces(b, self.patches, lines, tops, sums, ones)
        for r, row in enumerate(sums):
            for c, total in enumerate(row):
                b.store(kept, at(r, c), total)

    def store(self, out, k, o, kept):
        """A tile's sums over their lanes, as ``out[k, o]``."""
        b, n = self.b, self.n
        for r in range(WEIGHT_ROWS):
            for c in range(self.across):
                with b.when((k + r < self.rows) & (o + c < n["columns"])):
                    at = (r * self.across + c) * self.lanes
                    total = load(kept, at, self.lanes)
                    total = Call("reduce_add", self.type, total)
                    b.store(out, (k + r) * n["columns"] + o + c, total)


def add_pieces(b, patches, lines, tops, sums, ones=None):
    """Adds products of pieces of the images and of the output's gradient to sums.

    Args:
        lines, tops: addresses of rows of patches and of channels of the gradient.
        ones: for each row, whether it is that of ones; None where none is.
    """
    vector = sums[0][0].type

    def value_of(r, line, at, mask):
        value = load(line, at, vector.lanes, mask=mask)
        if ones is not None:
            value = Select(ones[r], Const(vector, 1), value)
        return b.let("value", value)

    def add(at, to, mask):
        grads = [b.let("grad", load(top, to, vector.lanes, mask=mask)) for top in tops]
        values = (value_of(r, line, at, mask) for r, line in enumerate(lines))
        outer_product(b, sums, values, grads)

    with b.loop("piece", 0, patches.pieces + 0) as piece:
        count, at, to = (
            b.let(name, load(table, piece))
            for name, table in (
                ("count", patches.counts),
                ("at", patches.sources),
                ("to", patches.targets),
            )
        )
        with b.when(count == vector.lanes):
            add(at, to, None)
        with b.otherwise():
            add(at, to, b.let("mask", lane_mask(vector.lanes, count)))
