"""Equations between types of tensors."""


class Equality:
    """Two things that are to be one.

    Args:
        lhs: the left side.
        rhs: the right one.

    >>> Equality("n", 3)
    n = 3
    """

    def __init__(self, lhs, rhs):
        self.lhs, self.rhs = lhs, rhs

    def __repr__(self):
        return f"{self.lhs} = {self.rhs}"

    def __eq__(self, other):
        if not isinstance(other, Equality):
            return False
        return self.lhs == other.lhs and self.rhs == other.rhs

    __hash__ = None  # type: ignore[assignment]
