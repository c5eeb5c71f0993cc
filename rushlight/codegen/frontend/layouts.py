"""How a kernel that reduces reads its integers: loops, steps and where rows begin.

Three orders of integers are in use: `Listed`, of kernels that several operators make
together, has any number of loops over rows; `Rows` has two, of rowwise operators; and
`Reduced` has three, and as many along a row. The loops between are the same.
"""

from rushlight.codegen.frontend.nest_loops import CONTIGUOUS, LENGTH, SINGLE, STRIDED
from rushlight.codegen.frontend.storage import storage_of
from rushlight.core.launch_args import FIELD_OFFSETS
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, i64

ZERO = Const(i64, 0)
TRUE = Const(ir.boolean, True)


class Operand:
    """One array of a kernel.

    Args:
        name: of its variables.
        dtype: what it is stored as: a name, or a `Storage`.
        types: what its parts are computed in, for inputs.

    Attributes:
        varies: whether it has a value for each place along a row.
        flat: whether that is one along the innermost loop.
        everywhere: whether a result goes to each place, if it is the same there, too.
    """

    flat = False
    everywhere = False

    def __init__(self, name, dtype, types=(), varies=True):
        self.name, self.types, self.varies = name, types, varies
        self.storage = storage_of(dtype)
        self.element, self.parts = self.storage.element, self.storage.parts
        self.itemsize = self.storage.itemsize


class _Layout:
    """What all layouts have.

    Attributes:
        reduced: the sizes of the loops along a row, outermost first.
        sizes_at: which integers those are.
        length: the product of them.
        steps: for each operand its byte strides in those loops.
        inner: for each operand its byte stride from row to row in the innermost loop.
        along, beside: conditions for those modes, where ``modes`` has both.
        moved_by: for each operand how many bytes from its pointer the segment begins that
            was asked for last.

    Args:
        mode: the one that a kernel is for; None for one that chooses when it runs.
    """

    modes = (CONTIGUOUS, STRIDED)

    def __init__(self, b, program, mode=None):
        self.b, self.program = b, program
        if mode is not None:
            self.modes = (mode,)

    def bases(self):
        """The operands' pointers, outputs first."""
        return self.program.pointers or [
            self.b.let(f"{operand.name}_base", ir.argument(k, operand.element))
            for k, operand in enumerate(self.program.operands)
        ]

    def planned(self, field, name):
        """The integers of one of the fields of a reduction's plan."""
        positions = enumerate(FIELD_OFFSETS["reduction"][field])
        return [self.b.let(f"{name}{d}", ir.integer(at)) for d, at in positions]

    def numbered(self, start, names):
        """Integers from a position on, named."""
        return [self.b.let(n, ir.integer(start + k)) for k, n in enumerate(names)]

    def is_whole(self, k):
        """Whether there is room for a whole vector of an operand's rows at their end."""
        return False

    def is_strided(self, k):
        """Whether an operand's rows are known to lie an element apart."""
        return False

    def is_shared(self, k):
        """Whether an operand is known to have one row for all."""
        return False

    def contiguous(self):
        """Whether every operand's elements lie beside each other along a row."""
        result = TRUE
        for operand, steps in zip(self.program.operands, self.steps, strict=True):
            if operand.varies:
                result = result & (steps[-1] == operand.itemsize)
        return result

    def offsets(self, b, bases, positions):
        """Pointers moved by indices times byte strides, for each operand."""
        rows, self.moved_by = [], []
        for k, base in enumerate(bases):
            bytes = positions[0][0] * positions[0][1][k]
            for index, strides in positions[1:]:
                bytes = bytes + index * strides[k]
            self.moved_by.append(bytes)
            name = f"{self.program.operands[k].name}_row"
            rows.append(b.let(name, ir.Offset(base, bytes)))
        return rows


class Rows(_Layout):
    """The length of a row, the rows of the inner of two loops, and byte strides.

    The strides are every operand's in the outer loop, then in the inner one, then along
    a row.
    """

    def __init__(self, b, program, mode=None):
        super().__init__(b, program, mode)
        self.length = b.let(LENGTH, ir.integer(0))
        self.reduced, self.sizes_at = [self.length], (0,)
        inner = b.let("inner", ir.integer(1))
        names = [operand.name for operand in program.operands]
        count = len(names)
        self.pointers = self.bases()
        outer = self.numbered(2, [f"{name}_outer" for name in names])
        between = self.numbered(2 + count, [f"{name}_inner" for name in names])
        steps = self.numbered(2 + 2 * count, [f"{name}_step" for name in names])
        self.steps = [[step] for step in steps]
        # A lone inner loop is the outer one: the loop over rows is one without divisions.
        lone = b.let("lone", inner == 1)
        self.rows = b.let("rows", ir.select(lone, ir.END, inner))
        self.outer = outer
        self.inner = [
            b.let("apart", ir.select(lone, far, near))
            for far, near in zip(outer, between, strict=True)
        ]
        self.along = b.let("along", self.contiguous())
        strided = TRUE
        for operand, stride in zip(program.operands, self.inner, strict=True):
            strided = strided & ((stride == operand.itemsize) | (stride == 0))
        self.strided = b.let("beside", strided)

    def segment(self, at):
        """Where the operands' rows from one on begin, and how many follow each other."""
        b = self.b
        place = b.let("place", at % self.rows)
        rest = b.let("rest", at // self.rows)
        length = b.let("length", ir.binary("min", self.rows - place, ir.END - at))
        positions = [(rest, self.outer), (place, self.inner)]
        return self.offsets(b, self.pointers, positions), length


class Reduced(_Layout):
    """Sizes and the input's strides of three loops along a row, then of three of rows.

    The strides of the outputs follow. A further pointer is to the scalar.
    """

    def __init__(self, b, program, mode=None):
        super().__init__(b, program, mode)
        count = program.count
        self.reduced = self.planned("reduced", "r")
        self.sizes_at = tuple(FIELD_OFFSETS["reduction"]["reduced"])
        r0, r1, r2 = self.reduced
        self.length = b.let(LENGTH, r0 * r1 * r2)
        source = self.planned("along", "sr")
        self.kept = self.planned("kept", "k")
        strides = [self.planned("between", "si")]
        results = ("out", "second")[:count]
        strides += [self.planned(key, f"so{k}_") for k, key in enumerate(results)]
        rest = len(program.operands) - count - 1
        self.strides = [*strides[1:], strides[0], *[[ZERO] * 3] * rest]
        self.steps = [*[[ZERO] * 3] * count, source, *[[ZERO] * 3] * rest]
        self.inner = [row[2] for row in self.strides]
        self.pointers = self.bases()
        self.along = self.contiguous()
        self.strided = self.inner[count] == program.operands[count].itemsize

    def is_strided(self, k):
        return k == self.program.count

    def is_shared(self, k):
        return k > self.program.count

    def segment(self, at):
        """Where the operands' rows from one on begin, and how many follow each other."""
        b = self.b
        k0, k1, k2 = self.kept
        inner, rest = b.let("inner", at % k2), b.let("rest", at // k2)
        middle, outer = b.let("middle", rest % k1), b.let("outer", rest // k1)
        length = b.let("length", ir.binary("min", k2 - inner, ir.END - at))
        positions = [
            (index, [row[d] for row in self.strides])
            for d, index in enumerate((outer, middle, inner))
        ]
        return self.offsets(b, self.pointers, positions), length


def listed(rank, mode, flags):
    """A `Listed` layout for kernels whose layout is known when they are compiled.

    Args:
        rank: how many loops run along a row.
        mode: how rows are worked on.
        flags: for each operand, whether its rows lie side by side (``"adjacent"``), are
            one for all (``"shared"``) or lie anyhow (``"general"``).
    """
    return lambda b, program: Listed(b, program, rank, mode, flags)


class Listed(_Layout):
    """Loops as lists: those along a row, the innermost of rows, then any number more.

    The integers are the sizes of the loops along a row, outermost first; the rows of the
    innermost loop over rows; for each operand its byte strides in those loops; how many
    further loops over rows there are; and for each of these, innermost first, its size
    and every operand's byte stride.
    """

    def __init__(self, b, program, rank, mode, flags):
        super().__init__(b, program, mode)
        self.flags = flags
        count = len(program.operands)
        self.reduced = self.numbered(0, [f"r{d}" for d in range(rank)])
        self.sizes_at = tuple(range(rank))
        length = self.reduced[0]
        for size in self.reduced[1:]:
            length = length * size
        self.length = b.let(LENGTH, length)
        self.rows = b.let("rows", ir.integer(rank))
        self.steps, self.inner = [], []
        for k, operand in enumerate(program.operands):
            names = [*(f"{operand.name}_r{d}" for d in range(rank)), operand.name]
            *steps, inner = self.numbered(rank + 1 + k * (rank + 1), names)
            self.steps.append(steps)
            self.inner.append(inner)
        first = (rank + 1) * (count + 1)
        self.more = b.let("more", ir.integer(first))
        self.lists = first + 1
        self.pointers = self.bases()
        self.along = self.strided = Const(ir.boolean, mode != SINGLE)

    def is_strided(self, k):
        return self.flags[k] == "adjacent"

    def is_shared(self, k):
        return self.flags[k] == "shared"

    def segment(self, at):
        """Where the operands' rows from one on begin, and how many follow each other."""
        b, count = self.b, len(self.pointers)
        place = b.let("place", at % self.rows)
        rest = b.declare("rest", at // self.rows)
        length = b.let("length", ir.binary("min", self.rows - place, ir.END - at))
        far = [b.declare("far", place * inner) for inner in self.inner]
        with b.loop("loop", 0, self.more, kind="rolled") as loop:
            start = b.let("start", loop * (count + 1) + self.lists)
            size = b.let("size", ir.load(ir.INTS, start))
            index = b.let("index", rest % size)
            for k, bytes in enumerate(far):
                stride = ir.load(ir.INTS, start + (1 + k))
                b.assign(bytes, bytes + index * stride)
            b.assign(rest, rest // size)
        self.moved_by = far
        rows = [
            b.let(f"{operand.name}_row", ir.Offset(base, bytes))
            for operand, base, bytes in zip(
                self.program.operands, self.pointers, far, strict=True
            )
        ]
        return rows, length
