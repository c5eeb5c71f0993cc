"""Attention as functions of a device's grid, by matrix units.

Each warp of a block has 16 queries. Keys and values go past them a slice at a time: scores
stay with the lanes that summed them, where softmax is taken as far as it is known, and as
they are laid out they are the left factors of the product with values. What an earlier
slice gave is scaled down when a larger score is found.

Follows Dao et al., "FlashAttention" (2022) and "FlashAttention-2" (2023): queries stay with
warps, sums are divided by their mass at the end alone.
"""

from dataclasses import dataclass, replace
from functools import partial

from rushlight.codegen.schedule.gpu_lowering import SHARED_BYTES
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import END, INTS, Pointer, Var, f32, i32, i64, u32
from rushlight.kernels.attention.dropout_mask import Dropout, kept
from rushlight.kernels.attention.mma_blocks import (
    GAP,
    LN2,
    LOG2E,
    STAGES,
    WARP,
    Block,
    Rows,
)
from rushlight.kernels.attention.online_softmax import LOWEST, larger, soften

INTEGERS = (
    "heads", "shared", "queries", "keys", "depth", "width", "causal", "spans", "parts",
    "seed", "offset", "least",
)  # fmt: skip
FOUR = ("batch", "head", "row", "column")
FORWARD = ("out", "query", "key", "value", "mask")
UNIT_ROWS, PAD = 16, 32
MOST, MOST_FLOATS = 256, 128  # elements of a query, a key or a value
# Elements of a query, beside more of which fewer sums are kept; with dropout.
DEEP, DROPPING_DEEP = 192, 160
MOST_DROPPING = 192  # elements of a query or a value with dropout
MOST_SUMS, FEWER_SUMS = 128, 96  # elements of a value whose sums a block has
LANES = ("bool", "float16", "bfloat16", "float32")  # types of masks


@dataclass(frozen=True)
class AttentionTile:
    """How a block divides its work.

    Attributes:
        slice: keys (or queries) that go past at a time.
        depth, width: elements of a query and of a value, with zeros behind.
        warps: of a block, each with 16 queries (or keys).
    """

    slice: int
    depth: int
    width: int
    warps: int = 4

    @property
    def rows(self):
        """Queries, or keys, of a block."""
        return UNIT_ROWS * self.warps

    @property
    def threads(self):
        return WARP * self.warps


def tile_for(depth, width, dropout=False, itemsize=2) -> AttentionTile:
    """The tile for sizes of heads: as many keys at a time as shared memory holds.

    Values that are long are divided: a lane has sums of so many of their elements.

    >>> tile_for(64, 64)
    AttentionTile(slice=64, depth=64, width=64, warps=4)
    >>> tile_for(80, 200)
    AttentionTile(slice=32, depth=96, width=128, warps=4)
    """
    width = -(-width // parts_of(depth, width, dropout, itemsize))
    depth, width = (-(-size // PAD) * PAD for size in (depth, width))
    bytes = STAGES * (itemsize * (depth + width) + 2 * GAP)
    slice = next(n for n in (64, 32, 16) if n * bytes <= SHARED_BYTES)
    return AttentionTile(slice, depth, width)


def parts_of(depth, width, dropout=False, itemsize=2):
    """How many parts values are divided into, beside queries of some depth."""
    deep = depth * itemsize // 2 > (DROPPING_DEEP if dropout else DEEP)
    return -(-width // (FEWER_SUMS if deep else MOST_SUMS))


def forward(name, element, tile, mask=None, dropout=False, writer=None) -> ir.Function:
    """``out = softmax(query @ key.T * scale + mask) @ value``, and logarithms of masses.

    Args:
        element: the type of queries, keys, values and results.
        mask: the type of the mask, or None.
        dropout: whether some weights are left out, and the others made larger.
        writer: of the program of a block; by default `Forward`.
    """
    writer = writer or Forward
    operands = FORWARD, ("log_mass",)
    return function_of(writer, name, operands, element, tile, mask, dropout)


def function_of(writer, name, operands, element, tile, mask, dropout) -> ir.Function:
    """A function of a device's grid.

    Args:
        writer: makes what writes the program of a block.
        operands: the names of operands, and of vectors, that a launch points to.
    """
    b = Builder()
    pointers, more = pointers_of(b, *operands, element, mask, dropout)
    writer(b, element, tile, pointers, more, mask).write()
    parameters = (*pointers.values(), *more, INTS, END)
    return ir.Function(name, parameters, b.statements, grid=True)


def pointers_of(b, operands, vectors, element, mask, dropout):
    """What a launch points to: operands by name, then vectors and words.

    The words are the scale and what dropout makes weights larger by; with dropout also seed
    and offset, in the launch's own integers or in memory.
    """
    types = dict.fromkeys(operands, element) | {"mask": mask or element}
    pointers = {o: Var(f"{o}_base", Pointer(types[o])) for o in operands}
    more = [Var(name, Pointer(f32)) for name in (*vectors, "scale")]
    if dropout:
        more.append(Var("stream", Pointer(i64)))
    for pointer in (*pointers.values(), *more):
        b.fresh(pointer.name)
    return pointers, more


class Attention(Block):
    """What both directions share: the integers of a launch, operands, scores.

    Attributes:
        dropout: what draws which weights are kept, or None where all are.
        growth: what those are multiplied by.
    """

    def __init__(self, b, element, tile, pointers, words, mask, transposed=False):
        super().__init__(b, element, tile.threads)
        self.tile, self.pointers, self.mask = tile, pointers, mask
        for k, name in enumerate(INTEGERS):
            setattr(self, name, b.let(name, ir.integer(k)))
        self.causal = b.let("causal", self.causal != 0)
        self.twice = b.let("twice", ir.cast(i32, 2 * self.pair))
        at = len(INTEGERS)
        self.steps = {
            operand: [
                b.let(f"{operand}_{name}", ir.integer(at + len(FOUR) * k + d))
                for d, name in enumerate(FOUR)
            ]
            for k, operand in enumerate(pointers)
        }
        scale, *stream = words
        self.scale = b.let("scale", ir.load(scale, 0))
        self.scale2 = b.let("scale", self.scale * LOG2E)
        self.dropout, self.growth = None, ir.Const(f32, 1)
        if stream:
            sizes = self.heads, self.queries, self.keys
            seed_and_offset = [b.let("told", ir.load(stream[0], k)) for k in range(2)]
            self.dropout = Dropout(
                self, *seed_and_offset, self.least, sizes, transposed
            )
            self.growth = b.let("growth", ir.load(scale, 1))

    def drawn(self, batch, head, row, column):
        """The bits of a lane's weights of a slice that begins at a column, or None."""
        if self.dropout is None:
            return None
        return self.dropout.bits(batch, head, row, column, self.tile.slice)

    def drop(self, weights, bits):
        """Leaves weights out of the product whose bits are not set."""
        if bits is None:
            return
        for n, own in enumerate(weights):
            for p, weight in enumerate(own):
                self.b.assign(weight, kept(bits, 4 * n + p, weight))

    def rows_of(self, operand, batch, head, limit, columns):
        """A head's rows of an operand."""
        steps, pointer = self.steps[operand], self.pointers[operand]
        elements = batch * steps[0] + head * steps[1]
        bytes = elements * pointer.type.element.itemsize
        base = self.b.let(operand, ir.Offset(pointer, bytes))
        return Rows(base, limit, columns, steps[2])

    def masked(self, sums, mask, down, first, start):
        """Scales scores, and adds the mask: their logarithms to base 2.

        Args:
            mask: where it is, or None.
            down: the steps of the mask along rows and columns of scores, and how many
                there are of both.
            first, start: the first row of the warp, and the first column.
        """
        b = self.b
        if mask is None:
            for own in sums:
                for total in own:
                    b.assign(total, total * self.scale2)
            return
        row_step, column_step, rows, columns = down
        left = b.let("left", ir.cast(i32, columns - start) - self.twice)
        size = mask.type.element.itemsize
        step = b.let("step", column_step * size)
        for half in range(2):
            row = first + self.group + 8 * half
            row = ir.select(row < rows, row, 0)
            place = row * row_step + (start + 2 * self.pair) * column_step
            line = b.let("line", ir.Offset(mask, place * size))
            for n, own in enumerate(sums):
                for i in range(2):
                    at = line if i == 0 else ir.Offset(line, step)
                    at = ir.select(left > 8 * n + i, at, mask)
                    b.assign(own[2 * half + i], self.seen(own[2 * half + i], at))
                line = b.let("line", ir.Offset(line, step * 8))

    def seen(self, score, at):
        """A score, scaled, with what the mask says."""
        value = ir.load(at, 0)
        if self.mask.is_bool:
            return ir.select(value, score * self.scale2, LOWEST)
        return score * self.scale2 + ir.cast(f32, value) * LOG2E

    def mask_steps(self):
        """The mask's steps along queries and keys, and how many there are."""
        return *self.steps["mask"][2:], self.queries, self.keys

    def hide(self, sums, mine, start, following):
        """Hides keys that are not there, or come after the query where that matters.

        Args:
            mine: the first query of the warp.
            start, following: the first key, and the one after the last.
        """
        b = self.b
        with b.when((following > self.keys) | (self.causal & (following > mine))):
            for half in range(2):
                query, last = mine + self.group + 8 * half, self.keys - 1
                last = ir.select(self.causal & (query < last), query, last) - start
                last = b.let("last", ir.cast(i32, last) - self.twice)
                for n, own in enumerate(sums):
                    for i in range(2):
                        total = own[2 * half + i]
                        b.assign(total, ir.select(last < 8 * n + i, LOWEST, total))

    def put(self, sums, rows, first, factors):
        """Writes 16 rows of sums, each with its factor."""
        b, name = self.b, f"packed_{self.element.name}"
        if self.of_floats:
            self.put_floats(sums, rows, first, factors)
            return
        words = ir.Reinterpret(Pointer(u32), rows.base)
        for n, own in enumerate(sums):
            for half in range(2):
                row = first + self.group + 8 * half
                column = 8 * n + 2 * self.pair
                values = [own[2 * half + i] * factors[half] for i in range(2)]
                word = b.let("word", ir.Call(name, u32, *values))
                with b.when((row < rows.limit) & (column < rows.columns)):
                    b.store(words, (row * rows.step + column) // 2, word)

    def put_floats(self, sums, rows, first, factors):
        """The same of floats, one by one."""
        b = self.b
        for n, own in enumerate(sums):
            for half in range(2):
                row = first + self.group + 8 * half
                column = 8 * n + 2 * self.pair
                with b.when((row < rows.limit) & (column < rows.columns)):
                    place = b.let("place", row * rows.step + column)
                    for i in range(2):
                        value = own[2 * half + i] * factors[half]
                        b.store(rows.base, place + i, value)


class Forward(Attention):
    """Writes the program of one block of queries."""

    def __init__(self, b, element, tile, pointers, more, mask):
        self.log_mass, *words = more
        super().__init__(b, element, tile, pointers, words, mask)
        self.rooms()

    def rooms(self):
        """Shared memory for what goes past."""
        tile = self.tile
        self.slices = {
            "key": self.slice("keys", tile.slice, tile.depth),
            "value": self.slice("values", tile.slice, tile.width),
        }

    def write(self):
        """The blocks of queries that a block has, one after the other.

        The last queries come first: where attention is causal they see the most keys.
        """
        b = self.b
        start, step = ir.Place("block"), ir.Place("blocks")
        with b.loop("at", start, END, step, kind="rolled") as at:
            last = self.spans - 1
            first = b.let("first", (last - at % self.spans) * self.tile.rows)
            rest = b.let("rest", at // self.spans)
            part = b.let("part", rest % self.parts)
            rest = b.let("rest", rest // self.parts)
            head = b.let("head", rest % self.heads)
            batch = b.let("batch", rest // self.heads)
            self.attend(first, part, batch, head)
            b.add(ir.Barrier())

    def attend(self, first, part, batch, head):
        """The results of a block of queries, or a part of each."""
        b, tile = self.b, self.tile
        theirs = b.let("theirs", head // self.shared)
        queries = self.rows_of("query", batch, head, self.queries, self.depth)
        rows = {
            "key": self.rows_of("key", batch, theirs, self.keys, self.depth),
            "value": self.part_of("value", part, batch, theirs, self.keys),
        }
        mask = None
        if self.mask is not None:
            mask = self.rows_of("mask", batch, head, self.queries, self.keys).base
        mine = b.let("mine", first + self.warp * UNIT_ROWS)
        zero, lowest = ir.Const(f32, 0), ir.Const(f32, LOWEST)
        tops = [b.declare("top", lowest) for _ in range(2)]
        masses = [b.declare("mass", zero) for _ in range(2)]
        totals = self.zeros(tile.width // 8)
        seen = first + tile.rows
        limit = ir.select(self.causal & (seen < self.keys), seen, self.keys)
        limit = b.let("limit", limit)
        lefts = self.take_queries(queries, first, mine)

        def bring(stage, start):
            for name, own in rows.items():
                self.bring_slice(name, stage, own, start)
            b.add(ir.CommitCopies())

        slices = self.go_past(ir.Const(i64, 0), limit, tile.slice, bring)
        with slices as (start, stage, following):
            bits = self.drawn(batch, head, mine, start)
            sums = self.scores(lefts, stage)
            self.masked(sums, mask, self.mask_steps(), mine, start)
            self.hide(sums, mine, start, following)
            self.soften(sums, tops, masses, totals)
            self.drop(sums, bits)
            self.add_values(totals, sums, stage)
        out = self.part_of("out", part, batch, head, self.queries)
        factors = self.finish(mine, part, batch, head, tops, masses)
        self.put(totals, out, mine, factors)

    def take_queries(self, queries, first, mine):
        """The left factors of scores: a warp's queries, in registers."""
        return self.own(queries, mine, self.tile.depth)

    def bring_slice(self, name, stage, rows, start):
        """Asks for a slice of keys or values."""
        slice = self.slices[name]
        place = self.b.let("stage", stage * slice.size)
        self.bring(slice, place, rows, start)

    def scores(self, lefts, stage):
        """The products of a warp's queries and a slice of keys."""
        keys = self.slices["key"]
        sums = self.zeros(self.tile.slice // 8)
        self.along(sums, lefts, keys, self.b.let("at", stage * keys.size))
        return sums

    def add_values(self, totals, weights, stage):
        """Adds the product of a warp's weights and a slice of values."""
        values = self.slices["value"]
        place = self.b.let("at", stage * values.size)
        self.across(totals, self.rounded(weights), values, place)

    def part_of(self, operand, part, *place):
        """The rows of a part of a head's values, or results."""
        skipped = part * self.tile.width
        rows = self.rows_of(operand, *place, self.width - skipped)
        base = self.b.let("part", ir.Offset(rows.base, skipped * self.element.itemsize))
        return replace(rows, base=base)

    def larger(self, x, y):
        """The larger of two scores; a first one without a value is passed over."""
        return larger(x, y)

    def soften(self, sums, tops, masses, totals):
        """Makes weights of scores, and scales what there is to their largest."""
        b = self.b

        def joined(top):
            return self.joined("top", top, self.larger)

        for half in range(2):
            scores = [own[2 * half + i] for own in sums for i in range(2)]
            each = partial(map, lambda score: (score, partial(b.assign, score)), scores)
            state = tops[half], masses[half]
            top, mass, factor = soften(b, each, *state, self.power, joined, self.larger)
            b.assign(masses[half], mass)
            b.assign(tops[half], top)
            for own in totals:
                for i in range(2):
                    b.assign(own[2 * half + i], own[2 * half + i] * factor)

    def finish(self, mine, part, batch, head, tops, masses):
        """Writes logarithms of masses; what results are multiplied by."""
        b, factors = self.b, []
        row_of_head = (batch * self.heads + head) * self.queries
        for half in range(2):
            mass = self.joined("mass", masses[half], lambda x, y: x + y)
            nothing = b.let("nothing", mass == 0.0)
            factor = ir.select(nothing, 0.0, 1.0 / ir.select(nothing, 1.0, mass))
            if self.dropout is not None:
                factor = factor * self.growth
            factors.append(b.let("factor", factor))
            row = mine + self.group + 8 * half
            first = (self.pair == 0) & (part == 0)
            with b.when(first & (row < self.queries)):
                log = tops[half] * LN2 + ir.Call("log", f32, mass)
                log = ir.select(nothing, LOWEST, log)
                b.store(self.log_mass, row_of_head + row, log)
        return factors


def stream_at():
    """The position of seed and offset among the integers of a launch."""
    return INTEGERS.index("seed")


def integers(sizes, rows, parts, steps, scale, drawn=(0, 0, 0)):
    """The integers of a launch, and how many blocks one head of the batch has.

    Args:
        sizes: heads, how many of them share keys, queries, keys, depth, width, and whether
            keys after a query are hidden.
        rows: how many queries, or keys, a block has, of how many.
        parts: how many parts values are divided into.
        steps: of the operands in order, in elements.
        scale: the word of the scale, and of what dropout makes weights larger by.
        drawn: seed and offset of dropout, and the least word that keeps a weight.
    """
    each, total = rows
    spans = -(-total // each)
    flat = [step for four in steps for step in four]
    return [*map(int, sizes), spans, parts, *drawn, *flat, scale], spans * parts
