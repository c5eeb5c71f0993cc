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
has and which no sum of leaves 32 bits. A weight is packed in panels, words first, and
filled up with zeros, so what a last word reads beyond its run counts for nothing.

A product of matrices is a convolution with windows of one position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import (
    Broadcast,
    Const,
    Expr,
    Pointer,
    Reinterpret,
    Select,
    TileStep,
    Type,
    cast,
    i32,
    i64,
    load,
)
from rushlight.kernels.loop_helpers import (
    Operand,
    apply,
    blocks_of,
    maximum,
    minimum,
    moved,
    multiply_fours,
    multiply_shorts,
    put,
    quotient,
    remainder,
    rolled,
)

# What a kernel is told, in order. A line is a row of positions whose windows begin at equal
# steps; `pitch` of them are from one row of the result to the next, and the first `width`
# of those are results.
_LINES = "parts panel_parts part_panels strips strip lines positions pitch width"
_STEPS = "planes image plane line row step plane_out line_out"
INTS = (
    f"{_LINES} {_STEPS} runs words group columns out_row panels starts groups".split()
)
BASES = "out", "input", "weight", "table", "start"
SIDE = 16  # rows of a tile of AMX, and words in one
TILE_ROWS = 2 * SIDE  # positions of a step by tiles
STRIP = 128  # positions that go together, at most


@dataclass(frozen=True)
class Way:
    """How words are multiplied.

    Attributes:
        name: ``tiles``, ``fours`` or ``shorts``; ``channels`` where each channel has a
            window of its own, whose elements are words.
        element: the type of the input's elements.
        lanes: 32-bit integers of a vector.
        registers: how many vectors there are.
    """

    name: str
    element: str
    lanes: int
    registers: int

    @property
    def together(self):
        """Elements of a 32-bit word."""
        return 4 // Type(self.element).itemsize

    @property
    def columns(self):
        """Output channels of a panel."""
        return 2 * self.lanes

    @property
    def words(self):
        """What the words of a run are a multiple of."""
        return SIDE if self.name == "tiles" else 1


def way_of(name) -> Way:
    """The way of a name, on the processor that is compiled for."""
    target = current()
    if name == "tiles":
        return Way(name, "uint8", SIDE, 8)
    element = "int16" if name == "shorts" else "uint8"
    return Way(name, element, target.vector_bytes // 4, target.registers)


def int8_conv(name, way, after, positions=()) -> ir.Function:
    """The kernel: out, input, weight, table, start, then what the epilogue reads.

    Sums begin at ``start``, a number for each output channel; it has as many of a group as
    `INTS` says, a multiple of 32.

    Args:
        way: how words are multiplied.
        after: the epilogue, as `contraction.After`.
        positions: numbers of its operands that have a value for each position and group.
    """
    forms = {"tiles": _ByTiles, "channels": _ByChannels}
    form = forms.get(way.name, _ByVectors)
    return ir.kernel(name, rolled(form(way, after, positions).write()))


class _Conv:
    """Writes what all ways have in common: positions, panels and the epilogue."""

    def __init__(self, way, after, positions):
        self.b = b = Builder()
        self.way, self.after, self.positions = way, after, positions
        self.n = {key: b.let(key, ir.integer(at)) for at, key in enumerate(INTS)}
        kinds = Type(after.stored), Type(way.element), i32, i64, i32
        self.p = {
            key: b.let(key, ir.argument(at, kind))
            for at, (key, kind) in enumerate(zip(BASES, kinds, strict=True))
        }
        self.others = [
            b.let("other", ir.argument(len(BASES) + k, Type(kind)))
            for k, (kind, _) in enumerate(after.others)
        ]
        room = STRIP + 2 * TILE_ROWS
        self.sources, self.targets = (
            b.array(key, i64, room) for key in ("sources", "targets")
        )

    def write(self):
        """The statements."""
        b, n = self.b, self.n
        self.begin()
        with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
            part = b.let("part", remainder(chunk, n["parts"]))
            rest = b.let("rest", quotient(chunk, n["parts"]))
            group = b.let("group_at", quotient(part, n["panel_parts"]))
            count = self.list_positions(rest, group)
            first = remainder(part, n["panel_parts"]) * n["part_panels"]
            first = b.let("first", first)
            last = b.let("last", minimum(first + n["part_panels"], n["panels"]))
            self.panels(first, last, group, count)
        self.end()
        return b.statements

    def begin(self):
        """What comes before all."""

    def end(self):
        """What comes after all."""

    def list_positions(self, rest, group):
        """Where the positions of a strip are read and written; how many there are."""
        b, n = self.b, self.n
        strip = b.let("strip_at", remainder(rest, n["strips"]))
        rest = b.let("rest", quotient(rest, n["strips"]))
        line = b.let("line_at", remainder(rest, n["lines"]))
        plane = b.let("plane_at", quotient(rest, n["lines"]))
        image, z = quotient(plane, n["planes"]), remainder(plane, n["planes"])
        source = image * n["image"] + z * n["plane"] + line * n["line"]
        source = b.let("source", source + group * n["group"])
        target = b.let("target", plane * n["plane_out"] + line * n["line_out"])
        start, end = self.strip(strip)
        count = b.let("count", end - start)
        y = b.declare("y", quotient(start, n["pitch"]))
        x = b.declare("x", remainder(start, n["pitch"]))
        with b.loop("q", 0, count) as q:
            b.store(self.sources, q, source + y * n["row"] + x * n["step"])
            inside = Select(x < n["width"], target + y * n["width"] + x, Const(i64, -1))
            b.store(self.targets, q, inside)
            b.assign(x, x + 1)
            with b.when(x == n["pitch"]):
                b.assign(x, Const(i64, 0))
                b.assign(y, y + 1)
        return count

    def strip(self, number):
        """Where a strip begins and ends on its line."""
        b, n = self.b, self.n
        start = b.let("start", number * n["strip"])
        return start, b.let("end", minimum(start + n["strip"], n["positions"]))

    def weight(self, group, panel):
        """Where the words of a panel are."""
        n = self.n
        size = n["runs"] * n["words"] * self.way.columns
        at = (group * n["panels"] + panel) * size
        return self.b.let("panel_at", moved(self.p["weight"], at))

    def begin_at(self, group, panel):
        """Where the first sums of a panel are."""
        at = group * self.n["starts"] + panel * self.way.columns
        return self.b.let("start", moved(self.p["start"], at))

    def results(self, group, panel):
        """Where the results of a panel are, where its operands are, and its columns."""
        b, n = self.b, self.n
        at = b.let("at", panel * self.way.columns)
        column = b.let("column", group * n["columns"] + at)
        kinds = zip(self.others, self.after.others, strict=True)
        bases = [
            b.let("base", moved(base, column)) if along else base
            for base, (_, along) in kinds
        ]
        out = b.let("results", moved(self.p["out"], column))
        return _Results(out, group, bases), b.let("rest", n["columns"] - at)

    def hold(self, results, vectors):
        """The same with operands of some vectors in registers, for all rows."""
        held = [
            [
                None
                if k in self.positions
                else self.read(base, along, v * self.way.lanes)
                for k, (base, (_, along)) in enumerate(
                    zip(results.bases, self.after.others, strict=True)
                )
            ]
            for v in range(vectors)
        ]
        return replace(results, held=held)

    def read(self, base, along, at):
        """A vector of an operand: of its columns, or one value in all lanes."""
        value = load(base, at, self.way.lanes) if along else load(base, 0)
        value = value if along else Broadcast(self.way.lanes, value)
        return self.b.let("held", value)

    def finish(self, results, i, rows, waiting, wide, rest):
        """Makes results of sums that wait, and stores them.

        Args:
            i: the first position.
            rows: the numbers of the first row and of the one behind the last.
            waiting, wide: the sums, and how many columns a row has there.
            rest: columns of results, of which operands are held or nothing is known.
        """
        b = self.b
        with b.loop("r", *rows) as r:
            target = b.let("target", load(self.targets, i + r))
            with b.when(target >= 0):
                row = moved(results.out, target * self.n["out_row"])
                row = b.let("row", row)
                at = target * self.n["groups"] + results.group
                bases = [
                    b.let("value_at", moved(base, at)) if k in self.positions else base
                    for k, base in enumerate(results.bases)
                ]
                line = b.let("line", moved(waiting, r * wide))
                if results.held is None:
                    others = [Operand(base, None) for base in bases]
                    apply(b, self.after, line, row, rest, others)
                for v, values in enumerate(results.held or ()):
                    read = [
                        self.read(bases[k], False, 0) if value is None else value
                        for k, value in enumerate(values)
                    ]
                    at = v * self.way.lanes
                    total = load(line, at, self.way.lanes)
                    put(b, row, at, self.after.apply(total, read))


@dataclass(frozen=True)
class _Results:
    """Where results of a panel go, and what is read for them.

    Attributes:
        out: the first column of the first position.
        group: of the panel.
        bases: where each operand is.
        held: for each vector of columns the operands in registers; None where the number
            of columns is not known.
    """

    out: Expr
    group: Expr
    bases: list
    held: list | None = None


class _ByVectors(_Conv):
    """Tiles of some positions by some vectors of output channels, in registers."""

    def __init__(self, way, after, positions):
        super().__init__(way, after, positions)
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
        b, (height, *lower) = self.b, heights
        if not lower:
            self.tile(height, i, *given)
            return
        with b.when(rest >= height):
            b.assign(rows, Const(i64, height))
            self.tile(height, i, *given)
        with b.otherwise():
            self.heights(lower, i, rest, rows, *given)

    def tile(self, height, i, weights, begin):
        """The sums of some positions, stored where they wait."""
        b, n, lanes = self.b, self.n, self.way.lanes
        vectors = [(w, v * lanes) for w in weights for v in (0, 1)]
        first = [
            b.let("first", load(begin, v * lanes, lanes)) for v in range(len(vectors))
        ]
        sums = [[b.declare("sum", each) for each in first] for _ in range(height)]
        lines = [
            b.let("line", moved(self.p["input"], load(self.sources, i + r)))
            for r in range(height)
        ]
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
        for r, totals in enumerate(sums):
            for v, total in enumerate(totals):
                b.store(self.waiting, (r * len(vectors) + v) * lanes, total)

    def step(self, lines, sums, place, along):
        """Adds the products of one word of each position.

        Args:
            place: bytes from where a window begins.
            along: words of the weight.
        """
        b = self.b
        for line, totals in zip(lines, sums, strict=True):
            word = Reinterpret(Pointer(i32), ir.Offset(line, place))
            value = Broadcast(self.way.lanes, load(word, 0, alignment=1))
            value = b.let("value", value)
            for total, other in zip(totals, along, strict=True):
                b.assign(total, self.multiply(value, other, total))


class _ByChannels(_ByVectors):
    """Each channel by itself: vectors of channels of the input, times their taps."""

    def __init__(self, way, after, positions):
        super().__init__(way, after, positions)
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


class _ByTiles(_Conv):
    """Two by two tiles of AMX: 32 positions by 32 output channels.

    The last positions of a line go together with some before them, so that no tile reads
    beyond it, but where a line has fewer than a tile: there must be memory behind it.
    """

    def __init__(self, way, after, positions):
        super().__init__(way, after, positions)
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
