"""The first few elements of rows, or the one of a rank, as functions of a device's grid.

A row, or a part of one, is a block's. Each element has a key, a whole number that orders
as the elements do, NaN last. The block's threads count how many keys have each value of
their two highest bits; that tells those bits of the key of the wanted rank, and which
keys are candidates still, and so on, two bits at a time. Then the elements before that
key are found, and as many that equal it as there is room for: in the order of the row,
each warp going over a stretch of it. No bit depends on what other threads do first.
"""

from __future__ import annotations

from rushlight.codegen.frontend.storage import Storage
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import (
    END,
    INTS,
    Barrier,
    Exchange,
    Pointer,
    Reinterpret,
    Var,
    i64,
    u64,
)

WARP = 32
BITS = 2  # that one pass over the candidates tells
INTEGERS = ("size", "parts", "rank", "skip")
FIRST, RANKED, MIDDLE = "first", "ranked", "middle"
LOW = 0xFFFFFFFF  # two numbers are counted in one word: this is the first's half


def function(name, dtype, way, descending, threads) -> ir.Function:
    """A selection from rows, as a function of a grid.

    Its parameters are the outputs (values and places), the input, the integers, and how
    many parts all rows have. Rows are dense and ``parts`` parts each, as alike as can be.

    Args:
        way: `FIRST`, which gives the elements up to a rank: those before the last of them
            in the order of the row, then those that are equal to it; `RANKED`, which gives
            the one of the rank; or `MIDDLE`, where the rank is the lower middle's, of all
            elements or, where ``skip`` is set, of those that are numbers.
        descending: whether the largest come first.
        threads: of a block.
    """
    b = Builder()
    storage = Storage(dtype)
    pointers = [
        Var(b.fresh(name), Pointer(type))
        for name, type in (("out", storage.element), ("place", i64), ("x", storage.element))
    ]  # fmt: skip
    _Selection(b, storage, pointers, way, descending, threads).write()
    return ir.Function(name, (*pointers, INTS, END), b.statements, grid=True)


def width_of(dtype):
    """How many bits the keys of a dtype have."""
    return Storage(dtype).computed.bits if dtype != "bool" else 8


class _Selection:
    """Writes the program of a block."""

    def __init__(self, b, storage, pointers, way, descending, threads):
        self.b, self.storage, self.way = b, storage, way
        self.descending, self.threads = descending, threads
        self.out, self.place, self.x = pointers
        self.width = width_of(storage.dtype)
        for k, name in enumerate(INTEGERS):
            setattr(self, name, b.let(name, ir.integer(k)))
        self.thread = b.let("thread", ir.Place("thread"))
        self.lane = b.let("lane", self.thread % WARP)
        self.warp = b.let("warp", self.thread // WARP)
        self.warps = []
        for _ in range(2):
            array = Var(b.fresh("warps"), Pointer(i64))
            b.add(ir.Array(array, threads // WARP, shared=True))
            self.warps.append(array)

    def write(self):
        """The parts of rows that a block has, one after the other."""
        b = self.b
        step = ir.Place("blocks")
        with b.loop("at", ir.Place("block"), END, step, kind="rolled") as at:
            row, part = b.let("row", at // self.parts), b.let("part", at % self.parts)
            self.base = b.let("base", row * self.size)
            self.start = b.let("start", part * self.size // self.parts)
            self.stop = b.let("stop", (part + 1) * self.size // self.parts)
            rank = self.rank
            if self.way == MIDDLE:
                rank = self.middle()
            key, left = self.key_of_rank(rank)
            self.give(at, key, left, rank)

    # ---- keys

    def key(self, place):
        """The key of an element of the row."""
        raw = ir.load(self.x, self.base + place)
        value = self.b.let("value", self.storage.read(raw, self.storage.computed))
        return self.b.let("key", self.key_of(value))

    def key_of(self, value):
        """A whole number without a sign, less for what comes earlier."""
        type, top = value.type, (1 << self.width) - 1
        half = 1 << self.width - 1
        if type.is_float:
            whole = ir.i32 if self.width == 32 else i64
            bits = Reinterpret(whole, value)
            # sign and magnitude; both zeros are equal, NaN is beyond infinity
            rank = ir.select(bits < 0, bits ^ (half - 1), bits)
            rank = ir.select(value == 0.0, ir.Const(whole, 0), rank)
            rank = ir.select(value != value, ir.Const(whole, half - 1), rank)
        else:
            rank = value
        key = ir.cast(u64, ir.cast(i64, rank) if self.width < 64 else rank)
        if rank.type.is_signed and not rank.type.is_bool:
            key = (key ^ constant(half)) if self.width == 64 else key + constant(half)
        return (constant(top) - key) if self.descending else key

    # ---- what the threads of a block know together

    def summed(self, counts):
        """The sums of all threads' numbers; they may count on from there."""
        b = self.b
        for distance in (1, 2, 4, 8, 16):
            counts = [b.let("count", c + Exchange(distance, c)) for c in counts]
        with b.when(self.lane == 0):
            for array, value in zip(self.warps, counts, strict=False):
                b.store(array, self.warp, value)
        b.add(Barrier())
        totals = [b.declare("total", ir.Const(i64, 0)) for _ in counts]
        with b.loop("w", 0, self.threads // WARP, kind="rolled") as w:
            for array, total in zip(self.warps, totals, strict=False):
                b.assign(total, total + ir.load(array, w))
        b.add(Barrier())
        return totals

    def middle(self):
        """The rank of the lower middle; of the first NaN, where one counts."""
        b = self.b
        good = b.declare("numbers", ir.Const(i64, 0))
        with self.own_places() as place:
            raw = ir.load(self.x, self.base + place)
            value = b.let("value", self.storage.read(raw, self.storage.computed))
            one = ir.select(value == value, ir.Const(i64, 1), ir.Const(i64, 0))
            b.assign(good, good + one)
        (good,) = self.summed([good])
        lower = ir.select(good > 0, (good - 1) // 2, ir.Const(i64, 0))
        lost = (good < self.size) & ((self.skip == 0) | (good == 0))
        return b.let("rank", ir.select(lost, good, lower))

    def own_places(self):
        """A loop over every place of the part that is this thread's."""
        first = self.start + self.thread
        return self.b.loop("i", first, self.stop, self.threads, kind="rolled")

    def key_of_rank(self, rank):
        """The key of the element of a rank, and how many equals come before that."""
        b = self.b
        prefix, mask = (b.declare(name, constant(0)) for name in ("prefix", "mask"))
        left = b.declare("left", rank)
        shift = b.declare("shift", constant(self.width - BITS))
        with b.loop("sweep", 0, self.width // BITS, kind="rolled"):
            # how many keys have each value of the bits, two counts in each word
            low, high = (b.declare("counted", ir.Const(i64, 0)) for _ in range(2))
            with self.own_places() as place:
                key = self.key(place)
                digit = b.let("digit", ir.cast(i64, (key >> shift) & constant(3)))
                one = ir.Const(i64, 1)
                one = ir.select(digit % 2 == 1, ir.Const(i64, 1 << 32), one)
                one = ir.select((key & mask) == prefix, one, ir.Const(i64, 0))
                one = b.let("one", one)
                nothing = ir.Const(i64, 0)
                b.assign(low, low + ir.select(digit < 2, one, nothing))
                b.assign(high, high + ir.select(digit < 2, nothing, one))
            low, high = self.summed([low, high])
            before = [b.let("before", low & LOW)]
            for more in (low >> 32, high & LOW):
                before.append(b.let("before", before[-1] + more))
            digit, less = ir.Const(i64, 0), ir.Const(i64, 0)
            for number, count in enumerate(before):
                passed = b.let("passed", left >= count)
                digit = ir.select(passed, ir.Const(i64, number + 1), digit)
                less = ir.select(passed, count, less)
            digit, less = b.let("chosen", digit), b.let("less", less)
            b.assign(left, left - less)
            b.assign(prefix, prefix | (ir.cast(u64, digit) << shift))
            b.assign(mask, mask | (constant(3) << shift))
            b.assign(shift, shift - constant(BITS))
        return prefix, left

    # ---- what is given

    def give(self, at, key, left, rank):
        """The elements that are wanted, in the order of the row."""
        b = self.b
        count = self.threads // WARP
        length = self.stop - self.start
        stretch = b.let(
            "stretch", (length + (count * WARP - 1)) // (count * WARP) * WARP
        )
        first = b.let("first", self.start + self.warp * stretch)
        last = b.let("last", ir.binary("min", first + stretch, self.stop))
        mine = b.declare("mine", ir.Const(i64, 0))
        with b.loop("i", first + self.lane, last, WARP, kind="rolled") as place:
            b.assign(mine, mine + self.flags(self.key(place), key))
        for distance in (1, 2, 4, 8, 16):
            b.assign(mine, mine + Exchange(distance, mine))
        with b.when(self.lane == 0):
            b.store(self.warps[0], self.warp, mine)
        b.add(Barrier())
        carry = b.declare("carry", ir.Const(i64, 0))
        with b.loop("w", 0, self.warp, kind="rolled") as w:
            b.assign(carry, carry + ir.load(self.warps[0], w))
        b.add(Barrier())
        with b.loop("tile", first, last, WARP, kind="rolled") as tile:
            place = b.let("at_place", tile + self.lane)
            inside = b.let("inside", place < last)
            own = self.key(ir.select(inside, place, last - 1))
            flags = self.flags(own, key)
            flags = b.let("flags", ir.select(inside, flags, ir.Const(i64, 0)))
            ahead, total = b.declare("ahead", carry), b.declare("sum", flags)
            for distance in (1, 2, 4, 8, 16):
                other = b.let("other", Exchange(distance, total))
                upper = self.lane // distance % 2 == 1
                b.assign(ahead, ahead + ir.select(upper, other, ir.Const(i64, 0)))
                b.assign(total, total + other)
            b.assign(carry, carry + total)
            self.put(at, place, flags, ahead, left, rank)

    def flags(self, own, key):
        """One where an element comes before the key, and one in the upper half where it
        is equal to it."""
        one, other = ir.Const(i64, 1), ir.Const(i64, 1 << 32)
        equal = ir.select(own == key, other, ir.Const(i64, 0))
        return self.b.let("flag", ir.select(own < key, one, equal))

    def put(self, at, place, flags, ahead, left, rank):
        """Writes an element that is wanted where it belongs."""
        b = self.b
        equals = b.let("equals", ahead >> 32)
        equal = (flags >> 32) == 1
        if self.way != FIRST:
            with b.when(equal & (equals == left)):
                self.store(at, place)
            return
        base = b.let("to", at * (rank + 1))
        with b.when((flags & LOW) == 1):
            self.store(base + (ahead & LOW), place)
        with b.when(equal & (equals <= left)):
            self.store(base + (rank - left) + equals, place)

    def store(self, to, place):
        """An element and its place in the row."""
        self.b.store(self.out, to, ir.load(self.x, self.base + place))
        self.b.store(self.place, to, place)


def constant(value):
    """A number of 64 bits without a sign."""
    return ir.Const(u64, value)
