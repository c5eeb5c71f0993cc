"""The passes of a device's threads over rows: each over its own, or a block over one.

A thread asks for several values before it uses the first. Where a row fits the registers of a
block's threads, they keep what they load, and all passes take it from there.
"""

import math
from dataclasses import dataclass

from rushlight.codegen.frontend.nest_loops import (
    ZERO,
    _Block,
    _lets,
    _loop,
    _Passes,
    is_call,
    nodes,
)
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Var, i64, u32

WARP = 32
WARPS = 32  # of a block, at most
IN_FLIGHT = 64  # bytes of a long row that a thread asks for before it uses the first
SEVERAL = 16  # values that these are, at most
REGISTERS = 32  # of a thread, for the values of a row that it keeps
CHAINS = 4  # of states that those become
LOAD = 16  # bytes that a thread moves at once, at most
MOST_NODES = 160  # of expressions that are computed at once
NODES_OF_CALL = 16  # that a function of more than a few instructions counts for


def read_along(program):
    """The inputs with a value for each place of a row that becomes a state, in order."""
    states = [state for group in program.levels for state in group]
    values = nodes([value for state in states for value in state.values])
    names = [
        e.name for e in values if isinstance(e, Var) and e.name in program.elements
    ]
    return sorted({program.positions[name][0] for name in names})


def leaves_of(group):
    """How many variables the states of a level have."""
    return sum(len(state.monoid.types) for state in group)


class Room:
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


class ThreadBlock(_Block):
    """A thread's values of a row; where a place is past its end nothing is written."""

    def put(self, k, parts, at):
        if at.mask is None:
            super().put(k, parts, at)
        else:
            with self.b.when(at.mask):
                super().put(k, parts, at)


class DevicePasses(_Passes):
    """The passes of one thread over its places of a row, several places at once.

    A thread waits for what it loads before it goes on, so it asks for several values, each
    with a state of its own, before it uses the first. Where those are many, what is left over
    of a row is taken at once, too: past its end a thread loads its first one again, and takes
    it nowhere.
    """

    thread, threads = ZERO, Const(i64, 1)
    in_flight = 0  # bytes, beside what is usual

    def several(self, roots):
        """How many places a thread takes at once: as many as there are registers for."""
        program = self.program
        inputs = program.operands[program.count :]
        widths = [operand.itemsize for operand in inputs if operand.varies] or [LOAD]
        most = max(CHAINS, min(SEVERAL, self.in_flight // sum(widths)))
        if max(widths) <= 2:  # each fills a register, too: more at a time are slower
            most = CHAINS * 2
        most = 1 << most.bit_length() - 1
        found = nodes(roots, within=program.varies)
        weight = sum(NODES_OF_CALL if is_call(e) else 1 for e in found)
        while most > 1 and most * weight > MOST_NODES:
            most //= 2
        return most

    def copies(self, group, roots):
        return self.several(roots)

    def levels(self, group):
        """At most one: every copy is a chain of its own already."""
        return min(1, super().levels(group))

    def runs(self, copies):
        """Every ``threads``-th place, some of them at once."""
        start, stop = self.bounds(len(self.shape.reduced) - 1)
        yield start + self.thread, stop, self.threads * copies, False

    def sweep(self, base, start, stop, copies, take):
        """Calls ``take`` with several places of this thread's at a time, then the rest."""
        b, (block,) = self.b, self.blocks
        at = b.declare("at_place", start)
        steps = [ZERO, *(b.let("ahead", self.threads * u) for u in range(1, copies))]
        last = b.let("last", stop - steps[-1])
        with b.loop_while(at < last):
            take([block.at(base, b.let("place", at + s), None) for s in steps])
            b.assign(at, at + self.threads * copies)
        if not self.in_flight:
            with b.loop_while(at < stop):
                take([block.at(base, b.let("place", at), None)])
                b.assign(at, at + self.threads)
        else:
            with b.when(at < stop):
                first, rest = b.let("first", at), []
                for step in steps[1:]:
                    place = b.let("place", first + step)
                    mask = b.let("within", place < stop)
                    near = b.let("near", ir.select(mask, place, first))
                    rest.append(block.at(base, near, mask))
                take([block.at(base, first, None), *rest])

    def take_run(self, group, totals, base, start, stop, step):
        def take(slots):
            self.take_slots(group, totals, slots)

        self.sweep(base, start, stop, len(totals), take)

    def take_slots(self, group, totals, slots):
        """Takes the values at some places in, each into states of its own."""
        b, (block,) = self.b, self.blocks
        roots = [value for state in group for value in state.values]
        values = [_lets(b, "value", block.named(roots, here)) for here in slots]
        for states, found, here in zip(totals, values, slots):
            block.combine(group, states, found, here)

    def last_pass(self, varying):
        (block,) = self.blocks
        roots = [part for k in varying for part in self.program.outputs[k]]
        block.hoist(roots)
        with self.over_outer() as base:
            ((start, stop, _, _),) = self.runs(1)
            self.sweep(
                *(base, start, stop, self.several(roots)),
                lambda slots: self.write_slots(varying, roots, slots),
            )

    def write_slots(self, varying, roots, slots):
        """Writes the results at some places, all of them read before."""
        b, (block,) = self.b, self.blocks
        values = [_lets(b, "value", block.named(roots, here)) for here in slots]
        for found, here in zip(values, slots, strict=True):
            block.put_all(varying, found, here)


class GridPasses(DevicePasses):
    """The passes over a row by all threads of a block."""

    def __init__(self, b, program, shape, blocks, thread, threads, room):
        super().__init__(b, program, shape, blocks)
        self.thread, self.threads, self.room = thread, threads, room

    def copies(self, group, roots):
        """Fewer where a state has several leaves, each a register of every copy."""
        most = super().copies(group, roots)
        return min(most, max(CHAINS, most >> (leaves_of(group) - 1).bit_length()))

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


class Kept:
    """The values of a row that a thread keeps: arrays that become registers.

    They are some groups of neighbours, each moved by one load where it may be.

    Attributes:
        each: how many values.
        lanes: how many of them are a group.
        arrays: of each operand that varies.
    """

    def __init__(self, b, program, each):
        operands = {k: o for k, o in enumerate(program.operands) if o.varies}
        widest = max(operand.itemsize for operand in operands.values())
        self.each, self.lanes = each, math.gcd(each, LOAD // widest)
        self.arrays = {
            k: b.array(f"{operand.name}_kept", operand.element, each)
            for k, operand in operands.items()
        }


@dataclass(frozen=True)
class _Slot:
    """Where a value is among those that a thread keeps, and on its row.

    Attributes:
        number: among them.
        index: on the row.
        mask: whether the row goes so far.
    """

    number: int
    index: ir.Expr
    mask: Var
    base = ZERO


class RegisterBlock(ThreadBlock):
    """A thread's values of a row that it keeps from pass to pass."""

    def __init__(self, *given):
        *given, self.kept = given
        super().__init__(*given)
        self.costly = {}

    def load(self, k, part, at):
        if not isinstance(at, _Slot):  # one place that is looked up
            return super().load(k, part, at)
        return ir.load(self.kept.arrays[k], at.number)

    def put(self, k, parts, at):
        self.b.store(self.kept.arrays[k], at.number, parts[0])

    def keep(self, value, at):
        self.costly[at.number] = value

    def recall(self, at):
        return self.costly[at.number]

    def move(self, k, slots, to_memory=False):
        """Moves groups of an operand's values between memory and registers."""
        b, lanes, array = self.b, self.kept.lanes, self.kept.arrays[k]
        bytes = self.program.operands[k].itemsize
        for first in slots[::lanes]:
            here = ir.Offset(self.here[k], first.index * bytes)
            mine = ir.Offset(array, Const(i64, first.number * bytes))
            if to_memory:
                with b.when(first.mask):
                    move(b, here, mine, bytes * lanes)
            else:
                move(b, mine, here, bytes * lanes)


def move(b, target, source, bytes):
    """Copies some bytes by one load and one store: words, where they are more than one."""
    type, lanes = (ir.Type(f"uint{8 * bytes}"), 1) if bytes <= 4 else (u32, bytes // 4)
    value = ir.load(ir.Reinterpret(ir.Pointer(type), source), 0, lanes, bytes)
    target = ir.Reinterpret(ir.Pointer(type), target)
    b.add(ir.Store(target, ZERO, b.let("moved", value), bytes))


class RegisterPasses(GridPasses):
    """The passes over a row of which each thread has a few values, in registers."""

    def may_move(self):
        """Whether each operand's groups lie so that one load is enough."""
        (block,), shape = self.blocks, self.shape
        lanes = block.kept.lanes
        found = shape.length % lanes == 0
        for k in block.kept.arrays:
            bytes = self.program.operands[k].itemsize
            even = shape.moved_by[k] % (bytes * lanes) == 0
            found = found & even & (shape.steps[k][-1] == bytes)
        return found

    def write(self):
        """Asks for all values of the row at once, then goes through the passes.

        Past the row's end a thread loads the last values again, and takes them nowhere.
        """
        b, (block,) = self.b, self.blocks
        kept, stop = block.kept, self.shape.length
        self.slots = []
        for group in range(kept.each // kept.lanes):
            place = (self.thread + self.threads * group) * kept.lanes
            place = b.let("place", place)
            mask = b.let("within", place < stop)
            near = b.let("near", ir.binary("min", place, stop - kept.lanes))
            self.slots += [
                _Slot(group * kept.lanes + lane, near + lane, mask)
                for lane in range(kept.lanes)
            ]
        self.read = set(read_along(self.program))
        for k in sorted(self.read):
            block.move(k, self.slots)
        super().write()

    def reduce(self, group):
        program, (block,) = self.program, self.blocks
        roots = [value for state in group for value in state.values]
        block.hoist(roots)
        chains = max(1, CHAINS // leaves_of(group))
        totals = [self.fresh_states(group) for _ in range(chains)]
        for slots in self.batches(chains):
            self.take_slots(group, totals, slots)
        block.stored = block.stored or any(e is program.kept for e in roots)
        self.join(group, totals)

    def last_pass(self, varying):
        program, (block,) = self.program, self.blocks
        roots = [part for k in varying for part in program.outputs[k]]
        block.hoist(roots)
        for k in range(program.count, len(program.operands)):
            if program.operands[k].varies and k not in self.read:
                block.move(k, self.slots)
        for slots in self.batches(block.kept.lanes):
            self.write_slots(varying, roots, slots)
        for k in varying:
            block.move(k, self.slots, to_memory=True)

    def batches(self, count):
        """The thread's places, so many at a time."""
        return [self.slots[n : n + count] for n in range(0, len(self.slots), count)]


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


class FindingPasses(_Finding, GridPasses):
    """Such a pass by all threads of a block."""

    def __init__(self, *given):
        *given, states, at, (self.cut, self.start, self.stop) = given
        super().__init__(*given)
        self.states, self.place = iter(states), at


class FindingAlone(_Finding, DevicePasses):
    """Such a pass by one thread: it is the only one that has the part, a short one."""

    in_flight = IN_FLIGHT // 2  # each place has an address of its own
    levels = GridPasses.levels

    def __init__(self, *given):
        *given, states, at, (self.cut, self.start, self.stop) = given
        super().__init__(*given)
        self.states, self.place = iter(states), at


class JoiningPasses(GridPasses):
    """The pass over the states of a row's parts, each thread's in order."""

    def __init__(self, *given):
        *given, states, self.first, self.count = given
        super().__init__(*given)
        self.states = iter(states)

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
