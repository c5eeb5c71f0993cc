"""QR factors by Householder's reflectors, and the product of the reflectors.

The steps are those of LAPACK's unblocked routines (``geqr2``, ``org2r``), with its signs. A
matrix lies column by column: a reflector's dot product with a column and what it takes off
are each a loop over vectors, in the nearest cache. LAPACK would call for two products of the
matrix with a vector at each step, which for so few numbers cost more than the numbers do.
"""

import functools

from rushlight.codegen import language as L
from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import BEGIN, END, Broadcast, Call, Const, Type, f64, i64, load
from rushlight.kernels.loop_helpers import (
    maximum,
    minimum,
    moved,
    multiply_add,
    rolled,
    vector_loop,
)

MOST = 1 << 16  # bytes of a matrix; LAPACK works on blocks of larger ones
# Sums of squares of float64 numbers that neither overflow nor lose digits.
SAFE = 1e-280, 1e300


class Columns:
    """The columns of a matrix in memory, and the steps that are taken with them.

    Args:
        b: what the steps are written to.
        pointer: the matrix.
        rows: how many elements a column has.
    """

    def __init__(self, b, pointer, rows):
        self.b, self.pointer, self.rows = b, pointer, rows
        self.element = pointer.type.element
        self.lanes = current().lanes(self.element.itemsize)

    def column(self, j):
        """The address of a column."""
        return self.b.let("column", moved(self.pointer, j * self.rows))

    def summed(self, first, value, type, monoid="add"):
        """What a function makes of vectors of places, from one on, and then summed."""
        b, lanes = self.b, self.lanes
        total = b.declare("total", Broadcast(lanes, Const(type, 0)))

        def add(at, mask, _):
            more = value(at, mask, total)
            b.assign(total, more if mask is None else ir.select(mask, more, total))

        vector_loop(b, "i", first, self.rows, lanes, add)
        return b.let("summed", Call(f"reduce_{monoid}", type, total))

    def wide(self, column, at, mask):
        """Elements in double precision."""
        return ir.cast(f64.vector(self.lanes), self.read(column, at, mask))

    def read(self, column, at, mask):
        return load(column, at, self.lanes, mask=mask)

    def length(self, column, first):
        """The root of the sum of squares, and whether all of them are zero."""
        b = self.b

        def square(at, mask, total, scale=None):
            x = self.wide(column, at, mask)
            x = b.let("x", x if scale is None else x / Broadcast(self.lanes, scale))
            return multiply_add(x, x, total)

        total = b.declare("squares", self.summed(first, square, f64))
        if self.element != f64:  # whose squares have room in double precision
            return b.let("length", L.sqrt(total)), b.let("none", total == 0.0)
        largest = self.summed(
            first, lambda at, mask, most: maximum(most, abs(self.wide(column, at, mask))),
            f64, "max",
        )  # fmt: skip
        size = b.declare("size", L.sqrt(total))
        none = b.let("none", (largest == 0.0) & (total == 0.0))
        with b.when(~none & ~((total > SAFE[0]) & (total < SAFE[1]))):
            scaled = functools.partial(square, scale=largest)
            b.assign(size, largest * L.sqrt(self.summed(first, scaled, f64)))
        return size, none

    def reflect(self, reflector, first, tau, column):
        """Applies a reflector, whose first element is one, to a column."""
        b, lanes = self.b, self.lanes

        def product(at, mask, total):
            pair = self.read(reflector, at, mask), self.read(column, at, mask)
            return multiply_add(*pair, total)

        share = b.let("share", -tau * self.summed(first, product, self.element))

        def take(at, mask, _):
            pair = self.read(reflector, at, mask), self.read(column, at, mask)
            less = multiply_add(Broadcast(lanes, share), *pair)
            b.store(column, at, less, mask)

        vector_loop(b, "i", first, self.rows, lanes, take)

    def scale(self, column, first, by):
        """Replaces the elements from one on by a function of theirs."""

        def put(at, mask, _):
            self.b.store(column, at, by(self.read(column, at, mask)), mask)

        vector_loop(self.b, "i", first, self.rows, self.lanes, put)


def factor(b, matrix, taus, m, n):
    """R in the upper triangle, reflectors below it, their factors beside them."""
    columns = Columns(b, matrix, m)
    element, lanes = columns.element, columns.lanes
    with b.loop("k", 0, b.let("least", minimum(m, n)), kind="rolled") as k:
        pivot = columns.column(k)
        first = b.let("first", ir.cast(f64, load(pivot, k)))
        rest, none = columns.length(pivot, k + 1)
        with b.when(none):
            b.store(taus, k, Const(element, 0))
        with b.otherwise():
            far = b.let("far", maximum(abs(first), rest))
            ratio = b.let("ratio", minimum(abs(first), rest) / far)
            size = b.let("size", far * L.sqrt(ratio * ratio + 1.0))
            # of zero, too, whichever its sign
            size = b.let("size", ir.select(first >= 0.0, -size, size))
            tau = b.let("tau", ir.cast(element, (size - first) / size))
            b.store(taus, k, tau)
            divisor = Broadcast(lanes, ir.cast(element, first - size))
            columns.scale(pivot, k + 1, lambda x: x / divisor)
            b.store(pivot, k, Const(element, 1))
            with b.loop("j", k + 1, n, kind="rolled") as j:
                columns.reflect(pivot, k, tau, columns.column(j))
            b.store(pivot, k, ir.cast(element, size))


def expand(b, matrix, taus, m, n, count):
    """The product of the reflectors in their place."""
    columns = Columns(b, matrix, m)
    element, lanes = columns.element, columns.lanes
    zero = Broadcast(lanes, Const(element, 0))
    with b.loop("j", count, n, kind="rolled") as j:
        column = columns.column(j)
        columns.scale(column, 0, lambda x: zero)
        b.store(column, j, Const(element, 1))
    with b.loop("back", 0, count, kind="rolled") as back:
        at = b.let("at", count - 1 - back)
        pivot, tau = columns.column(at), b.let("tau", load(taus, at))
        b.store(pivot, at, Const(element, 1))
        with b.loop("j", at + 1, n, kind="rolled") as j:
            columns.reflect(pivot, at, tau, columns.column(j))
        columns.scale(pivot, at + 1, lambda x: x * Broadcast(lanes, -tau))
        b.store(pivot, at, 1.0 - tau)
        with b.loop("i", 0, at, kind="rolled") as i:
            b.store(pivot, i, Const(element, 0))


def fits(rows: int, columns: int, itemsize: int) -> bool:
    """Whether a matrix takes less than calls of LAPACK on this processor.

    Args:
        rows, columns: of the matrix.
        itemsize: bytes of an element.
    """
    return rows * columns * itemsize <= MOST and current().masks(itemsize)


@functools.cache
def kernel(name: str, expands: bool):
    """The native kernel that factors matrices, or expands their reflectors.

    Its data are matrices and factors from the second on; its integers rows, columns and
    reflectors from the second on.

    Args:
        name: of the numbers' type.
        expands: whether reflectors are given.
    """
    from rushlight.codegen.lower import lower

    symbol = f"{'expand' if expands else 'factor'}_reflectors_{name}"

    def write():
        b, element = Builder(), Type(name)
        matrices = b.let("matrices", ir.argument(1, element))
        taus = b.let("taus", ir.argument(2, element))
        m, n = (b.let(word, ir.integer(k)) for k, word in ((1, "m"), (2, "n")))
        count = b.let("count", ir.integer(3) if expands else minimum(m, n))
        with b.loop("number", BEGIN, END, kind="rolled") as number:
            matrix = b.let("matrix", moved(matrices, number * (m * n)))
            mine = b.let("mine", moved(taus, number * count))
            if expands:
                expand(b, matrix, mine, m, n, count)
            else:
                factor(b, matrix, mine, m, n)
        return lower(ir.kernel(symbol, rolled(b.statements)))

    return host.code_cache.native(symbol, "", write)
