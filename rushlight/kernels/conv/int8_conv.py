"""Convolutions and products of bytes as implicit GEMM: windows are read where they lie.

    for each strip of positions                     (threads)
        for each panel of output channels           its weights stay in the L1 cache
            for each tile of positions
                for each run of a window            elements that lie side by side
                    for each word of the run        products summed in 32 bits
                epilogue: what becomes of sums before they are stored

Channels lie innermost, so a row of a window is one run of elements; a table says how far
each run is from the first. Words are what one step sums: four products of bytes by VNNI, 64
bytes of a row by a tile of AMX, or two products of 16-bit integers, which every processor
has and which no sum of leaves 32 bits. Where the input has bytes of seven bits, four of
their products are summed by older processors, too: two of them fit in 16 bits, and six by
weights that are small enough, which is known where these are packed.

A weight is packed in panels, words first, and filled up with zeros, so what a last word reads
beyond its run counts for nothing.

A product of matrices is a convolution with windows of one position.

Follows Dukhan, "The Indirect Convolution Algorithm" (2019), and QNNPACK: a table of
addresses in place of a patch matrix; panels of weights as FBGEMM packs them.
"""

from functools import partial

from rushlight.ir import expr as ir
from rushlight.ir.expr import (
    Broadcast,
    Const,
    Pointer,
    Reinterpret,
    TileStep,
    Type,
    cast,
    i32,
    i64,
    load,
)
from rushlight.kernels.conv.int8_positions import SIDE, TILE_ROWS, Conv
from rushlight.kernels.loop_helpers import (
    blocks_of,
    first_of,
    maximum,
    minimum,
    moved,
    multiply_fours,
    multiply_sevens,
    multiply_shorts,
    quotient,
    rolled,
)
from rushlight.kernels.micro_kernels import outer_product


def int8_conv(name, way, epilogue, positions=()) -> ir.Function:
    """The kernel: out, input, weight, table, start, then what the epilogue reads.

    Sums begin at ``start``, a number for each output channel; it has as many of a group as
    `INTS` says, a multiple of 32.

    Args:
        way: how words are multiplied.
        epilogue: of the sums, as `Epilogue`.
        positions: numbers of its operands that have a value for each position and group.
    """
    forms = {"tiles": _ByTiles, "channels": _ByChannels, "sevens": _BySevens}
    form = forms.get(way.name, _ByVectors)
    return ir.kernel(name, rolled(form(way, epilogue, positions).write()))


class _ByVectors(Conv):
    """Tiles of some positions by some vectors of output channels, in registers."""

    def __init__(self, way, epilogue, positions):
        super().__init__(way, epilogue, positions)
        wide = way.registers >= 32
        self.both = (6, 4, 2, 1) if wide else (2, 1)  # positions by two panels
        self.alone = (8, 4, 2, 1) if wide else (6, 4, 2, 1)  # and by one
        size = max(2 * self.both[0], self.alone[0]) * way.columns
        self.waiting = self.b.array("waiting", i32, size)
        self.multiply = multiply_fours if way.name == "fours" else multiply_shorts

    def panels(self, first, last, group, count):
        """All panels, two at a time where there are registers for it."""
        b = self.b
        panel = b.declare("panel", first + 0)
        two = last - panel >= 2
        if self.way.registers < 32:
            two = two & (count <= self.both[0])
        with b.repeat(two):
            self.strips(self.both, b.let("panel_now", panel + 0), 2, group, count)
            b.assign(panel, panel + 2)
        with b.repeat(panel < last):
            self.strips(self.alone, b.let("panel_now", panel + 0), 1, group, count)
            b.assign(panel, panel + 1)

    def strips(self, heights, panel, panels, group, count):
        """All positions of a strip by some panels."""
        b, lanes = self.b, self.way.lanes
        weights = [self.weight(group, panel + p) for p in range(panels)]
        begin = self.begin_at(group, panel)
        wide = panels * self.way.columns
        results, rest = self.results(group, panel)
        i = b.declare("i", Const(i64, 0))
        with b.repeat(i < count):
            here, left = b.let("here", i + 0), b.let("left", count - i)
            rows = b.declare("rows", Const(i64, 1))
            self.heights(heights, here, left, rows, weights, begin)
            place = here, (0, rows + 0), self.waiting, wide, rest
            with b.when(rest >= wide):
                self.finish(self.hold(results, wide // lanes), *place)
            with b.otherwise(), b.when(rest == lanes):
                self.finish(self.hold(results, 1), *place)
            with b.when((rest < wide) & (rest != lanes)):
                self.finish(results, *place)
            b.assign(i, i + rows)

    def heights(self, heights, i, rest, rows, *given):
        """The tile of as many positions as there are."""
        *higher, least = heights

        def tile(height):
            self.b.assign(rows, Const(i64, height))
            self.tile(height, i, *given)

        cases = [(rest >= height, partial(tile, height)) for height in higher]
        first_of(self.b, cases, partial(self.tile, least, i, *given))

    def tile(self, height, i, weights, begin):
        """The sums of some positions, stored where they wait."""
        b, lanes = self.b, self.way.lanes
        vectors = [(w, v * lanes) for w in weights for v in (0, 1)]
        first = [
            b.let("first", load(begin, v * lanes, lanes)) for v in range(len(vectors))
        ]
        sums = [[b.declare("sum", each) for each in first] for _ in range(height)]
        lines = [
            b.let("line", moved(self.p["input"], load(self.sources, i + r)))
            for r in range(height)
        ]
        self.sum_up(lines, sums, weights, vectors)
        for r, totals in enumerate(sums):
            for v, total in enumerate(totals):
                b.store(self.waiting, (r * len(vectors) + v) * lanes, total)

    def sum_up(self, lines, sums, weights, vectors):
        """Adds the products of all words of all runs."""
        b, n, lanes = self.b, self.n, self.way.lanes
        at = b.declare("at", Const(i64, 0))
        with b.loop("run", 0, n["runs"]) as run:
            start = load(self.p["table"], run) * Type(self.way.element).itemsize
            place = b.declare("place", start)
            with b.loop("word", 0, n["words"]):
                along = [
                    b.let("along", load(weight, at + v, lanes)) for weight, v in vectors
                ]
                self.step(lines, sums, place, along)
                b.assign(place, place + 4)
                b.assign(at, at + self.way.columns)

    def step(self, lines, sums, place, along):
        """Adds the products of one word of each position.

        Args:
            place: bytes from where a window begins.
            along: words of the weight.
        """
        words = (self.word(line, place) for line in lines)
        outer_product(self.b, sums, words, along, self.multiply)

    def word(self, line, place):
        """A word of a position in all lanes."""
        word = Reinterpret(Pointer(i32), ir.Offset(line, place))
        value = Broadcast(self.way.lanes, load(word, 0, alignment=1))
        return self.b.let("value", value)


class _BySevens(_ByVectors):
    """Words of seven bits: three together as far as sums of them fit in 16 bits.

    The words of a panel lie in an order of their own: how many threes there are, and the
    number of each word, by which the table says where it is in a window.
    """

    def __init__(self, way, epilogue, positions):
        super().__init__(way, epilogue, positions)
        if way.registers >= 32:
            self.alone = 12, 8, 4, 2, 1
            self.waiting = self.b.array("waiting", i32, 12 * way.columns)

    def panels(self, first, last, group, count):
        """All panels, each with its order of words."""
        b, n = self.b, self.n
        with b.loop("panel", first, last) as panel:
            at = (group * n["panels"] + panel) * (n["runs"] * n["words"] + 1)
            self.order = b.let("order_at", moved(self.p["order"], at))
            self.strips(self.alone, panel, 1, group, count)

    def sum_up(self, lines, sums, weights, vectors):
        """Adds the products of all words: of threes first."""
        b, n, wide = self.b, self.n, self.way.columns
        threes = b.let("threes", cast(i64, load(self.order, 0)))
        (weight,) = weights
        at = b.declare("at", Const(i64, 0))
        word = b.declare("word", Const(i64, 1))

        def step(count):
            offsets = [
                b.let(
                    "place",
                    load(self.p["table"], cast(i64, load(self.order, word + k))),
                )
                for k in range(count)
            ]
            along = [
                [
                    b.let("along", load(weight, at + (k * wide + v), self.way.lanes))
                    for k in range(count)
                ]
                for _, v in vectors
            ]
            self.step(lines, sums, offsets, along)
            b.assign(at, at + count * wide)
            b.assign(word, word + count)

        with b.loop("three", 0, threes):
            step(3)
        with b.repeat(word <= n["runs"] * n["words"]):
            step(1)

    def step(self, lines, sums, place, along):
        b = self.b
        for line, totals in zip(lines, sums, strict=True):
            values = [self.word(line, each) for each in place]
            for total, others in zip(totals, along, strict=True):
                sides = [side for both in zip(values, others) for side in both]
                b.assign(total, multiply_sevens(total, *sides))


class _ByChannels(_ByVectors):
    """Each channel by itself: vectors of channels of the input, times their taps."""

    def __init__(self, way, epilogue, positions):
        super().__init__(way, epilogue, positions)
        self.both = self.alone

    def panels(self, first, last, group, count):
        """All panels, each with its channels of the input."""
        with self.b.loop("panel", first, last) as panel:
            self.strips(self.alone, panel, 1, group, count)

    def strips(self, heights, panel, panels, group, count):
        self.channel = self.b.let("channel", panel * self.way.columns)
        super().strips(heights, panel, panels, group, count)

    def step(self, lines, sums, place, along):
        for line, totals in zip(lines, sums, strict=True):
            for v, (total, other) in enumerate(zip(totals, along, strict=True)):
                at = place + self.channel + v * self.way.lanes
                value = cast(i32, load(line, at, self.way.lanes))
                value = self.b.let("value", value)
                self.b.assign(total, multiply_shorts(value, other, total))


class _ByTiles(Conv):
    """Two by two tiles of AMX: 32 positions by 32 output channels.

    The last positions of a line go together with some before them, so that no tile reads
    beyond it, but where a line has fewer than a tile: there must be memory behind it.
    """

    def __init__(self, way, epilogue, positions):
        super().__init__(way, epilogue, positions)
        self.waiting = self.b.array("waiting", i32, 2 * TILE_ROWS * way.columns)

    def begin(self):
        self.b.add(TileStep("configure"))

    def end(self):
        self.b.add(TileStep("release"))

    def strip(self, number):
        b, n = self.b, self.n
        start = number * n["strip"]
        end = b.let("end", minimum(start + n["strip"], n["positions"]))
        start = maximum(minimum(start, n["positions"] - TILE_ROWS), Const(i64, 0))
        return b.let("start", start), end

    def panels(self, first, last, group, count):
        """All panels, and for each all positions."""
        b, lanes, wide = self.b, self.way.lanes, self.way.columns
        steps = b.let("steps", self.n["runs"] * quotient(self.n["words"], SIDE))
        self.share = b.let("share", blocks_of(Const(i64, TILE_ROWS), steps))
        with b.loop("panel", first, last) as panel:
            ends = self.begin_at(group, panel), self.weight(group, panel)
            results, rest = self.results(group, panel)
            with b.when(rest >= wide):
                self.blocks(self.hold(results, 2), count, rest, ends)
            with b.otherwise(), b.when(rest == lanes):
                self.blocks(self.hold(results, 1), count, rest, ends)
            with b.when((rest < wide) & (rest != lanes)):
                self.blocks(results, count, rest, ends)

    def blocks(self, results, count, rest, ends):
        """All positions by a panel: between the products of some, sums of those before
        become results, as the unit of tiles and that of vectors work at once.
        """
        b, wide = self.b, self.way.columns
        across = 2 if results.held is None else len(results.held)
        done, ready, before, side = (
            b.declare(key, Const(i64, 0)) for key in ("done", "ready", "before", "side")
        )

        def finish(stop):
            pending = b.let(
                "pending", moved(self.waiting, (1 - side) * (TILE_ROWS * wide))
            )
            rows = b.let("from", done + 0), b.let("to", stop)
            self.finish(results, before, rows, pending, wide, rest)
            b.assign(done, rows[1])

        with b.loop("next", 0, count, TILE_ROWS) as after:
            last = maximum(count - TILE_ROWS, Const(i64, 0))
            i = b.let("i", minimum(after, last))
            rows = b.let("rows", minimum(count - i, TILE_ROWS))
            line = b.let("line", moved(self.p["input"], load(self.sources, i)))
            here = b.let("here", moved(self.waiting, side * (TILE_ROWS * wide)))

            def square(down, line=line, here=here):
                def between():
                    finish(minimum(done + self.share, ready))

                self.square(down, across, line, ends, here, between)

            with b.when(rows > SIDE):
                square(2)
            with b.otherwise():
                square(1)
            finish(ready + 0)
            for var, value in (done, 0), (ready, rows), (before, i), (side, 1 - side):
                b.assign(var, value)
        finish(ready + 0)

    def square(self, down, across, line, ends, waiting, between):
        """The sums of some tiles, stored where they wait.

        Args:
            ends: where sums begin, and the weight.
            between: writes what is done after each step.
        """
        begin, weight = ends
        b, n, width = self.b, self.n, self.way.columns
        squares = [(r, c) for r in range(down) for c in range(across)]
        step, pitch = n["step"], Const(i64, 4 * width)
        for r, c in squares:
            place = Const(i64, c * SIDE)
            b.add(TileStep("load", 2 * r + c, 0, 0, begin, place, Const(i64, 0)))
        at = b.declare("at", Const(i64, 0))
        with b.loop("run", 0, n["runs"]) as run:
            start = b.let("run_at", load(self.p["table"], run))
            with b.loop("word", 0, n["words"], SIDE) as word:
                for r in range(down):
                    place = start + word * 4 + step * (r * SIDE)
                    b.add(TileStep("load", 4 + r, 0, 0, line, place, step))
                for c in range(across):
                    b.add(TileStep("load", 6 + c, 0, 0, weight, at + c * SIDE, pitch))
                for r, c in squares:
                    b.add(TileStep("unsigned_fours", 2 * r + c, 4 + r, 6 + c))
                b.assign(at, at + SIDE * width)
                between()
        for r, c in squares:
            place = Const(i64, r * SIDE * width + c * SIDE)
            b.add(TileStep("store", 2 * r + c, 0, 0, waiting, place, pitch))
