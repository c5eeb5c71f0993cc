"""What kernels by matrix units are made of: slices in shared memory, and lanes' shares.

A slice is some rows of a matrix of halves, or of floats that units round to TF32, with a
gap behind each row that leads neighbouring rows to other banks. It has two stages: while
units multiply what is in one, the next rows are copied into the other, in runs of 16 bytes:
operands are made of those.

Halves come to lanes by words of two, a whole block of 8 rows at a time; floats one by one.
A product of floats takes a depth of 8, and a lane of sums has columns ``2 p`` and
``2 p + 1``, where a left factor has ``p`` and ``p + 4``: the depth of a product of sums goes
in the former order, in both factors.
"""

from contextlib import contextmanager
from dataclasses import dataclass

from rushlight.ir import expr as ir
from rushlight.ir.expr import Var, f32, i64, u32
from rushlight.kernels.mma_tiles import add_product

WARP = 32
GAP = RUN = 16  # bytes behind each row of a slice, and of one copy
STAGES = 2
LOG2E, LN2 = 1.4426950408889634, 0.6931471805599453
ROUNDER = 12582912.0  # 1.5 * 2**23: added to a small number, it leaves its whole part
# 2**x between -0.5 and 0.5, to 1.8e-7
POWERS = (
    1.0,
    0.6931471880262273,
    0.2402210748530968,
    0.05550357114222094,
    0.009676031918255982,
    0.001339086336353527,
)


@dataclass(frozen=True)
class Rows:
    """Where the rows of an operand are.

    Attributes:
        base: the pointer to its first element.
        limit, columns: how many rows it has, and how many elements each.
        step: in elements, from row to row; along a row they lie side by side.
    """

    base: object
    limit: object
    columns: object
    step: object


@dataclass(frozen=True)
class Slice:
    """Some rows of an operand in shared memory, twice.

    Attributes:
        array: their address.
        rows: how many.
        columns: of each, with zeros where the operand has no more.
    """

    array: Var
    rows: int
    columns: int

    @property
    def pitch(self):
        """Elements from row to row."""
        return self.columns + GAP // self.array.type.element.itemsize

    @property
    def size(self):
        """Elements of a stage."""
        return self.rows * self.pitch


class Block:
    """Writes the program of a block whose warps multiply by their units.

    Args:
        b: the builder.
        element: the type of the halves, or float32.
        threads: how many a block has.

    Attributes:
        run: elements of one copy.
        deep: the depth of one product.
    """

    def __init__(self, b, element, threads):
        self.b, self.element, self.threads = b, element, threads
        self.run, self.deep = RUN // element.itemsize, 32 // element.itemsize
        self.of_floats = element == f32
        self.thread = b.let("thread", ir.Place("thread"))
        self.warp = b.let("warp", self.thread // WARP)
        self.lane = lane = b.let("lane", self.thread % WARP)
        self.group, self.pair = b.let("group", lane // 4), b.let("pair", lane % 4)
        self.upper = b.let("upper", lane // 16 * 8)
        self.other = b.let("other", lane // 8 % 2 * 8)
        self.row = b.let("row", lane % 8)

    # ---- shared memory

    def slice(self, name, rows, columns):
        """Room for both stages of a slice."""
        var = Var(self.b.fresh(name), ir.Pointer(self.element))
        found = Slice(var, rows, columns)
        self.b.add(ir.Array(var, STAGES * found.size, shared=True))
        return found

    def bring(self, slice, stage, rows, first):
        """Asks for the rows of an operand from ``first`` on; zeros outside of it."""
        per_row = slice.columns // self.run
        count = slice.rows * per_row
        iterations = -(-count // self.threads)
        with self.b.loop("turn", 0, iterations, kind="rolled") as iteration:
            number = self.b.let("number", self.thread + iteration * self.threads)
            if count % self.threads == 0:
                self.copy(slice, stage, rows, first, number)
            else:
                with self.b.when(number < count):
                    self.copy(slice, stage, rows, first, number)

    def copy(self, slice, stage, rows, first, number):
        """Asks for a run of a row."""
        per_row = slice.columns // self.run
        i, column = number // per_row, number % per_row * self.run
        at = stage + i * slice.pitch + column
        self.copy_run(slice.array, at, rows, first + i, column)

    def copy_run(self, array, at, rows, row, column):
        """Asks for a run of an operand's row; zeros outside of it."""
        inside = (row < rows.limit) & (column < rows.columns)
        place = ir.select(inside, row * rows.step + column, 0)
        bytes = ir.select(inside, ir.Const(i64, RUN), 0)
        self.b.add(ir.CopyAsync(array, at, rows.base, place, bytes))

    @contextmanager
    def go_past(self, begin, limit, step, bring):
        """A loop over slices: while one is used the next is copied to the other stage.

        Args:
            begin, limit: the first row, and the one behind the last.
            step: rows of a slice.
            bring: asks for the slice from a row on, into a stage.

        Yields:
            The slice's first row, its stage, and the first row of the next one.
        """
        b = self.b
        bring(b.let("stage", begin // step % STAGES), begin)
        with b.loop("start", begin, limit, step, kind="rolled") as start:
            stage = b.let("stage", start // step % STAGES)
            self.arrive()
            following = b.let("following", start + step)
            with b.when(
                following < limit
            ):  # of 1 - stage ptxas makes 70 registers more
                bring(b.let("stage", following // step % STAGES), following)
            yield start, stage, following

    def arrive(self):
        """Waits until all threads have what was asked for, and are done with the rest."""
        self.b.add(ir.AwaitCopies(0))
        self.b.add(ir.Barrier())

    # ---- lanes' shares

    def zeros(self, count):
        """Sums of a lane: four for each product of 16 rows and 8 columns."""
        zero = ir.Const(f32, 0)
        return [[self.b.declare("sum", zero) for _ in range(4)] for _ in range(count)]

    def own(self, rows, first, columns):
        """A lane's share of 16 rows as a left factor: four words for each product."""
        return [self.share(rows, first, k) for k in range(0, columns, self.deep)]

    def share(self, rows, first, k):
        """The four words, or floats, for the columns of a product from ``k`` on."""
        words, each = [], self.deep // 8
        for n in range(4):
            row = first + self.group + n % 2 * 8
            column = each * self.pair + (k + n // 2 * (self.deep // 2))
            words.append(self.b.let("word", self.word(rows, row, column)))
        return words

    def word(self, rows, row, column):
        """Two halves of a row, or a float; zeros outside."""
        inside = (row < rows.limit) & (column < rows.columns)
        if self.of_floats:
            place = ir.select(inside, row * rows.step + column, 0)
            return ir.select(inside, ir.load(rows.base, place), 0.0)
        words = ir.Reinterpret(ir.Pointer(u32), rows.base)
        place = ir.select(inside, (row * rows.step + column) // 2, 0)
        return ir.select(inside, ir.load(words, place), 0)

    def rounded(self, sums):
        """Sums as left factors: columns of two products of halves are 16 of a depth."""
        if self.of_floats:
            return [[own[n] for n in (0, 2, 1, 3)] for own in sums]
        name = f"packed_{self.element.name}"

        def word(low, high):
            return self.b.let("word", ir.Call(name, u32, low, high))

        return [
            [word(*first[:2]), word(*first[2:]), word(*second[:2]), word(*second[2:])]
            for first, second in zip(sums[::2], sums[1::2], strict=True)
        ]

    def along(self, sums, lefts, slice, stage):
        """Adds the products of left factors and the rows of a slice, as columns."""
        if self.of_floats:
            self.along_floats(sums, lefts, slice, stage)
            return
        start = stage + (self.upper + self.row) * slice.pitch + self.other
        start = self.b.let("start", start)
        for k, left in enumerate(lefts):
            for n in range(0, slice.rows // 8, 2):
                place = start + (8 * n * slice.pitch + 16 * k)
                self.multiply(sums[n : n + 2], left, slice.array, place, False)

    def across(self, sums, lefts, slice, stage):
        """Adds the products of left factors and a slice, whose rows are the depth.

        Args:
            stage: where the first of the columns begins that there are sums of.
        """
        if self.of_floats:
            self.across_floats(sums, lefts, slice, stage)
            return
        start = stage + (self.other + self.row) * slice.pitch + self.upper
        start = self.b.let("start", start)
        for k, left in enumerate(lefts):
            for n in range(0, len(sums), 2):
                place = start + (16 * k * slice.pitch + 8 * n)
                self.multiply(sums[n : n + 2], left, slice.array, place, True)

    def along_floats(self, sums, lefts, slice, stage):
        """`along` of floats: columns of a product are rows of the slice."""
        start = stage + self.group * slice.pitch + self.pair
        start = self.b.let("start", start)
        for k, left in enumerate(lefts):
            for n, own in enumerate(sums):
                place = start + (8 * n * slice.pitch + 8 * k)
                self.multiply_floats(own, left, slice.array, place, 4)

    def across_floats(self, sums, lefts, slice, stage):
        """`across` of floats: rows of the slice in the order in which sums lie."""
        start = stage + 2 * self.pair * slice.pitch + self.group
        start = self.b.let("start", start)
        for k, left in enumerate(lefts):
            for n, own in enumerate(sums):
                place = start + (8 * k * slice.pitch + 8 * n)
                self.multiply_floats(own, left, slice.array, place, slice.pitch)

    def multiply_floats(self, own, left, array, place, step):
        """Adds a product whose right factor is two floats of shared memory."""
        right = [
            self.b.let("right", ir.load(array, place + step * n)) for n in range(2)
        ]
        add_product(self.b, own, left, right)

    def multiply(self, pair, left, array, place, transposed):
        """Adds two products whose right factors are four blocks of shared memory."""
        b, packed = self.b, self.element.name
        rows = b.let("rows", ir.UnitRows(transposed, array, place))
        words = [b.let("word", ir.Extract(n, rows)) for n in range(4)]
        for own, right in zip(pair, (words[:2], words[2:]), strict=True):
            add_product(b, own, left, right, packed)

    # ---- arithmetic

    def joined(self, name, value, join):
        """A value of four lanes that have a row, joined."""
        for distance in (1, 2):
            other = self.b.let(name, ir.Exchange(distance, value))
            value = self.b.let(name, join(value, other))
        return value

    def power(self, x):
        """Two to the power of what is not above zero; NaN stays."""
        b = self.b
        x = b.let("x", x)
        near = b.let("near", ir.select(x < -126.0, -126.0, x))
        shifted = b.let("shifted", near + ROUNDER)
        rest = b.let("rest", near - (shifted - ROUNDER))
        result = ir.Const(f32, POWERS[-1])
        for factor in reversed(POWERS[:-1]):
            result = ir.Call("fma", f32, result, rest, ir.Const(f32, factor))
        bits = (ir.Reinterpret(u32, shifted) << 23) + 0x3F800000
        result = result * ir.Reinterpret(f32, bits)
        return b.let("power", ir.select(x < -126.0, 0.0, result))
