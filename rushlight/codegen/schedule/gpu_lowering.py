"""Functions of a device's grid, made from the same descriptions as the host's loops.

Elements are divided among all threads. A row is a block's, whose threads take every
``threads``-th place of it: each has a state of its own, lanes of a warp join theirs by
exchanging them, and the warps' states meet in the block's memory. A row that fits the
registers of a block's threads is loaded once, for all passes over it. Where rows lie side by
side, each thread has a row instead. A long row is many blocks', where it becomes one state:
one function finds the states of its parts, another joins those.
"""

from dataclasses import dataclass

from rushlight.codegen.frontend.nest_loops import CONTIGUOUS, SINGLE, ZERO
from rushlight.codegen.schedule.gpu_passes import (
    IN_FLIGHT,
    DevicePasses,
    FindingAlone,
    FindingPasses,
    GridPasses,
    JoiningPasses,
    Kept,
    RegisterBlock,
    RegisterPasses,
    Room,
    ThreadBlock,
    leaves_of,
    read_along,
)
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Place, Var, i64
from rushlight.ir.rewrite import bodies_of, expressions_of

MOST_THREADS = 512  # of a block for a row
MOST_THREADS_OF_DOUBLES = 256  # which take two registers each, of 255 that a thread has
SHARED_BYTES = 48 << 10  # that any device gives a block
MOST_DATA, MOST_INTS = 24, 64  # pointers and integers of a launch
TOTAL = Var("total", i64)
# The functions of rows that are many blocks', or of rows side by side that are many threads'
FINDS, FINDS_STRIDED, JOINS = "finds", "finds_beside", "joins"
# Where their launches have how many parts a row has and how long those are: behind
# whatever integers a kernel has.
PARTS, SPAN = MOST_INTS - 2, MOST_INTS - 1


def positions_of(body):
    """Where the arrays that a block shares lie in a launch's room, and its bytes.

    Where they take no more than any device gives a block there is no room: they are the
    function's own, and the places are none.
    """
    offsets, bytes = {}, 0
    for array in _shared(body):
        bytes = -(-bytes // array.alignment) * array.alignment
        offsets[array.var.name] = bytes
        bytes += array.size * array.var.type.element.itemsize
    return (offsets, bytes) if bytes > SHARED_BYTES else ({}, 0)


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


def rows(name, program, layout, together=None, each=0, long=False) -> ir.Function:
    """A kernel over rows as a function of a grid.

    Its parameters are the operands, the integers and how many rows there are. Blocks are
    of whole warps, at most `WARPS` of them, where a row is all threads' of a block.

    Args:
        program: what is computed, `nest_loops.Results`.
        layout: as for `nest_loops.nest`.
        together: whether a row is a block's; otherwise each thread has one. By default
            as the layout says.
        each: how many values of its block's row a thread keeps in registers, where that is
            the whole row in one loop, and all pointers are aligned to 16 bytes; 0 where rows
            are any.
        long: whether a row is one loop over so many values that a thread has many.
    """
    b = Builder()
    pointers = [
        Var(f"{operand.name}_base", ir.Pointer(operand.element))
        for operand in program.operands
    ]
    program.pointers = [b.fresh(pointer.name) and pointer for pointer in pointers]
    shape = layout(b, program)
    together = CONTIGUOUS in shape.modes if together is None else together
    thread, threads = (
        b.let("thread", Place("thread")),
        b.let("threads", Place("threads")),
    )
    first, step = b.let("block", Place("block")), b.let("blocks", Place("blocks"))
    if not together:
        first = b.let("first", first * threads + thread)
        step = b.let("step", step * threads)
    room = Room(b, program) if together else None
    kept = Kept(b, program, each) if each else None
    with b.loop("at", first, ir.END, step, kind="rolled") as at:
        offsets, _ = shape.segment(at)
        given = b, program, shape, offsets, SINGLE, 1
        mine = b, program, shape, [ThreadBlock(*given)]
        if room is None:
            DevicePasses(*mine).write()
        elif kept is None:
            passes = GridPasses(*mine, thread, threads, room)
            passes.in_flight = IN_FLIGHT * long
            passes.write()
        else:
            mine = *mine, thread, threads, room
            _by_registers(b, mine, [RegisterBlock(*given, kept)])
    parameters = (*pointers, ir.INTS, ir.END)
    return ir.Function(name, parameters, b.statements, grid=True)


def _by_registers(b, given, blocks):
    """A row's passes over registers where its values may be moved so, else over memory."""
    _, program, shape, _, *threads = given
    quick = RegisterPasses(b, program, shape, blocks, *threads)
    with b.when(quick.may_move()):
        quick.write()
    with b.otherwise():
        GridPasses(*given).write()


def registers_of(program, layout):
    """What a thread needs to keep a value of each input that is read along rows.

    Args:
        program, layout: as for `rows`.

    Returns:
        How many registers, and which of the kernel's integers are the sizes of the loops
        along a row; no registers where nothing is read along it.
    """
    read = [program.operands[k] for k in read_along(program)]
    count = sum(-(-operand.itemsize // 4) for operand in read)
    if any(operand.parts > 1 for operand in program.operands):
        count = 0
    return count, tuple(layout(Builder(), program).sizes_at)


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
    leaves = leaves_of(program.levels[0])
    return Parted(len(program.operands), leaves, shape.sizes_at)


def parts(name, program, layout, way, cut, long=False) -> ir.Function:
    """A kernel whose rows are many blocks', as one of its two functions of a grid.

    Its parameters are the operands, for each leaf of a state the states of parts, the
    integers, and how many parts all rows have, or how many rows there are (`JOINS`).

    Args:
        program, layout: as for `rows`.
        way: `FINDS`, where a part is a block's, `FINDS_STRIDED`, where it is a thread's and
            the next thread has the same part of the next row, or `JOINS`.
        cut: the number of the loop along a row that is divided.
        long: whether that loop is the whole row.
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
    alone = way == FINDS_STRIDED
    room = None if alone else Room(b, program)
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
        offsets, _ = shape.segment(row)
        given = b, program, shape, [ThreadBlock(b, program, shape, offsets, SINGLE, 1)]
        if way == JOINS:
            given = *given, thread, threads, room
            passes = JoiningPasses(*given, states, row * count, count)
        else:
            start = b.let("start", part * span)
            stop = b.let("stop", ir.binary("min", start + span, shape.reduced[cut]))
            goal = states, b.let("goal", row * count + part), (cut, start, stop)
            if alone:
                passes = FindingAlone(*given, *goal)
            else:
                passes = FindingPasses(*given, thread, threads, room, *goal)
                passes.in_flight = IN_FLIGHT * long
        passes.write()
    parameters = (*pointers, *states, ir.INTS, ir.END)
    return ir.Function(name, parameters, b.statements, grid=True)
