"""Gradients of attention as functions of a device's grid, by matrix units.

There are three, and they are one program: a warp has 16 rows of its own, of queries or of
keys, and rows of the others go past. Scores are made again from what both are, weights from
the logarithms of masses that were kept; the result is the product of the weights, or of
their gradients, with what goes past. Sums are taken in the order of the rows, by one block
each: their bits depend on nothing else.

Follows Dao, "FlashAttention-2" (2023), with a pass for each gradient in place of atomic sums.
"""

import functools
from dataclasses import dataclass, replace

from rushlight.ir import expr as ir
from rushlight.ir.expr import END, f32, i32, u16
from rushlight.kernels.attention.device_attention import (
    PAD,
    SHARED_BYTES,
    UNIT_ROWS,
    Attention,
    AttentionTile,
    function_of,
)
from rushlight.kernels.attention.dropout_mask import kept
from rushlight.kernels.attention.mma_blocks import GAP, LOG2E, STAGES, WARP
from rushlight.kernels.attention.online_softmax import LOWEST

KINDS = ("query", "key", "value")  # whose gradient
OPERANDS = ("result", "query", "key", "value", "grad", "out", "mask")
VECTORS = ("log_mass", "delta")
MOST_SUMS, FEWER_SUMS = 128, 32  # elements of a row whose gradients a block has
WIDE, WIDER = (
    128,
    192,
)  # elements of a query and a value; beside more fewer rows go past
# Elements of a query or a value: registers hold no more; with dropout.
MOST, MOST_DROPPING, MOST_FLOATS = 192, 128, 64


@dataclass(frozen=True)
class GradientTile(AttentionTile):
    """How a block divides its work; rows of any of the operands go past.

    Attributes:
        part: elements of each row whose gradients a block has.
    """

    part: int = 0


def tile_for(
    kind, depth, width, masked=False, dropout=False, itemsize=2
) -> GradientTile:
    """The tile for a gradient and sizes of heads.

    >>> tile_for("query", 64, 64)
    GradientTile(slice=64, depth=64, width=64, warps=4, part=64)
    >>> tile_for("value", 72, 250)
    GradientTile(slice=32, depth=96, width=256, warps=4, part=32)
    """
    part, parts = part_of(kind, depth, width, masked, itemsize)
    sizes = {"depth": depth, "width": width}
    sizes = {name: -(-size // PAD) * PAD for name, size in sizes.items()}
    sizes["width" if kind == "value" else "depth"] = part * parts
    bytes = STAGES * (itemsize * sum(sizes.values()) + 2 * GAP)
    slice = next(n for n in (64, 32, 16) if n * bytes <= SHARED_BYTES)
    size = sum(sizes.values()) * itemsize // 2  # as registers count it
    if kind == "key":  # a lane has the logarithms and deltas of all that go past
        slice = min(slice, 32 if size <= WIDE else 16)
    if dropout and size > WIDE:
        slice = min(slice, 16 if kind == "query" and size > WIDER else 32)
    return GradientTile(slice, **sizes, part=part)


def part_of(kind, depth, width, masked=False, itemsize=2):
    """How many elements of each row a block has, and how many blocks share a row."""
    longest = max(depth, width) * itemsize // 2
    most = MOST_SUMS if longest <= MOST_SUMS else FEWER_SUMS
    if kind == "key" and masked:  # where the mask is takes registers, too
        most = min(most, MOST_SUMS // 2)
    columns = width if kind == "value" else depth
    parts = -(-columns // most)
    return -(-columns // (parts * PAD)) * PAD, parts


def gradient(kind, name, element, tile, mask=None, dropout=False) -> ir.Function:
    """The gradient of queries, keys or values.

    That of queries also writes what the others read: for each query the product of its
    result and that one's gradient, ``delta``.

    Args:
        kind: one of `KINDS`.
        element: the type of all operands but the mask.
        mask: the type of the mask, or None.
        dropout: whether some weights were left out.
    """
    operands, writer = (OPERANDS, VECTORS), functools.partial(Gradient, kind)
    return function_of(writer, name, operands, element, tile, mask, dropout)


class Gradient(Attention):
    """Writes the program of one block of queries, or keys."""

    def __init__(self, kind, b, element, tile, pointers, more, mask):
        self.kind, self.of_queries = kind, kind == "query"
        self.log_mass, self.delta, *words = more
        super().__init__(b, element, tile, pointers, words, mask, not self.of_queries)
        names = ("keys", "values") if self.of_queries else ("queries", "grads")
        widths = tile.depth, tile.width
        self.slices = [
            self.slice(name, tile.slice, columns)
            for name, columns in zip(names, widths, strict=True)
        ]

    def write(self):
        """The blocks of rows that a block has, one after the other."""
        b = self.b
        groups = b.let("groups", self.heads // self.shared)
        heads = self.heads if self.of_queries else groups
        start, step = ir.Place("block"), ir.Place("blocks")
        with b.loop("at", start, END, step, kind="rolled") as at:
            span = at % self.spans
            if self.of_queries:  # the last ones see the most keys
                span = self.spans - 1 - span
            first = b.let("first", span * self.tile.rows)
            rest = b.let("rest", at // self.spans)
            part = b.let("part", rest % self.parts * self.tile.part)
            rest = b.let("rest", rest // self.parts)
            head = b.let("head", rest % heads)
            self.differentiate(first, part, b.let("batch", rest // heads), head)

    def both_of(self, names, batch, head):
        """Rows that are multiplied to scores, and rows of values or their gradients."""
        both = []
        for name, columns in zip(names, (self.depth, self.width), strict=True):
            limit = self.queries if name in ("query", "grad") else self.keys
            both.append(self.rows_of(name, batch, head, limit, columns))
        return both

    def differentiate(self, first, part, batch, head):
        """The gradient of a block of rows, from an element of each on."""
        b, tile = self.b, self.tile
        mine = b.let("mine", first + self.warp * UNIT_ROWS)
        names = ("query", "grad"), ("key", "value")
        own, passing = names if self.of_queries else names[::-1]
        rows = self.both_of(own, batch, head)
        widths = tile.depth, tile.width
        lefts = [
            self.own(part, mine, columns)
            for part, columns in zip(rows, widths, strict=True)
        ]
        if self.kind == "value":
            del lefts[1]
        vectors = None
        if self.of_queries:
            vectors = self.own_vectors(lefts[1], mine, part, batch, head)
        totals = self.zeros(tile.part // 8)
        count = ir.Const(ir.i64, 1) if self.of_queries else self.shared
        with b.loop("each", 0, count, kind="rolled") as each:
            if self.of_queries:
                other = b.let("other", head // self.shared)
                query_head = head
            else:
                query_head = other = b.let("other", head * self.shared + each)
            theirs, place = self.both_of(passing, batch, other), (batch, query_head)
            self.add_head(first, mine, part, *place, lefts, theirs, vectors, totals)
            b.add(ir.Barrier())
        factor = self.growth if self.kind == "value" else self.scale
        limit = self.queries if self.of_queries else self.keys
        width = self.width if self.kind == "value" else self.depth
        result = self.rows_of("result", batch, head, limit, width - part)
        bytes = part * self.element.itemsize
        base = b.let("result", ir.Offset(result.base, bytes))
        self.put(totals, replace(result, base=base), mine, [factor] * 2)

    def add_head(self, first, mine, part, batch, head, lefts, theirs, vectors, totals):
        """Adds what one head's rows give that go past."""
        b, tile = self.b, self.tile
        begin, limit = ir.Const(ir.i64, 0), self.queries
        if self.of_queries:
            seen = first + tile.rows
            limit = ir.select(self.causal & (seen < self.keys), seen, self.keys)
        else:
            begin = ir.select(self.causal, first // tile.slice * tile.slice, 0)
        begin, limit = b.let("begin", begin), b.let("limit", limit)
        mask = None
        if self.mask is not None:
            mask = self.rows_of("mask", batch, head, self.queries, self.keys).base

        def bring(stage, start):
            for slice, rows in zip(self.slices, theirs, strict=True):
                self.bring(slice, b.let("stage", stage * slice.size), rows, start)
            b.add(ir.CommitCopies())

        slices = self.go_past(begin, limit, tile.slice, bring)
        with slices as (start, stage, following):
            positions = [b.let("at", stage * slice.size) for slice in self.slices]
            bits = self.drawn(batch, head, mine, start)
            weights = self.zeros(tile.slice // 8)
            self.along(weights, lefts[0], self.slices[0], positions[0])
            self.weigh(weights, mask, mine, start, following)
            found = vectors or self.passing_vectors(batch, head, start)
            logs, deltas = found
            for n, own in enumerate(weights):
                for p, weight in enumerate(own):
                    b.assign(weight, self.power(weight - logs(n, p)))
            if self.kind == "value":
                self.drop(weights, bits)
                factors, place = self.rounded(weights), positions[1]
                self.across(totals, factors, self.slices[1], place + part)
            else:
                slopes = self.sloped(weights, bits, deltas, lefts[1], positions[1])
                factors = self.rounded(slopes)
                self.across(totals, factors, self.slices[0], positions[0] + part)

    def sloped(self, weights, bits, deltas, lefts, place):
        """The gradients of scores."""
        slopes = self.zeros(self.tile.slice // 8)
        self.along(slopes, lefts, self.slices[1], place)
        for n, own in enumerate(slopes):
            for p, slope in enumerate(own):
                part = slope
                if bits is not None:
                    part = kept(bits, 4 * n + p, slope * self.growth)
                new = weights[n][p] * (part - deltas(n, p))
                self.b.assign(slope, new)
        return slopes

    def weigh(self, scores, mask, mine, start, following):
        """Scales scores, adds the mask, and hides what is not to be seen."""
        b = self.b
        if self.of_queries:
            self.masked(scores, mask, self.mask_steps(), mine, start)
            self.hide(scores, mine, start, following)
            return
        row_step, column_step, rows, columns = self.mask_steps()
        steps = column_step, row_step, columns, rows
        self.masked(scores, mask, steps, mine, start)
        with b.when(self.causal & (start < mine + UNIT_ROWS)):
            for half in range(2):
                first = mine + self.group + 8 * half - start
                first = b.let("first", ir.cast(i32, first) - self.twice)
                for n, own in enumerate(scores):
                    for i in range(2):
                        score = own[2 * half + i]
                        b.assign(score, ir.select(first > 8 * n + i, LOWEST, score))

    def own_vectors(self, grads, mine, part, batch, head):
        """What a lane's two queries have: the logarithm of the mass, and the delta."""
        b = self.b
        out = self.rows_of("out", batch, head, self.queries, self.width)
        sums = [b.declare("delta", ir.Const(f32, 0)) for _ in range(2)]
        for k, share in enumerate(grads):
            other = self.share(
                out, mine, self.deep * k
            )  # here: all at once is too much
            for n, words in enumerate(zip(share, other, strict=True)):
                halves = [self.floats(word) for word in words]
                for x, y in zip(*halves, strict=True):
                    total = sums[n % 2]
                    b.assign(total, ir.Call("fma", f32, x, y, total))
        logs, deltas = [], []
        row_of_head = (batch * self.heads + head) * self.queries
        for half, total in enumerate(sums):
            delta = self.joined("delta", total, lambda x, y: x + y)
            query = b.let("query", mine + self.group + 8 * half)
            first = (self.pair == 0) & (part == 0)
            with b.when(first & (query < self.queries)):
                b.store(self.delta, row_of_head + query, delta)
            deltas.append(delta)
            logs.append(self.log_of(row_of_head, query))
        return (lambda n, p: logs[p // 2]), (lambda n, p: deltas[p // 2])

    def floats(self, word):
        """Both halves of a word, or the float that it is."""
        if self.of_floats:
            return [word]
        halves = ir.cast(u16, word), ir.cast(u16, word >> 16)
        return [
            self.b.let("x", ir.cast(f32, ir.Reinterpret(self.element, half)))
            for half in halves
        ]

    def log_of(self, row_of_head, query):
        """The logarithm of a query's mass to base 2; infinite where it sees no key."""
        inside = query < self.queries
        place = ir.select(inside, row_of_head + query, 0)
        log = self.b.let("log", ir.load(self.log_mass, place))
        seen = inside & (log != LOWEST)
        return self.b.let("log", ir.select(seen, log * LOG2E, -LOWEST))

    def passing_vectors(self, batch, head, start):
        """The same of the queries that go past, read where they are first asked for."""
        b = self.b
        row_of_head = (batch * self.heads + head) * self.queries
        line = b.let("line", row_of_head + (start + 2 * self.pair))
        left = ir.cast(i32, self.queries - start) - self.twice
        left = b.let("left", left)

        @functools.cache
        def read(vector, n, i):
            inside = left > 8 * n + i
            place = ir.select(inside, line + (8 * n + i), 0)
            value = b.let("read", ir.load(vector, place))
            if vector is self.delta:
                return value
            seen = inside & (value != LOWEST)
            return b.let("log", ir.select(seen, value * LOG2E, -LOWEST))

        return tuple(
            lambda n, p, vector=vector: read(vector, n, p % 2)
            for vector in (self.log_mass, self.delta)
        )
