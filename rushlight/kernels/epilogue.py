"""Epilogues: what sums of products go through before they are stored.

An epilogue is one traced expression of a sum and of further operands. It is written as one
loop over a row of sums that are still in a cache, which the compiler makes vectors of as of
any other; products, convolutions and windows of bytes share it, whatever made the sums.

Follows CUTLASS's epilogues (NVIDIA, `cutlass/epilogue`) and oneDNN's post-operations.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rushlight.codegen.frontend.storage import computed
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.core.launch_args import EPILOGUE, FIELD_OFFSETS
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Type, cast, i64, load
from rushlight.kernels.loop_helpers import Operand, moved


@dataclass(frozen=True)
class Epilogue:
    """What results go through before they are stored, traced from Python.

    Attributes:
        function: from symbols of the sums and of each other operand to a result; None
            where sums are results but for their type.
        others: pairs of the dtype that an operand holds, and whether it has a value for
            each column, adjacent, or one for each row (residuals and biases, scales).
        stored: the dtype of the results.
    """

    function: Callable | None
    others: tuple
    stored: str

    def apply(self, sums, values):
        """The result as it is stored."""
        read = [
            cast(computed(kind), value)
            for (kind, _), value in zip(self.others, values, strict=True)
        ]
        value = sums if self.function is None else self.function(sums, *read)
        return cast(Type(self.stored), value)

    def write_row(self, b, line, row, count, others):
        """Writes ``count`` results to ``row`` from the sums at ``line``.

        Args:
            others: an `Operand` at the first result for each of the epilogue's.
        """
        pointers = [b.let("other", other.pointer) for other in others]
        alone = [
            None if along else b.let("alone", load(pointer, 0))
            for pointer, (_, along) in zip(pointers, self.others, strict=True)
        ]
        with b.loop("c", 0, count, kind="vectorized") as c:
            values = [
                load(pointer, c) if value is None else value
                for pointer, value in zip(pointers, alone, strict=True)
            ]
            store_result(b, row, c, self.apply(load(line, c), values))

    def write_rows(self, b, rows, count, sums, out, others):
        """The same of some rows.

        Args:
            sums, out, others: the `Operand` at the first result of each.
        """
        with b.loop("r", 0, rows) as r:
            line = b.let("line", moved(sums.pointer, r * sums.row))
            row = b.let("row", moved(out.pointer, r * out.row))
            self.write_row(b, line, row, count, [other.at(r, 0) for other in others])


def store_result(b, pointer, index, value):
    """Stores a result; what it asks for several times is computed once."""
    lets, (value,) = name_shared([value], f"{b.fresh('epilogue')}_")
    for let in lets:
        b.add(let)
    b.store(pointer, index, value)


def operands_of(b, epilogue, record):
    """The further operands of a product's epilogue, as its kernel is passed them."""
    others = () if epilogue is None else epilogue.others
    return [EpilogueOperand(b, k, *kind, record) for k, kind in enumerate(others)]


class EpilogueOperand:
    """An operand of a product's epilogue, and its steps.

    Args:
        number: of the operand, among those of the epilogue.
        kind: its dtype.
        along: whether it has a value for each column.
        record: of `core.launch_args`, which comes before these steps.

    Attributes:
        row, batch: elements from row to row, or result to result, and batch to batch.
    """

    def __init__(self, b, number, kind, along, record):
        self.along = along
        self.base = b.let("beside", ir.argument(EPILOGUE[record] + number, Type(kind)))
        steps = FIELD_OFFSETS["epilogue"]
        first = len(FIELD_OFFSETS[record]) + len(steps) * number
        self.row, self.batch = (
            b.let(f"beside_{step}", ir.integer(first + steps[step]))
            for step in ("row", "batch")
        )

    def at(self, batch, i, j=None) -> Operand:
        """The operand of one batch, from a row, and a column of it, on."""
        start = batch * self.batch + i * self.row
        start = start + j if self.along and j is not None else start
        column = None if self.along else Const(i64, 0)
        return Operand(moved(self.base, start), self.row, column)


@dataclass(frozen=True)
class OutputEpilogue:
    """The epilogue of a convolution: operands lie as the output, or have a value a channel.

    Attributes:
        epilogue: what is computed, or None.
        pointers: where its operands begin.
    """

    epilogue: Epilogue | None
    pointers: tuple = ()

    @classmethod
    def of(cls, b, epilogue, first):
        """Reads the operands of an epilogue, arguments from number ``first`` on."""
        others = () if epilogue is None else epilogue.others
        kinds = (Type(kind) for kind, _ in others)
        pointers = (
            b.let("beside", ir.argument(first + k, kind))
            for k, kind in enumerate(kinds)
        )
        return cls(epilogue, tuple(pointers))

    def moved(self, place, channel):
        """Where operands are for a place of the output, of some channel."""
        kinds = self.epilogue.others if self.epilogue else ()
        return [
            moved(pointer, place if along else channel)
            for pointer, (_, along) in zip(self.pointers, kinds, strict=True)
        ]

    def at(self, b, place, channel):
        """The same epilogue from a place of the output and a channel on."""
        pointers = (b.let("beside", p) for p in self.moved(place, channel))
        return replace(self, pointers=tuple(pointers))

    def write_row(self, b, line, row, count, place, channel):
        """Writes results to ``row``, ``place`` behind this one, from the sums at ``line``."""
        others = [Operand(p, None) for p in self.moved(place, channel)]
        self.epilogue.write_row(b, line, row, count, others)
