"""Where loops become the threads of a device's grid, and whose memory stages lie in.

A loop that is bound to ``blockIdx.x`` or ``threadIdx.x`` is no loop: each thread has the
turn of its number. What a stage inside of another computes is each thread's own
(``"local"``) or its block's (``"shared"``): then all threads of the block compute it
together, as much as all of them read, and wait for each other.
"""

from math import prod

from rushlight.codegen.passes.place_barriers import place_barriers
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.linear import variables
from rushlight.tensor_expressions.buffers import Buffer, exceeds
from rushlight.tensor_expressions.mma import COLUMNS, FRAGMENT, ROWS, Fragments

BLOCKS = "blockIdx.x", "blockIdx.y", "blockIdx.z"
THREADS = "threadIdx.x", "threadIdx.y", "threadIdx.z"
AXES = *BLOCKS, *THREADS
LANES = THREADS[0]
MOST_THREADS = 1024  # of a block
MOST_SHARED = 227 << 10  # bytes that a block may ask for, on devices that have the most
LOCAL, SHARED = "local", "shared"
SCOPES = LOCAL, SHARED, FRAGMENT
WARP = 32


class Grid:
    """The axes of one kernel's grid, and the memory of the stages in it.

    Attributes:
        indices: each axis' number, as a variable.
        extents: how long the axes are that loops are bound to.
    """

    def __init__(self, program):
        self.program = program
        self.indices = {axis: program.variable(axis.replace(".", "_")) for axis in AXES}
        self.extents = {}
        self.shared = {}  # bytes of arrays, by their tensors' names

    def take(self, axis, extent):
        """Lets a loop be an axis of the grid: as long as the longest of such loops.

        Raises:
            ValueError: threads would be as many as an open size.
        """
        if axis in THREADS and not isinstance(extent, int):
            raise ValueError(
                f"bind: {axis} would have {extent} turns, and a block has a known number of "
                "threads\n  remedy: split the loop, and bind the inner one"
            )
        if exceeds(extent, self.extents.get(axis, 0)):
            self.extents[axis] = extent
        return self.indices[axis]

    @property
    def threads(self):
        """How many threads a block has."""
        return prod(self.extents.get(axis, 1) for axis in THREADS)

    @property
    def blocks(self):
        """How many blocks there are."""
        return prod(self.extents.get(axis, 1) for axis in BLOCKS)

    def check_intrinsic(self, stage, intrinsic):
        """Refuses an intrinsic that writes to other memory than its own.

        Raises:
            ValueError: the stage does not lie there.
        """
        if stage.place is None or self.scope_of(stage) != intrinsic.scope:
            raise ValueError(
                f"tensorize: {stage.tensor.name} is to be computed by tensor cores, which "
                f"add in registers of a warp\n  remedy: cache_write({stage.tensor.name}, "
                f'scope="{intrinsic.scope}"), computed at a loop of the warp, and tensorize that'
            )

    def check_placed(self, stage, domain):
        """Refuses bindings that a stage inside of another cannot have.

        Args:
            domain: for each dimension, the first index that is computed, and how many.

        Raises:
            ValueError: it has blocks of its own, or threads though each has its elements.
        """
        local, bound = self.scope_of(stage) != SHARED, set()
        own = {id(var) for first, _ in domain for var in variables(first)}
        for leaf in stage.leaves:
            axis = stage.marks.get(id(leaf))
            # what threads join they all have
            if axis in BLOCKS or not leaf.reduce or id(self.indices.get(axis)) in own:
                bound.add(axis)
        outer, leaf = stage.place
        where = f"{stage.tensor.name} is computed inside the loop {leaf.name} of "
        if bound & set(BLOCKS):
            raise ValueError(
                f"bind: {where}{outer.tensor.name}, so that it is of one block already\n"
                "  remedy: bind its loops to threadIdx"
            )
        if bound & set(THREADS) and local:
            raise ValueError(
                f"bind: {where}{outer.tensor.name}, and lies in each thread's own memory\n"
                '  remedy: set_scope("shared"), for threads that compute it together'
            )

    def scope_of(self, stage):
        """Whose memory a stage inside of another lies in.

        By default it is the thread's where the place is inside of a loop over threads.
        """
        if stage.scope is not None:
            return stage.scope
        outer, leaf = stage.place
        while True:
            around = outer.leaves[: outer.find(leaf, "compute_at") + 1]
            if any(outer.marks.get(id(axis)) in THREADS for axis in around):
                return LOCAL
            if outer.place is None:
                return SHARED
            outer, leaf = outer.place

    def seen(self, stage, spans, around):
        """The loops that a stage's room covers the turns of.

        Args:
            spans: those that turn where it is read.
            around: those over threads of all stages that it is in.
        """
        scope, lanes = self.scope_of(stage), self.indices[LANES]
        own = {id(self.indices[axis]) for axis in THREADS}
        found = {var: size for var, size in spans.items() if id(var) not in own}
        if scope == FRAGMENT:
            around = {var: size for var, size in around.items() if var is lanes}
        return found if scope == LOCAL else found | around

    def buffer(self, stage, pointer, shape, origin, aligned):
        """Where a stage inside of another lies.

        Raises:
            ValueError: it is a warp's, and its blocks do not fill it.
        """
        if self.scope_of(stage) != FRAGMENT:
            return Buffer(pointer, shape, origin, aligned)
        if len(shape) != 2 or shape[0] % ROWS or shape[1] % COLUMNS:
            raise ValueError(
                f"fragment: {stage.tensor.name} needs {list(shape)} elements of a warp, "
                f"which are no blocks of {ROWS} rows and {COLUMNS} columns\n"
                "  remedy: split the loops that it is computed in by multiples of them"
            )
        if self.extents.get(LANES) != WARP:
            raise ValueError(
                f"fragment: {stage.tensor.name} lies in the lanes of a warp, and {LANES} "
                f"has {self.extents.get(LANES, 1)} turns\n  remedy: bind_lanes(row, column) "
                "of the stage that reads it"
            )
        return Fragments(pointer, shape, origin)

    def array(self, nest):
        """The statement that makes a stage's room."""
        shared, buffer = self.scope_of(nest.stage) == SHARED, nest.buffer
        if shared:
            bytes = buffer.size * nest.stage.tensor.type.itemsize
            self.shared[buffer.pointer.name] = bytes
        return ir.Array(buffer.pointer, buffer.size, shared=shared)

    def alone(self, stage, joining=False):
        """Conditions that one of the threads holds, of those that would do the same.

        Args:
            joining: whether those are left out that have a total each, of one sum.
        """
        if stage.place is not None and self.scope_of(stage) != SHARED:
            return []
        bound = {
            stage.marks.get(id(leaf))
            for leaf in stage.leaves
            if joining or not leaf.reduce
        }
        return [
            self.indices[axis] < 1
            for axis in THREADS
            if self.extents.get(axis, 1) > 1 and axis not in bound
        ]

    def guard(self, axis, size):
        """The condition of a loop's own threads; None where that is all of a block."""
        index = self.indices[axis]
        return index < size if exceeds(self.extents[axis], size) else None

    def joined(self, total, op, axis):
        """Statements that join what threads along an axis of a block have, for all of them.

        Lanes of a warp exchange theirs; warps, or threads that are no whole warps, read
        each other's in the block's memory, all in one order.

        Args:
            total: the variable of each thread.
            op: of the reduction.
        """
        b, extent, width = Builder(), self.extents[axis], 1
        if axis == LANES and extent % WARP == 0 and total.type.itemsize >= 4:
            for distance in (16, 8, 4, 2, 1):
                b.assign(total, ir.Binary(op, total, ir.Exchange(distance, total)))
            extent, width = extent // WARP, WARP
        if extent == 1:
            return b.statements
        own = ir.Place("thread") // width
        stride = prod(self.extents.get(a, 1) for a in THREADS[: THREADS.index(axis)])
        name = self.program.name(f"{total.name}_joined")
        room = ir.Var(name, ir.Pointer(total.type))
        size = self.threads // width
        self.shared[name] = size * total.type.itemsize
        b.add(ir.Array(room, size, shared=True))
        with b.when(ir.Place("thread") % width < 1):
            b.store(room, own, total)
        first = own // (stride * extent) * (stride * extent) + own % stride
        b.assign(total, ir.load(room, first))
        number = self.program.variable("number")
        other = ir.load(room, first + number * stride)
        more = ir.Assign(total, ir.Binary(op, total, other))
        b.add(ir.For(number, ir.Const(ir.i64, 1), ir.Const(ir.i64, extent), (more,)))
        return b.statements

    def function(self, label, pointers, sizes, body):
        """The function of the grid around a block's statements.

        Args:
            sizes: the statements that name open sizes.
        """
        self.check()
        block = self.program.variable("block")
        start = *self.numbers(THREADS, ir.Place("thread")), *self.numbers(BLOCKS, block)
        loop = ir.For(
            *(block, ir.Place("block"), ir.END, (*sizes, *start, *body)),
            step=ir.Place("blocks"),
            kind="rolled",
        )
        made = ir.Function(label, (*pointers, ir.INTS, ir.END), (loop,), grid=True)
        return place_barriers(made)

    def numbers(self, axes, number):
        """The statements that name each axis' number, from that of all of them."""
        bound = [axis for axis in axes if axis in self.extents]
        for axis in bound:
            extent = self.extents[axis]
            own = number if axis is bound[-1] else number % extent
            yield ir.Let(self.indices[axis], own)
            number = number // extent

    def check(self):
        """Refuses what a block cannot have.

        Raises:
            ValueError: it has too many threads, or too much shared memory.
        """
        if self.threads > MOST_THREADS:
            named = " x ".join(str(self.extents.get(axis, 1)) for axis in THREADS)
            raise ValueError(
                f"bind: a block would have {named} = {self.threads} threads; it has "
                f"{MOST_THREADS} at most\n  remedy: split the bound loops by smaller "
                "factors, and bind the outer loops to blockIdx"
            )
        total = sum(self.shared.values())
        if total > MOST_SHARED:
            listed = ", ".join(f"{n} {size}" for n, size in self.shared.items())
            raise ValueError(
                f"shared memory: a block would take {total} bytes ({listed}); it has "
                f"{MOST_SHARED} at most\n  remedy: compute the stages at an inner loop, or "
                "split the loops that they are read in by smaller factors"
            )
