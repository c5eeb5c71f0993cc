"""Renders x86's sums of products, each lane of which adds up those of two or four elements.

accumulator + a0 b0 + a1 b1                     bfloat16, 16-bit integers
accumulator + a0 b0 + a1 b1 + a2 b2 + a3 b3     unsigned bytes with signed ones
"""

from rushlight.codegen.emit.llvm_text import type_name

# By the number of lanes: 16-bit integers are multiplied since SSE2, bytes since SSSE3.
_SHORTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
_BYTES = {8: "ssse3.pmadd.ub.sw.128", 16: "avx2.pmadd.ub.sw"}
_BYTES[32] = "avx512.pmaddubs.w.512"


def dot_bf16(emitter, e):
    """``accumulator + a0 b0 + a1 b1`` over pairs of bfloat16 lanes."""
    return _dot(emitter, e, "avx512bf16.dpbf16ps", f"<{e.args[1].type.lanes} x bfloat>")


def dot_int8(emitter, e):
    """``accumulator`` plus the products of four unsigned and four signed bytes."""
    return _dot(emitter, e, "avx512.vpdpbusd", f"<{4 * e.type.lanes} x i8>")


def dot_int7(emitter, e):
    """The products of two unsigned and two signed bytes, which fit in 16 bits."""
    several = f"<{2 * e.type.lanes} x i8>"
    return _called(emitter, e, _BYTES[e.type.lanes], several, e.args)


def _dot(emitter, e, instruction, several):
    """One instruction: both sides are taken for vectors of ``several``."""
    accumulator, *sides = e.args
    name = f"{instruction}.{32 * e.type.lanes}"
    return _called(emitter, e, name, several, sides, emitter.typed(accumulator))


def dot_int16(emitter, e):
    """``accumulator`` plus the products of two signed 16-bit integers."""
    accumulator, *sides = e.args
    several = f"<{2 * e.type.lanes} x i16>"
    products = _called(emitter, e, _SHORTS[e.type.lanes], several, sides)
    return emitter.fresh(f"add {emitter.typed(accumulator)}, {products}")


def _called(emitter, e, instruction, several, sides, *first):
    """The call of an instruction, with both sides as vectors of ``several``."""
    result = type_name(e.type)
    kinds = [result] * len(first) + [several] * len(sides)
    name = emitter.module.declare(f"llvm.x86.{instruction}", result, *kinds)
    sides = [
        f"{several} " + emitter.fresh(f"bitcast {emitter.typed(side)} to {several}")
        for side in sides
    ]
    return emitter.fresh(f"call {result} @{name}({', '.join([*first, *sides])})")
