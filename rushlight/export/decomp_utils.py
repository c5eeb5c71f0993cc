"""Tables of what is recorded in place of operators."""

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict):
    """What ``run_decompositions`` records in place of operators, by operator.

    The default takes all compositions apart; operators that are taken out of the table
    stay whole.
    """

    def __init__(self, entries=None, whole=()):
        super().__init__(entries or {})
        self.whole = set(whole)

    def pop(self, op, *default):
        """Takes an operator out: it stays whole.

        Args:
            op: the operator.
        """
        self.whole.add(op)
        return super().pop(op, *default) if op in self or default else None

    def __delitem__(self, op):
        self.pop(op)

    def copy(self):
        """A table that can be changed by itself."""
        return CustomDecompTable(self, self.whole)

    def materialize(self):
        """A table by itself: that all other compositions are taken apart stays said."""
        return self.copy()
