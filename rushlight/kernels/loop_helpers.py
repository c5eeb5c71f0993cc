"""Words that the loops of products, convolutions and transforms are written in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.codegen.passes.name_shared import name_shared
from rushlight.codegen.target import current
from rushlight.core.launch_args import BEHIND, PLACES
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
    return {key: b.let(key, ir.integer(at)) for key, at in PLACES[record].items()}


class Behind:
    """An array of what is behind sums, and its steps, as a kernel is passed them.

    Args:
        number: of the operand, among those behind.
        kind: its dtype.
        record: which comes before the steps of those behind.

    Attributes:
        row, batch: elements from row to row, or result to result, and batch to batch.
    """

    def __init__(self, b, number, kind, record):
        self.base = b.let("beside", ir.argument(BEHIND[record] + number, Type(kind)))
        steps = PLACES["behind"]
        first = len(PLACES[record]) + len(steps) * number
        self.row, self.batch = (
            b.let(f"beside_{step}", ir.integer(first + steps[step]))
            for step in ("row", "batch")
        )


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


def choose(b, condition, yes, no):
    """One of two right operands, known when the kernel runs."""
    return Operand(
        b.let("right", ir.Select(condition, yes.pointer, no.pointer)),
        b.let("right_row", ir.Select(condition, yes.row, no.row)),
    )


def apply(b, after, line, row, count, others):
    """Writes ``count`` results to ``row`` from the sums at ``line``.

    Args:
        others: operands at the first result; a ``column`` of 0 stands for one value.
    """
    there = [b.let("other", other.pointer) for other in others]
    alone = [
        None if along else b.let("alone", load(pointer, 0))
        for pointer, (_, along) in zip(there, after.others, strict=True)
    ]
    with b.loop("c", 0, count, kind="vectorized") as c:
        values = [
            load(pointer, c) if value is None else value
            for pointer, value in zip(there, alone, strict=True)
        ]
        put(b, row, c, after.apply(load(line, c), values))


def put(b, pointer, index, value):
    """Stores what is behind a sum; what it asks for several times is computed once."""
    lets, (value,) = name_shared([value], f"{b.fresh('behind')}_")
    for let in lets:
        b.add(let)
    b.store(pointer, index, value)


def rolled(statements):
    """The statements with every loop left as it is written: vectors are explicit."""
    result = []
    for statement in statements:
        statement = map_statement(statement, lambda e: e, rolled)
        if isinstance(statement, ir.For) and statement.kind == "serial":
            statement = replace(statement, kind="rolled")
        result.append(statement)
    return tuple(result)


class Beside(Behind):
    """An operand of what is traced behind a product."""

    def __init__(self, b, number, kind, along):
        super().__init__(b, number, kind, "product")
        self.along = along

    def at(self, batch, i, j) -> Operand:
        """The operand of one batch, from a row and a column on."""
        start = batch * self.batch + i * self.row
        there = moved(self.base, start + j if self.along else start)
        return Operand(there, self.row, None if self.along else Const(i64, 0))
