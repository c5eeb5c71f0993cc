"""Short rows side by side: tiles of them are turned in registers, and turned back.

A row of fewer elements than a few vectors costs more to begin and to fold than to go
along. As many rows as a vector has lanes are brought into a tile whose lanes are rows;
what works on rows side by side (see `nest_loops`) works on tiles, and what has an element
for each place goes back the same way.
"""

from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Pointer, Type, i64

LONGEST = 32  # places of a row that is turned
PIECE = 16  # bytes of a vector that shuffles stay within, or move as they are
ZERO = Const(i64, 0)


def transpose(b, vectors):
    """As many vectors as they have lanes, turned: log2(lanes) rounds of shuffles.

    Elements are exchanged within pieces of vectors first, then pieces as they are: both
    are what processors have an instruction for, and LLVM finds it soon.
    """
    own = vectors[0].type
    side = min(own.lanes, PIECE // own.itemsize)
    squares = [_columns(b, vectors[k : k + side]) for k in range(0, own.lanes, side)]
    columns = [_exchanged(b, pieces) for pieces in zip(*squares, strict=True)]
    return [
        b.let("turned", ir.Reinterpret(own, column[place]))
        for place in range(own.lanes // side)
        for column in columns
    ]


def _columns(b, rows):
    """The columns that rows have in each piece, in the place of the piece.

    Elements of neighbouring rows come to lie side by side, and are one element then.
    """
    if len(rows) == 1:
        return rows
    lanes, each = rows[0].type.lanes, len(rows)
    firsts = [piece + k for piece in range(0, lanes, each) for k in range(each // 2)]
    low = [lane for k in firsts for lane in (k, lanes + k)]
    high = [lane + each // 2 for lane in low]
    wide = Type(f"uint{16 * rows[0].type.itemsize}", lanes // 2)
    columns = []
    for pick in (low, high):
        mixed = [
            b.let("mixed", ir.Shuffle(pick, *pair))
            for pair in zip(rows[::2], rows[1::2], strict=True)
        ]
        if each > 2:
            mixed = [b.let("pairs", ir.Reinterpret(wide, v)) for v in mixed]
        columns += _columns(b, mixed)
    return columns


def _exchanged(b, vectors):
    """The same for whole pieces of as many vectors as they have pieces."""
    count = len(vectors)
    if count == 1:
        return vectors
    halves = vectors[0].type.itemsize * vectors[0].type.lanes // 8
    words = Type("uint64", halves)
    vectors = [b.let("words", ir.Reinterpret(words, v)) for v in vectors]
    even = [lane for k in range(0, 2 * halves, 4) for lane in (k, k + 1)]
    odd = [lane + 2 for lane in even]
    for _ in range(count.bit_length() - 1):
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        vectors = [
            b.let("mixed", ir.Shuffle(pick, *pair))
            for pick in (even, odd)
            for pair in pairs
        ]
    return vectors


def _steps(e):
    """About how many instructions an expression takes."""
    own = 1 if e.args else 0
    if isinstance(e, ir.Binary) and e.op in ("max", "min") and e.type.is_float:
        own = 3  # with a look for NaN
    return own + sum(map(_steps, e.args))


def longest(program):
    """How many places a row may have at most to be turned; 0 for none at all.

    Folding a vector's lanes is saved, and so is computing lanes that are no places, or
    reading what is kept behind a masked store, for which processors wait; turning is
    paid for. A lone sum of cheap values is worth that in rows of a vector, or of less
    than one where results must be turned back.
    """
    masks = all(current().masks(operand.itemsize) for operand in program.operands)
    if not (masks and program.strided):
        return 0
    states = [state for group in program.levels for state in group]
    steps = 0
    for state in states:
        empty = state.monoid.empty(1)
        steps += sum(map(_steps, state.monoid.combined(empty, empty)))
    if steps > 1 or program.costly:
        return max(LONGEST, program.lanes)
    given_back = any(one.varies for one in program.operands[: program.count])
    return program.lanes - given_back


class RegisterTranspose:
    """A layout whose varying operands lie in tiles; the rest is the layout's own.

    Args:
        b: the builder of the kernel.
        program: its `Results`.
        shape: the layout of its operands.

    Attributes:
        condition: whether rows are short, and follow each other in one loop.
    """

    def __init__(self, b, program, shape):
        self.b, self.program, self.shape = b, program, shape
        self.lanes = program.lanes
        self.length, self.reduced = shape.length, [shape.length]
        wide = enumerate(program.operands)
        self.tiled = [k for k, operand in wide if operand.varies]
        self.bits, self.tiles = {}, {}
        self.most = longest(program)
        self.steps, self.inner = list(shape.steps), list(shape.inner)
        for k in self.tiled:
            operand = program.operands[k]
            self.steps[k] = [Const(i64, self.lanes * operand.itemsize)]
            self.inner[k] = Const(i64, operand.itemsize)

    def condition(self):
        """Whether rows are turned: one alone as many are, to the same bits."""
        shape = self.shape
        found = shape.length <= self.most
        for size in shape.reduced[:-1]:
            found = found & (size == 1)
        for k, operand in enumerate(self.program.operands):
            stride = shape.inner[k]
            if k >= self.program.count and not operand.varies:
                found = found & ((stride == operand.itemsize) | (stride == 0))
        return found

    def is_whole(self, k):
        return k in self.tiles

    def is_strided(self, k):
        return k in self.tiles or self.shape.is_strided(k)

    def is_shared(self, k):
        return k not in self.tiles and self.shape.is_shared(k)

    def declare(self):
        """Makes room for a tile of every operand that varies."""
        for k in self.tiled:
            operand = self.program.operands[k]
            self.bits[k] = Type(f"uint{8 * operand.itemsize}")
            size = -(-self.most // self.lanes) * self.lanes**2
            self.tiles[k] = self.b.array("tile", self.bits[k], size)

    def rows(self, rows):
        """Where the operands of some rows lie: tiles, or what the layout says."""
        result = list(rows)
        for k in self.tiled:
            pointer = Pointer(self.program.operands[k].element)
            result[k] = self.b.let("turned", ir.Reinterpret(pointer, self.tiles[k]))
        return result

    def bring(self, rows, count):
        """Turns the inputs' rows into their tiles; the last row stands for missing ones."""
        b, lanes = self.b, self.lanes
        for k in self.tiled:
            if k < self.program.count:
                continue
            with b.loop("place", ZERO, self.length, lanes, kind="rolled") as place:
                mask = self.mask(place)
                lines = [
                    ir.load(self.line(k, rows, ir.binary("min", n, count - 1)), place,
                            lanes, mask=mask)
                    for n in range(lanes)
                ]  # fmt: skip
                lines = [b.let("line", line) for line in lines]
                for n, line in enumerate(transpose(b, lines)):
                    b.store(self.tiles[k], (place + n) * lanes, line)

    def give(self, rows, count):
        """Turns the results' tiles back into rows."""
        b, lanes = self.b, self.lanes
        for k in self.tiled:
            if k >= self.program.count:
                continue
            with b.loop("place", ZERO, self.length, lanes, kind="rolled") as place:
                mask = self.mask(place)
                lines = [
                    b.let("line", ir.load(self.tiles[k], (place + n) * lanes, lanes))
                    for n in range(lanes)
                ]
                for n, line in enumerate(transpose(b, lines)):
                    with b.when(count > n):
                        b.add(ir.Store(self.line(k, rows, n), place, line, mask=mask))

    def mask(self, place):
        """Which lanes from a place on are of a row."""
        ramp = ir.Ramp(self.lanes, place, Const(i64, 1))
        end = ir.Broadcast(self.lanes, self.length)
        return self.b.let("inside", ir.Binary("lt", ramp, end))

    def line(self, k, rows, n):
        """Where the n-th of some rows begins."""
        row = ir.Offset(rows[k], self.shape.inner[k] * n)
        return ir.Reinterpret(Pointer(self.bits[k]), row)
