"""Functions of a device's grid, made from the same descriptions as the host's loops.

Elements are divided among all threads. A row is a block's, whose threads take every
``threads``-th place of it: each has a state of its own, lanes of a warp join theirs by
exchanging them, and the warps' states meet in the block's memory. Where rows lie side by
side, each thread has a row instead.
"""

from __future__ import annotations

from rushlight.codegen import expr as ir
from rushlight.codegen.builder import Builder
from rushlight.codegen.expr import Place, Var, i64
from rushlight.codegen.nest_loops import (
    ALONG,
    SINGLE,
    ZERO,
    _Block,
    _loop,
    _Passes,
)
from rushlight.codegen.rewrite import bodies_of

WARP = 32
WARPS = 32  # of a block, at most
SHARED_BYTES = 48 << 10  # that any card gives a block
TOTAL = Var("total", i64)


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
            _Passes(b, program, shape, [block]).write()
        else:
            _GridPasses(b, program, shape, [block], thread, threads, room).write()
    parameters = (*pointers, ir.INTS, ir.END)
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


class _GridPasses(_Passes):
    """The passes over a row by all threads of a block."""

    def __init__(self, b, program, shape, blocks, thread, threads, room):
        super().__init__(b, program, shape, blocks)
        self.thread, self.threads, self.room = thread, threads, room

    def runs(self, copies):
        """Every ``threads``-th place."""
        yield self.thread, self.shape.reduced[-1], self.threads, False

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
        (state,) = states
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
