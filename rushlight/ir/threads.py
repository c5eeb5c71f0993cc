"""What the threads of a grid do together: values that they join, lanes that tell theirs."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.ir.expr import Expr, Statement, u32

ATOMIC = ("add", "max")


class Match(Expr):
    """Which lanes of a warp have the same value: a word with a bit for each of them.

    Only the lowest ``bits`` of an unsigned word are compared. Every lane must arrive.
    """

    __slots__ = ("bits",)

    def __init__(self, bits, value):
        self.bits, self.type, self.args = bits, u32, (value,)

    @property
    def attributes(self):
        return (self.bits,)


@dataclass(frozen=True, eq=False)
class WarpBarrier(Statement):
    """Waits for all lanes of a warp: what they wrote before, they all see."""


@dataclass(frozen=True, eq=False)
class Atomic(Statement):
    """Joins ``value`` with ``pointer[index]``, whatever other threads join there meanwhile.

    ``op`` is ``add``, which is "or" of truth values, or ``max`` of whole numbers. What
    whole numbers become does not depend on the order.
    """

    op: str
    pointer: Expr
    index: Expr
    value: Expr
