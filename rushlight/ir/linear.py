"""Linear index expressions: forms over loop variables, and over parts of them."""

from dataclasses import dataclass, field

from rushlight.ir import expr as ir


@dataclass
class Linear:
    """``constant + sum(coefficient * variable)`` over loop variables, or parts of them."""

    constant: int = 0
    terms: dict = field(default_factory=dict)  # variable, or part -> coefficient

    def plus(self, other, factor=1):
        terms = dict(self.terms)
        for var, count in other.terms.items():
            terms[var] = terms.get(var, 0) + factor * count
        kept = {var: count for var, count in terms.items() if count}
        return Linear(self.constant + factor * other.constant, kept)

    def range_over(self, extents):
        """The least and largest value while some variables run over their extents.

        What they are apart from those variables comes third. None where a part of a
        variable has no bounds that are known.
        """
        low = high = self.constant
        rest = {}
        for var, count in self.terms.items():
            known = bounds_of(var, extents)
            if known is None:
                return None
            if known == FIXED:
                rest[var] = count
                continue
            ends = [count * end for end in known]
            low, high = low + min(ends), high + max(ends)
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


FIXED = "fixed"


def bounds_of(var, extents):
    """The least and largest value of a variable, or of a part of some.

    A part is ``e // n`` or ``e % n``. `FIXED` if none of its variables runs; None where
    that is not known.

    Args:
        extents: of variables that run, how many turns they have, or their first and last.
    """
    if isinstance(var, ir.Var):
        size = extents.get(var, FIXED)
        if size is FIXED or isinstance(size, tuple):
            return size
        return (0, size - 1) if isinstance(size, int) else None
    if not any(inner in extents for inner in variables(var)):
        return FIXED
    form, size = linear(var.args[0], parts=True), var.args[1].value
    found = form and form.range_over(extents)
    known = found is not None and not found[2]
    if var.op == "mod":
        within = known and 0 <= found[0] and found[1] < size
        return found[:2] if within else (0, size - 1)
    return (found[0] // size, found[1] // size) if known else None


def variables(e):
    """The variables of an expression."""
    if isinstance(e, ir.Var):
        return {e}
    return set().union(*map(variables, e.args))


def linear(e, parts=False) -> Linear | None:
    """An index expression as a linear form, or None.

    Args:
        parts: whether quotients and rests by constants are taken as if they were variables.
    """
    if isinstance(e, ir.Const):
        return Linear(e.value)
    if isinstance(e, ir.Var):
        return Linear(0, {e: 1})
    if not isinstance(e, ir.Binary):
        return None
    if parts and e.op in ("floordiv", "mod"):
        known = isinstance(e.args[1], ir.Const) and e.args[1].value > 0
        whole = known and linear(e.args[0], parts) is not None
        return Linear(0, {e: 1}) if whole else None
    if e.op not in ("add", "sub", "mul"):
        return None
    left, right = (linear(arg, parts) for arg in e.args)
    if left is None or right is None:
        return None
    if e.op != "mul":
        return left.plus(right, 1 if e.op == "add" else -1)
    if left.terms and right.terms:
        return None
    if right.terms:
        left, right = right, left
    return Linear().plus(left, right.constant)
