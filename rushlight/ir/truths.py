"""Truths about sizes that stand for any: what Python asks of one is noted when it asks."""

from rushlight.ir import sizes
from rushlight.ir.formulas import Formula, number_in, opposite

__all__ = ["JOINED", "SymBool"]

JOINED = ("and_", "or_")


def _follows(formula):
    """Whether what a truth says of one number at least follows from elements, or is a float."""
    sides = formula.left, formula.right
    if formula.name in JOINED:
        return any(map(_follows, sides))
    return number_in(formula) or any(isinstance(one, (float, Formula)) for one in sides)


class SymBool:
    """A truth that a recording does not know: what it is asked is noted, or refused.

    One of open sizes may be branched on, by what it is in the recording; one of numbers that
    follow from elements may be checked alone.

    Args:
        env: the record of the program that it belongs to.
        expr: the condition.
    """

    __slots__ = ("env", "expr")

    def __init__(self, env, expr):
        self.env, self.expr = env, expr

    @property
    def node(self):
        """Itself: PyTorch keeps expressions in an object of their own."""
        return self

    @property
    def follows(self):
        """Whether it follows from elements, or is about floats: none is noted as a guard."""
        return _follows(self.expr)

    @property
    def known(self):
        """Whether it holds, whatever the sizes are; None where that hangs on them."""
        if self.follows:
            return self.env.elements.known(self.expr)
        if self.expr.name in JOINED:
            return None
        sides = self.expr.left, self.expr.right
        return sizes.compared(self.expr.name, *sides, self.env.facts)

    def __bool__(self):
        if self.follows:
            return self.env.elements.answered(self.expr)
        return self.env.answered(self.expr)

    def __index__(self):
        return int(bool(self))

    _as_argument, __int__ = __bool__, __index__

    def __eq__(self, other):
        if not isinstance(other, (bool, SymBool)):
            return NotImplemented
        return bool(self) == bool(other)

    def __hash__(self):
        return hash(str(self.expr))

    def _with(self, name, other):
        if not isinstance(other, (bool, SymBool)):
            return NotImplemented
        if isinstance(other, SymBool):
            if self.follows == other.follows:
                return SymBool(self.env, Formula(name, self.expr, other.expr))
            self, other = (self, bool(other)) if self.follows else (other, bool(self))
        return (self if other else False) if name == "and_" else (other or self)

    def __and__(self, other):
        return self._with("and_", other)

    def __or__(self, other):
        return self._with("or_", other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self):
        return SymBool(self.env, opposite(self.expr))

    def __repr__(self):
        return str(self.expr)
