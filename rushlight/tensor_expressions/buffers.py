"""Linear index expressions, and the buffers that they lead into."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.ir import expr as ir


@dataclass
class Linear:
    """``constant + sum(coefficient * variable)`` over loop variables."""

    constant: int = 0
    terms: dict = field(default_factory=dict)  # variable -> coefficient

    def plus(self, other, factor=1):
        terms = dict(self.terms)
        for var, count in other.terms.items():
            terms[var] = terms.get(var, 0) + factor * count
        kept = {var: count for var, count in terms.items() if count}
        return Linear(self.constant + factor * other.constant, kept)

    def range_over(self, extents):
        """The least and largest value while some variables run over their extents."""
        low = high = self.constant
        rest = {}
        for var, count in self.terms.items():
            if var in extents:
                reach = count * (extents[var] - 1)
                low, high = low + min(reach, 0), high + max(reach, 0)
            else:
                rest[var] = count
        return low, high, rest

    def expression(self):
        """The form as an expression."""
        result = None
        for var, count in self.terms.items():
            term = var if count == 1 else var * count
            result = term if result is None else result + term
        if result is None:
            return ir.Const(ir.i64, self.constant)
        return result + self.constant if self.constant else result


def linear(e) -> Linear | None:
    """An index expression as a linear form, or None."""
    if isinstance(e, ir.Const):
        return Linear(e.value)
    if isinstance(e, ir.Var):
        return Linear(0, {e: 1})
    if not isinstance(e, ir.Binary) or e.op not in ("add", "sub", "mul"):
        return None
    left, right = map(linear, e.args)
    if left is None or right is None:
        return None
    if e.op != "mul":
        return left.plus(right, 1 if e.op == "add" else -1)
    if left.terms and right.terms:
        return None
    if right.terms:
        left, right = right, left
    return Linear().plus(left, right.constant)


@dataclass
class Buffer:
    """Where a tensor lives while it is read: a pointer, sizes, and its first index."""

    pointer: ir.Var
    shape: tuple
    origin: tuple

    def index(self, indices):
        """The flat index of an element."""
        flat = ir.Const(ir.i64, 0)
        for at, size, first in zip(indices, self.shape, self.origin):
            flat = flat * size + (at - first)
        form = linear(flat)
        return flat if form is None else form.expression()


@dataclass(frozen=True)
class View:
    """A block of a buffer, as an intrinsic sees it."""

    pointer: ir.Var
    base: ir.Expr
    strides: tuple

    def index(self, indices):
        """The flat index of an element of the block."""
        result = self.base
        for at, stride in zip(indices, self.strides):
            result = result + ir.as_expr(at, ir.i64) * stride
        return result

    def load(self, *indices, lanes=1):
        """The element at an index of the block, or ``lanes`` of them from there."""
        return ir.load(self.pointer, self.index(indices), lanes)

    def store(self, value, *indices):
        """The statement that writes a value or vector at an index of the block."""
        return ir.Store(self.pointer, self.index(indices), value)
