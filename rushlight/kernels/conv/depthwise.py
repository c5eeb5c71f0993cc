"""Convolutions of one channel each: a plane stays in registers' reach.

A tile is four rows of one vector of positions, one or two elements of the input apart: of
two, a vector is every other element of two adjacent ones. Each row of the input is loaded once for
each column of the taps, and serves every row of the tile that sees it; what lies beyond
an edge is masked, which stands for zeros; where a processor's masks are slow, planes are
copied first, with zeros around them. The weight's gradient goes over the same tiles:
what is loaded once is multiplied by every row of the output's gradient that it met.

Follows Zhang, Franchetti and Low, "High Performance Zero-Memory Overhead Direct
Convolutions" (2018): nothing is copied, sums of several rows stay in registers.
"""

from copy import copy

from rushlight.codegen.target import current
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
from rushlight.kernels.epilogue import OutputEpilogue
from rushlight.kernels.loop_helpers import (
    lane_mask,
    maximum,
    minimum,
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
PLANE = 8192  # elements that are copied with zeros around them


def depthwise(name, type, lanes, taps, strides, epilogue=None) -> ir.Function:
    """Each output channel from one input channel; chunks are output planes.

    Data: out, weight, input, bias. ``shared`` output channels read one input channel.

    Args:
        taps: rows and columns of a filter.
        strides: rows, and one or two columns, from one position to the next.
        epilogue: of the sums, as `Epilogue`, of results of their type, or None: a plane
            is gone over once more while it is in a cache.
    """
    b = Builder()
    n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(INTS)}
    out, weight, source, bias = (
        b.let(key, ir.argument(i, type))
        for i, key in enumerate(("out", "weight", "input", "bias"))
    )
    planes = OutputEpilogue.of(b, epilogue, 4)
    # Masks of vectors' own registers cost nothing, and a plane of which few positions are
    # taken is not worth its copy.
    copied = strides == (1, 1) and not current().has_masks
    room = Room(b, n, type, lanes, taps) if copied else None
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        row = b.let("row", remainder(chunk, n["rows"]))
        image = quotient(chunk, n["rows"]) * n["channels"]
        plane = (image + quotient(row, n["shared"])) * (n["height"] * n["width"])
        from_ = b.let("plane", moved(source, plane))
        to = b.let("result", moved(out, chunk * n["out_height"] * n["out_width"]))
        tile = PlaneTiles(b, n, type, lanes, (taps, strides), from_, to)
        tile.read_weights(moved(weight, row * (taps[0] * taps[1])), bias, row)
        if room is None:
            tile.edged_plane()
        else:
            with b.when(room.serves):
                room.fill(from_)
                tile.inside(room).plane()
            with b.otherwise():
                tile.edged_plane()
        if epilogue is not None:
            size = b.let("size", n["out_height"] * n["out_width"])
            planes.write_row(b, to, to, size, chunk * size, row)
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
            WeightTiles(b, n, type, lanes, shape, from_, along).add_to(totals)
        group = part * n["groups"] + quotient(row, n["shared"])
        column = remainder(row, n["shared"])
        with b.loop("k", 0, count) as k:
            total = ir.Call("reduce_add", type, load(totals, k * lanes, lanes))
            b.store(out, (group * count + k) * n["shared"] + column, total)
    return ir.kernel(name, rolled(b.statements))


class Room:
    """A plane with what is around it: rows of zeros and of the plane, in the L1 cache.

    Its edges are zeros from the start, as no plane is copied there.

    Attributes:
        serves: whether planes have room there.
        pitch: elements from one row to the next.
    """

    def __init__(self, b, n, type, lanes, taps):
        self.b, self.n, self.lanes = b, n, lanes
        self.data = b.array("room", type, PLANE + lanes)
        seen = n["out_width"] + n["step_x"] * (taps[1] - 1)
        pitch = maximum(n["pad_x"] + n["width"], seen)
        self.pitch = b.let("pitch", pitch)
        seen = n["out_height"] + taps[0] - 1
        rows = b.let("room_rows", maximum(n["pad_y"] + n["height"], seen))
        self.serves = b.let(
            "serves",
            (n["pad_x"] >= 0)
            & (n["pad_y"] >= 0)
            & (n["out_height"] >= ROWS)
            & (self.pitch * rows <= PLANE),
        )
        with b.when(self.serves):
            with b.loop("k", 0, self.pitch * rows, lanes) as k:
                b.store(self.data, k, Const(type.vector(lanes), 0))

    def fill(self, plane):
        """Copies a plane to the middle."""
        b, n, lanes = self.b, self.n, self.lanes
        end = b.let("last_copied", maximum(n["width"] - lanes, 0))
        mask = b.let("copied", lane_mask(lanes, n["width"]))
        with b.loop("line", 0, n["height"]) as line:
            base = b.let("base", moved(plane, line * n["width"]))
            start = (n["pad_y"] + line) * self.pitch + n["pad_x"]
            to = b.let("to", moved(self.data, start))
            with b.when(n["width"] >= lanes):
                with b.loop("k", 0, n["width"], lanes) as k:
                    at = b.let("at", minimum(k, end))
                    b.store(to, at, load(base, at, lanes))
            with b.otherwise():
                b.store(to, 0, load(base, 0, lanes, mask=mask), mask)


class PlaneTiles:
    """The tiles of one plane.

    Args:
        shape: the rows and columns of a filter, and of its steps.

    Attributes:
        lines: rows of the input that a tile sees.
    """

    def __init__(self, b, n, type, lanes, shape, source, out):
        self.b, self.n, self.type, self.lanes = b, n, type, lanes
        (self.taps, self.strides), self.source, self.out = shape, source, out
        self.pitch, self.pads = n["width"], (n["pad_y"], n["pad_x"])
        self.lines = (ROWS - 1) * self.strides[0] + self.taps[0]
        self.weights = self.bias = self.starts = self.masks = None
        self.seen = self.kept = self.clear = None

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
        clear = x + lanes <= n["out_width"]
        for tap in range(self.taps[1]):
            start = b.let("start", x * step + n["step_x"] * tap - self.pads[1])
            self.starts.append(start)
            parts = [self.within(start + lanes * k, 1) for k in range(step)]
            self.masks.append(parts)
            clear = clear & (start >= 0) & (start + lanes * step <= n["width"])
            self.seen.append(parts[0] if step == 1 else self.within(start, step))
        self.kept = b.let("kept", lane_mask(lanes, n["out_width"] - x))
        self.clear = b.let("clear", clear)

    def inside(self, room):
        """The same tile on a plane with all that is around it."""
        tile = copy(self)
        tile.source, tile.pitch, tile.pads = room.data, room.pitch, (0, 0)
        return tile

    def unmasked(self):
        """The same tile where all that it reads of a row is there."""
        tile = copy(self)
        tile.masks = [[None] * len(parts) for parts in self.masks]
        tile.seen = [None] * len(self.seen)
        return tile

    def vectors(self):
        """Yields the first column of each vector: the last one ends with the row."""
        b, n, lanes = self.b, self.n, self.lanes
        end = b.let("last_vector", maximum(n["out_width"] - lanes, 0))
        with b.loop("x0", 0, n["out_width"], lanes) as x0:
            x = b.let("x", minimum(x0, end))
            self.begin_columns(x)
            yield x

    def plane(self):
        """All tiles where all is there that they read."""
        b, n = self.b, self.n
        end = b.let("last_tile", n["out_height"] - ROWS)
        for x in self.vectors():
            tile = self.unmasked()

            def rows(tile, x=x):
                with b.loop("y0", 0, n["out_height"], ROWS) as y0:
                    y = b.let("y", minimum(y0, end))
                    tile.write(x, y, y, True)

            with b.when(n["out_width"] >= self.lanes):
                tile.kept = None
                rows(tile)
            with b.otherwise():
                tile.kept = self.kept
                rows(tile)

    def edged_plane(self):
        """All tiles where rows and columns may be missing."""
        for x in self.vectors():
            whole = self.unmasked()
            whole.kept = None
            with self.b.when(self.clear):
                whole.rows(x)
            with self.b.otherwise():
                self.rows(x)

    def rows(self, x):
        """All tiles of a vector's columns."""
        b, n = self.b, self.n
        with b.loop("y", 0, n["out_height"], ROWS) as y:
            first = b.let("first", y * self.strides[0] - self.pads[0])
            last = first + (self.lines - 1)
            whole = y + ROWS <= n["out_height"]
            with b.when((first >= 0) & (last < n["height"]) & whole):
                self.write(x, y, first, True)
            with b.otherwise():
                self.write(x, y, first, False)

    def within(self, start, step):
        """Lanes whose columns are those of the input."""
        b, lanes = self.b, self.lanes
        positions = Ramp(lanes, cast(i32, start), Const(i32, step))
        positions = b.let("places", positions)
        width = Broadcast(lanes, cast(i32, self.n["width"]))
        zero = Const(i32.vector(lanes), 0)
        return b.let("mask", (positions >= zero) & (positions < width))

    def line_of(self, first, line, inside):
        """What each column of the taps sees in one row of the input, and in which lanes."""
        b, n, lanes = self.b, self.n, self.lanes
        at = b.let("line", first + line)
        base = b.let("base", moved(self.source, at * self.pitch))
        in_bounds = None
        if not inside:
            in_bounds = b.let("there", (at >= 0) & (at < n["height"]))
            in_bounds = b.let("all", Broadcast(lanes, in_bounds))

        def joined(mask):
            if in_bounds is None:
                return mask
            return in_bounds if mask is None else b.let("seen", mask & in_bounds)

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
        """A tile's results; ``inside`` says that all its rows are there.

        Then no store depends on a condition, behind which LLVM would put its row's sums.
        """
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
            if i == 0 or inside:
                b.store(self.out, place, total + bias, self.kept)
                continue
            with b.when(y + i < n["out_height"]):
                b.store(self.out, place, total + bias, self.kept)


class WeightTiles(PlaneTiles):
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
            in_bounds = Broadcast(lanes, y + i < n["out_height"])
            kept = self.kept if i == 0 else b.let("there", self.kept & in_bounds)
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
                for i, (slope, in_bounds) in enumerate(slopes):
                    row = line - i * self.strides[0]
                    if 0 <= row < self.taps[0]:
                        met = seen if inside else seen & in_bounds
                        total = self.weights[row][tap]
                        more = multiply_add(slope, value, total)
                        b.assign(total, ir.select(met, more, total))
