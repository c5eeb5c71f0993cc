"""The one nest of loops of all kernels that reduce.

A kernel is a list of results over the places of a row. What monoids make of the row
(`Along`) cuts the results into levels: one pass over the row for each level, the next
level's values being made of the states before, and a last pass for results that have an
element for each place. What one pass computes at some cost and a later one needs is kept
in the output.

A row runs over one to three loops. Rows are worked on one by one, the lanes of vectors
over contiguous places (`CONTIGUOUS`); or as many side by side as a vector has lanes, each lane
a row (`STRIDED`); or one by one, place by place (`SINGLE`). Short rows whose places are
contiguous are brought side by side (see `turned_rows`). Values are combined in an
order that depends on the sizes alone, so that sums are the same bits for any number of
threads.
"""

from contextlib import contextmanager
from dataclasses import replace

from rushlight.codegen.frontend.monoids import CHUNK
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.codegen.schedule.register_transpose import RegisterTranspose, longest
from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Along, At, Call, Const, Position, Var, i64
from rushlight.ir.rewrite import widen

ZERO = Const(i64, 0)
LENGTH = "row_length"
CONTIGUOUS, STRIDED, SINGLE, TRANSPOSED = (
    "contiguous",
    "strided",
    "single",
    "transposed",
)
SHORT = "short"  # contiguous, but for rows that are worth transposing
CHEAP_CALLS = ("sqrt", "fma", "floor", "ceil", "trunc", "round", "copysign", "isnan")
CROWDED = 512  # bytes: places that are a multiple of it apart share few sets of a cache
ABREAST, SHORT_VECTORS = 4, 32  # of rows, and of a row
CHEAP_COPIES = 4  # of accumulators: cheap values arrive faster than one chain of sums


def kernel(name, program, layout):
    """A kernel of that name; the rest as for `nest`."""
    function = ir.kernel(name, nest(program, layout))
    return replace(function, repeats=program.repeats)


def ways(program):
    """What decides how rows are worked on, where a kernel of one way is to be found.

    Returns:
        Which operands vary along a row, as bits, and how long the rows are at most that
        are turned; None where there is one way only.
    """
    if program.lanes == 1:
        return None
    bits = [k for k, operand in enumerate(program.operands) if operand.varies]
    return sum(1 << k for k in bits), longest(program)


def nest(program, layout):
    """The body of a kernel.

    Args:
        program: what is computed, a `Results`.
        layout: makes the object that reads the kernel's integers, from a builder and
            the program; see `layouts`.
    """
    b = Builder()
    shape = layout(b, program)
    modes = shape.modes
    at = b.declare("at", ir.BEGIN)
    with b.loop_while(at < ir.END):
        rows, length = shape.segment(at)
        place = _Place(b, program, shape, rows, length)
        if program.lanes == 1:
            place.write(SINGLE, 1, 1, ZERO)
        elif len(modes) == 1:
            place.write_mode(modes[0])
        else:
            with b.when(shape.along):
                place.write_along()
            with b.otherwise():
                place.write_mode(STRIDED)
        b.assign(at, at + length)
    return b.statements


class _Place:
    """Writes the loops over one segment of rows."""

    def __init__(self, b, program, shape, rows, length):
        self.b, self.program, self.shape = b, program, shape
        self.rows, self.length = rows, length
        self.masks = current().has_masks

    def write_mode(self, mode):
        """The loops of rows, where their elements lie as a mode wants it.

        Where rows lie neither so nor side by side, they are written one by one. Where
        none are worth turning, as without a mask for their elements, they are gone along.
        """
        b, program = self.b, self.program
        if mode == SHORT:
            self.write_along()
            return
        if mode == TRANSPOSED and longest(program):
            self.write_transposed(RegisterTranspose(b, program, self.shape))
            return
        if mode in (CONTIGUOUS, TRANSPOSED):
            self.write_rows()
            return
        near = b.declare("near", ZERO)
        if mode == STRIDED and program.strided:
            lanes, wide = program.lanes, program.lanes * program.strided
            with b.when(self.shape.strided):
                if program.strided > 1:
                    full = b.let("full", self.full(wide))
                    self.write(STRIDED, lanes, program.strided, ZERO, full)
                    b.assign(near, full)
                last = self.length
                if not self.masks:
                    last = b.let("vectors", self.length // lanes * lanes)
                self.write(STRIDED, lanes, 1, near, last, self.masks)
                b.assign(near, last)
            if self.masks and isinstance(self.shape.strided, Const):
                return
        self.write(SINGLE, 1, 1, near)

    def write_rows(self):
        """The loops of rows that are gone along: short ones several at a time."""
        b, lanes, count, first = self.b, self.program.lanes, self.abreast(), ZERO
        if count > 1:
            short = self.shape.length <= lanes * SHORT_VECTORS
            full = self.length // count * count
            first = b.let("full", ir.select(short, full, ZERO))
            self.write(CONTIGUOUS, lanes, count, ZERO, first)
        self.write(CONTIGUOUS, lanes, 1, first)

    def abreast(self):
        """How many short rows are gone along at a time: one folds while others are read.

        Their states and the constants of functions are to be in registers. Of rows that fold
        once the processor overlaps enough by itself.
        """
        program = self.program
        if len(program.levels) < 2 or program.picks or len(self.shape.reduced) > 1:
            return 1
        target = current()
        registers = 2 * target.registers * target.vector_bytes // 64
        calls = sum(is_call(e) and program.varies(e) for e in nodes(program.flat))
        states = max(CHEAP_COPIES * len(group) for group in program.levels)
        most = ABREAST if calls < 2 else ABREAST // 2
        return max(1, min(most, registers // states))

    def full(self, wide):
        """How many rows go several vectors at a time: all that fill these, or none.

        What a pass reads is there for the next one where a vector's lines fit in the first
        cache. They do not where they lie in few of its sets.
        """
        full = self.length // wide * wide
        operands = zip(self.program.operands, self.shape.steps, strict=True)
        steps = [steps[-1] for operand, steps in operands if operand.varies]
        if self.program.reads_once or not steps:
            return full
        return ir.select(steps[0] % CROWDED == 0, full, ZERO)

    def write_along(self):
        """The loops of rows whose elements lie beside each other: short ones in tiles."""
        b, program = self.b, self.program
        transposed = RegisterTranspose(b, program, self.shape)
        if not transposed.most:
            self.write_mode(CONTIGUOUS)
            return
        with b.when(transposed.condition()):
            self.write_transposed(transposed)
        with b.otherwise():
            self.write_mode(CONTIGUOUS)

    def write_transposed(self, transposed):
        """A loop over tiles of rows."""
        b = self.b
        transposed.declare()
        with _loop(b, "j", ZERO, self.length, transposed.lanes) as j:
            rows = self.moved_rows(j)
            count = b.let("rows", ir.binary("min", self.length - j, transposed.lanes))
            transposed.bring(rows, count)
            block = _Block(
                b,
                self.program,
                transposed,
                transposed.rows(rows),
                STRIDED,
                transposed.lanes,
            )
            block.only(j, self.length)
            _Passes(b, self.program, transposed, [block]).write()
            transposed.give(rows, count)

    def moved_rows(self, j):
        """Where the operands' j-th row begins."""
        return [
            self.b.let(f"{row.name}_at", ir.Offset(row, j * stride))
            for row, stride in zip(self.rows, self.shape.inner, strict=True)
        ]

    def write(self, mode, lanes, count, first, last=None, masked=False):
        """A loop over rows, ``count`` vectors of them at a time where they are beside."""
        b = self.b
        last = self.length if last is None else last
        step = lanes * count if mode == STRIDED else count
        with _loop(b, "j", first, last, step) as j:
            rows = self.moved_rows(j)
            given = self.program, self.shape
            blocks = [_Block(b, *given, rows, mode, lanes)]
            for u in range(1, count):
                if mode == STRIDED:
                    blocks.append(_Block(b, *given, rows, mode, lanes, u * lanes))
                else:
                    blocks.append(
                        _Block(b, *given, self.moved_rows(j + u), mode, lanes)
                    )
            if masked:
                blocks[0].only(j, last)
            _Passes(b, self.program, self.shape, blocks).write()


class Results:
    """The results of a kernel, what monoids make of rows sorted into levels.

    Args:
        operands: the outputs', then the inputs' `layouts.Operand`.
        outputs: for each output its flat parts, one or two expressions each.
        inputs: for each input the variables of its parts.

    Attributes:
        levels: for each pass the states that it makes, lists of `State`.
        lanes: of the vectors; 1 where numbers are complex.
        beside: how many vectors of rows are worked on at a time; 0 for none.
        pointers: the operands', where they are parameters and not the kernel's data.
        kept: the costly value, if any, that a pass leaves in the output for later ones.
        kept_in: the number of that output.
        costly: whether a value takes more than a few instructions for each place.
        reads_once: whether there is one pass over a row.
        calls: whether it computes a function of more than a few instructions.
        repeats: whether a state has several leaves, some of which may be equal.
    """

    pointers = None

    def __init__(self, operands, outputs, inputs):
        self.operands, self.outputs = operands, outputs
        self.count = len(outputs)
        self.positions, self.elements = {}, set()
        for k, parts in enumerate(inputs):
            for part, var in enumerate(parts):
                self.positions[var.name] = self.count + k, part
                if operands[self.count + k].varies:
                    self.elements.add(var.name)
        self.flat = [part for parts in outputs for part in parts]
        self.memo, self.level_memo = {}, {}
        for operand, parts in zip(operands, outputs, strict=False):
            operand.varies = operand.everywhere or any(map(self.varies, parts))
        self.levels = self._sort()
        self.picks = any(isinstance(e, At) for e in nodes(self.flat))
        states = [state for group in self.levels for state in group]
        widths = [
            *self._widths(),
            *(t.itemsize for s in states for t in s.monoid.types),
        ]
        self.repeats = any(len(state.monoid.types) > 1 for state in states)
        self.lanes = 64 // max(widths, default=4)
        if any(operand.parts > 1 for operand in operands):
            self.lanes = 1
        self.kept, self.kept_in = self._to_keep()
        self.costly = self.kept is not None or any(map(is_costly, self.flat))
        self.calls = any(map(is_call, nodes(self.flat)))
        results = self.operands[: self.count]
        self.reads_once = len(self.levels) == 1 and not any(k.varies for k in results)
        self.strided = self._strided_lanes(states)

    def varies(self, e) -> bool:
        """Whether a value differs along the row."""
        known = self.memo.get(id(e))
        if known is None:
            if isinstance(e, Var):
                known = e.name in self.elements
            elif isinstance(e, (Along, At)):
                known = False
            else:
                known = isinstance(e, Position) or any(map(self.varies, e.args))
            self.memo[id(e)] = known
        return known

    def level(self, e) -> int:
        """How many passes must have ended before a value can be computed."""
        known = self.level_memo.get(id(e))
        if known is None:
            known = max(map(self.level, e.args), default=0) + isinstance(e, Along)
            self.level_memo[id(e)] = known
        return known

    def _sort(self):
        levels: dict = {}
        for e in nodes(self.flat):
            if isinstance(e, Along):
                states = levels.setdefault(self.level(e), {})
                key = id(e.monoid), *map(id, e.args)
                states.setdefault(key, State(e.monoid, e.args)).leaves.append(e)
        return [list(levels[k].values()) for k in sorted(levels)]

    def _widths(self):
        for e in nodes(self.flat):
            if self.varies(e) and not e.type.is_bool:
                yield e.type.itemsize

    def _to_keep(self):
        later = nodes(self.flat, within=lambda e: not isinstance(e, Along))
        for k, operand in enumerate(self.operands[: self.count]):
            for group in self.levels:
                for state in group:
                    value = state.values[0]
                    if (
                        any(value is other for other in later)
                        and is_costly(value)
                        and value.type == operand.element
                        and operand.storage.scale is None
                        and operand.varies
                        and operand.parts == 1
                    ):
                        return value, k
        return None, None

    def computes_again(self):
        """Whether a value that takes long is computed in more than one pass."""
        passes = [[v for state in group for v in state.values] for group in self.levels]
        seen, known = set(), None
        for roots in [*passes, self.flat]:
            found = nodes(
                roots,
                lambda e, known=known: not isinstance(e, Along) and e is not known,
            )
            long = {id(e) for e in found if is_long(e) and self.varies(e)} - {id(known)}
            if seen & long:
                return True
            seen |= long
            if any(e is self.kept for e in roots):
                known = self.kept
        return False

    def moves(self):
        """How many operands' elements are read or written, in all passes over a row."""
        varying = [k for k in range(self.count) if self.operands[k].varies]
        passes = [[v for state in group for v in state.values] for group in self.levels]
        passes.append([part for k in varying for part in self.outputs[k]])
        found = [nodes(roots, lambda e: not isinstance(e, Along)) for roots in passes]
        read = [e for one in found for e in one if isinstance(e, Var)]
        return len(varying) + sum(e.name in self.elements for e in read)

    def _strided_lanes(self, states):
        """More than one vector of rows where values are cheap: long runs of memory.

        Columns far apart lie in few sets of a cache, so that a pass finds little of what the
        one before has read.
        """
        if self.picks:
            return 0
        if not states or self.calls:
            return 1 + (self.reads_once and not any(map(is_call, self.flat)))
        return 2 * min([state.monoid.vectors or CHEAP_COPIES for state in states])


class State:
    """What one monoid makes of one list of values, and the nodes that name its leaves."""

    def __init__(self, monoid, values):
        self.monoid, self.values, self.leaves = monoid, list(values), []


def nodes(roots, within=lambda e: True):
    """Every node under the roots once, arguments before their users."""
    seen, order, pending = set(), [], [(e, False) for e in reversed(roots)]
    while pending:
        e, done = pending.pop()
        if done:
            order.append(e)
        elif id(e) not in seen:
            seen.add(id(e))
            pending.append((e, True))
            if within(e):
                pending += [(arg, False) for arg in reversed(e.args)]
    return order


def is_costly(value):
    """Whether a value takes more than a few instructions for each place."""
    return any(
        isinstance(e, (At, Position)) or is_call(e)
        for e in nodes([value], within=lambda e: not isinstance(e, Along))
    )


def is_long(e):
    """Whether a node takes longer than memory: functions, quotients, bytes that become masks."""
    quotient = isinstance(e, ir.Binary) and e.op == "div" and e.type.is_float
    return quotient or is_call(e) or (isinstance(e, Var) and e.type.is_bool)


def is_call(e):
    """Whether a node is a function of more than a few instructions."""
    return isinstance(e, Call) and e.name not in CHEAP_CALLS


def _loop(b, name, start, stop, step=1):
    """A loop to be left as written: the vectors in its body are enough."""
    return b.loop(name, start, stop, step, kind="rolled")


class _Passes:
    """Writes the passes over the rows of one or more blocks."""

    def __init__(self, b, program, shape, blocks):
        self.b, self.program, self.shape, self.blocks = b, program, shape, blocks
        self.mode, self.lanes = blocks[0].mode, blocks[0].lanes

    def write(self):
        """Every pass."""
        program = self.program
        for block in self.blocks:
            block.read_rows()
        for group in program.levels:
            self.reduce(group)
        for block in self.blocks:
            self.put_rows(block)
        varying = [k for k in range(program.count) if program.operands[k].varies]
        if varying:
            self.last_pass(varying)

    def put_rows(self, block):
        """The results that a row has one value of."""
        for k, parts in enumerate(self.program.outputs):
            if not self.program.operands[k].varies:
                block.put_row(k, parts)

    def levels(self, group):
        """Of chunks of chunks."""
        return max(state.monoid.levels for state in group)

    def last_pass(self, varying):
        """The results that have an element for each place."""
        roots = [part for k in varying for part in self.program.outputs[k]]
        for block in self.blocks:
            block.hoist(roots)
        with self.over_outer() as base:
            for start, stop, step, masked in self.runs(1):
                with self.run(start, stop, step, masked) as (index, mask):
                    for block in self.blocks:
                        block.write(varying, roots, block.at(base, index, mask))

    @contextmanager
    def over_outer(self):
        """The loops of a row but for the innermost; the number of its first place."""
        b, shape = self.b, self.shape
        if len(shape.reduced) == 1:
            yield ZERO
            return
        indices, opened = [], []
        for k in range(len(shape.reduced) - 1):
            opened.append(_loop(b, f"i{k}", *self.bounds(k)))
            indices.append(opened[-1].__enter__())
        here = self.moved(indices)
        for block in self.blocks:
            block.here = here
        place = indices[0]
        for index, size in zip(indices[1:], shape.reduced[1:-1], strict=True):
            place = place * size + index
        yield b.let("base", place * shape.reduced[-1])
        for manager in reversed(opened):
            manager.__exit__(None, None, None)

    def bounds(self, loop):
        """Where a loop along the row begins and ends."""
        return ZERO, self.shape.reduced[loop]

    def moved(self, indices):
        """Where the innermost loop begins at some indices of those around it."""
        b, blocks = self.b, self.blocks
        here = list(blocks[0].rows)
        for k, operand in enumerate(self.program.operands):
            if operand.varies:
                steps = self.shape.steps[k]
                bytes = indices[0] * steps[0]
                for index, step in zip(indices[1:], steps[1:-1], strict=True):
                    bytes = bytes + index * step
                here[k] = b.let(f"{operand.name}_here", ir.Offset(here[k], bytes))
        return here

    def runs(self, copies):
        """The loops that cover the innermost: blocks of vectors, vectors, the rest."""
        b, size, lanes = self.b, self.shape.reduced[-1], self.lanes
        if self.mode != CONTIGUOUS:
            yield ZERO, size, 1, False
            return
        first = ZERO
        if copies > 1:
            step = lanes * copies
            first = b.let("blocks", size // step * step)
            yield ZERO, first, step, False
        whole = b.let("whole", size // lanes * lanes)
        yield first, whole, lanes, False
        yield whole, size, lanes, True

    @contextmanager
    def run(self, start, stop, step, masked):
        """One of those loops; index and mask of a step."""
        b, lanes = self.b, self.lanes
        if not masked:
            with _loop(b, "i", start, stop, step) as index:
                yield index, None
            return
        with b.when(start < stop):
            ramp = ir.Ramp(lanes, start, Const(i64, 1))
            yield start, b.let("mask", ir.Binary("lt", ramp, ir.Broadcast(lanes, stop)))

    def reduce(self, group):
        """One pass: every state of a level, and the value to keep if it is here."""
        program = self.program
        roots = [value for state in group for value in state.values]
        for block in self.blocks:
            block.hoist(roots)
        copies = self.copies(group, roots)
        levels = self.levels(group)
        # Partial results: of each copy along a row, for each block of rows.
        totals = [self.fresh_states(group) for _ in range(copies * len(self.blocks))]
        with self.over_outer() as base:
            for number, (start, stop, step, masked) in enumerate(self.runs(copies)):
                if number == 0:
                    self.cascade(group, totals, base, start, stop, step, levels)
                    continue
                with self.run(start, stop, step, masked) as (index, mask):
                    for block, mine in zip(self.blocks, totals[::copies], strict=True):
                        block.take(group, mine, base, index, mask)
        for block in self.blocks:
            block.stored = block.stored or any(e is program.kept for e in roots)
        self.join(group, totals)

    def join(self, group, totals):
        """The state of each row out of its partial ones, as a value of its block's."""
        copies = len(totals) // len(self.blocks)
        for number, block in enumerate(self.blocks):
            mine = totals[number * copies : (number + 1) * copies]
            for k, state in enumerate(group):
                leaves = self.folded(state.monoid, [total[k] for total in mine])
                for e in state.leaves:
                    block.uniform[id(e)] = leaves[e.leaf]

    def copies(self, group, roots):
        """How many vectors of partial results a row has."""
        if self.mode != CONTIGUOUS:
            return 1
        wanted = [state.monoid.vectors for state in group]
        if None in wanted and any(map(is_costly, roots)):
            return 1
        count = min(n or CHEAP_COPIES for n in wanted)
        if all(state.monoid.any_order for state in group):
            return max(1, count // len(self.blocks))  # rows abreast are chains, too
        return count

    def fresh_states(self, group, stem="total"):
        lanes = self.lanes
        return [
            [self.b.declare(stem, leaf) for leaf in state.monoid.empty(lanes)]
            for state in group
        ]

    def cascade(self, group, totals, base, start, stop, step, levels):
        """Takes in ``start`` to ``stop``, in chunks of chunks."""
        b = self.b
        if levels == 0:
            self.take_run(group, totals, base, start, stop, step)
            return
        size = step * CHUNK**levels
        with _loop(b, "chunk", start, stop, size) as chunk:
            end = b.let("chunk_end", ir.binary("min", chunk + size, stop))
            partial = [self.fresh_states(group, "partial") for _ in totals]
            self.cascade(group, partial, base, chunk, end, step, levels - 1)
            for total, part in zip(totals, partial, strict=True):
                for state, mine, more in zip(group, total, part, strict=True):
                    _assign(b, mine, state.monoid.combined(mine, more))

    def take_run(self, group, totals, base, start, stop, step):
        """Takes in ``start`` to ``stop``, each step's places into states of their own."""
        copies = len(totals) // len(self.blocks)
        with _loop(self.b, "i", start, stop, step) as index:
            for number, states in enumerate(totals):
                block, u = self.blocks[number // copies], number % copies
                here = index + u * self.lanes if u else index
                block.take(group, states, base, here, None)

    def folded(self, monoid, states):
        """One state out of partial ones: pairs of vectors, then halves of lanes."""
        b, lanes = self.b, self.lanes
        while len(states) > 1:
            states = [
                _lets(b, "folded", monoid.combined(left, right))
                for left, right in zip(states[::2], states[1::2], strict=True)
            ]
        (state,) = states
        if self.mode != CONTIGUOUS:
            return state
        whole = monoid.across_lanes(state)
        if whole is not None:
            return _lets(b, "whole_row", whole)
        while lanes > 1:
            half = lanes // 2
            low = [_lanes(leaf, 0, half) for leaf in state]
            high = [_lanes(leaf, half, half) for leaf in state]
            state = _lets(b, "folded", monoid.combined(low, high))
            lanes = half
        return state


def _assign(b, variables, values):
    """Assigns all at once: later values may read variables assigned before them."""
    if len(variables) > 1:
        values = _lets(b, "next", values)
    for variable, value in zip(variables, values, strict=True):
        b.assign(variable, value)


def _lets(b, stem, values):
    """Values by name, and what they share."""
    lets, values = name_shared(values, stem=b.fresh("w") + "_")
    for let in lets:
        b.add(let)
    return [b.let(stem, value) for value in values]


def _lanes(vector, start, count):
    if count == 1:
        return ir.Extract(start, vector)
    return ir.Shuffle(range(start, start + count), vector, vector)


class _At:
    """Where values are computed: the index in the innermost loop, its mask, the place."""

    def __init__(self, base, index, mask):
        self.base, self.index, self.mask = base, index, mask


class _Block:
    """The values of one row, or of as many side by side as a vector has lanes.

    Args:
        rows: where the operands' first row begins.
        first: how many rows from there this block's are.
    """

    def __init__(self, b, program, shape, rows, mode, lanes, first=0):
        self.first = first
        self.b, self.program, self.shape = b, program, shape
        self.rows = self.here = rows
        self.mode, self.lanes = mode, lanes
        self.uniform, self.stored = {}, False
        self.count, self.mask = Const(i64, lanes), None

    at = staticmethod(_At)

    def only(self, first, last):
        """Lets the block be of rows up to one: its other lanes touch nothing."""
        b, lanes = self.b, self.lanes
        self.count = b.let("count", ir.binary("min", last - first, lanes))
        ramp = ir.Ramp(lanes, ZERO, Const(i64, 1))
        self.mask = b.let(
            "mask", ir.Binary("lt", ramp, ir.Broadcast(lanes, self.count))
        )

    def limit(self, k):
        """The mask of an operand's rows side by side, if any."""
        return None if self.shape.is_whole(k) else self.mask

    # ---- what is the same along the row

    def read_rows(self):
        """Reads the inputs that have one value for each row."""
        for name, (k, part) in self.program.positions.items():
            operand = self.program.operands[k]
            if not operand.varies:
                type = operand.types[part]
                if self.mode == STRIDED:
                    value = self.strided(k, self.rows[k], part)
                else:
                    value = ir.load(self.rows[k], part)
                self.uniform[name] = self.b.let(name, operand.storage.read(value, type))

    def hoist(self, roots):
        """Computes once, ahead of the loop, what is the same along the row."""
        program = self.program
        for e in nodes(roots, within=program.varies):
            if not program.varies(e) and not isinstance(e, (Const, Var)):
                self.scalar(e)

    def scalar(self, e):
        """A value that is the same along the row, computed ahead of the loops."""
        if isinstance(e, Const):
            return e
        if isinstance(e, Var):
            return self.shape.length if e.name == LENGTH else self.uniform[e.name]
        if id(e) not in self.uniform:
            self.uniform[id(e)] = self.b.let("row_value", self.fresh_scalar(e))
        return self.uniform[id(e)]

    def fresh_scalar(self, e):
        if isinstance(e, At):
            return self.at_one_place(e)
        args = tuple(map(self.scalar, e.args))
        if self.mode != STRIDED or all(arg.type.lanes == 1 for arg in args):
            return e.rebuild(args)
        return widen(e, tuple(map(self.spread, args)), self.lanes)

    def at_one_place(self, e):
        value, index = e.args
        lanes, self.lanes = self.lanes, 1
        mode, self.mode = self.mode, SINGLE
        stored, self.stored = self.stored, False
        self.hoist([value])
        result = self.value(value, _At(ZERO, self.scalar(index), None), {})
        self.lanes, self.mode, self.stored = lanes, mode, stored
        return result

    def put_row(self, k, parts):
        """Writes what an output has for a row, or for each of those side by side."""
        operand, row = self.program.operands[k], self.rows[k]
        for part, e in enumerate(parts):
            value = operand.storage.keep(self.scalar(e))
            if self.mode != STRIDED:
                self.b.store(row, part, value)
            else:
                self.put_strided(k, row, self.spread(value))

    def put_strided(self, k, row, value):
        """Writes a value of each row; side by side where they lie so."""
        b, shape = self.b, self.shape
        if shape.is_strided(k):
            b.add(ir.Store(row, Const(i64, self.first), value, mask=self.mask))
            return
        operand, stride = self.program.operands[k], shape.inner[k]
        value = b.let("result", value)
        if self.first:
            row = ir.Offset(row, stride * self.first)
        with b.when(stride == operand.itemsize):
            b.add(ir.Store(row, ZERO, value, mask=self.mask))
        with b.otherwise():
            spread = b.array("spread", operand.element, self.lanes)
            b.add(ir.Store(spread, ZERO, value))
            with _loop(b, "lane", 0, self.count) as lane:
                b.store(ir.Offset(row, lane * stride), 0, ir.load(spread, lane))

    # ---- what differs along the row

    def take(self, group, states, base, index, mask):
        """The values at one place, or vector of places, into their states."""
        at = _At(base, index, mask)
        roots = [value for state in group for value in state.values]
        self.combine(group, states, self.named(roots, at), at)

    def combine(self, group, states, values, at):
        """A place's values into their states; what is to be kept goes to memory."""
        b, values = self.b, iter(values)
        for state, variables in zip(group, states, strict=True):
            mine = [next(values) for _ in state.values]
            if state.values[0] is self.program.kept and not self.stored:
                # Named, because behind the store the compiler would compute it again.
                mine[0] = b.let("kept", mine[0])
                self.keep(mine[0], at)
            _assign(b, variables, state.monoid.taken(variables, mine, at.mask))

    def keep(self, value, at):
        """Leaves the costly value of a place in the output, for later passes."""
        self.put(self.program.kept_in, [value], at)

    def recall(self, at):
        """The costly value of a place, which an earlier pass has kept."""
        return self.load(self.program.kept_in, 0, at)

    def write(self, varying, roots, at):
        """Every result that has an element here."""
        self.put_all(varying, self.named(roots, at), at)

    def put_all(self, varying, values, at):
        """Writes the results that have an element at a place."""
        values, found = iter(values), {}
        for k in varying:
            keep = self.program.operands[k].storage.keep
            found[k] = [keep(next(values)) for _ in self.program.outputs[k]]
        # What was kept is read where one of them goes: that one is written last.
        for k in sorted(found, key=lambda k: k == self.program.kept_in):
            self.put(k, found[k], at)

    def named(self, roots, at):
        """Values at a place, with what they share named."""
        memo: dict = {}
        values = [self.value(root, at, memo) for root in roots]
        lets, trees = name_shared(values, stem=self.b.fresh("v") + "_")
        for let in lets:
            self.b.add(let)
        return trees

    def value(self, e, at, memo):
        """A traced expression at a place, with this block's lanes."""
        if id(e) not in memo:
            memo[id(e)] = self.fresh_value(e, at, memo)
        return memo[id(e)]

    def fresh_value(self, e, at, memo):
        if self.stored and e is self.program.kept:
            return self.recall(at)
        if not self.program.varies(e):
            return self.spread(self.scalar(e))
        if isinstance(e, Var):
            k, part = self.program.positions[e.name]
            storage = self.program.operands[k].storage
            return storage.read(self.load(k, part, at), e.type)
        if isinstance(e, Position):
            return self.position(at)
        args = tuple(self.value(arg, at, memo) for arg in e.args)
        return widen(e, args, self.lanes)

    def spread(self, value):
        """A value that is the same in all lanes."""
        if self.lanes == 1 or value.type.lanes > 1:
            return value
        if isinstance(value, Const):
            return Const(value.type.vector(self.lanes), value.value)
        return ir.Broadcast(self.lanes, value)

    def position(self, at):
        """The places along the row that the lanes hold."""
        place = at.index if at.base is ZERO else at.base + at.index
        if self.mode == CONTIGUOUS:
            return ir.Ramp(self.lanes, place, Const(i64, 1))
        return self.spread(place)

    def pointer(self, k, at):
        """An operand's element at one place, wherever it lies."""
        return ir.Offset(self.here[k], at.index * self.shape.steps[k][-1])

    def load(self, k, part, at):
        """An operand's elements at a place."""
        if self.mode == CONTIGUOUS:
            if self.program.operands[k].flat:
                return ir.Broadcast(self.lanes, ir.load(self.here[k], part))
            return ir.load(self.here[k], at.index, self.lanes, mask=at.mask)
        pointer = self.pointer(k, at)
        return ir.load(pointer, part) if self.lanes == 1 else self.strided(k, pointer)

    def strided(self, k, pointer, part=0):
        """One value of each row: they lie side by side, or there is one for all."""
        b, shape, operand = self.b, self.shape, self.program.operands[k]
        if shape.is_strided(k):
            return ir.load(pointer, self.first, self.lanes, mask=self.limit(k))
        if shape.is_shared(k):
            return ir.Broadcast(self.lanes, ir.load(pointer, part))
        if self.first:
            pointer = ir.Offset(pointer, shape.inner[k] * self.first)
        values = b.declare("each", ir.Broadcast(self.lanes, ir.load(pointer, 0)))
        with b.when(shape.inner[k] == operand.itemsize):
            b.assign(values, ir.load(pointer, 0, self.lanes, mask=self.mask))
        return values

    def put(self, k, parts, at):
        """Writes an output's elements at a place."""
        if self.mode == CONTIGUOUS:
            self.b.add(ir.Store(self.here[k], at.index, parts[0], mask=at.mask))
            return
        pointer = self.pointer(k, at)
        for part, value in enumerate(parts):
            index = self.first if self.mode == STRIDED else part
            self.b.add(ir.Store(pointer, Const(i64, index), value, mask=self.limit(k)))
