"""Rounding to the narrow formats, and small helpers that need several operations."""

from rushlight.codegen.math.formats import root
from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.expr import Reinterpret, select


def to_bfloat16(x):
    """The nearest bfloat16, halves to even; NaN becomes the quiet NaN.

    Integer arithmetic, because the machine's own conversion flushes subnormals.
    """
    pattern = Reinterpret(ir.u32.like(x.type), x)
    rounded = pattern + ((pattern >> 16) & 1) + 0x7FFF
    if x.type.lanes * x.type.itemsize <= current().vector_bytes:
        upper = ir.cast(ir.u16, rounded >> 16)
    else:  # of two registers every other word, by one instruction
        words = Reinterpret(ir.u16.vector(2 * x.type.lanes), rounded)
        upper = ir.Shuffle(range(1, 2 * x.type.lanes, 2), words, words)
    narrow = select(x != x, ir.Const(upper.type, 0x7FC0), upper)
    return Reinterpret(ir.bf16.like(x.type), narrow)


def rsqrt(x):
    """One over the square root."""
    return 1.0 / root(x)


FUNCTIONS = (to_bfloat16, rsqrt)
