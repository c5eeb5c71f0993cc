"""Stable sorts of rows by the digits of their keys, lowest first, on a device's grid.

A digit has eight bits. A row that fits a block's shared memory is sorted there, digit after
digit. A longer one is cut into parts, each a block's: for every digit one launch counts how
many of its values each part has, a running sum over values and parts tells where those of a
part begin, and another launch takes the elements there (Merrill and Grimshaw, 2011; the
ranks of a tile as in CUB). Elements are carried as they are, and their places beside them:
nothing but the digits decides the order, so bits do not depend on what threads do first.

In a tile, warps have neighbouring stretches, and a lane every 32nd element of its warp's.
The lanes with one digit find each other by ballots; the first of them counts for all.
"""

from rushlight.codegen.frontend.storage import Storage
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import END, INTS, Barrier, Call, Pointer, Var, i32, i64, u32
from rushlight.ir.threads import Atomic, Match, WarpBarrier
from rushlight.kernels.lanes import shared_array, sums_before
from rushlight.kernels.select.ordered_keys import key_of, width_of, word_of

WARP = 32
BITS = 8  # of a digit
DIGITS = 1 << BITS
HALF = 16  # bits of a word
AHEAD = 8  # elements that a thread asks for before it counts the first


def count(name, dtype, descending, threads) -> ir.Function:
    """How many elements of each part of the rows have each value of a digit.

    Its parameters are the counts (for each row, value and part), the elements, the integers
    ``size, parts, span, shift``, and how many parts all rows have; a part has ``span``.
    """
    b = Builder()
    pointers = _pointers(b, ("counts", i64), ("x", Storage(dtype).element))
    block = _Block(b, dtype, descending, threads, 1)
    counts, x = pointers
    size, parts, span, shift = block.integers("size", "parts", "span", "shift")
    found = shared_array(b, "found", u32, DIGITS)
    for digit in block.own_digits():
        b.store(found, digit, 0)
    step = ir.Place("blocks")
    with b.loop("at", ir.Place("block"), END, step, kind="rolled") as at:
        row, part = b.let("row", at // parts), b.let("part", at % parts)
        start = b.let("start", part * span)
        stop = b.let("stop", ir.binary("min", start + span, size))
        base = b.let("base", row * size)
        b.add(Barrier())
        first = start + block.thread
        with b.loop("i", first, stop, threads * AHEAD, kind="rolled") as i:
            positions = [b.let("own", i + k * threads) for k in range(AHEAD)]
            inside = [ir.binary("min", own, stop - 1) for own in positions]
            raws = [b.let("raw", ir.load(x, base + own)) for own in inside]
            for own, raw in zip(positions, raws, strict=True):
                digit = b.let("value", ir.cast(i64, block.digit(raw, shift)))
                with b.when(own < stop):
                    b.add(Atomic("add", found, digit, ir.Const(u32, 1)))
        b.add(Barrier())
        for digit in block.own_digits():
            to = (row * DIGITS + digit) * parts + part
            b.store(counts, to, ir.cast(i64, ir.load(found, digit)))
            b.store(found, digit, 0)
    return ir.Function(name, (*pointers, INTS, END), b.statements, grid=True)


def place(name, dtype, descending, threads, each, kept, first, last) -> ir.Function:
    """Takes the elements of parts, and their places, to where a digit wants them.

    Its parameters are the elements and places to write, those to read, the running sums of
    the counts (each with its own), the integers ``size, parts, span, shift``, and how many
    parts all rows have.

    Args:
        each: elements of a thread, of a tile.
        kept: the dtype of places on the way; those of the result are int64.
        first: whether elements have not been moved yet: their places are their own.
        last: whether places are wanted as the result.
    """
    b = Builder()
    element, kept = Storage(dtype).element, ir.Type(kept)
    pointers = _pointers(
        b,
        *(("out", element), ("out_place", i64 if last else kept)),
        *(("x", element), ("place", kept), ("sums", i64)),
    )
    block = _Placing(b, dtype, descending, threads, each, kept)
    block.write(pointers, first, last)
    return ir.Function(name, (*pointers, INTS, END), b.statements, grid=True)


def row(name, dtype, descending, threads, each, bits=None) -> ir.Function:
    """Sorts rows that are no longer than a tile, each in a block.

    Its parameters are the elements and places to write, the elements to read, the integer
    ``size``, and how many rows there are.

    Args:
        bits: how many, at most, of the keys differ, from the lowest on.
    """
    b = Builder()
    element = Storage(dtype).element
    pointers = _pointers(b, ("out", element), ("index", i64), ("x", element))
    block = _Block(b, dtype, descending, threads, each)
    out, index, x = pointers
    (size,) = block.integers("size")
    step = ir.Place("blocks")
    with b.loop("at", ir.Place("block"), END, step, kind="rolled") as at:
        base = b.let("base", at * size)
        own = block.own_positions()
        raws, positions = [], []
        for place in own:
            inside = ir.binary("min", place, size - 1)
            raws.append(b.declare("raw", ir.load(x, base + inside)))
            positions.append(b.declare("at_first", ir.cast(i32, place)))
        passes = -(-(bits or block.width) // BITS)
        with b.loop("shift", 0, passes * BITS, BITS, kind="rolled") as shift:
            digits = [
                block.valid_digit(raw, shift, place < size)
                for raw, place in zip(raws, own, strict=True)
            ]
            ranks = block.ranks(digits)
            block.join()
            block.stage(raws, positions, ranks)
            for place, raw, at_first in zip(own, raws, positions, strict=True):
                b.assign(raw, ir.load(block.staged, place))
                b.assign(at_first, ir.load(block.staged_positions, place))
        for place, raw, at_first in zip(own, raws, positions, strict=True):
            with b.when(place < size):
                b.store(out, base + place, raw)
                b.store(index, base + place, ir.cast(i64, at_first))
    return ir.Function(name, (*pointers, INTS, END), b.statements, grid=True)


def _pointers(b, *pairs):
    """Parameters that are pointers, from names and types."""
    return [Var(b.fresh(name), Pointer(type)) for name, type in pairs]


class _Block:
    """What the threads of a block know of a tile, and do with it."""

    def __init__(self, b, dtype, descending, threads, each, kept=i32):
        self.b, self.descending, self.kept = b, descending, kept
        self.threads, self.each, self.tile = threads, each, threads * each
        self.element, self.width = Storage(dtype).element, width_of(dtype)
        self.word = word_of(dtype)
        self.thread = b.let("thread", ir.Place("thread"))
        self.lane = b.let("lane", self.thread % WARP)
        self.warp = b.let("warp", self.thread // WARP)
        if each > 1:
            self.counts = shared_array(b, "counts", u32, DIGITS * (threads // WARP))
            self.firsts = shared_array(b, "firsts", u32, DIGITS)
            self.warp_totals = shared_array(b, "warps", u32, threads // WARP)
            self.staged = shared_array(b, "staged", self.element, self.tile)
            self.staged_positions = shared_array(b, "staged_positions", kept, self.tile)

    def integers(self, *names):
        """The launch's integers by name."""
        return [self.b.let(name, ir.integer(k)) for k, name in enumerate(names)]

    def own_digits(self):
        """The values of a digit that are this thread's to see to: neighbours."""
        each = DIGITS // self.threads
        return [
            self.b.let("own_digit", self.thread * each + k) for k in range(max(1, each))
        ]

    def own_positions(self):
        """The places of a tile that this thread has."""
        start = self.warp * (WARP * self.each) + self.lane
        return [self.b.let("own", start + e * WARP) for e in range(self.each)]

    def digit(self, raw, shift):
        """The bits of an element's key from ``shift`` on, of which eight count."""
        key = key_of(self.b, raw, self.descending) >> ir.cast(self.word, shift)
        return self.b.let("digit", ir.cast(u32, key) & ir.Const(u32, DIGITS - 1))

    def valid_digit(self, raw, shift, inside):
        """The same; the last value beyond a row's end, whose elements stay behind it."""
        digit = ir.select(inside, self.digit(raw, shift), ir.Const(u32, DIGITS - 1))
        return self.b.let("digit", digit)

    def ranks(self, digits):
        """How many of a warp's elements with the same digit come before each.

        The digit itself is in the upper half of each word.
        """
        b, counts = self.b, self.counts
        own = b.let("row_of_counts", self.warp * DIGITS)
        for k in range(DIGITS // WARP):
            b.store(counts, own + (self.lane + k * WARP), 0)
        b.add(WarpBarrier())
        one = ir.Const(u32, 1)
        below = b.let("below", (one << ir.cast(u32, self.lane)) - one)
        found = []
        for digit in digits:
            alike = b.let("alike", Match(BITS, digit))
            at = b.let("at_digit", own + ir.cast(i64, digit))
            before = b.let("before", ir.load(counts, at))
            ahead = b.let("ahead", Call("popcount", u32, alike & below))
            b.add(WarpBarrier())
            with b.when(ahead == ir.Const(u32, 0)):
                b.store(counts, at, before + Call("popcount", u32, alike))
            b.add(WarpBarrier())
            # one register until the tile is staged
            found.append(b.let("rank", digit << HALF | (before + ahead)))
        return found

    def join(self):
        """From what warps have counted, where each digit begins in each warp.

        Returns:
            For each of this thread's digits how many elements have it.
        """
        b = self.b
        b.add(Barrier())
        totals = []
        for digit in self.own_digits():
            total = b.declare("total", ir.Const(u32, 0))
            with b.loop("w", 0, self.threads // WARP, kind="rolled") as w:
                at = b.let("at_warp", w * DIGITS + digit)
                counted = b.let("counted", ir.load(self.counts, at))
                b.store(self.counts, at, total)
                b.assign(total, total + counted)
            totals.append(total)
        first = b.let("first", self.before(totals))
        for digit, total in zip(self.own_digits(), totals, strict=True):
            b.store(self.firsts, digit, first)
            first = b.let("first", first + total)
        return totals

    def before(self, totals):
        """How many elements the digits of the threads before this one have."""
        b = self.b
        mine = totals[0]
        for total in totals[1:]:
            mine = mine + total
        ahead, total = sums_before(b, self.lane, mine)
        if self.threads == WARP:
            return ahead
        with b.when(self.lane == 0):
            b.store(self.warp_totals, self.warp, total)
        b.add(Barrier())
        with b.loop("w", 0, self.warp, kind="rolled") as w:
            b.assign(ahead, ahead + ir.load(self.warp_totals, w))
        return ahead

    def stage(self, raws, positions, ranks):
        """Brings a tile in the order of its digits, in shared memory."""
        b = self.b
        b.add(Barrier())
        own = self.warp * DIGITS
        for raw, place, rank in zip(raws, positions, ranks, strict=True):
            d = b.let("digit", ir.cast(i64, rank >> HALF))
            first = ir.load(self.firsts, d) + ir.load(self.counts, own + d)
            rank = rank & ir.Const(u32, (1 << HALF) - 1)
            to = b.let("to", ir.cast(i64, first + rank))
            b.store(self.staged, to, raw)
            b.store(self.staged_positions, to, place)
        b.add(Barrier())


class _Placing(_Block):
    """Writes the program of a block that takes elements to their places."""

    def write(self, pointers, first, last):
        """The parts that a block has, one after the other."""
        self.first, self.last = first, last
        self.out, self.out_place, self.x, self.place, self.sums = pointers
        names = "size", "parts", "span", "shift"
        self.size, self.parts, self.span, self.shift = self.integers(*names)
        b = self.b
        self.deltas = shared_array(b, "deltas", i64, DIGITS)
        step = ir.Place("blocks")
        with b.loop("at", ir.Place("block"), END, step, kind="rolled") as at:
            row = b.let("row", at // self.parts)
            part = b.let("part", at % self.parts)
            start = b.let("start", part * self.span)
            stop = b.let("stop", ir.binary("min", start + self.span, self.size))
            starts = [self.start_of(row, part, d) for d in self.own_digits()]
            base = b.let("base", row * self.size)
            with b.loop("tile", start, stop, self.tile, kind="rolled") as tile:
                self.go(base, tile, stop, starts)

    def start_of(self, row, part, digit):
        """Where a part's elements of a digit begin in the row: behind all before them."""
        b = self.b
        at = b.let("at_sum", digit * self.parts + part)
        base = row * (DIGITS * self.parts)
        before = ir.load(self.sums, base + ir.binary("max", at - 1, 0))
        zero = ir.Const(i64, 0)
        return b.declare("start_of_digit", ir.select(at > 0, before, zero))

    def go(self, base, tile, stop, starts):
        """A tile: its order, and where that goes."""
        b = self.b
        own, raws, positions, digits = self.own_positions(), [], [], []
        for place in own:
            at = b.let("from_row", tile + place)
            inside = b.let("inside", at < stop)
            at = b.let("in_row", ir.select(inside, at, stop - 1))
            raws.append(b.let("raw", ir.load(self.x, base + at)))
            held = at if self.first else ir.load(self.place, base + at)
            positions.append(b.let("held", ir.cast(self.kept, held)))
            digits.append(self.valid_digit(raws[-1], self.shift, inside))
        ranks = self.ranks(digits)
        totals = self.join()
        for digit, total, start in zip(self.own_digits(), totals, starts, strict=True):
            first = ir.cast(i64, ir.load(self.firsts, digit))
            b.store(self.deltas, digit, start - first)
            b.assign(start, start + ir.cast(i64, total))
        self.stage(raws, positions, ranks)
        for e in range(self.each):
            at = b.let("sorted_at", self.thread + e * self.threads)
            with b.when(at < stop - tile):
                raw = b.let("raw", ir.load(self.staged, at))
                digit = ir.cast(i64, self.digit(raw, self.shift))
                to = b.let("to", base + ir.load(self.deltas, digit) + at)
                b.store(self.out, to, raw)
                kept = ir.load(self.staged_positions, at)
                b.store(self.out_place, to, ir.cast(i64, kept) if self.last else kept)
