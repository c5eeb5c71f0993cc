"""What all ways of products of bytes have in common: positions, panels and the epilogue.

`int8_conv` has the loops.
"""

from dataclasses import dataclass, replace

from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, Expr, Select, Type, i32, i64, load
from rushlight.kernels.epilogue import store_result
from rushlight.kernels.loop_helpers import Operand, minimum, moved, quotient, remainder

# What a kernel is told, in order. A line is a row of positions whose windows begin at equal
# steps; `pitch` of them are from one row of the result to the next, and the first `width`
# of those are results.
_LINES = "parts panel_parts part_panels strips strip lines positions pitch width"
_STEPS = "planes image plane line row step plane_out line_out"
INTS = (
    f"{_LINES} {_STEPS} runs words group columns out_row panels starts groups".split()
)
BASES = "out", "input", "weight", "table", "start"
ORDERED = *BASES, "order"  # what is read by words of seven bits
SIDE = 16  # rows of a tile of AMX, and words in one
TILE_ROWS = 2 * SIDE  # positions of a step by tiles
STRIP = 128  # positions that go together, at most


@dataclass(frozen=True)
class Way:
    """How words are multiplied.

    Attributes:
        name: ``tiles``, ``fours``, ``sevens`` or ``shorts``; ``channels`` where each channel has a
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
    def bases(self):
        """The operands before those of the epilogue."""
        return ORDERED if self.name == "sevens" else BASES

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


class Conv:
    """Writes what all ways have in common: positions, panels and the epilogue."""

    def __init__(self, way, epilogue, positions):
        self.b = b = Builder()
        self.way, self.epilogue, self.positions = way, epilogue, positions
        self.n = {key: b.let(key, ir.integer(at)) for at, key in enumerate(INTS)}
        kinds = Type(epilogue.stored), Type(way.element), i32, i64, i32, i32
        self.p = {
            key: b.let(key, ir.argument(at, kind))
            for at, (key, kind) in enumerate(zip(way.bases, kinds))
        }
        self.others = [
            b.let("other", ir.argument(len(way.bases) + k, Type(kind)))
            for k, (kind, _) in enumerate(epilogue.others)
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
        kinds = zip(self.others, self.epilogue.others, strict=True)
        bases = [
            b.let("base", moved(base, column)) if along else base
            for base, (_, along) in kinds
        ]
        out = b.let("results", moved(self.p["out"], column))
        return Results(out, group, bases), b.let("rest", n["columns"] - at)

    def hold(self, results, vectors):
        """The same with operands of some vectors in registers, for all rows."""
        held = [
            [
                None
                if k in self.positions
                else self.read(base, along, v * self.way.lanes)
                for k, (base, (_, along)) in enumerate(
                    zip(results.bases, self.epilogue.others, strict=True)
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
                    self.epilogue.write_row(b, line, row, rest, others)
                for v, values in enumerate(results.held or ()):
                    read = [
                        self.read(bases[k], False, 0) if value is None else value
                        for k, value in enumerate(values)
                    ]
                    at = v * self.way.lanes
                    total = load(line, at, self.way.lanes)
                    store_result(b, row, at, self.epilogue.apply(total, read))


@dataclass(frozen=True)
class Results:
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
