"""Words that the loops of products, convolutions and transforms are written in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.codegen.target import current
from rushlight.core.launch_args import FIELD_OFFSETS
from rushlight.ir import expr as ir
from rushlight.ir.expr import (
    Binary,
    Broadcast,
    Call,
    Const,
    Expr,
    Ramp,
    Reinterpret,
    Type,
    bf16,
    cast,
    i16,
    i32,
    i64,
    load,
)
from rushlight.ir.rewrite import map_statement

# Products that one chain of sums adds up in dot products of long lines: rounding grows with
# a chain's length, so that what is longer is a sum of blocks' sums.
DEPTH_BLOCK = 2048


def minimum(a, b):
    """The smaller of two values."""
    return Binary("min", *ir.unify(a, b))


def maximum(a, b):
    """The larger of two values."""
    return Binary("max", *ir.unify(a, b))


def quotient(a, b):
    """Integer division of counts."""
    return Binary("tdiv", *ir.unify(a, b))


def remainder(a, b):
    """What integer division of counts leaves."""
    return Binary("rem", *ir.unify(a, b))


def blocks_of(count, size):
    """How many blocks of ``size`` cover ``count``."""
    return quotient(count + size - 1, size)


def multiply_add(a, b, c):
    """``a * b + c``, in one rounding for floats where that is one instruction."""
    fused = a.type.is_float and current().has("fma")
    return Call("fma", a.type, a, b, c) if fused else a * b + c


def multiply_pairs(a, b, c):
    """``c`` plus both products of the bfloat16 pairs that lanes of ``a`` and ``b`` are."""
    pairs = bf16.vector(2 * c.type.lanes)
    return Call("dot_bf16", c.type, c, Reinterpret(pairs, a), Reinterpret(pairs, b))


def multiply_fours(a, b, c):
    """``c`` plus the products of four bytes in lanes of ``a``, unsigned, and of ``b``."""
    return Call("dot_int8", c.type, c, a, b)


def multiply_shorts(a, b, c):
    """``c`` plus the products of two 16-bit integers in lanes of ``a`` and of ``b``."""
    if current().triple.startswith("x86_64"):
        return Call("dot_int16", c.type, c, a, b)
    low = ((a << 16) >> 16) * ((b << 16) >> 16)
    return c + low + (a >> 16) * (b >> 16)


def multiply_sevens(c, *words):
    """``c`` plus the products of four bytes in lanes of each two vectors, the first unsigned.

    Two products of each word are summed in 16 bits, and so are those of several words.
    """
    shorts = i16.vector(2 * c.type.lanes)
    total = None
    for word in zip(words[::2], words[1::2]):
        found = Call("dot_int7", shorts, *word)
        total = found if total is None else total + found
    ones = Broadcast(c.type.lanes, Const(i32, 0x10001))
    return multiply_shorts(Reinterpret(c.type, total), ones, c)


def planned(b, record):
    """The integers of a kernel by name, as one of the records of `core.launch_args` has them."""
    return {
        key: b.let(key, ir.integer(at)) for key, at in FIELD_OFFSETS[record].items()
    }


def lane_mask(lanes, count):
    """True in the first ``count`` lanes."""
    ramp = Ramp(lanes, Const(i32, 0), Const(i32, 1))
    return ramp < Broadcast(lanes, cast(i32, count))


def moved(pointer, elements):
    """A pointer moved by a number of elements."""
    return ir.Offset(pointer, elements * pointer.type.element.itemsize)


@dataclass
class Operand:
    """A matrix in memory: address, and elements from one row and column to the next.

    A right operand's columns are adjacent once it is read by a tile.
    """

    pointer: Expr
    row: Expr
    column: Expr | None = None

    def at(self, row, column=0) -> Operand:
        """The same matrix, seen from another element."""
        step = column if self.column is None else column * self.column
        return Operand(
            moved(self.pointer, row * self.row + step), self.row, self.column
        )


def named(b, name, operand):
    """The operand with its address computed once."""
    return Operand(b.let(name, operand.pointer), operand.row, operand.column)


def either(condition, yes, no):
    """One of two operands, known when the kernel runs."""
    column = yes.column
    if column is not None:
        column = ir.Select(condition, column, no.column)
    row = ir.Select(condition, yes.row, no.row)
    return Operand(ir.Select(condition, yes.pointer, no.pointer), row, column)


def choose(b, condition, yes, no, name="right"):
    """The same, computed once; columns are adjacent where the first operand has no step."""
    found = either(condition, yes, no)
    pointer, row = b.let(name, found.pointer), b.let(f"{name}_row", found.row)
    if found.column is None:
        return Operand(pointer, row)
    return Operand(pointer, row, b.let(f"{name}_column", found.column))


def first_of(b, cases, last):
    """Writes code for each case, of which the first runs whose condition holds.

    Each is compiled for constants of its own: the heights and widths of register tiles.

    Args:
        cases: pairs of a condition and what writes the code where it holds.
        last: writes the code where none does.
    """
    if not cases:
        last()
        return
    (condition, write), *rest = cases
    with b.when(condition):
        write()
    with b.otherwise():
        first_of(b, rest, last)


def vector_loop(b, name, start, stop, lanes, step, chains=1):
    """A loop over whole vectors, and the rest under a mask.

    Args:
        start, stop: the first place, and the one behind the last.
        step: writes a turn, given its place, its mask (None where all lanes are there)
            and its number among ``chains``.
        chains: turns that a round of the loop has.
    """
    stride = lanes * chains
    count = stop if isinstance(start, int) and not start else stop - start
    whole = b.let("whole", stop - remainder(count, stride))
    with b.loop(name, start, whole, stride) as k:
        for chain in range(chains):
            step(k + chain * lanes if chain else k, None, chain)
    rest = b.loop(name, whole, stop, lanes) if chains > 1 else b.when(whole < stop)
    with rest as k:
        at = whole if k is None else k
        step(at, b.let("mask", lane_mask(lanes, stop - at)), 0)


def rolled(statements):
    """The statements with every loop left as it is written: vectors are explicit."""
    result = []
    for statement in statements:
        statement = map_statement(statement, lambda e: e, rolled)
        if isinstance(statement, ir.For) and statement.kind == "serial":
            statement = replace(statement, kind="rolled")
        result.append(statement)
    return tuple(result)
