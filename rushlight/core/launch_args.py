"""What a launch hands to a kernel: one record for who writes it and who reads it.

The records are structures of 64-bit integers (``plans.pxd``). A launch fills in one of
them; a kernel, which is passed integers by position, asks `FIELD_OFFSETS` where a field lies.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t


@cython.cfunc
def number(first: cython.p_void, bytes: cython.size_t) -> cython.void:
    """Writes into each integer of a record where it lies."""
    numbers: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), first)
    place: int64_t
    for place in range(cython.cast(int64_t, bytes) // 8):
        numbers[place] = place


def field_offsets() -> dict[str, dict[str, int | list[int]]]:
    """For each record, where its fields lie; a list for a field that is an array.

    >>> field_offsets()["product"]["columns"], field_offsets()["reduction"]["along"]
    (1, [3, 4, 5])
    """
    product: ProductPlan
    dots: DotsPlan
    combine: CombinePlan
    reduction: ReductionPlan
    epilogue: EpilogueSteps
    number(cython.address(product), cython.sizeof(product))
    number(cython.address(dots), cython.sizeof(dots))
    number(cython.address(combine), cython.sizeof(combine))
    number(cython.address(reduction), cython.sizeof(reduction))
    number(cython.address(epilogue), cython.sizeof(epilogue))
    return {
        "product": product,
        "dots": dots,
        "combine": combine,
        "reduction": reduction,
        "epilogue": epilogue,
    }


FIELD_OFFSETS = field_offsets()
# The same for the arrays of products, and where those begin of what is behind.
ARRAYS = {"out": OUT, "a": LEFT, "b": RIGHT, "added": ADDED, "sums": SUMS}
EPILOGUE = {
    "product": EPILOGUE_PRODUCT,
    "dots": EPILOGUE_VECTOR,
    "combine": EPILOGUE_VECTOR,
}
# How a product reads its right operand.
RIGHT_MODES = {
    "direct": DIRECT,
    "copied": COPIED,
    "transposed": TRANSPOSED,
    "gathered": GATHERED,
}
PAIRED, TILED = PAIRS, TILES
