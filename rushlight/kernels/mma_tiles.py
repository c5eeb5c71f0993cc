"""Tensor cores by warps: who has which sums of a product, and the product itself.

A product has 16 rows and 8 columns; each of a warp's 32 lanes has four of its sums, in two
rows and two neighbouring columns. Products by warpgroups lay their sums out as a row of
such products.

Follows the fragments of PTX's ``mma.sync`` and CUTLASS's ``MmaTensorOp`` (NVIDIA).
"""

from rushlight.ir import expr as ir

SUMS = 4  # of a product, that a lane has


def place_of_sum(n):
    """The row and column of a lane's n-th sum in a row of products.

    The lane's own row, a quarter of its number, and column, twice its number in the four
    that share a row, are added.

    >>> [place_of_sum(n) for n in (0, 1, 2, 3, 4)]
    [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8)]
    """
    product, p = divmod(n, SUMS)
    return 8 * (p // 2), 8 * product + p % 2


def add_product(b, sums, left, right, packed=None):
    """Adds a warp's product to the four sums of a lane.

    Args:
        left, right: the lane's shares of both factors.
        packed: the type of halves, where words hold two of them.
    """
    new = [
        b.let("new", ir.UnitProduct(p, *left, *right, *sums, packed=packed))
        for p in range(SUMS)
    ]
    for total, value in zip(sums, new, strict=True):
        b.assign(total, value)
