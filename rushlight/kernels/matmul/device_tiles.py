"""Products of matrices as functions of a device's grid.

A block has a tile of the result, and each of its threads a few rows and columns of that.
The block goes along the depth in steps: its threads bring a slice of both operands into
the memory that they share, wait for each other, and multiply what is there. Sums are
taken in the order of the depth, so that their bits depend on nothing else.

Follows Volkov and Demmel (2008) and MAGMA (Nath, Tomov and Dongarra, 2010): tiles in shared
memory, and of each thread in registers; the micro-kernel is the host's.
"""

from dataclasses import dataclass

from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import END, INTS, Barrier, Pointer, Var
from rushlight.kernels.micro_kernels import outer_product, zero_sums

OPERANDS = ("out", "left", "right", "added")
INTEGERS = ("rows", "columns", "depth", "across", "down", "add")
# For each operand its steps, in elements, from row to row, column to column, and in a batch.
STEPS = len(INTEGERS)
SCALARS = STEPS + 3 * len(OPERANDS)  # alpha, then beta, a word of 8 bytes each


@dataclass(frozen=True)
class BlockTile:
    """How a block divides its work.

    Attributes:
        rows, columns: of the result that a block has.
        depth: of one step.
        each: rows, and columns, of a thread.
    """

    rows: int
    columns: int
    depth: int
    each: int

    @property
    def threads(self):
        """How many threads a block has."""
        return self.rows * self.columns // self.each**2


SMALL, LARGE = BlockTile(32, 32, 16, 4), BlockTile(64, 64, 16, 4)


def tile_for(rows, columns) -> BlockTile:
    """The tile for a result of some size.

    >>> tile_for(10, 500).threads, tile_for(512, 512).threads
    (64, 256)
    """
    return SMALL if min(rows, columns) <= 2 * SMALL.rows else LARGE


def product(name, element, compute, tile, writer=None, result=None) -> ir.Function:
    """``out = alpha left right + beta added``, a tile of one product of a batch a block.

    Args:
        element: the type of the operands.
        compute: the type of the sums and the scalars.
        writer: the class that writes a block's program; by default with lanes' own sums.
        result: the type of the result and what is added; by default that of the sums.
    """
    result = result or compute
    types = {"out": result, "left": element, "right": element, "added": result}
    pointers = {o: Var(f"{o}_base", Pointer(types[o])) for o in OPERANDS}
    alpha, beta = (Var(s, Pointer(compute)) for s in ("alpha", "beta"))
    b = Builder()
    for pointer in pointers.values():
        b.fresh(pointer.name)
    (writer or Writer)(b, tile, compute, pointers, (alpha, beta)).write()
    parameters = (*pointers.values(), alpha, beta, INTS, END)
    return ir.Function(name, parameters, b.statements, grid=True)


class Writer:
    """Writes the program of one block.

    Attributes:
        at_once: how many values a thread loads before it keeps them; None for all.
    """

    at_once = None

    def __init__(self, b, tile, compute, pointers, scalars):
        self.b, self.tile, self.compute = b, tile, compute
        self.kept = self.kept_type(pointers, compute)
        self.pointers, self.scalars = pointers, scalars
        for k, name in enumerate(INTEGERS):
            setattr(self, name, b.let(name, ir.integer(k)))
        self.steps = {
            operand: [
                b.let(f"{operand}_step", ir.integer(STEPS + 3 * k + d))
                for d in range(3)
            ]
            for k, operand in enumerate(OPERANDS)
        }
        self.thread = b.let("thread", ir.Place("thread"))
        self.shared = {
            "left": self.room("lefts", tile.rows),
            "right": self.room("rights", tile.columns),
        }

    def kept_type(self, pointers, compute):
        """The type of values in shared memory."""
        return compute

    def size(self, count):
        """How many of them a slice takes."""
        return self.tile.depth * count

    def kept_at(self, count, k, i):
        """Where the value of a row, or column, and a place of the depth is kept."""
        return k * count + i

    def room(self, name, count):
        """Shared memory for a slice: ``count`` values at each place of the depth."""
        var = Var(self.b.fresh(name), Pointer(self.kept))
        size = self.size(count)
        self.b.add(ir.Array(var, size, shared=True))
        return var

    def write(self):
        """The tiles that a block has, one after the other."""
        b = self.b
        start, step = ir.Place("block"), ir.Place("blocks")
        with b.loop("at", start, END, step, kind="rolled") as at:
            row, column, batch = self.place_of(at)
            first_row = b.let("first_row", row * self.tile.rows)
            first_column = b.let("first_column", column * self.tile.columns)
            self.multiply(first_row, first_column, b.let("batch", batch))

    def place_of(self, at):
        """A tile's row and column among tiles, and its product's place in the batch."""
        column = self.b.let("tile_column", at % self.across)
        rest = self.b.let("rest", at // self.across)
        return rest % self.down, column, rest // self.down

    def base(self, operand, batch):
        """An operand's matrix of the batch."""
        itemsize = self.pointers[operand].type.element.itemsize
        bytes = batch * self.steps[operand][2] * itemsize
        return self.b.let(operand, ir.Offset(self.pointers[operand], bytes))

    def bring_both(self, left, first_row, right, first_column, start):
        """Slices of both operands, which are there for all threads behind the barrier."""
        row_step, depth_step, _ = self.steps["left"]
        place = first_row, self.rows, row_step, start, depth_step
        self.bring("left", left, self.tile.rows, *place)
        depth_step, column_step, _ = self.steps["right"]
        place = first_column, self.columns, column_step, start, depth_step
        self.bring("right", right, self.tile.columns, *place)
        self.b.add(Barrier())

    def multiply(self, first_row, first_column, batch):
        b, tile = self.b, self.tile
        left, right = self.base("left", batch), self.base("right", batch)
        each = range(tile.each)
        sums = zero_sums(b, self.compute, tile.each, tile.each)
        wide = tile.columns // tile.each
        row = b.let("row", self.thread // wide * tile.each)
        column = b.let("column", self.thread % wide * tile.each)
        with b.loop("begun", 0, self.depth, tile.depth, kind="rolled") as start:
            self.bring_both(left, first_row, right, first_column, start)
            with b.loop("k", 0, tile.depth, kind="rolled") as k:
                lefts, rights = (
                    [
                        b.let(name, ir.load(self.shared[name], k * count + at + n))
                        for n in each
                    ]
                    for name, count, at in (
                        ("left", tile.rows, row),
                        ("right", tile.columns, column),
                    )
                )
                outer_product(b, sums, lefts, rights, self.joined)
            b.add(Barrier())
        self.put(sums, first_row + row, first_column + column, batch)

    def joined(self, x, y, total):
        """A sum and one more product."""
        if self.compute.is_float:
            return ir.Call("fma", self.compute, x, y, total)
        return total + x * y

    def bring(self, operand, base, count, first, limit, step, start, depth_step):
        """A slice of an operand into shared memory; zeros outside of the operand."""
        place = count, first, limit, step, start, depth_step
        self.bring_by(self.tile.threads, operand, base, *place)

    def bring_by(
        self, threads, operand, base, count, first, limit, step, start, depth_step
    ):
        """The same by so many threads.

        Neighbouring threads take neighbouring elements, whichever way they lie.
        """
        place = operand, base, count, first, limit, step, start, depth_step
        iterations = count * self.tile.depth // threads
        if self.at_once is None or iterations <= self.at_once:
            return self.load_chunks(0, iterations, threads, *place)
        with self.b.loop(
            "turn", 0, iterations, self.at_once, kind="rolled"
        ) as iteration:
            self.load_chunks(iteration, self.at_once, threads, *place)

    def load_chunks(
        self, begin, iterations, threads, operand, base, count, first, limit, step, start,
        depth_step,
    ):  # fmt: skip
        """Some turns of that: each thread brings a value in each."""
        b, tile = self.b, self.tile
        for iteration in range(iterations):
            number = b.let("number", self.thread + (begin + iteration) * threads)
            along = b.let("along", depth_step == 1)
            k = b.let("k_in", ir.select(along, number % tile.depth, number // count))
            i = b.let("i_in", ir.select(along, number // tile.depth, number % count))
            value = b.declare("value", ir.Const(self.kept, 0))
            inside = (first + i < limit) & (start + k < self.depth)
            with b.when(inside):
                place = (first + i) * step + (start + k) * depth_step
                b.assign(value, ir.cast(self.kept, ir.load(base, place)))
            b.store(self.shared[operand], self.kept_at(count, k, i), value)

    def put(self, sums, first_row, first_column, batch):
        """What a thread has summed, scaled, with what is to be added."""
        self.put_all(
            [
                (total, first_row + i, first_column + j)
                for i, line in enumerate(sums)
                for j, total in enumerate(line)
            ],
            batch,
        )

    def put_all(self, sums, batch):
        """The same of sums with their rows and columns."""
        b = self.b
        out, added = self.base("out", batch), self.base("added", batch)
        alpha, beta = (b.let("scale", ir.load(s, 0)) for s in self.scalars)
        for total, row, column in sums:
            with b.when((row < self.rows) & (column < self.columns)):
                value = b.declare("result", total * alpha)
                with b.when(self.add != 0):
                    old = ir.load(added, self.place("added", row, column))
                    b.assign(value, value + ir.cast(self.compute, old) * beta)
                value = ir.cast(out.type.element, value)
                b.store(out, self.place("out", row, column), value)

    def place(self, operand, row, column):
        """The index of an element."""
        row_step, column_step, _ = self.steps[operand]
        return row * row_step + column * column_step


def integers(rows, columns, depth, add, steps, tile):
    """The integers of a launch but for the scalars, and how many tiles a product has.

    Args:
        steps: of the operands in order: from row to row, column to column, in a batch.

    >>> integers(70, 100, 5, False, [(100, 1, 0)] * 4, LARGE)[0][:6]
    [70, 100, 5, 2, 2, 0]
    """
    across, down = -(-columns // tile.columns), -(-rows // tile.rows)
    head = [rows, columns, depth, across, down, int(add)]
    return head + [step for row in steps for step in row], across * down
