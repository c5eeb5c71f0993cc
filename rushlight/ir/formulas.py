"""Values, symbols and steps of symbolic integers; conditions and formulas of floats."""

import operator

from rushlight.ir.forms import plus, scaled
from rushlight.ir.size_text import order_of
from rushlight.ir.sizes import (
    COMPUTED,
    Atom,
    Operation,
    Size,
    Sum,
    Symbol,
    Unbacked,
    expression,
    subtract,
    terms_of,
)

_DONE = {
    **{
        name: getattr(operator, name) for name in COMPUTED if name not in ("min", "max")
    },
    "min": min,
    "max": max,
}


def computed(expr, leaf):
    """An expression's value; None where it has none.

    Args:
        leaf: the value of a symbol, or of a `Size`; None for one that is not known.
    """
    if isinstance(expr, (int, float)):
        return expr
    if isinstance(expr, (Operation, Formula)):
        left, right = computed(expr.left, leaf), computed(expr.right, leaf)
        if left is None or right is None:
            return None
        if expr.name in ("floordiv", "mod", "truediv") and not right:
            return None
        function = _DONE.get(expr.name) or getattr(operator, expr.name)
        return function(left, right)
    if isinstance(expr, Atom):
        return leaf(expr)
    total = 0
    for key, count in expr.terms.items():
        for atom in key or ():
            value = computed(atom, leaf)
            if value is None:
                return None
            count *= value
        total += count
    return total


def at_point(expr, point):
    """An expression's value at a sample point; None where it has none."""
    return computed(expr, lambda atom: atom.at(point))


def evaluated(expr, values):
    """An expression's value; None where it has sizes of which nothing is known.

    Args:
        expr: the expression.
        values: the symbols' values by name.
    """
    return computed(
        expr, lambda atom: values.get(atom.name) if isinstance(atom, Symbol) else None
    )


def atoms_of(expr):
    """The symbols, and sizes of results, in an expression or a condition, once each."""
    if isinstance(expr, (Operation, Formula)):
        found = [*atoms_of(expr.left), *atoms_of(expr.right)]
    elif isinstance(expr, Atom):
        found = [expr]
    elif isinstance(expr, Sum):
        found = [
            one for key in expr.terms for atom in key or () for one in atoms_of(atom)
        ]
    else:
        found = []
    return list(dict.fromkeys(found))


def symbols_of(expr):
    """The symbols in an expression or a condition, once each."""
    return [one for one in atoms_of(expr) if isinstance(one, Symbol)]


def reads_size(expr):
    """Whether an expression has sizes that are read from results."""
    return any(isinstance(one, Size) for one in atoms_of(expr))


def number_in(expr):
    """Whether a number that follows from elements is in an expression."""
    return any(
        isinstance(one, Unbacked) or isinstance(one, Size) and one.follows
        for one in atoms_of(expr)
    )


def integer_in(expr):
    """Whether an argument that is an integer is in an expression."""
    return any(one.least is None for one in symbols_of(expr))


def has_floats(expr):
    """Whether an expression is of floats."""
    if isinstance(expr, Formula):
        divided = expr.name == "truediv"
        return divided or has_floats(expr.left) or has_floats(expr.right)
    return isinstance(expr, float) or getattr(expr, "kind", None) == "float"


def line_of(expr):
    """The symbol, factor and rest of an expression like ``2*n + 1``; None for others."""
    terms = terms_of(expr)
    keys = [key for key in terms if key is not None]
    if len(keys) != 1 or len(keys[0]) != 1 or not isinstance(keys[0][0], Symbol):
        return None
    return keys[0][0], terms[keys[0]], terms.get(None, 0)


def step_of(expr):
    """The last step of computing an expression that is no symbol, as a `Formula`."""
    if isinstance(expr, Operation):
        return Formula(expr.name, expr.left, expr.right)
    terms = dict(sorted(expr.terms.items(), key=order_of))
    key, count = terms.popitem()
    if terms:
        name = "sub" if count < 0 else "add"
        return Formula(name, expression(terms), expression({key: abs(count)}))
    if count != 1:
        return Formula("mul", expression({key: 1}), count)
    return Formula("mul", expression({key[:-1]: 1}), key[-1])


# -- conditions, and what is computed of floats --------------------------------------------

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "pow": "**",
    "truediv": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and_": "&", "or_": "|",
}  # fmt: skip
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
COMPARISONS = frozenset(_OPPOSITE)


class Formula:
    """An operator on two expressions, conditions or floats: what is no integer.

    Also how a program has computed an integer, step by step.
    """

    __slots__ = ("left", "name", "right")

    def __init__(self, name, left, right):
        self.name, self.left, self.right = name, left, right

    def __str__(self):
        if self.name in ("eq", "ne"):
            return f"{self.name.capitalize()}({self.left}, {self.right})"
        if self.name in ("and_", "or_"):
            return f"({self.left}) {SIGNS[self.name]} ({self.right})"
        sides = [
            f"({one})" if isinstance(one, (Formula, Sum)) and not self.is_condition
            else str(one) for one in (self.left, self.right)
        ]  # fmt: skip
        sign = SIGNS[self.name]
        return f" {sign} ".join(sides) if sign != "*" else "*".join(sides)

    @property
    def is_condition(self):
        """Whether it holds or not."""
        return self.name in COMPARISONS or self.name in ("and_", "or_")


def opposite(formula):
    """The condition that holds where another one does not."""
    if formula.name in ("and_", "or_"):
        name = "or_" if formula.name == "and_" else "and_"
        return Formula(name, opposite(formula.left), opposite(formula.right))
    return Formula(_OPPOSITE[formula.name], formula.left, formula.right)


def facts_of(formula):
    """Forms that are zero at least where a condition of integers holds."""
    if formula.name == "and_":
        return [*facts_of(formula.left), *facts_of(formula.right)]
    if formula.name not in COMPARISONS or formula.name == "ne" or has_floats(formula):
        return []
    gap = terms_of(subtract(formula.left, formula.right))
    if formula.name == "eq":
        return [gap, scaled(gap, -1)]
    if formula.name in ("lt", "le"):
        gap = scaled(gap, -1)
    return [plus(gap, {None: -1}) if formula.name in ("lt", "gt") else gap]
