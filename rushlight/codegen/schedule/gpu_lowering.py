"""Functions of a device's grid, made from the same descriptions as the host's loops.

Elements are divided among all threads. A row is a block's, whose threads take every
``threads``-th place of it: each has a state of its own, lanes of a warp join theirs by
exchanging them, and the warps' states meet in the block's memory. Where rows lie side by
side, each thread has a row instead. A long row is many blocks', where it becomes one state:
one function finds the states of its parts, another joins those.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.codegen.frontend.nest_loops import (
    ALONG,
    SINGLE,
    ZERO,
    _Block,
    _lets,
    _loop,
    _Passes,
    nodes,
)
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Const, Place, Var, i64
from rushlight.ir.rewrite import bodies_of, expressions_of

WARP = 32
WARPS = 32  # of a block, at most
MOST_THREADS = 512  # of a block for a row
MOST_THREADS_OF_DOUBLES = 256  # which take two registers each, of 255 that a thread has
SHARED_BYTES = 48 << 10  # that any card gives a block
SEVERAL = 4  # values of four bytes that a thread asks for before it uses one
MOST_NODES = 160  # of expressions that are computed at once
MOST_DATA, MOST_INTS = 24, 64  # pointers and integers of a launch
TOTAL = Var("total", i64)
# The functions of rows that are many blocks', or of rows side by side that are many threads'
FINDS, FINDS_BESIDE, JOINS = "finds", "finds_beside", "joins"
# Where their launches have how many parts a row has and how long those are: behind
# whatever integers a kernel has.
PARTS, SPAN = MOST_INTS - 2, MOST_INTS - 1


def places_of(body):
    """Where the arrays that a block shares lie in a launch's room, and its bytes.

    Where they take no more than any card gives a block there is no room: they are the
    function's own, and the places are none.
    """
    places, bytes = {}, 0
    for array in _shared(body):
        bytes = -(-bytes // array.alignment) * array.alignment
        places[array.var.name] = bytes
        bytes += array.size * array.var.type.element.itemsize
    return (places, bytes) if bytes > SHARED_BYTES else ({}, 0)


def most_threads(function):
    """How many threads a block for a row has at most, so that registers suffice.

    >>> x = Var("x", ir.Pointer(ir.f64))
    >>> copy = ir.Store(x, ir.Const(i64, 0), ir.load(x, 1))
    >>> most_threads(ir.Function("f", (x,), (copy,), grid=True))
    256
    """
    found = any(map(_has_doubles, function.body))
    return MOST_THREADS_OF_DOUBLES if found else MOST_THREADS


def _has_doubles(statement):
    pending, seen = expressions_of(statement), set()
    while pending:
        e = pending.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if not isinstance(e.type, ir.Pointer) and e.type.scalar == ir.f64:
            return True
        pending += e.args
    return any(_has_doubles(s) for body in bodies_of(statement) for s in body)


def _shared(body):
    for statement in body:
        if isinstance(statement, ir.Array) and statement.shared:
            yield statement
        for inner in bodies_of(statement):
            yield from _shared(inner)


def spread(function: ir.Function) -> ir.Function:
    """A host kernel as a function of a grid: its parallel axis is the threads'.

    Each thread takes an index, then every index a grid's width further on.

    Args:
        function: a kernel that begins by naming base pointers; what it refuses is lost.
    """
    pointers = []
    for statement in function.body:
        if not isinstance(statement, ir.Let):
            break
        if not isinstance(statement.var.type, ir.Pointer):
            break
        pointers.append(statement.var)
    work = [s for s in function.body[len(pointers) :] if not isinstance(s, ir.Return)]
    b = Builder()
    first = b.let("first", Place("block") * Place("threads") + Place("thread"))
    width = b.let("width", Place("blocks") * Place("threads"))
    body = (ir.Let(ir.END, ir.BEGIN + 1), *work)
    loop = ir.For(ir.BEGIN, first, TOTAL, body, width)
    return ir.Function(
        function.name,
        (*pointers, ir.INTS, TOTAL),
        (*b.statements, loop),
        distinct=function.distinct,
        grid=True,
    )


def rows(name, program, layout, together=None) -> ir.Function:
    """A kernel over rows as a function of a grid.

    Its parameters are the operands, the integers and how many rows there are. Blocks are
    of whole warps, at most `WARPS` of them, where a row is all threads' of a block.

    Args:
        program: what is computed, `nest_loops.Results`.
        layout: as for `nest_loops.nest`.
        together: whether a row is a block's; otherwise each thread has one. By default
            as the layout says.
    """
    b = Builder()
    pointers = [
        Var(f"{operand.name}_base", ir.Pointer(operand.element))
        for operand in program.operands
    ]
    program.pointers = [b.fresh(pointer.name) and pointer for pointer in pointers]
    shape = layout(b, program)
    together = ALONG in shape.modes if together is None else together
    thread, threads = (
        b.let("thread", Place("thread")),
        b.let("threads", Place("threads")),
    )
    first, step = b.let("block", Place("block")), b.let("blocks", Place("blocks"))
    if not together:
        first = b.let("first", first * threads + thread)
        step = b.let("step", step * threads)
    room = _Room(b, program) if together else None
    with b.loop("at", first, ir.END, step, kind="rolled") as at:
        places, _ = shape.segment(at)
        block = _Block(b, program, shape, places, SINGLE, 1)
        if room is None:
            _DevicePasses(b, program, shape, [block]).write()
        else:
            _GridPasses(b, program, shape, [block], thread, threads, room).write()
    parameters = (*pointers, ir.INTS, ir.END)
    return ir.Function(name, parameters, b.statements, grid=True)


@dataclass(frozen=True)
class Parted:
    """What there is to know of a kernel whose rows may be many blocks'.

    Attributes:
        operands: how many pointers it has before those of states.
        leaves: how many arrays hold the states of parts.
        loops: which of its integers are the sizes of the loops along a row.
    """

    operands: int
    leaves: int
    loops: tuple


def parted(program, layout):
    """How a kernel's rows become parts; None where they are not one state each.

    Args:
        program, layout: as for `rows`.
    """
    shape = layout(Builder(), program)
    varies = any(operand.varies for operand in program.operands[: program.count])
    if varies or program.picks or len(program.levels) != 1:
        return None
    leaves = sum(len(state.monoid.types) for state in program.levels[0])
    return Parted(len(program.operands), leaves, shape.sizes_at)


def parts(name, program, layout, way, cut) -> ir.Function:
    """A kernel whose rows are many blocks', as one of its two functions of a grid.

    Its parameters are the operands, for each leaf of a state the states of parts, the
    integers, and how many parts all rows have, or how many rows there are (`JOINS`).

    Args:
        program, layout: as for `rows`.
        way: `FINDS`, where a part is a block's, `FINDS_BESIDE`, where it is a thread's and
            the next thread has the same part of the next row, or `JOINS`.
        cut: the number of the loop along a row that is divided.
    """
    b = Builder()
    pointers = [
        Var(f"{operand.name}_base", ir.Pointer(operand.element))
        for operand in program.operands
    ]
    program.pointers = [b.fresh(pointer.name) and pointer for pointer in pointers]
    (group,) = program.levels
    types = [type for state in group for type in state.monoid.types]
    states = [Var(b.fresh(f"state{k}"), ir.Pointer(t)) for k, t in enumerate(types)]
    shape = layout(b, program)
    thread, threads = (
        b.let("thread", Place("thread")),
        b.let("threads", Place("threads")),
    )
    count, span = b.let("parts", ir.integer(PARTS)), b.let("span", ir.integer(SPAN))
    alone = way == FINDS_BESIDE
    room = None if alone else _Room(b, program)
    first, step = b.let("block", Place("block")), b.let("blocks", Place("blocks"))
    if alone:
        first = b.let("first", first * threads + thread)
        step = b.let("step", step * threads)
        side = b.let("side", ir.END // count)
    with b.loop("at", first, ir.END, step, kind="rolled") as at:
        row, part = at, ZERO
        if way == FINDS:
            row, part = b.let("row", at // count), b.let("part", at % count)
        elif alone:
            row, part = b.let("row", at % side), b.let("part", at // side)
        places, _ = shape.segment(row)
        given = b, program, shape, [_Block(b, program, shape, places, SINGLE, 1)]
        if way == JOINS:
            given = *given, thread, threads, room
            passes = _JoiningPasses(*given, states, row * count, count)
        else:
            start = b.let("start", part * span)
            stop = b.let("stop", ir.binary("min", start + span, shape.reduced[cut]))
            goal = states, b.let("goal", row * count + part), (cut, start, stop)
            if alone:
                passes = _FindingAlone(*given, *goal)
            else:
                passes = _FindingPasses(*given, thread, threads, room, *goal)
        passes.write()
    parameters = (*pointers, *states, ir.INTS, ir.END)
    return ir.Function(name, parameters, b.statements, grid=True)


class _Room:
    """The block's memory for the states of its warps: an array for each type."""

    def __init__(self, b, program):
        self.arrays: dict = {}
        for group in program.levels:
            for state in group:
                taken: dict = {}
                for type in state.monoid.types:
                    number = taken[type] = taken.get(type, -1) + 1
                    if (type, number) not in self.arrays:
                        var = Var(b.fresh("warps"), ir.Pointer(type))
                        b.add(ir.Array(var, WARPS, shared=True))
                        self.arrays[type, number] = var

    def of(self, monoid):
        """The arrays of a monoid's leaves."""
        taken: dict = {}
        for type in monoid.types:
            taken[type] = taken.get(type, -1) + 1
            yield self.arrays[type, taken[type]]


class _DevicePasses(_Passes):
    """The passes of one thread over its places of a row, several places at once.

    A thread waits for what it loads before it goes on, so it asks for a few values, each
    with a state of its own, before it uses the first.
    """

    thread, threads = ZERO, Const(i64, 1)

    def several(self, roots):
        """How many places a thread takes at once: as many as there are registers for."""
        program = self.program
        inputs = program.operands[program.count :]
        widths = [operand.itemsize for operand in inputs if operand.varies]
        most = SEVERAL * 2 if widths and max(widths) <= 2 else SEVERAL
        weight = len(list(nodes(roots, within=program.varies)))
        while most > 1 and most * weight > MOST_NODES:
            most //= 2
        return most

    def copies(self, group, roots):
        return self.several(roots)

    def runs(self, copies):
        """Every ``threads``-th place, some of them at once."""
        start, stop = self.bounds(len(self.shape.reduced) - 1)
        yield start + self.thread, stop, self.threads * copies, False

    def sweep(self, start, stop, copies, take):
        """Calls ``take`` with the indices of several places of this thread's, then of one."""
        b = self.b
        at = b.declare("at_place", start)
        steps = [b.let("ahead", self.threads * u) for u in range(1, copies)]
        if steps:
            last = b.let("last", stop - steps[-1])
            with b.loop_while(at < last):
                take([b.let("place", at), *(b.let("place", at + s) for s in steps)])
                b.assign(at, at + self.threads * copies)
        with b.loop_while(at < stop):
            take([b.let("place", at)])
            b.assign(at, at + self.threads)

    def take_run(self, group, totals, base, start, stop, step):
        b, (block,) = self.b, self.blocks
        roots = [value for state in group for value in state.values]

        def take(places):
            at = [block.at(base, place, None) for place in places]
            values = [_lets(b, "value", block.named(roots, here)) for here in at]
            for states, found, here in zip(totals, values, at):
                block.combine(group, states, found, here)

        self.sweep(start, stop, len(totals), take)

    def last_pass(self, varying):
        b, (block,) = self.b, self.blocks
        roots = [part for k in varying for part in self.program.outputs[k]]
        block.hoist(roots)
        with self.over_outer() as base:

            def take(places):
                at = [block.at(base, place, None) for place in places]
                values = [_lets(b, "value", block.named(roots, here)) for here in at]
                for found, here in zip(values, at, strict=True):
                    block.put_all(varying, found, here)

            ((start, stop, _, _),) = self.runs(1)
            self.sweep(start, stop, self.several(roots), take)


class _GridPasses(_DevicePasses):
    """The passes over a row by all threads of a block."""

    def __init__(self, b, program, shape, blocks, thread, threads, room):
        super().__init__(b, program, shape, blocks)
        self.thread, self.threads, self.room = thread, threads, room

    def levels(self, group):
        """None: the threads' states are partial ones already."""
        return 0

    def put_rows(self, block):
        """One thread writes what a row has one value of; all of them know it."""
        for k, parts in enumerate(self.program.outputs):
            if not self.program.operands[k].varies:
                for part in parts:
                    block.scalar(part)
        with self.b.when(self.thread == 0):
            super().put_rows(block)

    def folded(self, monoid, states):
        """The lanes' states joined by exchange, the warps' in the block's memory."""
        b = self.b
        state = super().folded(monoid, states)
        for distance in (16, 8, 4, 2, 1):
            other = [b.let("other", ir.Exchange(distance, leaf)) for leaf in state]
            state = [b.let("joined", v) for v in monoid.combined(state, other)]
        arrays = list(self.room.of(monoid))
        with b.when(self.thread % WARP == 0):
            for array, leaf in zip(arrays, state, strict=True):
                b.store(array, self.thread // WARP, leaf)
        b.add(ir.Barrier())
        # All threads join them in one order, and so have the same bits.
        whole = [b.declare("whole", ir.load(array, ZERO)) for array in arrays]
        with _loop(b, "warp", 1, self.threads // WARP) as warp:
            other = [b.let("other", ir.load(array, warp)) for array in arrays]
            joined = [b.let("joined", v) for v in monoid.combined(whole, other)]
            for variable, value in zip(whole, joined, strict=True):
                b.assign(variable, value)
        b.add(ir.Barrier())
        return whole


class _Finding:
    """The pass over one part of a row: its states go to memory."""

    def bounds(self, loop):
        """Where a loop along the row begins and ends: one of them is the part's."""
        if loop == self.cut:
            return self.start, self.stop
        return super().bounds(loop)

    def folded(self, monoid, states):
        whole = super().folded(monoid, states)
        with self.b.when(self.thread == 0):
            for leaf in whole:
                self.b.store(next(self.states), self.place, leaf)
        return whole

    def put_rows(self, block):
        """Nothing: no row is done."""


class _FindingPasses(_Finding, _GridPasses):
    """Such a pass by all threads of a block."""

    def __init__(self, *given):
        *given, states, at, (self.cut, self.start, self.stop) = given
        super().__init__(*given)
        self.states, self.place = iter(states), at


class _FindingAlone(_Finding, _DevicePasses):
    """Such a pass by one thread: it is the only one that has the part."""

    def __init__(self, *given):
        *given, states, at, (self.cut, self.start, self.stop) = given
        super().__init__(*given)
        self.states, self.place = iter(states), at


class _JoiningPasses(_GridPasses):
    """The pass over the states of a row's parts, each thread's in order."""

    def __init__(
        self, b, program, shape, blocks, thread, threads, room, states, first, count
    ):
        super().__init__(b, program, shape, blocks, thread, threads, room)
        self.states, self.first, self.count = iter(states), first, count

    def reduce(self, group):
        b, (block,) = self.b, self.blocks
        for state, mine in zip(group, self.fresh_states(group), strict=True):
            arrays = [next(self.states) for _ in mine]
            with _loop(b, "part", self.thread, self.count, self.threads) as part:
                place = b.let("place", self.first + part)
                other = [b.let("other", ir.load(array, place)) for array in arrays]
                joined = state.monoid.combined(mine, other)
                joined = [b.let("joined", value) for value in joined]
                for variable, value in zip(mine, joined, strict=True):
                    b.assign(variable, value)
            leaves = self.folded(state.monoid, [mine])
            for e in state.leaves:
                block.uniform[id(e)] = leaves[e.leaf]
