"""The first few elements of rows, or the one of a rank, as functions of a device's grid.

A row, or a part of one, is a block's. Each element has a key, a whole number that orders
as the elements do, NaN last. The block's threads count how many keys have each value of
their eight highest bits; that tells those bits of the key of the wanted rank, and which
keys are candidates still, and so on, eight bits at a time. Then the elements before that
key are found, and as many that equal it as there is room for: in the order of the row,
each warp going over a stretch of it. No bit depends on what other threads do first.
"""

from rushlight.codegen.frontend.storage import Storage
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import END, INTS, Barrier, Call, Pointer, Var, i64, u32
from rushlight.ir.threads import Atomic, Match
from rushlight.kernels.lanes import shared_array, sum_of_lanes, sums_before
from rushlight.kernels.select.ordered_keys import key_of, width_of, word_of

WARP = 32
BITS = 8  # that one pass over the candidates tells
DIGITS = 1 << BITS
AHEAD = 4  # elements that a thread asks for before it looks at the first
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


class _Selection:
    """Writes the program of a block."""

    def __init__(self, b, storage, pointers, way, descending, threads):
        self.b, self.storage, self.way = b, storage, way
        self.descending, self.threads = descending, threads
        self.out, self.place, self.x = pointers
        self.width, self.word = width_of(storage.dtype), word_of(storage.dtype)
        for k, name in enumerate(INTEGERS):
            setattr(self, name, b.let(name, ir.integer(k)))
        self.thread = b.let("thread", ir.Place("thread"))
        self.lane = b.let("lane", self.thread % WARP)
        self.warp = b.let("warp", self.thread // WARP)
        self.warps = shared_array(b, "warps", i64, threads // WARP)
        self.found = shared_array(b, "found", u32, DIGITS)
        self.chosen = shared_array(b, "chosen", i64, 2)

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

    def keys(self, positions, last):
        """The keys of elements of the row, all read before the first is looked at.

        Those of places from ``last`` on are of the element before it.
        """
        held = [ir.binary("min", place, last - 1) for place in positions]
        raws = [self.b.let("raw", ir.load(self.x, self.base + place)) for place in held]
        return [key_of(self.b, raw, self.descending) for raw in raws]

    def constant(self, value):
        """A number of a key's type."""
        return ir.Const(self.word, value)

    # ---- what the threads of a block know together

    def summed(self, count):
        """The sum of all threads' numbers."""
        b = self.b
        count = sum_of_lanes(b, count)
        with b.when(self.lane == 0):
            b.store(self.warps, self.warp, count)
        b.add(Barrier())
        total = b.declare("total", ir.Const(i64, 0))
        with b.loop("w", 0, self.threads // WARP, kind="rolled") as w:
            b.assign(total, total + ir.load(self.warps, w))
        return total

    def middle(self):
        """The rank of the lower middle; of the first NaN, where one counts."""
        b = self.b
        good = b.declare("numbers", ir.Const(i64, 0))
        with self.own_positions() as place:
            raw = ir.load(self.x, self.base + place)
            value = b.let("value", self.storage.read(raw, self.storage.computed))
            one = ir.select(value == value, ir.Const(i64, 1), ir.Const(i64, 0))
            b.assign(good, good + one)
        good = self.summed(good)
        lower = ir.select(good > 0, (good - 1) // 2, ir.Const(i64, 0))
        lost = (good < self.size) & ((self.skip == 0) | (good == 0))
        return b.let("rank", ir.select(lost, good, lower))

    def own_positions(self):
        """A loop over every place of the part that is this thread's."""
        first = self.start + self.thread
        return self.b.loop("i", first, self.stop, self.threads, kind="rolled")

    def key_of_rank(self, rank):
        """The key of the element of a rank, and how many equals come before that."""
        b = self.b
        prefix, mask = (b.declare(n, self.constant(0)) for n in ("prefix", "mask"))
        left = b.declare("left", rank)
        shift = b.declare("shift", self.constant(self.width - BITS))
        with b.loop("sweep", 0, self.width // BITS, kind="rolled"):
            with b.loop("d", self.thread, DIGITS, self.threads, kind="rolled") as d:
                b.store(self.found, d, 0)
            b.add(Barrier())
            self.count_digits(prefix, mask, shift)
            b.add(Barrier())
            with b.when(self.warp == 0):
                self.choose_digit(left)
            b.add(Barrier())
            digit = b.let("digit", ir.cast(self.word, ir.load(self.chosen, 0)))
            b.assign(left, left - ir.load(self.chosen, 1))
            b.assign(prefix, prefix | (digit << shift))
            b.assign(mask, mask | (self.constant(DIGITS - 1) << shift))
            b.assign(shift, shift - self.constant(BITS))
        return prefix, left

    def count_digits(self, prefix, mask, shift):
        """How many candidates have each value of some bits of their keys."""
        b = self.b
        first, step = self.start + self.thread, self.threads
        with b.loop("i", first, self.stop, AHEAD * step, kind="rolled") as i:
            positions = [b.let("own", i + k * step) for k in range(AHEAD)]
            for place, key in zip(
                positions, self.keys(positions, self.stop), strict=True
            ):
                digit = ir.cast(i64, (key >> shift) & self.constant(DIGITS - 1))
                with b.when((place < self.stop) & ((key & mask) == prefix)):
                    b.add(Atomic("add", self.found, digit, ir.Const(u32, 1)))

    def choose_digit(self, left):
        """The digit of the rank that is left, and how many candidates have lower ones.

        The lanes of a warp have neighbouring digits.
        """
        b, each = self.b, DIGITS // WARP
        counts = [
            b.let("counted", ir.cast(i64, ir.load(self.found, self.lane * each + k)))
            for k in range(each)
        ]
        mine = counts[0]
        for count in counts[1:]:
            mine = mine + count
        ahead, _ = sums_before(b, self.lane, mine)
        for k, count in enumerate(counts):
            with b.when((left >= ahead) & (left < ahead + count)):
                b.store(self.chosen, 0, self.lane * each + k)
                b.store(self.chosen, 1, ahead)
            b.assign(ahead, ahead + count)

    # ---- what is given

    def give(self, at, key, left, rank):
        """The elements that are wanted, in the order of the row."""
        b = self.b
        count = self.threads // WARP
        length = self.stop - self.start
        per_warp = b.let(
            "stretch", (length + (count * WARP - 1)) // (count * WARP) * WARP
        )
        first = b.let("first", self.start + self.warp * per_warp)
        last = b.let("last", ir.binary("min", first + per_warp, self.stop))
        own, step = first + self.lane, WARP * AHEAD
        mine = b.declare("mine", ir.Const(i64, 0))
        with b.loop("i", own, last, step, kind="rolled") as i:
            positions = [b.let("own", i + k * WARP) for k in range(AHEAD)]
            for place, found in zip(positions, self.keys(positions, last), strict=True):
                flags = ir.select(
                    place < last, self.flags(found, key), ir.Const(i64, 0)
                )
                b.assign(mine, mine + flags)
        total = sum_of_lanes(b, mine)
        with b.when(self.lane == 0):
            b.store(self.warps, self.warp, total)
        b.add(Barrier())
        carry = b.declare("carry", ir.Const(i64, 0))
        with b.loop("w", 0, self.warp, kind="rolled") as w:
            b.assign(carry, carry + ir.load(self.warps, w))
        if self.way == MIDDLE:  # the next row's sum goes where this is read
            b.add(Barrier())
        before = b.declare("before", carry & LOW)
        equals = b.declare("equals", carry >> 32)
        with b.loop("tile", first, last, step, kind="rolled") as tile:
            positions = [
                b.let("at_place", tile + self.lane + k * WARP) for k in range(AHEAD)
            ]
            for place, found in zip(positions, self.keys(positions, last), strict=True):
                inside = b.let("inside", place < last)
                is_before = b.let("is_before", inside & (found < key))
                is_equal = b.let("is_equal", inside & (found == key))
                given = at, place, left, rank
                self.put(
                    *given,
                    (is_before, self.next(is_before, before)),
                    (is_equal, self.next(is_equal, equals)),
                )

    def next(self, flag, count):
        """How many elements with a flag come before this lane's; counts those of the tile."""
        b = self.b
        bit = b.let("bit", ir.cast(u32, flag))
        alike = b.let("alike", Match(1, bit))
        lanes = b.let("lanes", ir.select(flag, alike, ~alike))
        one = ir.Const(u32, 1)
        below = (one << ir.cast(u32, self.lane)) - one
        ahead = count + ir.cast(i64, Call("popcount", u32, lanes & below))
        ahead = b.let("ahead", ahead)
        b.assign(count, count + ir.cast(i64, Call("popcount", u32, lanes)))
        return ahead

    def flags(self, own, key):
        """One where an element comes before the key, and one in the upper half where it
        is equal to it."""
        one, other = ir.Const(i64, 1), ir.Const(i64, 1 << 32)
        equal = ir.select(own == key, other, ir.Const(i64, 0))
        return self.b.let("flag", ir.select(own < key, one, equal))

    def put(self, at, place, left, rank, before, equal):
        """Writes an element that is wanted where it belongs.

        Args:
            before, equal: whether it is such a one, and how many are before it.
        """
        b = self.b
        if self.way != FIRST:
            with b.when(equal[0] & (equal[1] == left)):
                self.store(at, place)
            return
        base = b.let("to", at * (rank + 1))
        with b.when(before[0]):
            self.store(base + before[1], place)
        with b.when(equal[0] & (equal[1] <= left)):
            self.store(base + (rank - left) + equal[1], place)

    def store(self, to, place):
        """An element and its place in the row."""
        self.b.store(self.out, to, ir.load(self.x, self.base + place))
        self.b.store(self.place, to, place)
