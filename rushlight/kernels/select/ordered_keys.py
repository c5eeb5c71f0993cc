"""Whole numbers that order as elements do: what selections and sorts read digits of."""

from rushlight.codegen.frontend.storage import Storage
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Reinterpret, Type

INFINITIES = {  # the bits of the largest magnitudes that are numbers
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F800000,
    "float64": 0x7FF0000000000000,
}


def width_of(dtype):
    """How many bits the keys of a dtype have.

    >>> width_of("bool"), width_of("bfloat16"), width_of("int64")
    (8, 16, 64)
    """
    return 8 * Storage(dtype).element.itemsize


def word_of(dtype):
    """The type that a dtype's keys are computed in."""
    return ir.u64 if width_of(dtype) == 64 else ir.u32


def key_of(b, raw, descending):
    """The key of an element as it lies in memory: less for what comes earlier.

    Both zeros have one key, and all NaN that beyond infinity's.
    """
    name = raw.type.name
    width, word = width_of(name), word_of(name)
    half, top = 1 << width - 1, (1 << width) - 1

    def constant(value):
        return Const(word, value)

    if raw.type.is_float:
        bits = ir.cast(word, Reinterpret(Type(f"uint{width}"), raw))
        bits = b.let("bits", bits)
        size = b.let("magnitude", bits & constant(half - 1))
        signed = ir.select(bits == size, size + constant(half), constant(half) - size)
        key = ir.select(size > constant(INFINITIES[name]), constant(top), signed)
    else:
        key = ir.cast(word, raw)
        if raw.type.is_signed:
            key = (key ^ constant(half)) & constant(top)
    return b.let("key", constant(top) - key if descending else key)
