"""Running states along rows as functions of a device's grid.

A row is a block's. It goes along the row in tiles: each thread has `EACH` neighbours, and
joins their states in order; lanes of a warp learn by exchange what the lanes before them
have, and warps in shared memory what those before them have, the tiles before included.
A row that is many blocks' is gone over twice: first each finds the state of its part, then
it begins with what the parts before it make. The order of every combination depends on
sizes alone, and so do the bits.

Elements are read and written by neighbouring threads, and turned in shared memory.
"""

from rushlight.codegen.frontend.complexes import Complex
from rushlight.codegen.frontend.reduction import monoid_of
from rushlight.codegen.frontend.storage import Storage
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import END, INTS, Barrier, Exchange, Pointer, Position, Var
from rushlight.ir.rewrite import map_expr
from rushlight.kernels.lanes import shared_array

WARP = 32
EACH = 8  # neighbours that a thread has of a tile
THREADS = 256  # of a block, at most
MOST_PARTS = 1024  # of a row: a block joins their states as one tile
INTEGERS = ("size", "inner", "parts", "span")
ALONE, TOTALS, JOINED = (
    "alone",
    "totals",
    "joined",
)  # whole rows; both passes over parts


def function(name, front, in_dtype, out_dtypes, compute, threads, way) -> ir.Function:
    """A scan of rows, as a function of a grid.

    Its parameters are the outputs, the input, for each leaf of a state the states of
    parts, the integers, and how many parts all rows have. A row's elements are ``inner``
    apart; ``span`` of them are a part.

    Args:
        front: the `Reduction` whose states are wanted after each element.
        in_dtype, out_dtypes, compute: as for `Reduction.specialize`.
        threads: of a block.
        way: `ALONE`, or of parts `TOTALS` and then `JOINED`.
    """
    b = Builder()
    monoid = monoid_of(front, compute)
    storages = [*map(Storage, out_dtypes), Storage(in_dtype)]
    names = [*(f"out{k}" for k in range(len(out_dtypes))), "x"]
    pointers = [
        Var(b.fresh(n), Pointer(s.element))
        for n, s in zip(names, storages, strict=True)
    ]
    states = [
        Var(b.fresh(f"state{k}"), Pointer(type)) for k, type in enumerate(monoid.types)
    ]
    _Scan(b, monoid, storages, pointers, states, threads, way).write()
    parameters = (*pointers, *states, INTS, END)
    return ir.Function(name, parameters, b.statements, grid=True)


class _Scan:
    """Writes the program of a block.

    Attributes:
        turned: for each type of elements, the array that tiles are turned in.
        held: those that threads may be reading still.
    """

    def __init__(self, b, monoid, storages, pointers, states, threads, way):
        self.b, self.monoid, self.way = b, monoid, way
        self.threads, self.tile = threads, threads * EACH
        *self.outs, self.read = list(zip(storages, pointers, strict=True))
        self.states, self.held = states, set()
        for k, name in enumerate(INTEGERS):
            setattr(self, name, b.let(name, ir.integer(k)))
        self.thread = b.let("thread", ir.Place("thread"))
        self.lane = b.let("lane", self.thread % WARP)
        self.warp = b.let("warp", self.thread // WARP)
        self.warps = [
            shared_array(b, "warps", t, threads // WARP) for t in monoid.types
        ]
        elements = {storage.element for storage in storages}
        self.transposed = {
            t: shared_array(b, "turned", t, self.tile + self.tile // WARP)
            for t in sorted(elements, key=str)
        }

    def write(self):
        """The parts of rows that a block has, one after the other."""
        b = self.b
        step = ir.Place("blocks")
        with b.loop("at", ir.Place("block"), END, step, kind="rolled") as at:
            row, part = b.let("row", at // self.parts), b.let("part", at % self.parts)
            base = row // self.inner * self.size * self.inner + row % self.inner
            base = b.let("base", base)
            start = b.let("start", part * self.span)
            stop = b.let("stop", start + self.span)
            stop = b.let("stop", ir.select(stop < self.size, stop, self.size))
            carry = [b.declare("carry", leaf) for leaf in self.monoid.empty(1)]
            if self.way == JOINED:
                self.before(row, part, carry)
            with b.loop("first", start, stop, self.tile, kind="rolled") as first:
                self.go(base, first, stop, carry)
            if self.way == TOTALS:
                with b.when(self.thread == 0):
                    for pointer, leaf in zip(self.states, carry, strict=True):
                        b.store(pointer, at, leaf)

    def before(self, row, part, carry):
        """The states of the parts before this one, joined."""
        values = []
        for e in range(EACH):
            k = self.b.let("k", self.thread * EACH + e)
            place = row * self.parts + ir.select(k < part, k, 0)
            loaded = [ir.load(pointer, place) for pointer in self.states]
            values.append(self.masked(k < part, loaded))
        self.after(values, carry)

    def go(self, base, first, stop, carry):
        """A tile: its elements, their states, what becomes of them."""
        b = self.b
        raw = self.bring(base, first, stop)
        values = []
        for e, parts in enumerate(raw):
            k = b.let("k", first + (self.thread * EACH + e))
            values.append(self.masked(k < stop, self.state_of(parts, k)))
        ahead, own = self.after(values, carry)
        if self.way != TOTALS:
            found = [self.finished(self.joined(ahead, state)) for state in own]
            for n, out in enumerate(self.outs):
                self.put(out, [item[n] for item in found], base, first, stop)
        # the next tile goes where this thread has read its results: nobody waits

    def wait(self):
        """What the block's threads have read before may be overwritten behind it."""
        self.b.add(Barrier())
        self.held.clear()

    def state_of(self, parts, k):
        """The state of one element."""
        storage, type = self.read[0], self.monoid.type
        parts = [storage.read(part, type) for part in parts]
        x = parts[0] if len(parts) == 1 else Complex(*parts)
        values = self.monoid.values(x, None)
        placed = [
            map_expr(v, lambda e: k if isinstance(e, Position) else e) for v in values
        ]
        return self.monoid.taken(self.monoid.empty(1), placed)

    def masked(self, condition, state):
        """A state where there is one, else that of nothing."""
        nothing = self.monoid.empty(1)
        pairs = zip(state, nothing, strict=True)
        return [self.b.let("value", ir.select(condition, v, w)) for v, w in pairs]

    def joined(self, left, right):
        """Two states in their order."""
        found = self.monoid.combined(left, right)
        return [self.b.let("joined", leaf) for leaf in found]

    def finished(self, state):
        """For each output its parts as they are kept."""
        results = self.monoid.finished(state, None)
        return [
            [self.b.let("kept", storage.keep(p)) for p in storage.split(result)]
            for (storage, _), result in zip(self.outs, results, strict=True)
        ]

    def after(self, values, carry):
        """What is before a thread's values, and their states so far; joins the carry."""
        b = self.b
        own = [values[0]]
        for value in values[1:]:
            own.append(self.joined(own[-1], value))
        total, ahead = own[-1], self.monoid.empty(1)
        for distance in (1, 2, 4, 8, 16):
            upper = b.let("upper", self.lane // distance % 2 == 1)
            other = [b.let("other", Exchange(distance, leaf)) for leaf in total]
            ahead = self.chosen(upper, self.joined(other, ahead), ahead)
            pair = self.chosen(upper, other, total), self.chosen(upper, total, other)
            total = self.joined(*pair)
        # since others' were read, all have waited for the elements of this tile
        with b.when(self.lane == 0):
            for array, leaf in zip(self.warps, total, strict=True):
                b.store(array, self.warp, leaf)
        self.wait()
        front = [b.declare("front", leaf) for leaf in carry]
        count = self.threads // WARP
        with b.loop("warp_at", 0, count, kind="rolled") as at:
            with b.when(at == self.warp):
                self.assign(front, carry)
            other = [b.let("other", ir.load(array, at)) for array in self.warps]
            self.assign(carry, self.joined(carry, other))
        return self.joined(front, ahead), own

    def chosen(self, condition, yes, no):
        """One of two states."""
        pairs = zip(yes, no, strict=True)
        return [self.b.let("chosen", ir.select(condition, v, w)) for v, w in pairs]

    def assign(self, variables, values):
        """The next values of a state's variables."""
        for variable, value in zip(variables, values, strict=True):
            self.b.assign(variable, value)

    # ---- memory

    def bring(self, base, first, stop):
        """For each of a thread's elements its parts, read by neighbours side by side."""
        b = self.b
        storage, pointer = self.read
        array = self.transposed[storage.element]
        found = [[] for _ in range(EACH)]
        for p in range(storage.parts):
            if p:
                self.wait()
            loaded = []
            for e in range(EACH):
                at = b.let("at", self.thread + e * self.threads)
                k = b.let("k", ir.select(first + at < stop, first + at, stop - 1))
                place = (base + k * self.inner) * storage.parts + p
                loaded.append((at, b.let("loaded", ir.load(pointer, place))))
            for at, value in loaded:
                b.store(array, padded(at), value)
            self.wait()
            for e in range(EACH):
                place = padded(self.thread * EACH + e)
                found[e].append(b.let("own", ir.load(array, place)))
            self.held.add(array)
        return found

    def put(self, out, values, base, first, stop):
        """Writes each thread's results of a tile, by neighbours side by side."""
        b = self.b
        storage, pointer = out
        array = self.transposed[storage.element]
        for p in range(storage.parts):
            if array in self.held:
                self.wait()
            for e in range(EACH):
                b.store(array, padded(self.thread * EACH + e), values[e][p])
            self.wait()
            for e in range(EACH):
                at = b.let("at", self.thread + e * self.threads)
                with b.when(first + at < stop):
                    place = (base + (first + at) * self.inner) * storage.parts + p
                    b.store(pointer, place, ir.load(array, padded(at)))
            self.held.add(array)


def padded(place):
    """Where an element of a tile is kept: a thread's neighbours are in other banks."""
    return place + place // WARP


def plan(rows, size):
    """The threads of a block, the parts of a row and the elements of each.

    >>> plan(1, 100), plan(1, 3000), plan(400, 10**6)
    ((32, 1, 256), (256, 1, 4096), (256, 2, 501760))
    >>> plan(1, 10**7)
    (256, 977, 10240)
    """
    threads = WARP
    while threads < THREADS and threads * EACH < size:
        threads *= 2
    tile = threads * EACH
    tiles = -(-size // tile)
    parts = max(1, min(MOST_PARTS // rows, tiles // 2, MOST_PARTS))
    span = -(-tiles // parts) * tile
    return threads, -(-size // span), span
