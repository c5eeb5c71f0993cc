"""What kernels of products are passed, and the part of it that a chunk has."""

from rushlight.core.launch_args import ARRAYS
from rushlight.ir import expr as ir
from rushlight.ir.expr import Type
from rushlight.kernels.loop_helpers import blocks_of, minimum, quotient, remainder

OPERANDS = ("out", "a", "b", "added")


def arrays_of(b, a_type, b_type, compute, epilogue, names=OPERANDS):
    """The addresses of a product's operands by name."""
    stored = compute if epilogue is None else Type(epilogue.stored)
    types = {"out": stored, "a": a_type, "b": b_type}
    return {
        name: b.let(name, ir.argument(ARRAYS[name], types.get(name, compute)))
        for name in names
    }


def columns_of_chunk(b, n, chunk, across):
    """A chunk's batch, the first of its columns and how many it has.

    Args:
        n: the integers of the product by name.
        across: blocks of columns of one batch.
    """
    batch = b.let("batch", quotient(chunk, across))
    first = b.let("j0", remainder(chunk, across) * n["column_block"])
    width = b.let("width", minimum(n["columns"] - first, n["column_block"]))
    return batch, first, width


def blocks_across(b, n):
    """How many blocks of columns a product has."""
    return b.let("across", blocks_of(n["columns"], n["column_block"]))
