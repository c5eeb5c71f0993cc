"""Sizes that stand for any number: what fake tensors have where a program is recorded.

A symbol is known by the values that it takes in several worlds: the one that the program
is recorded for, and others whose sizes are multiples that nobody writes down. Fake
tensors live in all of them at once. A size of a result is what it is in each world; two
sizes are the same expression where all worlds agree. So operators need no second rules
for sizes, and a number that was taken for constant on the way shows in the next operator,
where a world does not fit.

Of multiples alone, halves that are rounded up would be halves that are rounded down, and
twice a half the whole. So there are passing worlds, too, whose sizes are a little more
than a multiple. Where an operator does not run in one of those, the program has no such
sizes, and the world is gone: from then on the others decide.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

__all__ = ["GuardError", "ShapeEnv", "SymInt"]

# What a size is multiplied by in the worlds beside the one of the recording, symbol by
# symbol. Multiples divide as the size itself does; and no number that a program would
# write down has factors like these.
_MOST = 64


@functools.cache
def _factors():
    primes = [n for n in range(503, 2000) if all(n % d for d in range(2, 45))]
    return [primes[3 * i : 3 * i + 3] for i in range(_MOST)]


_NATIVE, _RECORDED = 0, 1  # whose strides the fake tensor itself has; the program's own
_LASTING = 4  # worlds of multiples; those behind them pass
_WORLDS = 7
_LEAST = 1000  # a number from here on is a size, if it is one that is known
_SMALL = 100  # so is one from here on, once an operator was called with it
_FOLLOWS = 12  # what a number that follows from elements is a multiple of
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "pow": "**",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "truediv": "/", "and_": "&", "or_": "|",
}  # fmt: skip
# What makes integers of integers.
DOES = {
    name: getattr(operator, name) for name in "add sub mul floordiv mod pow".split()
}


class GuardError(RuntimeError):
    """A program needs one value of a size that was to stay open."""


class Symbol:
    """A name for a size of an argument, or for an argument that is an integer.

    Attributes:
        source: the argument's fake tensor and the dimension; None for an integer.
        least: it is no less; None where it may be any integer.
    """

    __slots__ = ("least", "name", "source", "values")

    def __init__(self, name, values, least=2):
        self.name, self.values, self.source = name, values, None
        self.least = least

    def __str__(self):
        return self.name


class Unbacked(Symbol):
    """A name for a number that follows from elements.

    Attributes:
        index: which of them it is.
        kind: ``"size"``, ``"int"``, ``"float"`` or ``"bool"``.
        low: it is no less; no more than ``high``.
    """

    __slots__ = ("high", "index", "kind", "low")

    def __init__(self, name, index, kind, low, high):
        super().__init__(name, None)
        self.index, self.kind, self.low, self.high = index, kind, low, high


class Size:
    """A size of a result of which no more is known.

    Attributes:
        follows: whether it may follow from elements.
    """

    __slots__ = ("dim", "follows", "name", "tensor", "values")

    def __init__(self, name, tensor, dim, values, follows=False):
        self.name, self.tensor, self.dim, self.values = name, tensor, dim, values
        self.follows = follows

    def __str__(self):
        return self.name


class Formula:
    """An operator on expressions and integers."""

    __slots__ = ("left", "name", "right")

    def __init__(self, name, left, right):
        self.name, self.left, self.right = name, left, right

    def __str__(self):
        parts = [
            f"({one})" if isinstance(one, Formula) else str(one)
            for one in (self.left, self.right)
        ]
        sign = _SIGNS[self.name]
        return f" {sign} ".join(parts) if sign != "*" else "*".join(parts)


class SymInt:
    """An integer that stands for any; it computes, and what it is asked is noted.

    Attributes:
        expr: where it comes from.
        values: what it is in each world.

    Args:
        env: the record of the program that it belongs to.
        expr: where it comes from.
        values: what it is in each world.
    """

    __slots__ = ("env", "expr", "values")

    def __init__(self, env, expr, values):
        self.env, self.expr, self.values = env, expr, values

    @property
    def node(self):
        """Itself: PyTorch keeps expressions in an object of their own."""
        return self

    @property
    def hint(self):
        """What it is in the program that is recorded."""
        return self.values[_RECORDED]

    def _as_argument(self):
        """What operators are called with: a number that is recognised as this one."""
        self.env.alone(self)
        return self.values[_NATIVE]

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
        return hash(self.values[:_LASTING])

    def __neg__(self):
        return 0 - self

    def __pos__(self):
        return self

    def __abs__(self):
        return self if self >= 0 else -self


def _binary(name, function, swapped=False):
    def method(self, other):
        if isinstance(other, bool) or not isinstance(other, (int, SymInt)):
            if isinstance(other, float):
                if self.is_free:
                    pair = (other, self) if swapped else (self, other)
                    return self.env.elements.float_of(name, *pair)
                number = float(self)
                return function(other, number) if swapped else function(number, other)
            return NotImplemented
        pair = (other, self) if swapped else (self, other)
        return self.env.computed(name, function, *pair)

    return method


def _compared(name, function):
    def method(self, other):
        if isinstance(other, float):
            return function(float(self), other)
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        return self.env.decided(name, function, self, other)

    return method


for _name, _function in (
    ("add", operator.add), ("sub", operator.sub), ("mul", operator.mul),
    ("floordiv", operator.floordiv), ("mod", operator.mod), ("pow", operator.pow),
):  # fmt: skip
    setattr(SymInt, f"__{_name}__", _binary(_name, _function))
    setattr(SymInt, f"__r{_name}__", _binary(_name, _function, True))
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


def _done(function, left, right, world):
    """A result in a world; any number where a passing one has none."""
    try:
        return function(left, right)
    except ZeroDivisionError:
        if world < _LASTING:
            raise
        return 0


def in_world(value, world):
    """A number in a world."""
    return value.values[world] if isinstance(value, SymInt) else value


class ShapeEnv:
    """The symbols of one recording, and what the program has asked of them.

    Args:
        duck_shape: whether equal sizes of the recording are one symbol.
        specialize_zero_one: whether sizes of 0 and 1 are constants.
        constant: sizes that are constants, too; None for all.

    Attributes:
        guards: what was found true of sizes, as ``(text, outcome)``.
        fixed: sizes that the program has read as numbers.
        elements: the `Elements` of numbers that follow from elements; None where there
            may be none.

    >>> env = ShapeEnv()
    >>> n = env.symbol(5)
    >>> n * 2 + 1
    (s0*2) + 1
    >>> n > 3, env.guards
    (True, [('s0 > 3', True)])
    """

    def __init__(
        self, *, duck_shape=True, specialize_zero_one=True, constant=(), **_unused
    ):
        self.constant = constant
        self.duck_shape = duck_shape
        self.specialize_zero_one = specialize_zero_one
        self.symbols: list = []
        self.guards: list = []
        self.formulas: list = []  # the same, before they are text
        self.fixed: list = []
        self.elements = None
        self.floats: dict = {}  # what operators are called with, and texts -> the number
        self._ducks: dict = {}
        self._opaque: dict = {}  # a formula's text -> the number
        self._known: dict = {}  # what is known of a number -> the number
        self._numbers: dict = {}  # what operators are called with -> the numbers
        self.gone: set = set()  # the worlds that have passed

    def symbol(self, actual, name=None):
        """A new size that is ``actual`` in the recording; an int where it is constant."""
        if self.specialize_zero_one and actual in (0, 1):
            return actual
        if self.constant is None or actual in self.constant:
            return actual
        if name is None and self.duck_shape and actual in self._ducks:
            return self._ducks[actual]
        count = sum(not isinstance(one, Unbacked) for one in self.symbols)
        symbol = Symbol(name or f"s{count}", self._fresh(actual))
        self.symbols.append(symbol)
        made = self._met(self._noted(SymInt(self, symbol, symbol.values)))
        if name is None:
            self._ducks[actual] = made
        return made

    def integer(self, actual, name):
        """A new integer that is ``actual`` in the recording, and may be any other."""
        values = list(self._fresh(max(actual, _FOLLOWS)))
        values[_RECORDED] = actual
        symbol = Symbol(name, tuple(values), None)
        self.symbols.append(symbol)
        return self._met(self._noted(SymInt(self, symbol, symbol.values)))

    def _fresh(self, actual, follows=False):
        """Values that no other number has."""
        count = len(self.symbols) + len(self._opaque)
        if count >= len(_factors()):
            raise GuardError(f"more than {count} sizes are symbols")
        native, *others = [actual * factor for factor in _factors()[count]]
        more = 0 if follows else 1
        passing = [others[-1] + more * n for n in range(1, _WORLDS - _LASTING + 1)]
        return native, actual, *others, *passing

    def take(self, symbol):
        """A number that follows from elements."""
        symbol.values = self._fresh(_FOLLOWS, True)
        self.symbols.append(symbol)
        return self._met(self._noted(SymInt(self, symbol, symbol.values)))

    def rebuilt(self, expr):
        """The number of an expression that another recording has had."""
        if isinstance(expr, int):
            return expr
        if isinstance(expr, Symbol):
            named = {one.name: one for one in self.symbols}
            return self._known[self._key(named[expr.name].values)]
        sides = map(self.rebuilt, (expr.left, expr.right))
        return getattr(operator, expr.name)(*sides)

    def native(self, expr):
        """What operators are called with for an expression; None for floats."""
        if isinstance(expr, (int, Symbol, Size)):
            return _value(expr, _NATIVE)
        found = self._opaque.get(str(expr))
        if found is not None:
            return found.values[_NATIVE]
        if expr.name not in DOES:
            return None
        sides = [self.native(one) for one in (expr.left, expr.right)]
        return None if None in sides else DOES[expr.name](*sides)

    def _key(self, values):
        """What is known of a number with these values."""
        return tuple([v for at, v in enumerate(values) if at not in self.gone])

    def _noted(self, number):
        return self._known.setdefault(self._key(number.values), number)

    def _met(self, number):
        """Has operators' integers recognised as this number."""
        if abs(number.values[_NATIVE]) >= _LEAST:
            same = self._numbers.setdefault(number.values[_NATIVE], [])
            if all(one is not number for one in same):
                same.append(number)
        return number

    def pass_by(self, world):
        """The program does not run in a world: it says nothing of numbers any more."""
        self.gone.add(world)
        known = list(self._known.values())
        self._known = {}
        for number in known:
            self._known.setdefault(self._key(number.values), number)
        for native, same in self._numbers.items():
            found = [self._known[self._key(one.values)] for one in same]
            self._numbers[native] = list({id(one): one for one in found}.values())

    def alone(self, number):
        """Sees to it that an operator is called with a number that is no other's.

        Numbers that differ in passing worlds only would be taken for one another, or for
        constants. The program is then for sizes where they are the same.

        Raises:
            GuardError: it is so small a number that it would be taken for a constant.
        """
        native = number.values[_NATIVE]
        if len(set(number.values[:_LASTING])) == 1:
            self._is(number, native, [native] * _WORLDS)
            return
        if abs(native) < _SMALL:
            raise GuardError(
                f"{number.expr}: an operator is called with it, and it is too little of "
                "a size to be known again\n  remedy: a larger example"
            )
        same = self._numbers.setdefault(native, [])
        if all(one is not number for one in same):
            same.append(number)
        for other in same[:]:
            self._is(number, other.expr, other.values)

    def _is(self, number, expr, values):
        """Notes that a number is another, where passing worlds have them differ."""
        passing = range(_LASTING, _WORLDS)
        differ = [at for at in passing if values[at] != number.values[at]]
        differ = [at for at in differ if at not in self.gone]
        if differ:
            if reads_size(number.expr) or reads_size(expr):
                raise GuardError(f"{number.expr} is not told from {expr}")
            self._guard(Formula("eq", number.expr, expr), True)
        for world in differ:
            self.pass_by(world)

    def computed(self, name, function, left, right):
        """An operator on two numbers."""
        if name in ("floordiv", "mod") and self._any_free(left, right):
            # of multiples both would be known, and they are multiples here only
            return self._as_it_is(name, function, left, right)
        values = tuple(
            _done(function, in_world(left, world), in_world(right, world), world)
            for world in range(_WORLDS)
        )
        sides = [one.expr if isinstance(one, SymInt) else one for one in (left, right)]
        if len(set(self._key(values))) == 1:
            if name == "mod":  # of a multiple, what it is of the size itself
                self._guard(Formula("eq", Formula(name, *sides), values[0]), True)
            return values[0]
        found = self._known.get(self._key(values))
        if found is not None:
            return found
        left, right = sides
        return self._noted(SymInt(self, Formula(name, left, right), values))

    @staticmethod
    def _follow(*numbers):
        return any(isinstance(one, SymInt) and one.follows for one in numbers)

    @staticmethod
    def _any_free(*numbers):
        return any(isinstance(one, SymInt) and one.is_free for one in numbers)

    def _as_it_is(self, name, function, left, right):
        """A number of which no more is known than how it is computed."""
        sides = [one.expr if isinstance(one, SymInt) else one for one in (left, right)]
        formula = Formula(name, *sides)
        found = self._opaque.get(str(formula))
        if found is None:
            values = list(self._fresh(_FOLLOWS, True))
            if not self._follow(left, right):
                known = [in_world(one, _RECORDED) for one in (left, right)]
                values[_RECORDED] = function(*known)
            found = SymInt(self, formula, tuple(values))
            self._opaque[str(formula)] = self._met(self._noted(found))
        return found

    def decided(self, name, function, left, right):
        """The answer of a comparison in the recording; noted, if it may be another."""
        if self._follow(left, right):
            return self.elements.compared(name, left, right)
        answer = function(in_world(left, _RECORDED), in_world(right, _RECORDED))
        same = isinstance(right, SymInt) and (
            self._key(left.values) == self._key(right.values)
        )
        if not same and not _certain(name, left, right):
            right = right.expr if isinstance(right, SymInt) else right
            self._guard(Formula(name, left.expr, right), answer)
        return answer

    def _guard(self, formula, outcome):
        guard = str(formula), outcome
        if guard not in self.guards:
            self.guards.append(guard)
            self.formulas.append((formula, outcome))

    def specialized(self, number):
        """A size as the number that it is in the recording."""
        if number.follows:
            return self.elements.fixed(number.expr)
        key = self._key(number.values)
        if all(key != self._key(one.values) for one in self.fixed):
            self.fixed.append(number)
            self._guard(Formula("eq", number.expr, number.hint), True)
        return number.hint

    def recognized(self, value):
        """The number that operators know as a plain integer; others as they are."""
        if type(value) is int and abs(value) >= _SMALL:
            return self._numbers.get(value, (value,))[0]
        if type(value) is float and self.floats:
            return self.floats.get(value, value)
        return value

    def number(self, values, tensor, dim):
        """The number with these values, which is a size of a tensor."""
        key = self._key(values)
        if len(set(key)) == 1:
            return values[0]
        found = self._known.get(key)
        if found is None:
            expr = self._fitted(values)
            if expr is None:
                follows = self.elements is not None and bool(self.elements.reads)
                expr = Size(f"d{len(self._known)}", tensor, dim, values, follows)
            found = self._noted(SymInt(self, expr, values))
        return self._met(found)

    def number_of(self, expr):
        """The number of an expression."""
        found = self._opaque.get(str(expr))
        if found is not None:
            return found
        values = tuple(_value(expr, world) for world in range(_WORLDS))
        return self._noted(SymInt(self, expr, values))

    def number_or_none(self, expr):
        """The number of an expression of integers; None for others."""
        if isinstance(expr, Formula) and expr.name not in DOES:
            return None
        found = self._opaque.get(str(expr))
        if found is not None:
            return found
        try:
            values = tuple(_value(expr, world) for world in range(_WORLDS))
        except (TypeError, AttributeError):  # of floats
            return None
        return self._known.get(self._key(values))

    def _fitted(self, values):
        """A formula of symbols, where a simple one has these values in every world."""
        values = self._key(values)
        for symbol in self.symbols:
            s = self._key(symbol.values)
            most = 1 if isinstance(symbol, Unbacked) else 8
            for divisor in range(1, most + 1):
                for factor in range(1, 9):
                    rests = [v * divisor - factor * n for v, n in zip(values, s)]
                    rest = max(rests)
                    fits = [(factor * n + rest) // divisor for n in s] == list(values)
                    if fits and max(rests) - min(rests) < divisor:
                        return _line(symbol, factor, rest, divisor)
        for i, one in enumerate(self.symbols):
            for other in self.symbols[i:]:
                own, its = self._key(one.values), self._key(other.values)
                sums = [v - a - b for v, a, b in zip(values, own, its)]
                if len(set(sums)) == 1 and one is not other:
                    made = Formula("add", one, other)
                    return _line(made, 1, sums[0], 1)
                products = [a * b for a, b in zip(own, its)]
                factor = values[0] // products[0]
                if factor and [factor * p for p in products] == list(values):
                    made = Formula("mul", one, other)
                    return made if factor == 1 else Formula("mul", made, factor)
        return None


def evaluated(expr, values):
    """An expression's value; None where it has sizes of which nothing is known.

    Args:
        expr: the expression.
        values: the symbols' values by name.
    """
    if isinstance(expr, (int, float)):
        return expr
    if isinstance(expr, Symbol):
        return values.get(expr.name)
    if isinstance(expr, Size):
        return None
    sides = [evaluated(one, values) for one in (expr.left, expr.right)]
    if None in sides or (expr.name in ("floordiv", "mod") and not sides[1]):
        return None
    return getattr(operator, expr.name)(*sides)


def symbols_of(expr):
    """The symbols in an expression, once each."""
    if isinstance(expr, Symbol):
        return [expr]
    if not isinstance(expr, Formula):
        return []
    found = [*symbols_of(expr.left), *symbols_of(expr.right)]
    return list(dict.fromkeys(found))


def reads_size(expr):
    """Whether an expression has sizes that are read from results."""
    if isinstance(expr, Formula):
        return reads_size(expr.left) or reads_size(expr.right)
    return isinstance(expr, Size)


def number_in(expr):
    """Whether a number that follows from elements is in an expression."""
    if isinstance(expr, Formula):
        return number_in(expr.left) or number_in(expr.right)
    return isinstance(expr, Unbacked) or isinstance(expr, Size) and expr.follows


def integer_in(expr):
    """Whether an argument that is an integer is in an expression."""
    if isinstance(expr, Formula):
        return integer_in(expr.left) or integer_in(expr.right)
    return isinstance(expr, Symbol) and expr.least is None


def _value(expr, world):
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Symbol):
        return expr.values[world]
    if isinstance(expr, Size):
        return expr.values[world]
    left, right = _value(expr.left, world), _value(expr.right, world)
    return getattr(operator, expr.name)(left, right)


def _least(expr):
    """A bound from below, where every symbol is 2 at least; None where none is known."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Symbol):
        return expr.least
    if isinstance(expr, Formula) and expr.name in ("add", "mul"):
        left, right = _least(expr.left), _least(expr.right)
        if left is not None and right is not None and min(left, right) >= 0:
            return left + right if expr.name == "add" else left * right
    return None


def _certain(name, left, right):
    """Whether a comparison has one answer for all sizes from 2 on."""
    least = _least(left.expr)
    if isinstance(right, SymInt) or least is None:
        return False
    return right <= least if name in ("ge", "lt") else right < least


def _line(symbol, factor, rest, divisor):
    made: Any = symbol if factor == 1 else Formula("mul", symbol, factor)
    if rest:
        sign, rest = ("add", rest) if rest > 0 else ("sub", -rest)
        made = Formula(sign, made, rest)
    return made if divisor == 1 else Formula("floordiv", made, divisor)
