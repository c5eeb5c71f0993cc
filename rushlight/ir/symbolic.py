"""Integers that stand for any: what fake tensors have for sizes where a program is recorded.

A `SymInt` is an expression of symbols (`rushlight.ir.sizes`). Equal expressions are one
number. What a program asks of it is proved, or answered by what it is in the recording,
which is noted as a guard. Operators run on plain integers; what they give is sampled at
several points, values of all symbols, and the formula is derived from that
(`rushlight.graph.derived_sizes`).
"""

import functools
import hashlib
import math
import operator
import random

from rushlight.ir import formulas, sizes
from rushlight.ir.formulas import Formula, at_point, computed, integer_in, number_in
from rushlight.ir.sizes import COMPUTED, RESTS, Size, Symbol, Unbacked
from rushlight.ir.truths import JOINED, SymBool

_MOST = 64  # symbols of one recording


@functools.cache
def _primes():
    return [
        n for n in range(2, 4000) if all(n % d for d in range(2, math.isqrt(n) + 1))
    ]


def _factors(count, base, others):
    """What a symbol is multiplied by at sample points.

    By the last ones symbols are in reverse order: which of two is the smaller is no fact
    about them.

    Args:
        count: how many symbols there are. No program writes factors like its first two.
        base: what is multiplied.
        others: the last factors of symbols of that base.
    """
    large = [one for one in _primes() if one > _LEAST // 2]
    wanted = _HIGHEST // base - 20
    near = next(
        (one for one in _primes() if one >= wanted and one not in others), large[-1]
    )
    return large[2 * count], large[2 * count + 1], near


NATIVE, RECORDED = 0, 1  # the point of what operators run on; the program's own
LASTING = 3  # points of multiples; the program need not run at those behind them
SMALL = (-1, -2, -3, -4)  # points of the least sizes
POINTS = 7  # that an operator is sampled at; a formula may take more
_LEAST = 1000  # a number from here on is a size, if it is one that is known
_HIGHEST = 6000  # what the last factors make of the least sizes
_SMALL = 100  # so is one from here on, once an operator was called with it


class GuardError(RuntimeError):
    """A program needs one value of a size that was to stay open.

    Attributes:
        equal: pairs of symbols, by whose equality the program may go on.
    """

    equal: tuple = ()


class Argument(int):
    """What operators are called with for a number, which it is known by.

    Attributes:
        number: the `SymInt`.
    """

    def __new__(cls, value, number):
        made = super().__new__(cls, value)
        made.number = number
        return made

    def _as_argument(self):
        return self


class SymInt:
    """An integer that stands for any; it computes, and what it is asked is noted.

    Args:
        env: the record of the program that it belongs to.
        expr: the expression.
    """

    __slots__ = ("env", "expr")

    def __init__(self, env, expr):
        self.env, self.expr = env, expr

    @property
    def node(self):
        """Itself: PyTorch keeps expressions in an object of their own."""
        return self

    @property
    def hint(self):
        """What it is in the program that is recorded."""
        return at_point(self.expr, RECORDED)

    def _as_argument(self):
        """What operators are called with: a number that is recognised as this one."""
        return self.env.argument(self)

    def __index__(self):
        return self.env.specialized(self)

    __int__ = __index__

    @property
    def follows(self):
        """Whether it follows from elements."""
        return number_in(self.expr)

    @property
    def is_free(self):
        """Whether it may be any integer: it follows from elements, or from an argument."""
        return self.follows or self.env.elements is not None and integer_in(self.expr)

    def __float__(self):
        return float(self.env.specialized(self))

    def __bool__(self):
        return bool(self != 0)

    def __repr__(self):
        return str(self.expr)

    def __hash__(self):
        return hash(self.expr)

    def __neg__(self):
        return 0 - self

    def __pos__(self):
        return self

    def __abs__(self):
        return self if self >= 0 else -self


def _binary(name, function, swapped=False):
    def method(self, other):
        if not isinstance(other, (int, SymInt)):
            if isinstance(other, float):
                if self.is_free:
                    pair = (other, self) if swapped else (self, other)
                    return self.env.elements.float_of(name, *pair)
                number = float(self)
                return function(other, number) if swapped else function(number, other)
            return NotImplemented
        pair = (other, self) if swapped else (self, other)
        return self.env.computed(name, *pair)

    return method


def _compared(name, function):
    def method(self, other):
        if isinstance(other, float):
            return function(float(self), other)
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        return self.env.decided(name, self, other)

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "pow"):
    _function = getattr(operator, _name)
    setattr(SymInt, f"__{_name}__", _binary(_name, _function))
    setattr(SymInt, f"__r{_name}__", _binary(_name, _function, True))


def _shifted(name):
    """A shift, which multiplies or divides by a power of two."""

    def method(self, other):
        if type(other) is not int or other < 0:
            return NotImplemented
        return self.env.computed(name, self, 1 << other)

    return method


SymInt.__lshift__, SymInt.__rshift__ = _shifted("mul"), _shifted("floordiv")
SymInt.__divmod__ = lambda self, other: (self // other, self % other)
SymInt.__rdivmod__ = lambda self, other: (other // self, other % self)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymInt, f"__{_name}__", _compared(_name, getattr(operator, _name)))


def _divided(self, other):
    """A float, which stands for itself only; what tensors are divided by stays open."""
    if self.is_free and isinstance(other, (int, float, SymInt)):
        return self.env.elements.float_of("truediv", self, other)
    return float(self) / other if isinstance(other, (int, float)) else NotImplemented


def _dividing(self, other):
    if self.is_free and isinstance(other, (int, float)):
        return self.env.elements.float_of("truediv", other, self)
    return other / float(self) if isinstance(other, (int, float)) else NotImplemented


for _name, _function in (("truediv", _divided), ("rtruediv", _dividing)):
    setattr(SymInt, f"__{_name}__", _function)


def expr_of(value):
    """The expression of a number; others as they are."""
    return getattr(value, "expr", value)


def value_at(value, point):
    """A number, or an expression, at a sample point; others as they are."""
    if isinstance(value, SymInt):
        value = value.expr
    return at_point(value, point) if isinstance(value, sizes.EXPRESSIONS) else value


def symbol_name(source, taken):
    """PyTorch's name for the symbol of a size: a number below 100 that its source hashes to.

    Args:
        source: the text of the source.
        taken: a set of names, which the next free one joins.

    >>> symbol_name("L['x'].size()[0]", {"s77"})
    's78'
    """
    number = int(hashlib.sha256(source.encode()).hexdigest(), 16) % 100
    while f"s{number}" in taken:
        number += 1
    taken.add(f"s{number}")
    return f"s{number}"


class ShapeEnv:
    """The symbols of one recording, and what the program has asked of them.

    Args:
        duck_shape: whether equal sizes of the recording are one symbol.
        specialize_zero_one: whether sizes of 0 and 1 are constants.
        constant: sizes that are constants, too; None for all.

    Attributes:
        guards: what was found true of sizes, as ``(text, outcome)``.
        fixed: sizes that the program has read as numbers.
        steps: how the program has computed an expression, as a `Formula` of others.
        elements: the `Elements` of numbers that follow from elements; None where there
            may be none.

    >>> env = ShapeEnv()
    >>> n = env.symbol(5)
    >>> n * 2 + 1
    2*s0 + 1
    >>> n > 3, bool(n > 3), env.guards
    (s0 > 3, True, [('s0 > 3', True)])
    """

    def __init__(
        self, *, duck_shape=True, specialize_zero_one=True, constant=(), **_unused
    ):
        self.constant = constant
        self.duck_shape = duck_shape
        self.specialize_zero_one = specialize_zero_one
        self.symbols: list = []
        self.names: set = set()  # of symbols that a source has named
        self.guards: list = []
        self.formulas: list = []  # the same, before they are text
        self.fixed: list = []
        self.steps: dict = {}
        self.elements = None
        self.floats: dict = {}  # what operators are called with, and texts -> the number
        self._ducks: dict = {}
        self._known: dict = {}  # expression -> number
        self._numbers: dict = {}  # what operators are called with -> numbers
        self._sizes = 0  # names of sizes without a formula
        self.gone: set = set()  # points at which the program does not run
        self.facts: list = []  # forms that are zero at least, by what was asked

    # -- numbers -----------------------------------------------------------------------

    def symbol(self, actual, name=None, source=None):
        """The number for a size that is ``actual`` in the recording.

        Args:
            actual: the size.
            name: of a symbol that no other size shares.
            source: where the size comes from, which names the symbol (`symbol_name`).
        """
        if self.specialize_zero_one and actual in (0, 1):
            return actual
        if self.constant is None or actual in self.constant:
            return actual
        if name is None and self.duck_shape and actual in self._ducks:
            return self._ducks[actual]
        count = sum(not isinstance(one, Unbacked) for one in self.symbols)
        own = symbol_name(source, self.names) if source else f"s{count}"
        made = self._taken(Symbol(name or own, actual))
        if name is None:
            self._ducks[actual] = made
        return made

    def integer(self, actual, name):
        """A new integer that is ``actual`` in the recording, and may be any other."""
        return self._taken(Symbol(name, actual, None))

    def example(self, actual, name):
        """A new integer that operators run on as it is: for calls that nobody records."""
        made = Symbol(name, actual, None)
        made.base, made.factors, made.rests = actual, (1, 1, 1), (0,)
        return self.number(made)

    def _taken(self, symbol):
        """The number of a symbol whose values no other has."""
        count = len(self.symbols)
        if count >= _MOST:
            raise GuardError(f"more than {count} sizes are symbols")
        others = [one.factors[-1] for one in self.symbols if one.base == symbol.base]
        symbol.factors = _factors(count, symbol.base, others)
        if count:  # a difference of two has other rests than that of two others
            symbol.rests = random.Random(count).sample(range(RESTS), RESTS)
        self.symbols.append(symbol)
        return self.number(symbol)

    take = _taken

    def number(self, expr):
        """The number of an expression: always the same; an ``int`` for a constant."""
        if isinstance(expr, int):
            return expr
        found = self._known.get(expr)
        if found is None:
            found = self._known[expr] = SymInt(self, expr)
            value = at_point(expr, NATIVE)
            if value is not None and abs(value) >= _LEAST:
                self._numbers.setdefault(value, []).append(found)
        return found

    def number_or_none(self, expr):
        """The number of an expression of integers; None for others."""
        is_other = isinstance(expr, Formula) or formulas.has_floats(expr)
        return None if is_other else self.number(expr)

    def named_in(self, expr):
        """An expression of another recording, of the symbols that are here by name."""
        named = {one.name: one for one in self.symbols}
        return sizes.replaced(
            expr, lambda one: named[one.name] if isinstance(one, Symbol) else one
        )

    def rebuilt(self, expr):
        """The number of an expression that another recording has had."""
        return self.number(self.named_in(expr))

    def native(self, expr):
        """What operators are called with for an expression; None for floats."""
        return None if formulas.has_floats(expr) else computed(expr, _native)

    # -- what operators are called with --------------------------------------------------

    def argument(self, number):
        """What operators are called with for a number."""
        value = at_point(number.expr, NATIVE)
        if abs(value) >= _SMALL:
            same = self._numbers.setdefault(value, [])
            if all(one is not number for one in same):
                same.append(number)
        return Argument(value, number)

    def recognized(self, value, call_sizes=()):
        """The number that operators know as a plain integer; others as they are.

        Args:
            value: the integer.
            call_sizes: expressions that compiled code may have computed it of: sizes of the
                tensors of the same call, and how many elements they have.

        Raises:
            GuardError: the integer may be one of several.
        """
        if type(value) is Argument:
            return value.number
        if type(value) is int and abs(value) >= _SMALL:
            found = [one for one in call_sizes if at_point(one, NATIVE) == value]
            if found:
                return self._one_of(list(map(self.number, dict.fromkeys(found))))
            found = self._numbers.get(value, (value,))
            return self._one_of(found) if len(found) > 1 else found[0]
        if type(value) is float and self.floats:
            return self.floats.get(value, value)
        return value

    def _one_of(self, found):
        """The number that several are at all points at which the program runs."""
        first, *others = found
        points = self.points
        for one in others:
            if any(at_point(one.expr, k) != at_point(first.expr, k) for k in points):
                raise GuardError(f"{first.expr} is not told from {one.expr}")
        return first

    # -- sample points -------------------------------------------------------------------

    @property
    def points(self):
        """The sample points at which the program runs."""
        return [point for point in range(POINTS) if point not in self.gone]

    def runs_at(self, point):
        """Whether what the program has asked so far has the same answer at a point."""
        return all(
            computed(formula, lambda one: one.at(point)) in (outcome, None)
            for formula, outcome in self.formulas
            if _is_of_rests(formula)
        )

    def pass_by(self, point):
        """The program does not run at a point: it says nothing of numbers any more."""
        self.gone.add(point)

    def expressions(self):
        """Those that the program has had so far, and the symbols of integers."""
        symbols = [one for one in self.symbols if not formulas.has_floats(one)]
        return list(self._known), symbols

    def size(self, at):
        """A name for a size that has no formula.

        Args:
            at: what it is at a sample point; None where the result is not there.
        """
        self._sizes += 1
        follows = self.elements is not None and bool(self.elements.reads)
        return Size(f"d{self._sizes}", at, follows)

    # -- what the program computes and asks -----------------------------------------------

    def computed(self, name, left, right):
        """An operator on two numbers."""
        left, right = (
            int(n) if isinstance(n, bool) else expr_of(n) for n in (left, right)
        )
        if name == "pow" and isinstance(right, int) and right < 0:
            return float(self.number(left)) ** right
        expr = COMPUTED[name](left, right)
        if not isinstance(expr, int) and expr not in self._known:
            self.steps[expr] = Formula(name, left, right)
        return self.number(expr)

    def decided(self, name, left, right):
        """The answer of a comparison; a `SymBool` where it hangs on the sizes."""
        if any(isinstance(one, SymInt) and one.follows for one in (left, right)):
            return self.elements.compared(name, left, right)
        left, right = expr_of(left), expr_of(right)
        known = sizes.compared(name, left, right, self.facts)
        if known is not None:
            return known
        return SymBool(self, Formula(name, left, right))

    def answered(self, formula):
        """The answer of a comparison in the recording; noted, if it may be another."""
        if formula.name in JOINED:
            first = self.answered(formula.left)
            ends = first is (formula.name == "or_")
            return first if ends else self.answered(formula.right)
        known = sizes.compared(formula.name, formula.left, formula.right, self.facts)
        if known is not None:
            return known
        answer = computed(formula, _recorded)
        self._guard(formula, answer)
        return answer

    def require(self, expr, low):
        """Notes that a size has to be so much, where that is not so for all sizes.

        Args:
            expr: of symbols of the recording.
            low: what it is at least.
        """
        if not isinstance(expr, (int, Size)) and not number_in(expr):
            bool(self.decided("ge", self.number(expr), low))

    def _guard(self, formula, outcome):
        guard = str(formula), outcome
        if guard in self.guards:
            return
        self.guards.append(guard)
        self.formulas.append((formula, outcome))
        self.facts += formulas.facts_of(
            formula if outcome else formulas.opposite(formula)
        )
        for point in range(LASTING, POINTS):
            if not self.runs_at(point):
                self.pass_by(point)

    def specialized(self, number):
        """A size as the number that it is in the recording."""
        if number.follows:
            return self.elements.fixed(number.expr)
        if all(number is not one for one in self.fixed):
            self.fixed.append(number)
            formula = Formula("eq", number.expr, number.hint)
            self.guards.append((str(formula), True))
            self.formulas.append((formula, True))
        return number.hint


def _native(atom):
    return atom.at(NATIVE)


def _recorded(atom):
    return atom.at(RECORDED)


def _is_of_rests(formula):
    """Whether a condition hangs on what a number leaves when it is divided."""
    return any(
        isinstance(atom, sizes.Operation)
        for side in (formula.left, formula.right)
        for key in sizes.terms_of(side)
        for atom in key or ()
    )
