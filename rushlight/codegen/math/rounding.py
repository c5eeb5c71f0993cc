"""Rounding to the narrow formats, and small helpers that need several operations."""

from __future__ import annotations

from rushlight.codegen.math.formats import root
from rushlight.ir import expr as ir
from rushlight.ir.expr import Reinterpret, select


def to_bfloat16(x):
    """The nearest bfloat16, halves to even; NaN becomes the quiet NaN.

    Integer arithmetic, because the machine's own conversion flushes subnormals.
    """
    pattern = Reinterpret(ir.u32.like(x.type), x)
    rounded = (pattern + ((pattern >> 16) & 1) + 0x7FFF) >> 16
    narrow = ir.cast(ir.u16, select(x != x, 0x7FC0, rounded))
    return Reinterpret(ir.bf16.like(x.type), narrow)


def rsqrt(x):
    """One over the square root."""
    return 1.0 / root(x)


FUNCTIONS = (to_bfloat16, rsqrt)
