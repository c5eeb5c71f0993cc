"""Tensor cores in schedules: a product of 16 rows, 8 columns and a depth of 16 by a warp.

What it adds to lies in ``"fragment"`` memory: each lane of the warp has four sums of every
16 by 8 block, as PTX says of ``mma.m16n8k16``. A lane's sums are in rows ``lane // 4`` and 8
further on, in columns ``2 * (lane % 4)`` and the next one.
"""

from math import prod

from rushlight.codegen import language as L
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.linear import Linear, linear
from rushlight.tensor_expressions.buffers import Buffer
from rushlight.tensor_expressions.expressions import (
    Intrinsic,
    compute,
    placeholder,
    reduce_axis,
    sum,
)

ROWS, COLUMNS, DEPTH = 16, 8, 16
SUMS = 4  # of a product, that a lane has
HALVES = "float16", "bfloat16"


def mma(dtype) -> Intrinsic:
    """Tensor cores of an NVIDIA device, for `Stage.tensorize`: sums of products in float32.

    The three innermost loops are 16 rows, 8 columns and a depth of 16 of factors in half
    precision. The stage lies in ``"fragment"`` memory (`Schedule.cache_write`), and what
    reads it is bound to lanes by `Stage.bind_lanes`. On the host the loops run as they are.

    Args:
        dtype: of the factors, ``"float16"`` or ``"bfloat16"``.

    Raises:
        ValueError: tensor cores do not multiply this dtype so.

    >>> mma("bfloat16").pattern
    products[i, j] = sum(f32(left[i, k]) * f32(right[k, j]), k)
    """
    if dtype not in HALVES:
        raise ValueError(f"mma: no tensor cores multiply {dtype}; there are {HALVES}")
    left = placeholder((ROWS, DEPTH), dtype, name="left")
    right = placeholder((DEPTH, COLUMNS), dtype, name="right")
    k = reduce_axis((0, DEPTH), name="k")

    def element(i, j):
        factors = (L.cast(e, "float32") for e in (left[i, k], right[k, j]))
        return sum(next(factors) * next(factors), axis=k)

    pattern = compute((ROWS, COLUMNS), element, name="products")
    return Intrinsic(pattern, add_product, scope=FRAGMENT)


FRAGMENT = "fragment"


def add_product(out, left, right):
    """Statements that add a warp's product to each lane's four sums."""
    b, packed = Builder(), None
    lane = b.let("lane", ir.Place("thread") % 32)
    if left.of_units and right.of_units:
        packed, factors = left.pointer.type.element.name, words(b, lane, left, right)
    else:
        factors = halves(b, lane, left, right)
    sums = [b.let("sum", out.load(p)) for p in range(SUMS)]
    for p in range(SUMS):
        new = b.let("new", ir.UnitProduct(p, *factors, *sums, packed=packed))
        b.add(out.store(new, p))
    return b.statements


def words(b, lane, left, right):
    """A lane's shares of both factors, by the unit that reads rows of eight halves."""
    half = b.let(
        "half", lane // 8 % 2 * 8
    )  # the lower half of a depth, or the upper one
    if left.strides[1] == 1:
        first = ir.UnitRows(
            False, left.pointer, left.index((lane % 16, lane // 16 * 8))
        )
    else:
        row = lane % 8 + lane // 16 * 8
        first = ir.UnitRows(True, left.pointer, left.index((half, row)))
    if right.strides[1] == 1:
        second = ir.UnitRows(True, right.pointer, right.index((lane % 16, 0)))
    else:
        second = ir.UnitRows(False, right.pointer, right.index((half, lane % 8)))
    pairs = (b.let("rows", first), 4), (b.let("rows", second), 2)
    return [
        b.let("word", ir.Extract(n, rows))
        for rows, count in pairs
        for n in range(count)
    ]


def halves(b, lane, left, right):
    """The same, one by one, from wherever they lie."""
    group, pair = b.let("group", lane // 4), b.let("pair", lane % 4)
    lefts = [
        b.let("left", left.load(group + 8 * (n // 2 % 2), 2 * pair + _depth(n, 4)))
        for n in range(8)
    ]
    rights = [
        b.let("right", right.load(2 * pair + _depth(n, 2), group)) for n in range(4)
    ]
    return [*lefts, *rights]


def _depth(n, half):
    """The depth of a lane's n-th value, behind the two that its pair begins at."""
    return n % 2 + 8 * (n // half)


class Fragments(Buffer):
    """Sums of a warp's products: a lane's four of each block, block after block.

    Their rows and columns are the last two dimensions; of others there is one index.
    """

    @property
    def size(self):
        """How many elements each lane has."""
        return prod(self.shape) // (ROWS * COLUMNS) * SUMS

    def block(self, indices, inner):
        """Where the sums of a block begin.

        Args:
            indices: of an element.
            inner: the variables of the loops inside of the block.

        Raises:
            ValueError: blocks do not lie side by side.
        """
        blocks = []
        dims = zip(indices[-2:], self.origin[-2:], (ROWS, COLUMNS), strict=True)
        for at, first, size in dims:
            form = linear(at - first)
            terms = {} if form is None else dict(form.terms)
            for var in inner:
                terms.pop(var, None)
            if (
                form is None
                or form.constant % size
                or any(count % size for count in terms.values())
            ):
                raise ValueError(
                    f"tensorize: blocks of {ROWS} rows and {COLUMNS} columns do not "
                    "fill the loops around them"
                )
            shares = {var: count // size for var, count in terms.items()}
            blocks.append(Linear(form.constant // size, shares).expression())
        return (blocks[0] * (self.shape[-1] // COLUMNS) + blocks[1]) * SUMS

    def index(self, indices):
        """Where a lane has an element.

        Raises:
            ValueError: the lane that asks is not the one that has it.
        """
        rows, columns = (
            linear(at - first, parts=True)
            for at, first in zip(indices[-2:], self.origin[-2:], strict=True)
        )
        row = None if rows is None else _without(rows, "floordiv", 1)
        column = None if columns is None else _without(columns, "mod", 2)
        if row is None or column is None:
            raise ValueError(
                f"fragment: {self.pointer.name} lies in the lanes of a warp, and is read by "
                "others\n  remedy: bind_lanes(row, column) of the stage that reads it"
            )
        eighth = Linear(row.constant // 8, _divided(row.terms)).expression()
        whole = {v: c for v, c in column.terms.items() if c % 8 == 0}
        block = Linear(column.constant // 8, _divided(whole)).expression()
        rest = {v: c for v, c in column.terms.items() if c % 8}
        place = (eighth // 2) * (self.shape[-1] // COLUMNS) + block
        neighbor = Linear(column.constant % 8, rest).expression()
        return place * SUMS + eighth % 2 * 2 + neighbor


def _divided(terms):
    return {var: count // 8 for var, count in terms.items()}


def _without(form, op, count):
    """A form without the lane's own part, ``lane // 4`` or ``lane % 4``; None if it has none.

    What is left is a multiple of 8, or in columns one of two neighbours.
    """
    found = [
        var
        for var, times in form.terms.items()
        if isinstance(var, ir.Binary) and var.op == op and times == count
    ]
    if len(found) != 1 or not _is_lane(found[0]):
        return None
    rest = {var: times for var, times in form.terms.items() if var is not found[0]}
    odd = [times for times in rest.values() if times % 8]
    if odd and (count == 1 or odd != [1]) or form.constant % 8 >= count:
        return None
    return Linear(form.constant, rest)


def _is_lane(part):
    lane, size = part.args
    return isinstance(lane, ir.Var) and lane.name == "threadIdx_x" and size.value == 4
