"""Products by a processor's unit of tiles: the step of a contraction that x86's AMX takes.

    for each block of k                             b[k, :] packed, in the L2 cache
        for each panel of 32 rows                   a[:, k] packed, in the L1 cache
            for each 32 columns                     2 x 2 tiles of sums
                for each 16 words of k              4 tiles loaded, 4 products

A word is what a sum takes at once: two bfloat16 or four bytes, neighbours along the depth.
Both operands are packed tile after tile, in either order of their elements, and filled up
with zeros along the depth; what tiles have too many of rows and columns means nothing, and
is left where it was made.

Follows the blocking of BLIS with oneDNN's AMX micro-kernel: two by two tiles of sums, so
that each tile that is loaded is multiplied twice.
"""

from functools import partial

from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.ir import expr as ir
from rushlight.ir.expr import (
    Const,
    Pointer,
    Prefetch,
    Reinterpret,
    Select,
    Shuffle,
    TileStep,
    i32,
    i64,
    load,
)
from rushlight.kernels.loop_helpers import (
    Operand,
    blocks_of,
    first_of,
    lane_mask,
    minimum,
    moved,
    named,
    quotient,
)

SIDE = 16  # rows of a tile, and words in one
SQUARE = SIDE * SIDE
LEFT, RIGHT = 4, 6  # the first tiles of operands: those before are sums


class TileProduct:
    """Writes the loops of one product whose sums are in tiles.

    Args:
        step: how they are multiplied, as `expr.TileStep` says.
    """

    def __init__(self, builder, tile, compute, step):
        self.b, self.tile, self.compute, self.step = builder, tile, compute, step
        self.waiting = builder.array("waiting", compute, tile.rows * tile.width)

    def begin(self, a_type, b_type):
        """Makes room for what is packed, and sets up the unit."""
        b, tile = self.b, self.tile
        self.together = 4 // a_type.itemsize  # elements of a word
        self.lanes = SIDE * self.together  # and of a row of a tile
        self.left, self.right = (
            b.array(name, element, tile.depth * count * self.together)
            for name, element, count in (
                ("left", a_type, tile.rows),
                ("right", b_type, tile.columns),
            )
        )
        b.add(TileStep("configure"))

    def end(self):
        """Gives the unit back: a thread that stops has less to be kept for it."""
        self.b.add(TileStep("release"))

    def sweep(self, n, height, width, left, right, results):
        """Adds up one block of the output over blocks of the depth.

        Nothing is added to the sums but by what is behind them. Where they wait, there
        is room for whole tiles.
        """
        b, tile = self.b, self.tile
        most = tile.depth * self.together
        with b.loop("k0", 0, n["depth"], most) as k0:
            depth = b.let("depth", minimum(n["depth"] - k0, most))
            steps = b.let("steps", blocks_of(depth, self.lanes))
            first = b.let("first", k0 == 0)
            ended = b.let("ended", k0 + most >= n["depth"])
            self.pack_right(named(b, "source", right.at(k0)), depth, steps, width)
            with b.loop("i", 0, height, tile.rows) as i:
                rows = b.let("rows", minimum(height - i, tile.rows))
                lines = named(b, "lines", left.at(i, k0))
                self.pack_left(lines, depth, steps, rows)
                with b.loop("j", 0, width, tile.width) as j:
                    count = b.let("count", minimum(width - j, tile.width))
                    kept = named(b, "kept", results.sums.at(i, j))
                    panel = moved(self.right, j * steps * self.lanes)
                    panel = b.let("panel", panel)
                    several = rows > SIDE, count > SIDE
                    soon = self.soon(lines, j)
                    self.squares(several, steps, panel, kept, first, ended, soon)
                    with b.when(ended):
                        self.finish(rows, count, results, i, j)

    def squares(self, several, *operands):
        """One tile, or two, down and across: as many as have results in them."""
        down, across = several

        def of_rows(count):
            square = partial(self.square, count)
            wide = across, partial(square, 2, *operands)
            first_of(self.b, [wide], partial(square, 1, *operands))

        first_of(self.b, [(down, partial(of_rows, 2))], partial(of_rows, 1))

    def soon(self, lines, j):
        """What is asked for while a panel is multiplied: some lines of the rows after.

        A step asks for two of them, a panel for all of two rows (or of two columns for
        each step, where these have adjacent elements): what 16 panels have asked for
        is one of rows.
        """
        b, rows = self.b, Const(i64, self.tile.rows)
        along = lines.column == 1
        line_pitch = b.let("apart", Select(along, lines.row, lines.column))
        ahead = rows * Select(along, lines.row, Const(i64, 1))
        start = ahead + quotient(j, SIDE) * line_pitch
        return Operand(
            b.let("soon", moved(lines.pointer, start)),
            line_pitch,
            lines.column * self.lanes,
        )

    def square(self, down, across, steps, panel, kept, first, ended, soon):
        """The sums of some tiles, from zero or from where they wait, and back."""
        b, tile = self.b, self.tile
        positions = [(row, column) for row in range(down) for column in range(across)]
        row_bytes = b.let("row_bytes", kept.row * self.compute.itemsize)
        pitch = Const(i64, tile.width * self.compute.itemsize)

        def move(name, pointer, row, pitch):
            for r, c in positions:
                at = ir.as_expr(row * (r * SIDE) + c * SIDE, i64)
                b.add(TileStep(name, 2 * r + c, 0, 0, pointer, at, pitch))

        with b.when(first):
            for r, c in positions:
                b.add(TileStep("zero", 2 * r + c))
        with b.otherwise():
            move("load", kept.pointer, kept.row, row_bytes)
        with b.loop("step", 0, steps) as step:
            start = b.let("start", step * (2 * SQUARE * self.together))
            sides = (("load", LEFT, down, self.left), ("stream", RIGHT, across, panel))
            for name, number, count, pointer in sides:
                for k in range(count):
                    at = start + k * SQUARE * self.together
                    step_of = name, number + k, 0, 0, pointer, at, Const(i64, 64)
                    b.add(TileStep(*step_of))
            for r, c in positions:
                b.add(TileStep(self.step, 2 * r + c, LEFT + r, RIGHT + c))
            for k in range(2):
                at = soon.row * k + step * soon.column
                b.add(Prefetch(soon.pointer, at, 2))
        with b.when(ended):
            move("store", self.waiting, Const(i64, tile.width), pitch)
        with b.otherwise():
            move("store", kept.pointer, kept.row, row_bytes)

    def finish(self, rows, count, results, i, j):
        """Makes results of the sums that wait, and writes them."""
        b, width = self.b, self.tile.width
        out = named(b, "there", results.out.at(i, j))
        others = [other.at(i, j) for other in results.others]
        others = [Operand(b.let("other", o.pointer), o.row, o.column) for o in others]

        sums = Operand(self.waiting, Const(i64, width))

        def lines(count):
            results.epilogue.write_rows(b, rows, count, sums, out, others)

        with b.when(count == width):  # of a known length there is no rest to ask for
            lines(Const(i64, width))
        with b.otherwise():
            lines(count)

    # Packing

    def masked(self, lanes, count, wanted=None):
        """The mask of so many lanes, or of none unless they are wanted."""
        if wanted is not None:
            count = Select(wanted, count, Const(i64, 0))
        return self.b.let("mask", lane_mask(lanes, count))

    def woven(self, lines):
        """Rows along the depth, of which neighbours become words, in their order."""
        if len(lines) == 1:
            return lines
        result = []
        halves = self.woven(lines[::2]), self.woven(lines[1::2])
        for first, second in zip(*halves, strict=True):
            count = first.type.lanes
            picks = [lane for n in range(count) for lane in (n, count + n)]
            wide = min(2 * count, self.lanes)
            for k in range(0, len(picks), wide):
                words = Shuffle(picks[k : k + wide], first, second)
                result.append(self.b.let("words", words))
        return result

    def words(self, pointer):
        """Packed elements as words."""
        return self.b.let("words_there", Reinterpret(Pointer(i32), pointer))

    def pack_left(self, source, depth, steps, rows):
        """Rows, 16 words of each tile after tile: in order, or turned in registers."""
        b, lanes, panel = self.b, self.lanes, self.tile.rows
        with b.when(source.column == 1), b.loop("r", 0, rows) as r:
            line = b.let("line", moved(source.pointer, r * source.row))
            to = b.let("to", moved(self.left, r * lanes))
            with b.loop("s", 0, steps) as s:
                at = b.let("at", s * lanes)
                mask = self.masked(lanes, depth - at)
                b.store(to, at * panel, load(line, at, lanes, mask=mask))
        with b.otherwise():
            target = self.words(self.left)
            with b.loop("s", 0, steps) as s, b.loop("t", 0, rows, SIDE) as t:
                vectors = []
                for word in range(SIDE):
                    k = [s * lanes + word * self.together + n for n in self.each]
                    pointers = [
                        moved(source.pointer, t + at * source.column) for at in k
                    ]
                    lines = [
                        b.let(
                            "line",
                            load(
                                place,
                                0,
                                SIDE,
                                mask=self.masked(SIDE, rows - t, at < depth),
                            ),
                        )
                        for place, at in zip(pointers, k, strict=True)
                    ]
                    (whole,) = self.woven(lines)
                    vectors.append(b.let("line", Reinterpret(i32.vector(SIDE), whole)))
                at = b.let("at", s * panel * SIDE + t * SIDE)
                for k, vector in enumerate(transpose(b, vectors)):
                    b.store(target, at + k * SIDE, vector)

    @property
    def each(self):
        """The elements of a word."""
        return range(self.together)

    def pack_right(self, source, depth, steps, width):
        """Panels of two tiles, one below another: woven, or turned in registers."""
        b, lanes, panel = self.b, self.lanes, self.tile.width
        with b.when(source.column == 1), b.loop("s", 0, steps) as s:
            # Panels within a step: rows are read along, as many as caches see ahead of.
            lines = named(b, "lines", source.at(s * lanes))
            rest = b.let("rest", minimum(depth - s * lanes, lanes))
            whole = b.let("whole", quotient(rest, self.together))
            with b.loop("panel", 0, width, panel) as first:
                to = self.right, (first * steps + s * panel) * lanes
                to = b.let("to", moved(*to))
                here = b.let("here", moved(lines.pointer, first))
                few = min(lanes, panel)  # columns that are read at once
                masks = {
                    at: self.masked(few, width - first - at)
                    for at in range(0, panel, few)
                }
                here = Operand(here, source.row)
                with b.loop("word", 0, whole) as word:
                    self.weave(here, to, word, masks)
                with b.loop("word", whole, SIDE) as word:
                    self.weave(here, to, word, masks, rest)
        with b.otherwise():
            target = self.words(self.right)
            with b.loop("column", 0, width, SIDE) as column:
                first = quotient(column, panel) * panel
                to = first * steps * SIDE + (column - first) * SIDE
                to = b.let("to", moved(target, to))
                starts = [
                    b.let("origin", minimum(column + n, width - 1) * source.column)
                    for n in range(SIDE)
                ]
                with b.loop("s", 0, steps) as s:
                    at = b.let("at", s * lanes)
                    mask = self.masked(lanes, depth - at)
                    lines = [
                        load(source.pointer, start + at, lanes, mask=mask)
                        for start in starts
                    ]
                    lines = [Reinterpret(i32.vector(SIDE), line) for line in lines]
                    lines = transpose(b, [b.let("line", line) for line in lines])
                    for k, vector in enumerate(lines):
                        b.store(to, s * (panel * SIDE) + k * SIDE, vector)

    def weave(self, source, to, word, masks, depth=None):
        """A row of words of a step of a panel; zeros from some depth on."""
        b, lanes, together = self.b, self.lanes, self.together
        for at, mask in masks.items():
            lines, few = [], mask.type.lanes
            for n in self.each:
                k = word * together + n
                if depth is not None:
                    mask = masks[at] & ir.Broadcast(few, k < depth)
                line = load(source.pointer, k * source.row + at, few, mask=mask)
                lines.append(b.let("line", line))
            for k, words in enumerate(self.woven(lines)):
                tile, inside = divmod(at * together + k * words.type.lanes, lanes)
                start = tile * SQUARE * together + inside
                b.store(to, word * lanes + start, words)
