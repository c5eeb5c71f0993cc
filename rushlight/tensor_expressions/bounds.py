"""Where indices of tensor expressions lie: inequalities, and proofs from them.

An index is a linear form over atoms: axes, symbolic sizes, quotients. What is known of
the atoms (an axis runs over its range, ``q = e // 4`` means ``4 * q <= e < 4 * q + 4``)
and the conditions under which an element is read are forms that are not negative. A form
is proved not negative by taking such facts off it until nothing but a constant is left.
"""

from rushlight.ir import expr as ir
from rushlight.ir.forms import Prover, divided, is_constant, plus, scaled


class Forms(Prover):
    """Linear forms of index expressions, and what is known of their atoms."""

    def __init__(self):
        self.facts = {}  # of atoms: key -> forms that are not negative
        self.cases = {}  # of atoms that are one of some forms: key -> those

    def form(self, e):
        """An index as a linear form."""
        if isinstance(e, ir.Const):
            return scaled({None: 1}, int(e.value))
        if isinstance(e, ir.Cast) and e.type.is_int and e.args[0].type.is_int:
            return self.form(e.args[0])
        if isinstance(e, ir.Unary) and e.op == "neg":
            return scaled(self.form(e.args[0]), -1)
        if isinstance(e, ir.Select):
            return self.choice(e, 0)
        if isinstance(e, ir.Binary):
            return self.binary(e)
        return {self.atom(e): 1}

    def binary(self, e):
        if e.op in ("min", "max"):
            return self.choice(e, 1 if e.op == "min" else -1)
        left, right = map(self.form, e.args)
        if e.op in ("add", "sub"):
            return plus(left, right, 1 if e.op == "add" else -1)
        if e.op == "mul" and is_constant(right):
            return scaled(left, right.get(None, 0))
        if e.op == "mul" and is_constant(left):
            return scaled(right, left.get(None, 0))
        divides = e.op in ("floordiv", "mod") and is_constant(right)
        if divides and right.get(None, 0) > 0:
            return self.quotient(e, left, right[None])
        return {self.atom(e): 1}

    def choice(self, e, side):
        """One of two forms: at most either (1), at least either (-1), or any of them."""
        key, forms = structure(e), [self.form(arg) for arg in e.args[-2:]]
        self.cases[key] = forms
        known = [plus(form, {key: 1}, -1) for form in forms]
        self.facts[key] = [scaled(form, side) for form in known] if side else []
        return {key: 1}

    def quotient(self, e, form, divisor):
        """``form // divisor``, or what is left of it, over an atom that is the quotient."""
        whole, rest = divided(form, divisor)
        if is_constant(rest):
            return whole if e.op == "floordiv" else rest
        key = "quotient", divisor, frozenset(rest.items())
        known = plus(rest, {key: divisor}, -1)
        self.facts[key] = [known, plus({None: divisor - 1}, known, -1)]
        return plus(whole, {key: 1}) if e.op == "floordiv" else known

    def atom(self, e):
        """The key of what is not linear; what is known of it is noted."""
        if isinstance(e, ir.Var):
            key = id(e)
            extent = getattr(e, "extent", None)
            if key not in self.facts:
                self.facts[key] = [{key: 1}]
                if extent is not None:
                    end = self.form(ir.as_expr(extent, ir.i64))
                    self.facts[key].append(plus(plus(end, {None: 1}, -1), {key: 1}, -1))
            return key
        key = structure(e)
        self.facts.setdefault(key, [])
        return key

    def holds(self, condition, truth=True):
        """The forms that are not negative where a condition holds, or does not."""
        if isinstance(condition, ir.Unary) and condition.type.is_bool:
            return self.holds(condition.args[0], not truth)
        if not isinstance(condition, ir.Binary):
            return []
        if condition.op == ("and" if truth else "or") and condition.type.is_bool:
            left, right = condition.args
            return self.holds(left, truth) + self.holds(right, truth)
        op = condition.op if truth else OPPOSITES.get(condition.op)
        if op not in OPPOSITES or not condition.args[0].type.is_int:
            return []
        left, right = map(self.form, condition.args)
        difference = plus(left, right, -1)
        found = {
            "lt": [plus({None: -1}, difference, -1)],
            "le": [scaled(difference, -1)],
            "gt": [plus(difference, {None: -1})],
            "ge": [difference],
            "eq": [difference, scaled(difference, -1)],
        }
        return found.get(op, [])

    def facts_of(self, key):
        return self.facts.get(key, ())

    def cases_of(self, key):
        return self.cases.get(key, ())

    def within(self, index, size, facts=()):
        """Whether an index is known to be one of a dimension's."""
        form = self.form(index)
        end = plus(self.form(ir.as_expr(size, ir.i64)), {None: 1}, -1)
        return self.proved(form, facts) and self.proved(plus(end, form, -1), facts)


OPPOSITES = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def structure(e):
    """What is equal of two expressions that compute the same from the same axes."""
    if isinstance(e, ir.Var):
        return id(e)
    facts = tuple(a if isinstance(a, (int, float, str)) else id(a) for a in _facts(e))
    return type(e).__name__, facts, tuple(map(structure, e.args))


def _facts(e):
    return [repr(a) if isinstance(a, ir.Type) else a for a in e.attributes]


def extremes(e):
    """The least and largest value of an index over its axes' ranges; None if unknown."""
    if isinstance(e, ir.Const):
        return int(e.value), int(e.value)
    if isinstance(e, ir.Var):
        extent = getattr(e, "extent", None)
        return (0, extent - 1) if isinstance(extent, int) else None
    if not isinstance(e, ir.Binary) or e.op not in ("add", "sub", "mul"):
        return None
    left, right = map(extremes, e.args)
    if left is None or right is None:
        return None
    combine = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
    }[e.op]
    found = [combine(a, b) for a in left for b in right]
    return min(found), max(found)
