"""What threads of a grid do: run the host's kernels, join values, tell lanes theirs."""

from dataclasses import dataclass

from rushlight.ir.expr import Expr, Statement, i32, u32

ATOMIC = ("add", "max", "or")


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


class Invoke(Expr):
    """What a kernel of the host's returns for a span of its axis: the faults it found.

    Its arguments are those of every such kernel, `expr.KERNEL_PARAMETERS`.
    """

    __slots__ = ("function",)

    def __init__(self, function, *args):
        self.function, self.type, self.args = function, i32, args

    @property
    def attributes(self):
        return (self.function,)


@dataclass(frozen=True, eq=False)
class WarpBarrier(Statement):
    """Waits for all lanes of a warp: what they wrote before, they all see."""


@dataclass(frozen=True, eq=False)
class Atomic(Statement):
    """Joins ``value`` with ``pointer[index]``, whatever other threads join there meanwhile.

    ``op`` is ``add``, which is "or" of truth values, or ``max`` or ``or`` of whole numbers,
    the latter whatever other devices and the host join there, too. What whole numbers become
    does not depend on the order.
    """

    op: str
    pointer: Expr
    index: Expr
    value: Expr
