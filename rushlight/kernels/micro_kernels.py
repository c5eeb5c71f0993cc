"""Register tiles: the innermost loops that products, convolutions and attention share.

Two forms. Sums of *outer products* have a vector of columns in each register: a step reads
vectors of the right operand once, and an element of each row of the left one, in all lanes.
Sums of *dot products* have pieces of the depth in their lanes, which are added up at the
end: both operands are read as they lie, where packing one would take as long as products do.

Who calls decides how many rows and columns of sums there are, so that they fill the
registers of a target, and what multiplies: fused floats, pairs of bfloat16, four bytes.

Follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008),
and the micro-kernels of Van Zee and van de Geijn, "BLIS" (2015).
"""

from rushlight.ir.expr import Call, Const
from rushlight.kernels.loop_helpers import multiply_add, vector_loop


def zero_sums(b, type, rows, columns):
    """Registers for the sums of a tile, each zero: a list for each row."""
    zero = Const(type, 0)
    return [[b.declare("sum", zero) for _ in range(columns)] for _ in range(rows)]


def outer_product(b, sums, lefts, rights, add=multiply_add):
    """Adds the product of a row's and a column's value to each sum of a tile.

    Args:
        lefts: the values of rows; each may be read when its turn comes.
        rights: the values of columns, which stay in registers.
        add: what multiplies two values and adds a third.
    """
    for value, totals in zip(lefts, sums, strict=True):
        for total, other in zip(totals, rights, strict=True):
            b.assign(total, add(value, other, total))


def dot_products(b, type, rows, columns, span, chains=1):
    """The dot products of rows and columns over a part of the depth, added up over lanes.

    Args:
        type: the vector type of sums.
        rows, columns: callables from a place of the depth, and a mask or None, to the
            vector there; that of a row is read when its turn comes.
        span: the first place of the depth, and the one behind the last.
        chains: sums for each of them that go on side by side: more hide more latency.
    """
    zero = Const(type, 0)
    sums = [
        [[b.declare("sum", zero) for _ in range(chains)] for _ in columns] for _ in rows
    ]

    def step(k, mask, chain):
        rights = [b.let("other", column(k, mask)) for column in columns]
        own = [[of_column[chain] for of_column in line] for line in sums]
        outer_product(b, own, (row(k, mask) for row in rows), rights)

    vector_loop(b, "k", *span, type.lanes, step, chains)
    return [
        [
            Call("reduce_add", type.scalar, sum(rest, first))
            for first, *rest in of_columns
        ]
        for of_columns in sums
    ]
