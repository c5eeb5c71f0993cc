"""LU factors and solutions of many tiny systems: each lane of a vector has a matrix.

The steps of one matrix of 4 x 4 wait for each other, and no processor predicts its pivots.
As many matrices as a vector has lanes take the same steps here, and exchange rows by choices.
They lie one after the other, column by column: an element of all of them is gathered, and
scattered when it is done. Lanes behind the last matrix repeat that one.

The steps are those of `rushlight.runtime.cpu.lapack_small`: LAPACK's unblocked ones, with its
pivots and codes.
"""

import functools

from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import BEGIN, END, Broadcast, Const, Type, i32, i64, load, select
from rushlight.kernels.loop_helpers import minimum, multiply_add, rolled

MOST = 4  # rows of a matrix whose elements stay in registers
# Smaller pivots have no reciprocal to multiply by.
TINIEST = {"float32": 1e-38, "float64": 1e-307}


class Lanes:
    """What a group of systems has in memory, and the steps that all of them take.

    Args:
        b: what the steps are written to.
        element: the type of the numbers.
        n: rows of a matrix.
        at: the number of the first system.
    """

    def __init__(self, b, element, n, at):
        self.b, self.n, self.element = b, n, element
        lanes = current().lanes(element.itemsize)
        self.type, self.row = element.vector(lanes), i32.vector(lanes)
        each = ir.Ramp(lanes, at, Const(i64, 1))
        self.system = b.let("system", minimum(each, Broadcast(lanes, END - 1)))

    def take(self, pointer, count, k):
        """Element ``k`` of the ``count`` that each system has."""
        return self.b.let("taken", load(pointer, self.system * count + k, self.lanes))

    def put(self, pointer, count, k, value):
        """Writes element ``k`` of the ``count`` that each system has."""
        self.b.store(pointer, self.system * count + k, value)

    @property
    def lanes(self):
        return self.type.lanes

    def exchange(self, rows, k, other):
        """A column's row ``k`` in the place of row ``other``, which every lane chooses."""
        b, first = self.b, rows[k]
        for i in range(k + 1, self.n):
            chosen, value = other[i], rows[i]
            rows[i] = b.let("row", select(chosen, first, value))
            first = b.let("first", select(chosen, value, first))
        rows[k] = first

    def less(self, value, x, y):
        """``value - x * y``, rounded once."""
        return self.b.let("less", multiply_add(-x, y, value))

    def factor(self, matrices, pivots, codes):
        """LU factors in the place of the matrices; pivots and codes count from one."""
        b, n = self.b, self.n
        columns = [
            [self.take(matrices, n * n, j * n + i) for i in range(n)] for j in range(n)
        ]
        code = Const(self.row, 0)
        for k in range(n):
            column = columns[k]
            largest, best = b.let("largest", abs(column[k])), Const(self.row, k)
            for i in range(k + 1, n):
                size = b.let("size", abs(column[i]))
                above = b.let("above", size > largest)
                best = b.let("best", select(above, Const(self.row, i), best))
                largest = b.let("largest", select(above, size, largest))
            self.put(pivots, n, k, best + 1)
            zero = b.let("zero", largest == 0.0)
            code = b.let("code", select(zero & (code == 0), k + 1, code))
            chosen = {i: b.let("chosen", best == i) for i in range(k + 1, n)}
            for rows in columns:
                self.exchange(rows, k, chosen)
            self.eliminate(columns, k, zero)
        for j, rows in enumerate(columns):
            for i, value in enumerate(rows):
                self.put(matrices, n * n, j * n + i, value)
        self.put(codes, 1, 0, code)

    def eliminate(self, columns, k, zero):
        """Takes row ``k`` off those below, but where its pivot is zero."""
        b, n, column = self.b, self.n, columns[k]
        pivot = column[k]
        small = b.let("small", ~(abs(pivot) > TINIEST[self.element.name]))
        inverse = b.let("inverse", 1.0 / pivot)
        for i in range(k + 1, n):
            # the last is divided, as MKL does: these are its bits
            part = column[i] / pivot
            if k < n - 2:
                part = ir.Rarely(small, part, column[i] * inverse)
            column[i] = b.let("part", select(zero, column[i], part))
        for rows in columns[k + 1 :]:
            for i in range(k + 1, n):
                less = self.less(rows[i], column[i], rows[k])
                rows[i] = b.let("kept", select(zero, rows[i], less))

    def solve(self, matrices, pivots, sides, count):
        """Solutions in the place of ``count`` right-hand sides, by factors and pivots."""
        b, n = self.b, self.n
        factors = [
            [self.take(matrices, n * n, j * n + i) for i in range(n)] for j in range(n)
        ]
        chosen = []
        for k in range(n):
            other = b.let("other", self.take(pivots, n, k) - 1)
            chosen.append({i: b.let("chosen", other == i) for i in range(k + 1, n)})
        with b.loop("side", 0, count, kind="rolled") as side:
            rows = [self.take(sides, count * n, side * n + i) for i in range(n)]
            for k in range(n):
                self.exchange(rows, k, chosen[k])
            for k in range(n):
                for i in range(k + 1, n):
                    rows[i] = self.less(rows[i], factors[k][i], rows[k])
            for k in reversed(range(n)):
                rows[k] = b.let("solution", rows[k] / factors[k][k])
                for i in range(k):
                    rows[i] = self.less(rows[i], factors[k][i], rows[k])
            for i in range(n):
                self.put(sides, count * n, side * n + i, rows[i])


def fits(n: int) -> bool:
    """Whether systems of so many rows have kernels on this processor.

    Args:
        n: rows of a matrix.
    """
    return 2 <= n <= MOST and current().has("fma")


@functools.cache
def kernel(name: str, n: int, solves: bool):
    """The native kernel that factors systems, or solves them by their factors.

    Its data are those of the tasks for one matrix after the other: matrices, pivots, and
    codes or right-hand sides, of which the third number says how many there are.

    Args:
        name: of the numbers' type.
        n: rows of a matrix.
        solves: whether factors and pivots are given.
    """
    from rushlight.codegen.lower import lower

    symbol = f"{'solve' if solves else 'factor'}_in_lanes_{name}_{n}"

    def write():
        b, element = Builder(), Type(name)
        matrices, pivots, last = (
            b.let(word, ir.argument(k, of))
            for k, word, of in (
                (1, "matrices", element),
                (2, "pivots", i32),
                (3, "sides" if solves else "codes", element if solves else i32),
            )
        )
        count = b.let("count", ir.integer(3)) if solves else None
        step = current().lanes(element.itemsize)
        with b.loop("at", BEGIN, END, step, kind="rolled") as at:
            group = Lanes(b, element, n, at)
            if solves:
                group.solve(matrices, pivots, last, count)
            else:
                group.factor(matrices, pivots, last)
        return lower(ir.kernel(symbol, rolled(b.statements)))

    return host.code_cache.native(symbol, "", write)
