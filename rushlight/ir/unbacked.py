"""Numbers that follow from elements: what a recording knows of them, and what it asks.

A recording has no elements. A size that follows from them (of `nonzero`), or a number that
is read out (`item`), is a symbol of its own kind: it has bounds, no value. What is asked of
it is answered from the bounds and from what the program has promised (`torch._check`);
else the answer is a `SymBool`, which Python cannot branch on. What has to hold is noted,
and becomes steps of the program that check it when it runs.
"""

import operator

from rushlight.core.state import AttributeScope
from rushlight.ir import sizes
from rushlight.ir.formulas import (
    COMPARISONS,
    Formula,
    atoms_of,
    evaluated,
    facts_of,
    has_floats,
    opposite,
    symbols_of,
)
from rushlight.ir.sizes import UNBOUNDED, Size, Symbol, Unbacked, terms_of
from rushlight.ir.symbolic import GuardError, SymInt, expr_of
from rushlight.ir.truths import SymBool

# In which order numbers are read that no program writes down.
_ODD = 0.7182340587215431


class GuardOnDataDependentSymNode(RuntimeError):
    """A program asks for numbers that a recording does not have."""


class MustBeEqual(GuardError):
    """A number has to be what another is: the recording is made again with one for both.

    Args:
        index: which of the numbers that follow from elements.
        expr: what it is.
    """

    def __init__(self, index, expr):
        super().__init__(f"u{index} has to be {expr}")
        self.index, self.expr = index, expr


class SymFloat:
    """A float that was read out of a tensor, or what was computed of one.

    Args:
        env: the record of the program that it belongs to.
        expr: where it comes from.
        value: what it is in the program that is recorded.
    """

    __slots__ = ("env", "expr", "value")

    def __init__(self, env, expr, value):
        self.env, self.expr, self.value = env, expr, value

    @property
    def node(self):
        """Itself: PyTorch keeps expressions in an object of their own."""
        return self

    def _as_argument(self):
        """What operators are called with: a number that is recognised as this one."""
        return self.value

    def _computed(self, name, other, swapped=False):
        if isinstance(other, bool) or not isinstance(
            other, (int, float, SymInt, SymFloat)
        ):
            return NotImplemented
        pair = (other, self) if swapped else (self, other)
        return self.env.elements.float_of(name, *pair)

    def _compared(self, name, other):
        if isinstance(other, bool) or not isinstance(
            other, (int, float, SymInt, SymFloat)
        ):
            return NotImplemented
        right = getattr(other, "expr", other)
        return SymBool(self.env, Formula(name, self.expr, right))

    def __neg__(self):
        return self._computed("sub", 0, True)

    def __hash__(self):
        return hash(self.value)

    def __float__(self):
        return float(self.env.elements.fixed(self.expr))

    def __int__(self):
        return int(self.env.elements.fixed(self.expr))

    def __bool__(self):
        return bool(self.env.elements.fixed(self.expr))

    def __repr__(self):
        return str(self.expr)


def _method(name, swapped=False):
    return lambda self, other: self._computed(name, other, swapped)


def _comparison(name):
    return lambda self, other: self._compared(name, other)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(SymFloat, f"__{_name}__", _method(_name))
    setattr(SymFloat, f"__r{_name}__", _method(_name, True))
for _name in COMPARISONS:
    setattr(SymFloat, f"__{_name}__", _comparison(_name))


class Read:
    """One number that follows from elements.

    Attributes:
        symbol: its name, kind and bounds.
        number: what the program has in its place.
        node: the step that gives it; None until there is one.
        graph: which the step is in.
        home: the fake tensor that was made with it, and the dimension.
        last: the last of the steps that give all numbers of one operator.
    """

    def __init__(self, symbol, number):
        self.symbol, self.number = symbol, number
        self.node = self.last = self.graph = self.home = None


class Elements:
    """The numbers of one recording that follow from elements, and what must hold of them.

    Args:
        env: the recording's `ShapeEnv`.
        equal: what numbers are, by their index, as an earlier recording has found.
        positions: where numbers are in the results of their steps, by index; kept through
            all recordings of a program, as a number that is another can't be looked for.
    """

    def __init__(self, env, equal=None, positions=None):
        self.env = env
        self.equal = {} if equal is None else equal
        self.positions = {} if positions is None else positions
        self.reads: list = []
        self.pending: list = []  # those of the operator that runs
        self.again: list = []  # those that a step of a program has been recorded with
        self.checks: list = []  # what has to hold, in the order in which it was asked
        self.by_program = (
            False  # whether the program asks, or an operator that it calls
        )
        self.observer = None  # has the numbers' values, where elements are there
        self.rounds = 0  # how often the recording was run again, step by step
        self._truths: list = []  # forms that are zero at least, by these

    def asked_by(self, program):
        """A block in which it is the program that asks, or an operator.

        Operators ask only to choose a way, or to refuse: what is recorded is the same.

        Args:
            program: whether it is the program.
        """
        return AttributeScope(self, by_program=program)

    # -- numbers -----------------------------------------------------------------------

    def size(self, low=0, high=UNBOUNDED):
        """A size that follows from elements.

        Args:
            low: it is no less; no more than ``high``. What is open itself bounds nothing.
        """
        low, high = (
            one if type(one) is int or one == UNBOUNDED else least
            for one, least in ((low, 0), (high, UNBOUNDED))
        )
        return self._new("size", low, high)

    def read(self, dtype):
        """A number that is read out of a tensor.

        Args:
            dtype: the tensor's.
        """
        if dtype.is_complex:
            raise self.refused("a complex number that is read out of a tensor")
        if dtype.is_floating_point:
            return self._new("float", -UNBOUNDED, UNBOUNDED)
        if str(dtype).endswith(".bool"):
            number = self._new("bool", 0, 1)
            return number == 1
        return self._new("int", -UNBOUNDED, UNBOUNDED)

    def once(self, tensor, what, made):
        """What follows from a tensor's elements, the same until they change.

        Args:
            what: a word for it.
            made: gives it.
        """
        kept = tensor.__dict__.setdefault("_elements", {})
        key, version = (what, id(self), self.rounds), tensor._version
        if kept.get(key, (None,))[0] != version:
            kept[key] = version, made()
        return kept[key][1]

    def are_in(self, tensor, sizes):
        """Notes where the numbers of the operator that runs are."""
        for read in self.pending:
            for dim, size in enumerate(sizes):
                if read.home is None and size is read.number:
                    read.home = tensor, dim

    def named(self, name, kind, low, high):
        """A number that a file has, by its name there.

        Args:
            low: it is no less; no more than ``high``.
        """
        known = len(self.reads)
        number = self._new(kind, low, high)
        self.pending.clear()
        self.reads[known].symbol.name = name
        return number

    def _new(self, kind, low, high):
        if self.again:
            made = self.again.pop(0)
            made.home = None
            self.pending.append(made)
            return made.number
        index = len(self.reads)
        count = sum(
            (one.symbol.kind == "float") == (kind == "float") for one in self.reads
        )
        name = f"zuf{count}" if kind == "float" else f"u{count}"
        symbol = Unbacked(name, index, kind, low, high)
        if kind == "float":
            number = self._noted_float(SymFloat(self.env, symbol, (count + 1) * _ODD))
        elif index in self.equal:
            self.env.take(symbol)
            other = self.env.named_in(self.equal[index])
            number = self.env.number(other)
            low_of, high_of = sizes.bounds(other)
            symbol.low, symbol.high = max(low, low_of), min(high, high_of)
            self._note(Formula("eq", *_in_order(symbol, other)))
        else:
            number = self.env.take(symbol)
        made = Read(symbol, number)
        self.reads.append(made)
        self.pending.append(made)
        return number

    def _noted_float(self, number):
        self.env.floats.setdefault(number.value, number)
        self.env.floats.setdefault(str(number.expr), number)
        return number

    def float_of(self, name, left, right):
        """What an operator makes of two numbers, of which one is a float."""
        if isinstance(left, SymFloat) or isinstance(right, SymFloat):
            left, right = (float(n) if type(n) is int else n for n in (left, right))
        sides = [expr_of(one) for one in (left, right)]
        values = [
            one._as_argument() if isinstance(one, (SymInt, SymFloat)) else one
            for one in (left, right)
        ]
        value = float(getattr(operator, name)(*values))
        return self._noted_float(SymFloat(self.env, Formula(name, *sides), value))

    # -- questions ---------------------------------------------------------------------

    def compared(self, name, left, right):
        """The answer of a comparison, if it is known; else the question itself."""
        sides = [expr_of(self.env.recognized(one)) for one in (left, right)]
        formula = Formula(name, *sides)
        known = self.known(formula)
        return SymBool(self.env, formula) if known is None else known

    def known(self, formula):
        """Whether a condition holds; None where that is not known."""
        if formula.name in ("and_", "or_"):
            sides = [self.known(one) for one in (formula.left, formula.right)]
            least = formula.name == "or_"
            if least in sides:
                return least
            return None if None in sides else not least
        sides = [_whole(one) for one in (formula.left, formula.right)]
        if has_floats(Formula(formula.name, *sides)):
            return None
        return sizes.compared(formula.name, *sides, self._truths)

    def answered(self, formula):
        """What Python's ``if`` gets.

        Raises:
            GuardOnDataDependentSymNode: it is not known.
            MustBeEqual: an operator asks, of what has to be equal.
        """
        known = self.known(formula)
        if known is not None:
            return known
        of_sizes = all(
            getattr(one, "kind", "size") == "size" for one in symbols_of(formula)
        )
        if of_sizes and formula.name in COMPARISONS and not self.by_program:
            if formula.name in ("eq", "ne"):
                if formula.right in (0, 1):  # as of any size: they are the rare ones
                    return formula.name == "ne"
                self.merge(formula.left, formula.right)
            sides = [self.env.native(one) for one in (formula.left, formula.right)]
            if None not in sides:
                return getattr(operator, formula.name)(*sides)
        answer = self.seen(formula)
        if answer is None:
            raise self.refused(f"expression {formula}")
        self.observer.decided(str(formula), answer)
        self._note(formula if answer else opposite(formula))
        return answer

    def fixed(self, expr):
        """A number as what it is in the recording, which is checked from here on.

        Raises:
            GuardOnDataDependentSymNode: the recording does not have it.
        """
        value = self.seen(expr)
        if value is None:
            raise self.refused(f"expression {expr}")
        self.observer.decided(str(expr), value)
        self._note(Formula("eq", expr, value))
        return value

    def seen(self, expr):
        """What an expression is where the recording was made with elements; else None."""
        if self.observer is None:
            return None
        known = self.observer.values
        if any(one.name not in known for one in symbols_of(expr)):
            return None
        return evaluated(expr, known)

    @staticmethod
    def refused(what):
        """What is said where a number is asked for that is not there."""
        asked = what.removeprefix("expression ")
        more = f" (unhinted: {asked}).  (Size-like symbols: none)\n"
        return GuardOnDataDependentSymNode(
            f"Could not guard on data-dependent {what}{more if asked != what else ': '}"
            "it follows from the elements of a tensor"
        )

    # -- promises ----------------------------------------------------------------------

    def check(self, formula):
        """Has a condition be checked when the program runs, and goes by it from here on.

        Raises:
            RuntimeError: it can't hold.
            MustBeEqual: the recording has to be made again.
        """
        known = self.known(formula)
        if known is not None:
            if not known:
                raise RuntimeError(f"Expected cond to be True, but {formula} never is")
            return
        if formula.name == "eq":
            self.merge(formula.left, formula.right)
        self._note(formula)

    def holds(self, name, left, right):
        """Whether a comparison of two numbers is known to be true."""
        sides = [expr_of(one) for one in (left, right)]
        return self.known(Formula(name, *sides)) is True

    def promise(self, name, left, right):
        """Has a comparison of two numbers be checked, which need not be one for it."""
        sides = [expr_of(one) for one in (left, right)]
        formula = Formula(name, *sides)
        if not self.known(formula):
            self._note(formula)

    def _note(self, formula):
        self._learn(formula)
        self.checks.append(formula)

    def _learn(self, formula):
        for fact in facts_of(formula):
            self._truths.append(fact)
            self._narrow(fact)

    @staticmethod
    def _narrow(fact):
        """What one number's bounds are where a form is zero at least."""
        keys = [key for key in fact if key is not None]
        if len(keys) != 1 or len(keys[0]) != 1:
            return
        (symbol,), times, rest = keys[0], fact[keys[0]], fact.get(None, 0)
        half = isinstance(symbol, sizes.Operation) and symbol.name == "floordiv"
        if half and rest == 0 and times == 1 and isinstance(symbol.right, int):
            symbol = symbol.left
        if rest and abs(times) != 1:
            return
        if isinstance(symbol, Unbacked) and times > 0:
            symbol.low = max(symbol.low, -(rest // times))
        elif isinstance(symbol, Unbacked):
            symbol.high = min(symbol.high, rest // -times)

    def natural(self, number):
        """A size of a result: it is zero at least, which is checked."""
        expr = number.expr
        formula = Formula("ge", expr, 0)
        if isinstance(expr, Size):
            return
        for one in symbols_of(expr):
            if isinstance(one, Unbacked) and one.kind == "int":
                one.kind = "size"
        if self.known(formula):
            return
        multiple = isinstance(expr, sizes.Sum) and len(terms_of(expr)) == 1
        self._learn(formula)
        if not isinstance(expr, Unbacked) and not multiple:
            self.checks.append(formula)

    def within(self, number, low, high):
        """Has a number be within bounds, which is checked."""
        for name, bound in (("ge", low), ("le", high)):
            if abs(bound) < 1 << 62:
                self._learn(Formula(name, number.expr, bound))
                if not isinstance(number.expr, Unbacked):
                    self.checks.append(Formula(name, number.expr, bound))

    def merge(self, left, right):
        """Has two numbers be one, in a recording that is made again.

        Raises:
            MustBeEqual: one of them can be the other.
        """
        for one, other in ((left, right), (right, left)):
            if not isinstance(one, Unbacked) or one.index in self.equal:
                continue
            later = [
                each.index for each in symbols_of(other) if isinstance(each, Unbacked)
            ]
            if any(index >= one.index for index in later) or not _is_closed(other):
                continue
            low, high = sizes.bounds(other)
            if low > one.high or high < one.low:
                continue
            raise MustBeEqual(one.index, other)


def _is_closed(expr):
    """Whether an expression is made of symbols, which the next recording has, too."""
    return not any(isinstance(one, Size) for one in atoms_of(expr))


def _whole(value):
    """A float that is an integer as that."""
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def _in_order(symbol, other):
    """Two sides of an equation, the number that was there first before the other."""
    return (other, symbol) if isinstance(other, Symbol) else (symbol, other)
