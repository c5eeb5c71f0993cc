"""Convolution as a matrix product whose right operand is gathered from the input.

    out[o, p] = sum_k weight[o, k] * patch[k, p]

for ``k = (channel, tap)`` and ``p = (image, z, y, x)``.

Only a block of the patch matrix exists at a time: `Patches` writes it to the cache
block that the product of `rushlight.kernels.matmul.contraction` reads, zeros for the border
included. With n output channels a patch element costs 0.1 ns against n / 55 ns of
arithmetic. The gradient of the input is the same loop over the gradient of the output;
that of the weight reads the patches as its left operand.

Follows the implicit products of Chetlur et al., "cuDNN" (2014), which put a block of the
patch matrix of Chellapilla et al. (2006) where the product reads it, never the whole.
"""

import functools

from rushlight.codegen.schedule.contraction import Tile, matrix_tile
from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import (
    Broadcast,
    Const,
    Ramp,
    Select,
    Shuffle,
    Type,
    cast,
    i64,
    load,
    u32,
)
from rushlight.kernels.epilogue import OutputEpilogue
from rushlight.kernels.loop_helpers import (
    Operand,
    blocks_of,
    choose,
    lane_mask,
    maximum,
    minimum,
    moved,
    named,
    quotient,
    remainder,
    rolled,
    vector_loop,
)
from rushlight.kernels.matmul.contraction import Product, Results

# The walk over patches: an image's strides and sizes; the taps and how far one moves;
# the grid of output positions and the steps it takes over the input.
PATCH_INTS = """
    image channel plane line channels taps_z taps_y taps_x first_z first_y first_x
    tap_z tap_y tap_x channels_last grid_z grid_y grid_x step_z step_y step_x
""".split()
# Images are taken `images_block` at a time, their positions `column_block` at a time.
BLOCK_INTS = """
    packed images images_block column_block rows row_block groups
""".split()
FORWARD_INTS = (
    *PATCH_INTS,
    *BLOCK_INTS,
    *"""
    group_rows group_channels biased buffered out_image out_row run_z run_y run_x
    out_z out_y out_x exchanged
""".split(),
)
WEIGHT_INTS = (
    *PATCH_INTS,
    *BLOCK_INTS,
    *"""
    group_channels parts part_images columns bands grad_image grad_row
""".split(),
)
AXES = "zyx"
PATCH_DEPTH = 288
BUFFER_ROWS = 192
PIECES = 8  # pieces of a row that are copied without a test between them


class Walk:
    """Runs of adjacent positions of a grid, from a starting column on.

    Args:
        sizes: extents of the grid's z, y and x.
    """

    def __init__(self, b, sizes, start):
        self.b, self.sizes = b, sizes
        rest, first = start, []
        for size in reversed(sizes):
            first.insert(0, remainder(rest, size))
            rest = quotient(rest, size)
        self.start = [b.let("start", value) for value in (rest, *first)]

    def runs(self, width, body):
        """Calls ``body(column, count, image, z, y, x)`` to write what a run does."""
        b = self.b
        image, z, y, x = (
            b.declare(name, value + 0)
            for name, value in zip(("image", *AXES), self.start, strict=True)
        )
        column = b.declare("column", Const(i64, 0))
        with b.repeat(column < width):
            count = b.let("count", minimum(self.sizes[2] - x, width - column))
            body(column, count, image, z, y, x)
            b.assign(column, column + count)
            b.assign(x, Const(i64, 0))
            count_up(b, [y, z, image], [self.sizes[1], self.sizes[0]])


def count_up(b, digits, limits):
    """Adds one to the first digit and carries; the last digit has no limit."""
    b.assign(digits[0], digits[0] + 1)
    if limits:
        with b.when(digits[0] == limits[0]):
            b.assign(digits[0], Const(i64, 0))
            count_up(b, digits[1:], limits[1:])


class Patches:
    """Writes rows of the patch matrix to a block of memory.

    The images are padded, so each row holds the same runs of the input, moved by its
    channel and tap. They are listed once for a block, in pieces of one vector; a piece
    may write past its end, where the next one then writes.
    """

    def __init__(self, b, n, tile, compute):
        self.b, self.n, self.lanes, self.compute = b, n, tile.lanes, compute
        self.targets, self.sources, self.counts = (
            b.array(name, i64, tile.columns)
            for name in ("targets", "sources", "counts")
        )
        self.pieces = b.declare("pieces", Const(i64, 0))

    def list_pieces(self, walk, width, place=None):
        """Notes where each vector of a row comes from and goes to.

        Args:
            place: a callable from column, image, z, y, x to where a run goes; by
                default to its column.
        """
        b, n = self.b, self.n
        b.assign(self.pieces, Const(i64, 0))

        def note(column, count, image, z, y, x):
            source = b.let(
                "origin",
                image * n["image"]
                + z * n["step_z"] * n["plane"]
                + y * n["step_y"] * n["line"]
                + x * n["step_x"],
            )
            to = b.let("to", place(column, image, z, y, x) if place else column + 0)
            with b.loop("v", 0, count, self.lanes) as v:
                b.store(self.targets, self.pieces, to + v)
                b.store(self.sources, self.pieces, source + v * n["step_x"])
                b.store(self.counts, self.pieces, minimum(count - v, self.lanes))
                b.assign(self.pieces, self.pieces + 1)

        walk.runs(width, note)

    def list_offsets(self, first, depth, table):
        """Where rows ``first`` to ``first + depth`` start, from the first image."""
        b = self.b
        channel, taps, limits = self.digits(first)
        with b.loop("k", 0, depth) as k:
            b.store(table, k, self.row_offset(channel, taps))
            self.advance(channel, taps, limits)

    def row_offset(self, channel, taps):
        """Elements from an image's start to what a channel and tap see first."""
        n = self.n
        z, y, x = (
            n[f"first_{a}"] + tap * n[f"tap_{a}"]
            for a, tap in zip(AXES, taps, strict=True)
        )
        return channel * n["channel"] + z * n["plane"] + y * n["line"] + x

    def reach(self):
        """Elements from an image's start to the first that its last channel's taps see,
        or a bound of them."""
        n = self.n
        far = (n["channels"] - 1) * n["channel"]
        for a, pitch in zip(AXES, (n["plane"], n["line"], Const(i64, 1)), strict=True):
            last = n[f"first_{a}"] + (n[f"taps_{a}"] - 1) * n[f"tap_{a}"]
            far = far + maximum(n[f"first_{a}"], last) * pitch
        return far

    def write(self, source, extent, first, depth, target, pitch):
        """Rows ``first`` to ``first + depth`` over the columns last listed.

        Args:
            source: the first of the listed images.
            extent: elements from there to the end of all images: a row whose last
                piece reads beyond is read with masks.
        """
        b = self.b
        last = b.let("last_piece", load(self.sources, self.pieces - 1))
        safe = b.let("safe", extent - last - 2 * self.lanes)
        channel, taps, limits = self.digits(first)
        with b.loop("k", 0, depth) as k:
            base = b.let("base", self.row_offset(channel, taps))
            line = b.let("line", moved(source, base))
            row = b.let("row", moved(target, k * pitch))
            self.copy_row(line, row, base <= safe)
            self.advance(channel, taps, limits)

    def copy_row(self, line, row, is_safe):
        """All pieces of one row, in the fastest way that its steps allow."""
        b, step = self.b, self.n["step_x"]
        with b.when(step == 1):
            with b.when(is_safe):
                self.copy_pieces(line, row, self.whole)
            with b.otherwise():
                self.copy_pieces(line, row, self.adjacent)
        with b.otherwise():
            with b.when(step == 2):
                with b.when(is_safe):
                    self.copy_pieces(line, row, self.whole_pair)
                with b.otherwise():
                    self.copy_pieces(line, row, self.every_other)
            with b.otherwise():
                self.copy_pieces(line, row, self.spread)

    def digits(self, first):
        """Counters of channel and taps, set to a row of the patch matrix."""
        b, n = self.b, self.n
        sizes = [n[f"taps_{a}"] for a in AXES]
        last = n["channels_last"] != 0
        volume = b.let("volume", sizes[0] * sizes[1] * sizes[2])
        channel = b.declare(
            "channel",
            Select(last, remainder(first, n["channels"]), quotient(first, volume)),
        )
        rest = b.let(
            "tap",
            Select(last, quotient(first, n["channels"]), remainder(first, volume)),
        )
        values = [
            quotient(rest, sizes[1] * sizes[2]),
            remainder(quotient(rest, sizes[2]), sizes[1]),
            remainder(rest, sizes[2]),
        ]
        taps = [b.declare(f"tap_{a}", v) for a, v in zip(AXES, values, strict=True)]
        return channel, taps, sizes

    def advance(self, channel, taps, limits):
        """The next row's channel and taps."""
        b, n = self.b, self.n
        digits, sizes = taps[::-1], limits[::-1]
        with b.when(n["channels_last"] != 0):
            count_up(b, [channel, *digits], [n["channels"], *sizes[:2]])
        with b.otherwise():
            count_up(b, [*digits, channel], sizes)

    def copy_pieces(self, line, row, read):
        """All pieces of one row."""
        b = self.b

        def copy(piece):
            value = read(line, load(self.sources, piece), load(self.counts, piece))
            b.store(row, load(self.targets, piece), cast(self.compute, value))

        several = PIECES if read == self.whole else PIECES // 2
        many = b.let("many", self.pieces - remainder(self.pieces, several))
        with b.loop("piece", 0, many, several) as piece:
            for at in range(several):
                copy(piece + at)
        with b.loop("piece", many, self.pieces + 0) as piece:
            copy(piece)

    def whole(self, line, start, _):
        """A vector of elements from ``start`` on."""
        return load(line, start, self.lanes)

    def whole_pair(self, line, start, _):
        """A vector of elements with one between each two."""
        low, high = (load(line, start + side, self.lanes) for side in (0, self.lanes))
        return Shuffle(range(0, 2 * self.lanes, 2), low, high)

    def adjacent(self, line, start, count):
        """``count`` elements from ``start`` on."""
        return load(line, start, self.lanes, mask=lane_mask(self.lanes, count))

    def every_other(self, line, start, count):
        """``count`` elements with one between each two."""
        span = count * 2 - 1
        low = self.adjacent(line, start, span)
        high = self.adjacent(line, start + self.lanes, span - self.lanes)
        return Shuffle(range(0, 2 * self.lanes, 2), low, high)

    def spread(self, line, start, count):
        """``count`` elements, steps apart."""
        offsets = Ramp(self.lanes, start, self.n["step_x"])
        return load(line, offsets, self.lanes, mask=lane_mask(self.lanes, count))


PAD_INTS = """
    in_z in_y in_x out_z out_y out_x low_z low_y low_x
""".split()


def padded(name, data_type, lanes) -> ir.Function:
    """Planes with zeros around them; the parallel axis counts planes."""
    b = Builder()
    n = read_ints(b, PAD_INTS)
    out, source = (
        b.let(key, ir.argument(i, data_type)) for i, key in enumerate(("out", "input"))
    )
    with (
        b.loop("chunk", ir.BEGIN, ir.END) as chunk,
        b.loop("z", 0, n["out_z"]) as z,
        b.loop("y", 0, n["out_y"]) as y,
    ):
        from_z, from_y = (
            b.let("from_z", z - n["low_z"]),
            b.let("from_y", y - n["low_y"]),
        )
        inside = (
            (from_z >= 0) & (from_z < n["in_z"]) & (from_y >= 0) & (from_y < n["in_y"])
        )
        limit = b.let("limit", Select(inside, n["in_x"], Const(i64, 0)))
        line = b.let(
            "line",
            moved(
                source, ((chunk * n["in_z"] + from_z) * n["in_y"] + from_y) * n["in_x"]
            ),
        )
        row = b.let(
            "row", moved(out, ((chunk * n["out_z"] + z) * n["out_y"] + y) * n["out_x"])
        )
        with b.loop("x", 0, n["out_x"], lanes) as x:
            here = b.let("here", x - n["low_x"])
            offsets = Ramp(lanes, cast(u32, here), Const(u32, 1))
            mask = offsets < Broadcast(lanes, cast(u32, limit))
            b.store(
                row,
                x,
                load(line, here, lanes, mask=mask),
                lane_mask(lanes, n["out_x"] - x),
            )
    return ir.kernel(name, rolled(b.statements))


def read_ints(b, names):
    """The kernel's integers by name."""
    return {key: b.let(key, ir.integer(i)) for i, key in enumerate(names)}


def image_blocks(b, n):
    """Blocks of columns in a set of images, and how many sets there are."""
    positions = b.let("positions", n["grid_z"] * n["grid_y"] * n["grid_x"])
    across = b.let(
        "across", blocks_of(n["images_block"] * positions, n["column_block"])
    )
    return positions, across, b.let("sets", blocks_of(n["images"], n["images_block"]))


class Blocks:
    """What all chunks of a forward kernel share: operands, and how they are cut."""

    def __init__(self, b, n, type, epilogue=None):
        self.b, self.n = b, n
        stored = type if epilogue is None else Type(epilogue.stored)
        kinds = {"out": stored, "weight": type, "input": type, "bias": type}
        self.out, self.weight, self.source, self.bias = (
            b.let(key, ir.argument(i, kind))
            for i, (key, kind) in enumerate(kinds.items())
        )
        self.epilogue = OutputEpilogue.of(b, epilogue, len(kinds))
        self.positions, self.across, self.sets = image_blocks(b, n)
        self.bands = b.let("bands", blocks_of(n["rows"], n["row_block"]))
        self.taps = b.let("taps", n["taps_z"] * n["taps_y"] * n["taps_x"])
        self.depth = b.let("depth_all", n["channels"] * self.taps)


class Block:
    """One chunk of a forward kernel: some channels at some positions.

    Attributes:
        start, width: first position and their number; ``height``: of channels.
        source, out, weight, bias: operands from the block's first element on.
        extent: elements of the input from there on.
    """

    def __init__(self, blocks, chunk):
        b, n = blocks.b, blocks.n
        rest = b.let("rest", quotient(chunk, blocks.across))
        over = b.let("over", quotient(rest, blocks.sets))
        group = b.let("group", quotient(over, blocks.bands))
        i0 = b.let("i0", remainder(over, blocks.bands) * n["row_block"])
        image = b.let("image0", remainder(rest, blocks.sets) * n["images_block"])
        held = b.let("held", minimum(n["images"] - image, n["images_block"]))
        self.start = b.let("j0", remainder(chunk, blocks.across) * n["column_block"])
        left = held * blocks.positions - self.start
        self.width = b.let("width", minimum(left, n["column_block"]))
        self.height = b.let("height", minimum(n["rows"] - i0, n["row_block"]))
        row = b.let("row0", group * n["group_rows"] + i0)
        channels = group * n["group_channels"] * n["channel"]
        before = b.let("before", image * n["image"] + channels)
        self.extent = b.let("extent", n["images"] * n["image"] - before)
        self.source = b.let("here", moved(blocks.source, before))
        place = image * n["out_image"] + row * n["out_row"]
        self.out = b.let("there", moved(blocks.out, place))
        self.epilogue = blocks.epilogue.at(b, place, row)
        own = group * n["group_rows"] * blocks.depth
        rows = Select(n["exchanged"] != 0, blocks.taps, blocks.depth)
        self.weight = b.let("left", moved(blocks.weight, own + i0 * rows))
        self.bias = b.let("addend", moved(blocks.bias, row))


def forward(name, data_type, compute, tile, epilogue=None) -> ir.Function:
    """Convolution: out, weight, input and bias are the data, and the epilogue's operands.

    The parallel axis counts blocks of positions, sets of images, bands of output
    channels and groups, in this order.

    Args:
        epilogue: of the sums, as `Epilogue`, or None: its operands lie as the results
            do, or have a value for each channel. Where results are of the type
            of the sums, a block of them is gone over once more while it is in a cache;
            else they are buffered.
    """
    b = Builder()
    n = read_ints(b, FORWARD_INTS)
    blocks = Blocks(b, n, data_type, epilogue)
    pitch = tile.columns + tile.lanes
    packed = b.array("packed", compute, tile.depth * pitch + tile.lanes)
    buffer = b.array("buffer", compute, BUFFER_ROWS * tile.columns)
    buffered = b.let("is_buffered", n["buffered"] != 0)
    is_packed = b.let("is_packed", n["packed"] != 0)
    patches = Patches(b, n, tile, compute)
    write = Product(b, tile, compute)
    addend = Addend(write, n["biased"] != 0)
    plain = data_type == compute and epilogue is None
    filters = ExchangedFilters(blocks, tile, compute) if plain else None
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        block = Block(blocks, chunk)
        left = Operand(block.weight, blocks.depth, Const(i64, 1))
        result = Operand(buffer, Const(i64, tile.columns))
        in_place = epilogue is None or Type(epilogue.stored) == compute
        if in_place:
            direct = Operand(moved(block.out, block.start), n["out_row"])
            result = choose(b, buffered, result, direct)
        with b.when(is_packed):
            walk = Walk(b, [n[f"grid_{a}"] for a in AXES], block.start)
            patches.list_pieces(walk, block.width)
        with b.loop("k0", 0, blocks.depth, tile.depth) as k0:
            depth = b.let("depth", minimum(blocks.depth - k0, tile.depth))
            with b.when(is_packed):
                patches.write(block.source, block.extent, k0, depth, packed, pitch)
            lines = moved(block.source, k0 * n["channel"] + block.start)
            right = choose(
                b,
                is_packed,
                Operand(packed, Const(i64, pitch)),
                Operand(lines, n["channel"]),
            )
            size = block.height, block.width, depth
            here = left.at(0, k0)
            here = filters.at(block, k0, depth, here) if plain else here
            operands = here, right, result
            first = b.let("first", k0 == 0)
            multiply_patches(write, *size, *operands, addend, first, block.bias)
        with b.when(buffered):
            scatter(b, n, tile, buffer, block)
        if in_place and epilogue is not None:
            with b.otherwise():
                go_over(b, n, block)
    return ir.kernel(name, rolled(b.statements))


class ExchangedFilters:
    """Filters of a convolution whose input's gradient is computed, for a block of sums.

    There the first dimension of a weight is summed over: rows of the left operand are its
    second one. A block's are copied where they are read, so the weight is read once.
    """

    def __init__(self, blocks, tile, compute):
        self.b, self.n, self.taps = blocks.b, blocks.n, blocks.taps
        self.lanes, self.pitch = tile.lanes, tile.depth + tile.lanes
        self.room = self.b.array("filters", compute, BUFFER_ROWS * self.pitch)
        self.exchanged = self.b.let("is_exchanged", self.n["exchanged"] != 0)

    def at(self, block, first, depth, usual):
        """The left operand from a place of the depth on: the usual one, or a copy."""
        b = self.b
        with b.when(self.exchanged):
            self.copy(block, first, depth)
        copied = Operand(self.room, Const(i64, self.pitch))
        found = choose(b, self.exchanged, copied, usual)
        return Operand(found.pointer, found.row, usual.column)

    def copy(self, block, first, depth):
        """Copies what all rows have of some channels, the ends of which may be missing."""
        b, taps = self.b, self.taps
        end = b.let("end", first + depth)
        step = b.let("channel_step", self.n["group_rows"] * taps)
        channels = quotient(first, taps), blocks_of(end, taps)
        with b.loop("channel", *[b.let("bound", value) for value in channels]) as c:
            start = b.let("tap0", maximum(c * taps, first))
            count = b.let("count", minimum((c + 1) * taps, end) - start)
            at = c * step + (start - c * taps)
            source = b.let("source", moved(block.weight, at))
            target = b.let("target", moved(self.room, start - first))

            def rows(v, mask, _, source=source, target=target):
                with b.loop("row", 0, block.height) as row:
                    value = load(source, row * taps + v, self.lanes, mask=mask)
                    b.store(target, row * self.pitch + v, value, mask)

            vector_loop(b, "v", 0, count, self.lanes, rows)


class Addend:
    """What is added to the sums of a block of the depth: a bias, or those before it.

    Args:
        biased: whether there is a bias, of one value for each row.
    """

    def __init__(self, write, biased=None):
        self.write, self.b, self.biased = write, write.b, biased
        self.zeros = write.zeros()
        size = write.tile.rows * write.tile.width
        self.room = (
            None if biased is None else self.b.array("addends", write.compute, size)
        )

    def at(self, first, bias, out, row, height):
        """The addend of a tile's rows, from a row on."""
        b, before = self.b, out.at(row)
        begin = self.zeros
        if self.biased is not None:
            with b.when(first & self.biased):
                fill = self.write.constant_rows
                fill(lambda r: load(bias, row + r), height, self.room)
            pitch = Const(i64, self.write.tile.width)
            pointer = Select(self.biased, self.room, begin.pointer)
            begin = Operand(pointer, Select(self.biased, pitch, begin.row))
        begin = Operand(begin.pointer, begin.row, Const(i64, 0))
        before = Operand(before.pointer, before.row, Const(i64, 1))
        return choose(b, first, begin, before, "begin")


def multiply_patches(
    write, height, width, depth, left, right, out, addend, first, bias=None
):
    """``out = left right``, plus the addend at first and the output itself later."""
    rows = write.tile.rows

    def results_at(i):
        target_at = named(write.b, "there", out.at(i))
        few = minimum(height - i, rows)
        return Results(target_at, target_at, addend.at(first, bias, out, i, few))

    write.block(
        height,
        width,
        depth,
        lambda i, rows: left.at(i, 0),
        lambda j: right.at(0, j),
        results_at,
    )


def scatter(b, n, tile, buffer, block):
    """Writes a buffered block to where its positions lie in the output."""
    walk = Walk(b, [n[f"run_{a}"] for a in AXES], block.start)
    out = block.out
    with b.loop("r", 0, block.height) as r:
        row = b.let("row", r * tile.columns)

        def copy(column, count, image, z, y, x):
            to = b.let(
                "to",
                image * n["out_image"]
                + r * n["out_row"]
                + z * n["out_z"]
                + y * n["out_y"]
                + x * n["out_x"],
            )
            at = b.let("origin", row + column)
            if block.epilogue.epilogue is not None:
                line, result = (
                    b.let("line", moved(p, i)) for p, i in ((buffer, at), (out, to))
                )
                block.epilogue.write_row(b, line, result, count, to, r)
                return
            with b.when(n["out_x"] == 1):
                with b.loop("v", 0, count, tile.lanes) as v:
                    mask = b.let("mask", lane_mask(tile.lanes, count - v))
                    b.store(
                        out, to + v, load(buffer, at + v, tile.lanes, mask=mask), mask
                    )
            with b.otherwise(), b.loop("v", 0, count) as v:
                b.store(out, to + v * n["out_x"], load(buffer, at + v))

        walk.runs(block.width, copy)


def go_over(b, n, block):
    """Puts a block of sums that lies in the output through its epilogue."""
    walk = Walk(b, [n[f"run_{a}"] for a in AXES], block.start)
    with b.loop("r", 0, block.height) as r:

        def run(column, count, image, z, y, x):
            at = b.let("at", image * n["out_image"] + r * n["out_row"] + x)
            line = b.let("line", moved(block.out, at))
            block.epilogue.write_row(b, line, line, count, at, r)

        walk.runs(block.width, run)


def weight_gradient(name, data_type, compute, tile) -> ir.Function:
    """Parts of the weight's gradient, turned: ``out[part, group, k, o]``.

    Row ``k`` after the last one holds the gradient of the bias: the patch matrix ends
    in a row of ones. The parallel axis counts bands of rows, blocks of output channels,
    groups and parts (of the images), in this order. Data: out, grad, input.
    """
    b = Builder()
    n = read_ints(b, WEIGHT_INTS)
    out, grad, source = (
        b.let(key, ir.argument(i, data_type))
        for i, key in enumerate(("out", "grad", "input"))
    )
    pitch = tile.columns + tile.lanes
    packed = b.array("packed", compute, BUFFER_ROWS * pitch + tile.lanes)
    transposed = b.array("turned", compute, tile.columns * weight_block(tile))
    block = weight_block(tile)
    across = b.let("across", blocks_of(n["columns"], Const(i64, block)))
    rows = b.let("rows_all", n["rows"] + 1)
    band = b.let("band", blocks_of(rows, n["bands"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        rest = b.let("rest", quotient(chunk, n["bands"]))
        over = b.let("over", quotient(rest, across))
        group = b.let("group", remainder(over, n["groups"]))
        part = b.let("part", quotient(over, n["groups"]))
        i0 = b.let("i0", remainder(chunk, n["bands"]) * band)
        i1 = b.let("i1", minimum(i0 + band, rows))
        o0 = b.let("o0", remainder(rest, across) * block)
        wide = b.let("wide", minimum(n["columns"] - o0, block))
        before = b.let("before", group * n["group_channels"] * n["channel"])
        top = b.let("top", moved(grad, (group * n["columns"] + o0) * n["grad_row"]))
        result = Operand(
            b.let("result", moved(out, over * rows * n["columns"] + o0)), n["columns"]
        )
        sweep = WeightSweep(b, n, tile, compute, packed, pitch, transposed)
        sweep.run(part, source, before, top, i0, i1, wide, result)
    return ir.kernel(name, rolled(b.statements))


class WeightSweep:
    """One chunk of `weight_gradient`: all positions of a part's images."""

    def __init__(self, b, n, tile, compute, packed, pitch, transposed):
        self.b, self.n, self.tile, self.compute = b, n, tile, compute
        self.packed, self.pitch, self.transposed = packed, pitch, transposed
        self.write = Product(b, tile, compute)
        self.patches = Patches(b, n, tile, compute)
        self.addend = Addend(self.write)

    def run(self, part, source, before, grad, i0, i1, wide, out):
        """Adds up rows ``i0`` to ``i1`` of the ``wide`` columns from ``grad`` on.

        Args:
            before: elements of ``source`` before the first channel.
        """
        b, n = self.b, self.n
        positions = b.let("positions", n["grid_z"] * n["grid_y"] * n["grid_x"])
        begin = b.let("first_image", part * n["part_images"])
        end = b.let("end_image", minimum(begin + n["part_images"], n["images"]))
        with b.loop("image0", begin, end, n["images_block"]) as image:
            held = b.let("held", minimum(end - image, n["images_block"]))
            total = b.let("total", held * positions)
            with b.loop("p0", 0, total, n["column_block"]) as p0:
                width = b.let("width", minimum(total - p0, n["column_block"]))
                self.patches.list_pieces(
                    Walk(b, [n[f"grid_{a}"] for a in AXES], p0), width
                )
                self.transpose_rows(
                    moved(grad, image * n["grad_image"]), p0, positions, width, wide
                )
                first = b.let("first", (image == begin) & (p0 == 0))
                start = b.let("start", before + image * n["image"])
                here = b.let("here", moved(source, start))
                extent = b.let("extent", n["images"] * n["image"] - start)
                with b.loop("r0", i0, i1, BUFFER_ROWS) as r0:
                    height = b.let("height", minimum(i1 - r0, BUFFER_ROWS))
                    self.rows(here, extent, r0, height, width)
                    multiply_patches(
                        self.write,
                        height,
                        wide,
                        width,
                        Operand(self.packed, Const(i64, self.pitch), Const(i64, 1)),
                        self.panels(width),
                        out.at(r0, 0),
                        self.addend,
                        first,
                    )

    def transpose_rows(self, grad, p0, positions, width, wide):
        """The output's gradient with channels adjacent, image after image."""
        b, n, tile = self.b, self.n, self.tile
        done = b.declare("done", Const(i64, 0))
        with b.repeat(done < width):
            at = b.let("at", p0 + done)
            image = b.let("image", quotient(at, positions))
            start = b.let("start", remainder(at, positions))
            count = b.let("count", minimum(positions - start, width - done))
            source = Operand(
                b.let("grads", moved(grad, image * n["grad_image"] + start)),
                Const(i64, 1),
                n["grad_row"],
            )
            self.write.pack.transpose_columns(
                source, moved(self.transposed, done * tile.width), count, wide, width
            )
            b.assign(done, done + count)

    def rows(self, source, extent, first, height, width):
        """Rows of the patch matrix, and the row of ones behind them."""
        b, n = self.b, self.n
        count = b.let("count", minimum(height, n["rows"] - first))
        self.patches.write(source, extent, first, count, self.packed, self.pitch)
        with b.when(count < height), b.loop("v", 0, width, self.tile.lanes) as v:
            ones = Const(self.compute.vector(self.tile.lanes), 1)
            b.store(self.packed, count * self.pitch + v, ones)

    def panels(self, depth):
        """The turned gradient as right operand: panels one tile wide."""
        return Panels(self.transposed, depth, self.tile.width)


class Panels:
    """A packed right operand, seen from a column."""

    def __init__(self, pointer, depth, width):
        self.pointer, self.depth, self.width = pointer, depth, width

    def at(self, _, column):
        start = quotient(column, self.width) * self.width
        target_at = start * self.depth + (column - start)
        return Operand(moved(self.pointer, target_at), Const(i64, self.width))


def weight_block(tile) -> int:
    """Output channels that `weight_gradient` takes at a time; plans count with it."""
    return 4 * tile.width


def convolution_tile(compute, target) -> Tile:
    """A product's tile, its depth cut to leave the stack some room."""
    tile = matrix_tile(compute, target)
    depth = PATCH_DEPTH if compute == "float32" else PATCH_DEPTH // 2
    return Tile(tile.lanes, tile.rows, tile.vectors, depth, 5 * 64)
