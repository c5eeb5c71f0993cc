"""Symbolic integers: expressions in a normal form, so that equal ones are one.

An expression is an ``int``, an atom, or a `Sum`: a polynomial with whole coefficients over
atoms. Atoms are symbols, sizes of results of which no more is known, and quotients,
remainders, powers, minima and maxima of expressions. What expressions are known to be is
proved on linear forms over products of atoms (`rushlight.ir.forms`), as for indices of
kernels. They print as PyTorch's do.

>>> n = Symbol("s0", 4)
>>> add(multiply(n, 2), 1), floordiv(add(multiply(n, 4), 2), 4), modulo(multiply(n, 6), 3)
(2*s0 + 1, s0, 0)
"""

import functools
import itertools
import math

from rushlight.ir.forms import Prover, divided, is_constant, plus, scaled
from rushlight.ir.size_text import printed

UNBOUNDED = float("inf")
RESTS = 64  # that a size has at sample points, at most
_LARGEST = 16  # of an exponent that is multiplied out
_TERMS = 1000  # that are multiplied with others, at most
_DEPTH = 3  # facts that a proof takes off


class Atom:
    """What sums are made of."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


class Symbol(Atom):
    """A name for a size of an argument, or for an argument that is an integer.

    Args:
        name: the name.
        actual: what it is in the recording.
        least: it is no less; None where it may be any integer.
        factors: what it is a multiple of where it is evaluated beside the recording.
        rests: what is added to that at further points.

    Attributes:
        source: the argument's fake tensor and the dimension; None for an integer.
    """

    __slots__ = ("actual", "base", "factors", "least", "name", "rests", "source")

    def __init__(self, name, actual, least=2):
        self.name, self.actual, self.least = name, actual, least
        self.factors, self.rests, self.source = (503, 509, 521), range(RESTS), None
        self.base = actual if least is not None else max(actual, 12)

    def __str__(self):
        return self.name

    def at(self, point):
        """Its value at a sample point.

        The first is the operators' own and the second the recording. Two more are
        multiples, which divide as the recording's does, the latter of those of another
        order; then the rests go on by one. Points below zero are the least sizes.
        """
        if point < 0:
            return 1 - point
        if point == 1:
            return self.actual
        native, other, reverse = self.factors
        if point in (0, 3):
            return self.base * (reverse if point else native)
        rest = max(point - 3, 0)
        return self.base * other + (self.rests[rest % len(self.rests)] if rest else 0)

    def bounds(self):
        """The least and the largest that it may be."""
        return -UNBOUNDED if self.least is None else self.least, UNBOUNDED


class Unbacked(Symbol):
    """A name for a number that follows from elements.

    Attributes:
        index: which of them it is.
        kind: ``"size"``, ``"int"``, ``"float"`` or ``"bool"``.
        low: it is no less; no more than ``high``.
    """

    __slots__ = ("high", "index", "kind", "low")

    def __init__(self, name, index, kind, low, high):
        super().__init__(name, 12)
        self.index, self.kind, self.low, self.high = index, kind, low, high

    def bounds(self):
        return self.low, self.high


class Size(Atom):
    """A number of a result of which no more is known than how to compute it.

    Args:
        name: its name.
        tensor, dim: it is this size of the tensor, once there is one.
        at: what it is at a sample point; None where the result is not there.
        follows: whether it may follow from elements.
    """

    __slots__ = ("at", "dim", "follows", "name", "tensor")

    def __init__(self, name, at, follows=False):
        self.name, self.at, self.follows = name, at, follows
        self.tensor = self.dim = None

    def __str__(self):
        return self.name

    @staticmethod
    def bounds():
        """The least and the largest that it may be."""
        return 0, UNBOUNDED


class Operation(Atom):
    """A function of two expressions that is no polynomial.

    Args:
        name: ``"floordiv"``, ``"mod"``, ``"pow"``, ``"min"`` or ``"max"``.
        left, right: the expressions.
    """

    __slots__ = ("_hash", "left", "name", "right")

    def __init__(self, name, left, right):
        self.name, self.left, self.right = name, left, right
        self._hash = hash((name, left, right))

    def __eq__(self, other):
        return (
            isinstance(other, Operation)
            and self.name == other.name
            and self.left == other.left
            and self.right == other.right
        )

    def __hash__(self):
        return self._hash

    def __str__(self):
        return printed(self)

    def bounds(self):
        """The least and the largest that it may be."""
        left, right = bounds(self.left), bounds(self.right)
        if self.name in ("min", "max"):
            pick = min if self.name == "min" else max
            return pick(left[0], right[0]), pick(left[1], right[1])
        if self.name == "mod" and right[0] > 0:
            return 0, min(right[1] - 1, left[1] if left[0] >= 0 else UNBOUNDED)
        if self.name == "floordiv" and right[0] > 0:
            corners = [_quotient(a, b) for a in left for b in right]
            return min(corners), max(corners)
        if self.name == "pow" and left[0] >= 1 and right[0] >= 0:
            return 1, UNBOUNDED
        return -UNBOUNDED, UNBOUNDED


def _quotient(left, right):
    """A bound divided by one above zero."""
    if abs(left) == UNBOUNDED:
        return left
    if right == UNBOUNDED:
        return -1 if left < 0 else 0
    return left // right


class Sum:
    """A polynomial: its coefficients, by tuples of atoms; the constant's under None."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms):
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __eq__(self, other):
        return isinstance(other, Sum) and self.terms == other.terms

    def __hash__(self):
        return self._hash

    def __str__(self):
        return printed(self)

    __repr__ = __str__


EXPRESSIONS = Atom, Sum


# -- arithmetic --------------------------------------------------------------------------


def terms_of(expr):
    """An expression as a form over products of atoms."""
    if isinstance(expr, Sum):
        return expr.terms
    if isinstance(expr, Atom):
        return {(expr,): 1}
    return {None: expr} if expr else {}


def expression(terms):
    """The expression of a form."""
    if is_constant(terms):
        return terms.get(None, 0)
    if len(terms) == 1:
        ((key, count),) = terms.items()
        if count == 1 and len(key) == 1:
            return key[0]
    return Sum(terms)


def add(left, right):
    """The sum of two expressions."""
    return expression(plus(terms_of(left), terms_of(right)))


def subtract(left, right):
    """The difference of two expressions."""
    return expression(plus(terms_of(left), terms_of(right), -1))


def multiply(left, right):
    """The product of two expressions, multiplied out.

    Raises:
        ValueError: it has too many terms.
    """
    if len(terms_of(left)) * len(terms_of(right)) > _TERMS:
        raise ValueError("a product of sizes has too many terms")
    found: dict = {}
    for (one, a), (other, b) in itertools.product(
        terms_of(left).items(), terms_of(right).items()
    ):
        key = tuple(sorted((one or ()) + (other or ()), key=str)) or None
        found = plus(found, {key: a * b})
    return expression(found)


def power(left, right):
    """One expression to the power of another."""
    if isinstance(right, int):
        if isinstance(left, int):
            return left**right
        if 0 <= right <= _LARGEST:
            return functools.reduce(multiply, [left] * right, 1)
    return Operation("pow", left, right)


def floordiv(left, right):
    """The quotient of two expressions, rounded down.

    Raises:
        ZeroDivisionError: the divisor is 0.
    """
    if isinstance(right, int):
        if right < 0:
            left, right = multiply(left, -1), -right
        if not right:
            raise ZeroDivisionError("integer division or modulo by zero")
        whole, rest = divided(terms_of(left), right)
        return add(expression(whole), _quotient_of_rest(rest, right))
    whole, rest = _taken_out(terms_of(left), right)
    if not rest:
        return expression(whole)
    if whole and not is_positive(right):
        whole, rest = {}, terms_of(left)
    return add(expression(whole), Operation("floordiv", expression(rest), right))


def _quotient_of_rest(rest, divisor):
    """``rest // divisor`` where no coefficient is more than the divisor."""
    if is_constant(rest):
        return rest.get(None, 0) // divisor
    common = math.gcd(
        divisor, *(count for key, count in rest.items() if key is not None)
    )
    # (g*x + c) // (g*d) is (x + c // g) // d
    rest = {key: count // common for key, count in rest.items()}
    divisor //= common
    rest = plus({}, rest)
    if divisor == 1:
        return expression(rest)
    keys = [key for key in rest if key is not None]
    if len(keys) == 1 and rest[keys[0]] == 1 and len(keys[0]) == 1:
        inner = keys[0][0]
        if _divides(inner):  # (x // a + c) // b is (x + a*c) // (a*b)
            shifted = add(inner.left, inner.right * rest.get(None, 0))
            return floordiv(shifted, inner.right * divisor)
    made = expression(rest)
    low, high = bounds(made)
    if 0 <= low and high < divisor:
        return 0
    return Operation("floordiv", made, divisor)


def _divides(atom, name="floordiv"):
    """Whether an atom is a quotient, or a remainder, of an integer above zero."""
    if not isinstance(atom, Operation) or atom.name != name:
        return False
    return isinstance(atom.right, int) and atom.right > 0


def _taken_out(terms, divisor):
    """The terms that are multiples of a divisor, divided by it, and the others."""
    whole: dict = {}
    if len(terms_of(divisor)) > 1:  # a sum divides its own multiples
        for key in terms:
            first, count = next(iter(terms_of(divisor).items()))
            if key == first and terms[key] % count == 0:
                times = terms[key] // count
                if not plus(terms, terms_of(divisor), -times):
                    return {None: times}, {}
        return {}, terms
    ((key, count),) = terms_of(divisor).items()
    rest: dict = {}
    for one, times in terms.items():
        left = _without(one or (), key)
        if left is None or times % count:
            rest[one] = times
        else:
            whole[left or None] = times // count
    return whole, rest


def _without(atoms, others):
    """A product's atoms without some of them; None where these are not in it."""
    left = list(atoms)
    for one in others:
        if one not in left:
            return None
        left.remove(one)
    return tuple(left)


def modulo(left, right):
    """The remainder of two expressions, as Python has it.

    Raises:
        ZeroDivisionError: the divisor is 0.
    """
    if isinstance(right, int) and right <= 0:
        if not right:
            raise ZeroDivisionError("integer division or modulo by zero")
        return multiply(modulo(multiply(left, -1), -right), -1)
    if not isinstance(right, int):
        _, rest = _taken_out(terms_of(left), right)
        return _remainder(expression(rest), right)
    _, rest = divided(terms_of(left), right)
    for key, count in rest.items():
        # a rest by a multiple of the divisor leaves what the number itself leaves
        inner = key[0] if key is not None and len(key) == 1 else None
        if _divides(inner, "mod") and inner.right % right == 0:
            given = multiply(subtract(inner.left, inner), count)
            return modulo(add(expression(rest), given), right)
    return _remainder(expression(rest), right)


def _remainder(left, right):
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if isinstance(left, int) and not left:
        return 0
    if is_natural(left) and is_positive(subtract(right, left)):
        return left
    return Operation("mod", left, right)


def minimum(left, right):
    """The smaller of two expressions."""
    return _extreme("min", left, right)


def maximum(left, right):
    """The larger of two expressions."""
    return _extreme("max", left, right)


def _extreme(name, left, right):
    gap = subtract(right, left)
    if is_natural(gap):
        return left if name == "min" else right
    if is_natural(multiply(gap, -1)):
        return right if name == "min" else left
    return Operation(name, *sorted((left, right), key=_place))


def _place(expr):
    return not isinstance(expr, int), str(expr)


COMPUTED = {
    "add": add, "sub": subtract, "mul": multiply, "floordiv": floordiv, "mod": modulo,
    "pow": power, "min": minimum, "max": maximum,
}  # fmt: skip
# -- what is known -----------------------------------------------------------------------


def bounds(expr):
    """The least and the largest that an expression may be, symbols one by one."""
    low = high = 0
    for key, count in terms_of(expr).items():
        least, most = _bounds_of(key)
        if count < 0:
            least, most = most, least
        low, high = low + count * least, high + count * most
    return low, high


def _bounds_of(key):
    found = 1, 1
    for atom in key or ():
        corners = [_times(a, b) for a in found for b in atom.bounds()]
        found = min(corners), max(corners)
    return found


def _times(left, right):
    return left * right if left and right else 0


class _Known(Prover):
    """What is known of products of atoms: bounds, and how quotients are rounded."""

    def least(self, form):
        found = bounds(expression(form))[0]
        return None if found == -UNBOUNDED else found

    def facts_of(self, key):
        atom = key[0]
        if len(key) > 1 or not isinstance(atom, Operation):
            return ()
        left, right = terms_of(atom.left), terms_of(atom.right)
        if atom.name in ("min", "max"):
            sign = 1 if atom.name == "min" else -1
            return [scaled(plus(one, {key: 1}, -1), sign) for one in (left, right)]
        if not _divides(atom, atom.name):
            return ()
        if atom.name == "mod":
            return [plus(left, {key: 1}, -1)] if bounds(atom.left)[0] >= 0 else []
        rest = plus(left, {key: atom.right}, -1)
        return [rest, plus({None: atom.right - 1}, rest, -1)]

    def cases_of(self, key):
        atom = key[0]
        if len(key) == 1 and isinstance(atom, Operation):
            if atom.name in ("min", "max"):
                return terms_of(atom.left), terms_of(atom.right)
        return ()


_KNOWN = _Known()


def is_natural(expr, facts=()):
    """Whether an expression is known to be zero at least.

    Args:
        facts: forms that are, too.
    """
    return _KNOWN.proved(terms_of(expr), facts, _DEPTH)


def is_positive(expr, facts=()):
    """Whether an expression is known to be more than zero."""
    return is_natural(subtract(expr, 1), facts)


def expanded(expr):
    """An expression with remainders by numbers as what quotients leave.

    Halves that are rounded up are what halves that are rounded down leave.
    """

    def other(atom):
        if _divides(atom) and atom.right == 2:
            odd = terms_of(atom.left).get(None, 0) % 2
            down = subtract(atom.left, odd)
            return subtract(down, floordiv(down, 2)) if odd else atom
        if _divides(atom, "mod"):
            whole = floordiv(atom.left, atom.right)
            return subtract(atom.left, multiply(whole, atom.right))
        return atom

    return replaced(expr, other)


def compared(name, left, right, facts=()):
    """The answer of a comparison for all values of the symbols; None where there is none.

    Args:
        name: ``"eq"``, ``"ne"``, ``"lt"``, ``"le"``, ``"gt"`` or ``"ge"``.
        facts: forms that are known to be zero at least.
    """
    gap = expanded(subtract(left, right))
    if name in ("eq", "ne"):
        found = None
        if gap == 0 or _is_zero(gap, facts):
            found = True
        elif is_positive(gap, facts) or is_positive(multiply(gap, -1), facts):
            found = False
        elif _has_rest(gap):
            found = False
        return found if found is None or name == "eq" else not found
    if name in ("lt", "le"):
        gap = multiply(gap, -1)
    if name in ("lt", "gt"):
        gap = subtract(gap, 1)
    if is_natural(gap, facts):
        return True
    return False if is_natural(subtract(multiply(gap, -1), 1), facts) else None


def _is_zero(gap, facts):
    """Whether facts say of an expression that it is none but zero."""
    return bool(facts) and all(
        is_natural(multiply(gap, sign), facts) for sign in (1, -1)
    )


def _has_rest(gap):
    """Whether an expression is no multiple of what all of its coefficients are."""
    terms = terms_of(gap)
    common = math.gcd(*(count for key, count in terms.items() if key is not None))
    return common > 1 and terms.get(None, 0) % common != 0


# -- walks -------------------------------------------------------------------------------


def replaced(expr, change):
    """An expression with its atoms changed, those inside of others first.

    Args:
        change: gives an expression for an atom.
    """
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Operation):
        sides = [replaced(one, change) for one in (expr.left, expr.right)]
        made = COMPUTED[expr.name](*sides)
        return change(made) if isinstance(made, Operation) else made
    if isinstance(expr, Atom):
        return change(expr)
    made = 0
    for key, count in expr.terms.items():
        factors = [replaced(atom, change) for atom in key or ()]
        made = add(made, functools.reduce(multiply, factors, count))
    return made
