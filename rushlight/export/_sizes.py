"""Which sizes of a recording are symbols, and what becomes of those that cannot be."""

import itertools

from rushlight._dynamo.exc import UserError, UserErrorType
from rushlight.core.tensor import Tensor
from rushlight.export._guards import guard_of
from rushlight.export.dynamic_shapes import Dim
from rushlight.export.exported_program import SizeText, ValueRange
from rushlight.fx.experimental.symbolic_shapes import ConstraintViolationError
from rushlight.ir.formulas import Formula, evaluated, reads_size, symbols_of
from rushlight.ir.symbolic import ShapeEnv, SymInt, symbol_name
from rushlight.ir.unbacked import Elements
from rushlight.operators import call

_UNBOUNDED = float("inf")
_LOOKED = 300  # sizes up to here are tried in what a program has asked


class Attempt:
    """Which sizes are symbols in one recording.

    Args:
        merged: pairs of keys of sizes that are one symbol.
        fixed: keys of sizes that are numbers.
        verdict: what is to be said if the program can be recorded only so; None where
            that is as good as any.
    """

    def __init__(self, merged=(), fixed=(), verdict=None):
        self.merged, self.fixed, self.verdict = dict(merged), set(fixed), verdict


class OpenSizes:
    """The sizes that were said to stay open, through all attempts to record a program.

    Args:
        wanted: a list of `Wanted` for each path of a tensor.
    """

    def __init__(self, wanted):
        self.wanted = wanted
        self.symbol_names = _symbol_names(wanted)
        self.attempt = Attempt()
        self.later: list | None = None
        self.hints: dict = {}  # key -> size in the recording
        self.names: dict = {}  # key -> how messages name it
        self.sources: dict = {}  # key -> L['x'].size()[0]
        self.kinds: dict = {}  # key -> AUTO, DYNAMIC or the Dim
        self.integers: set = set()  # keys of arguments that are integers
        self.env = None
        self.equal: dict = {}  # numbers that follow from elements -> what they are
        self.positions: dict = {}  # and where they are in the results of their steps

    def start(self):
        """Begins a recording."""
        self.env = ShapeEnv(duck_shape=False)
        self.env.elements = Elements(self.env, self.equal, self.positions)
        self.symbols: dict = {}
        self.rest: list = []  # derived sizes whose names have no size of their own
        self.ranges: dict = {}
        self.checks: list = []
        return self

    # -- arguments ---------------------------------------------------------------------

    def fake_of(self, fake, tensor, path):
        """The fake tensor of an argument.

        Args:
            fake: the mode.
            tensor: the argument.
            path: where it is among the arguments.
        """
        sizes = list(tensor.shape)
        for one in self.wanted.get(path, ()):
            sizes[one.dim] = self._size(one, tensor.shape[one.dim])
        if not any(isinstance(size, SymInt) for size in sizes):
            return fake.from_tensor(tensor)
        made = fake.symbolic(tensor, sizes)
        if tensor.requires_grad:
            made.requires_grad_()
        return made

    def number_of(self, value, path):
        """An argument that is no tensor: a symbol, if it is an integer that stays open."""
        for one in self.wanted.get(path, ()):
            if one.spec.type != "STATIC":
                return self._integer(one, value)
        return value

    def _integer(self, one, actual):
        key, spec = one.source, one.spec
        self.kinds.setdefault(key, spec.type)
        self.sources[key] = self.names[key] = key
        self.integers.add(key)
        low = -_UNBOUNDED if spec.min is None else spec.min
        high = _UNBOUNDED if spec.max is None else spec.max
        if not low <= actual <= high:
            raise _violated(
                key, f"{key} = {actual} is not in the range of {spec}", None
            )
        return self._symbol(key, actual, low, high)

    def _size(self, one, actual):
        spec = one.spec
        if spec is None or getattr(spec, "type", None) == "STATIC":
            return actual
        if isinstance(spec, int):
            if spec != actual:
                raise ConstraintViolationError(
                    f"Static shape constraint of {spec} does not match input size of "
                    f"{actual}, for {one.source}"
                )
            return actual
        if isinstance(spec, Dim):
            return self._named(one, spec, actual)
        key = one.source
        self.kinds.setdefault(key, spec.type)
        self.sources[key] = self.names[key] = one.source
        if spec.type == "AUTO" and actual in (0, 1):
            return actual
        if actual in (0, 1):
            raise self._specialized(key, actual)
        low = 2 if spec.min is None else max(spec.min, 2)
        high = _UNBOUNDED if spec.max is None else spec.max
        return self._symbol(key, actual, low, high)

    def _named(self, one, spec, actual):
        root = spec.root
        key = root.__name__
        hint = spec.solved(actual)
        known = self.hints.get(key)
        if hint is None or (known is not None and known != hint):
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Constraints violated ({key})! {one.source} = {actual} is not equal to "
                f"{spec.__name__}"
                + (f", where {key} = {known}" if known is not None else ""),
            )
        if not root.min <= hint <= root.max:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Constraints violated ({key})! {one.source} = {actual} is not in the "
                f"range of {root}",
            )
        self.kinds[key] = root
        self.names[key] = key
        self.sources.setdefault(key, one.source)
        if hint in (0, 1):
            self.hints[key] = hint
            raise self._specialized(key, hint)
        symbol = self._symbol(key, hint, root.min, root.max)
        made = spec.computed(symbol)
        if spec is not root and isinstance(symbol, SymInt):
            self.rest.append((spec, symbol, made))
        return made

    def _symbol(self, key, hint, low, high):
        self.hints[key] = hint
        key = self.attempt.merged.get(key, key)
        if key in self.attempt.fixed:
            return hint
        known = self.symbols.get(key)
        if known is None:
            make = self.env.integer if key in self.integers else self.env.symbol
            known = self.symbols[key] = make(hint, self.symbol_names[key])
            self.ranges[key] = [low, high]
        else:
            bounds = self.ranges[key]
            bounds[:] = max(bounds[0], low), min(bounds[1], high)
        return known

    def name_sizes(self, tracer):
        """Writes down, before all else, where the open sizes come from."""
        for key, number in self.symbols.items():
            if number.expr.source is not None or number.expr in tracer._sizes:
                tracer.size_of(number)
                continue
            for spec, symbol, made in self.rest:
                if symbol is number:
                    node = tracer.size_of(self._derived_size(tracer, made))
                    graph = tracer.graph
                    import operator

                    if spec.rest:
                        node = graph.call_function(operator.sub, (node, spec.rest))
                    if spec.factor != 1:
                        node = graph.call_function(
                            operator.floordiv, (node, spec.factor)
                        )
                    node.meta["val"] = number
                    tracer._sizes[number.expr] = node
                    break
            else:
                raise AssertionError(f"nothing is said of {key}")

    @staticmethod
    def _derived_size(tracer, made):
        """The size itself, read from the argument that has it."""
        for node in list(tracer.graph.nodes):
            value = node.meta.get("val")
            if node.op != "placeholder" or not isinstance(value, Tensor):
                continue
            for dim, size in enumerate(value.shape):
                if isinstance(size, SymInt) and size is made:
                    read = tracer.graph.create_node(
                        "call_function",
                        call.sym_size.overloads[0],
                        (node, dim),
                        name="sym_size_int",
                    )
                    read.meta["val"] = made
                    tracer._sizes[made.expr] = read
                    return made
        raise AssertionError("no argument has the size")

    # -- attempts ----------------------------------------------------------------------

    def give_way(self, error):
        """Chooses what to try next; False where nothing is left.

        Args:
            error: why the last attempt has failed.
        """
        keys = {number.expr: key for key, number in self.symbols.items()}
        pairs = [
            [keys.get(one) for one in pair]
            for pair in error.equal
            if self.later is None
        ]
        if pairs and all(map(self._is_loose, {key for pair in pairs for key in pair})):
            for pair in pairs:
                self.attempt = self._merged(*pair)
            return True
        if self.later is None:
            self.later = list(self._others())
        if not self.later:
            return False
        self.attempt = self.later.pop(0)
        return True

    def _others(self):
        """Attempts, those that change less before the others."""
        loose = [key for key, kind in self.kinds.items() if not isinstance(kind, Dim)]
        free = [key for key, kind in self.kinds.items() if kind == "AUTO"]
        groups: dict = {}
        for key in loose:
            groups.setdefault(self.hints.get(key), []).append(key)
        merged = {
            key: keys[0] for keys in groups.values() for key in keys[1:] if keys[0]
        }
        if merged:
            yield Attempt(merged)
        for hint in dict.fromkeys(self.hints.get(key) for key in free):
            yield Attempt((), [key for key in free if self.hints.get(key) == hint])
        if free:
            yield Attempt((), free)
        bound = [key for key in self.kinds if key not in free]
        for one, other in itertools.combinations(bound, 2):
            if self.hints.get(one) == self.hints.get(other):
                yield Attempt({other: one}, free, self._equal(one, other))
        for key in bound:
            yield Attempt((), [*free, key], self._specialized(key, self.hints.get(key)))

    def refusal(self, error):
        """What is said of a program that cannot be recorded with its sizes open."""
        where = getattr(error, "frames", "")
        listed = ", ".join(self.names.values())
        return UserError(
            UserErrorType.CONSTRAINT_VIOLATION,
            f"Constraints violated ({listed})! {_MORE}\n"
            "  - The program fits some sizes only.\n"
            f"  - {error}\n{where}"
            "  remedy: leave fewer sizes open, or use Dim.AUTO",
            case_name="constraint_violation",
        )

    def _equal(self, one, other):
        return _violated(
            self.names[other],
            f"The values of {self._said(other)} and {self._said(one)} must always be "
            "equal.",
            f"{self.names[other]} = {self.names[one]}"
            if isinstance(self.kinds[other], Dim)
            else None,
        )

    def _said(self, key):
        source = self.sources[key]
        return source if self.names[key] == source else f"{self.names[key]} = {source}"

    def _specialized(self, key, value):
        name = self.names[key]
        return _violated(
            name,
            f"You marked {name} as dynamic but your code specialized it to be a constant "
            f"({value}). If you're using mark_dynamic, either remove it or use "
            "maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either "
            "Dim.STATIC or Dim.AUTO.",
            f"{name} = {value}" if isinstance(self.kinds[key], Dim) else None,
        )

    # -- what the program has asked ----------------------------------------------------

    def holds(self):
        """Whether the recording is good for all sizes; else the next one may be.

        Raises:
            UserError: it is not, for sizes that were asked for.
        """
        if self.attempt.verdict is not None:
            raise self.attempt.verdict
        keys = {number.expr: key for key, number in self.symbols.items()}
        for formula, outcome in self.env.formulas:
            symbols = symbols_of(formula)
            if self.integers - self.attempt.fixed and reads_size(formula):
                return self._unsure(formula, outcome)
            if not symbols or any(one not in keys for one in symbols):
                continue
            if len(symbols) == 1:
                if not self._narrowed(keys[symbols[0]], symbols[0], formula, outcome):
                    return False
            elif not self._related(keys, symbols, formula, outcome):
                return False
        return True

    def _narrowed(self, key, symbol, formula, outcome):
        """Takes what was asked of one size into its bounds."""
        if key in self.integers:
            return self._narrowed_integer(key, symbol, formula, outcome)
        hint, (low, high) = self.hints[key], self.ranges[key]
        top = min(high, max(_LOOKED, 4 * hint))
        good = [
            n
            for n in range(max(low, 2), int(top) + 1)
            if evaluated(formula, {symbol.name: n}) == outcome
        ]
        if good == [hint]:
            return self._fix(key)
        first = last = hint
        kept = set(good)
        while first - 1 in kept:
            first -= 1
        while last + 1 in kept:
            last += 1
        if len(kept) != last - first + 1:  # multiples, or several runs
            return self._in_steps(key, formula, outcome, good)
        above = last if last < top or top == high else _UNBOUNDED
        if isinstance(self.kinds[key], Dim) and (first > max(low, 2) or above < high):
            name = self.names[key]
            bounds = [f"min={first}"] if first > 2 else []
            bounds += [f"max={above}"] if above != _UNBOUNDED else []
            raise _violated(
                name,
                f"Not all values of {self._said(key)} in the specified range satisfy "
                f"the generated guard {_shown(formula, outcome)}",
                f"{name} = Dim('{name}', {', '.join(bounds)})",
            )
        self.ranges[key] = [max(low, first) if first > 2 else low, min(high, above)]
        return True

    def _narrowed_integer(self, key, symbol, formula, outcome):
        """Takes what was asked of an integer into its bounds, or among the checks."""
        hint, (low, high) = self.hints[key], self.ranges[key]
        most = max(_LOOKED, 4 * abs(hint))
        bottom, top = max(low, -most), min(high, most)
        good = {
            n
            for n in range(int(bottom), int(top) + 1)
            if evaluated(formula, {symbol.name: n}) == outcome
        }
        if good == {hint}:
            return self._fix(key)
        first, last = min(good), max(good)
        if len(good) != last - first + 1 or bottom < first <= 0:
            self.checks.append((formula, outcome))
        if len(good) == last - first + 1:
            above = high if last == top else last
            self.ranges[key] = [low if first == bottom else first, above]
        return True

    def _in_steps(self, key, formula, outcome, good):
        gaps = {b - a for a, b in itertools.pairwise(good)}
        name = self.names[key]
        if isinstance(self.kinds[key], Dim):
            step = gaps.pop() if len(gaps) == 1 else None
            rest = good[0] % step if step else 0
            more = f" + {rest}" if rest else ""
            raise _violated(
                name,
                f"Not all values of {self._said(key)} in the specified range satisfy "
                f"the generated guard {_shown(formula, outcome)}",
                f"{name} = {step}*_{name}{more}" if step else None,
            )
        self.checks.append((formula, outcome))
        return True

    def _fix(self, key):
        kind = self.kinds[key]
        if kind != "AUTO":
            raise self._specialized(key, self.hints[key])
        fixed = self.attempt.fixed | {key}
        self.attempt = Attempt(self.attempt.merged, fixed)
        return False

    def _unsure(self, formula, outcome):
        """Fixes integers where they may decide a size, and that the program's course.

        Raises:
            UserError: they were to stay open.
        """
        names = [self.names[key] for key in self.integers if self.kinds[key] != "AUTO"]
        if not names:
            fixed = self.attempt.fixed | self.integers
            self.attempt = Attempt(self.attempt.merged, fixed)
            return False
        raise _violated(
            ", ".join(names),
            f"{_shown(formula, outcome)} decides what the program does, and how that "
            "follows from the integer is not known\n"
            "  remedy: Dim.STATIC or Dim.AUTO for it, or a tensor of that size instead",
            None,
        )

    def _related(self, keys, symbols, formula, outcome):
        one, *others = symbols
        equal = formula.name == "eq" and outcome and len(others) == 1
        if equal and formula.left in symbols and formula.right in symbols:
            first, second = keys[one], keys[others[0]]
            if any(isinstance(self.kinds[key], Dim) for key in (first, second)):
                raise self._equal(first, second)
            self.attempt = self._merged(first, second)
            return False
        self.checks.append((formula, outcome))
        return True

    def _is_loose(self, key):
        """Whether a size may be another one without a word: it has no name."""
        return key is not None and not isinstance(self.kinds[key], Dim)

    def _merged(self, first, second):
        """The attempt in which two more sizes are one symbol, with the first's key."""
        first = self.attempt.merged.get(first, first)
        merged = {
            key: first if one == second else one
            for key, one in self.attempt.merged.items()
        }
        names = self.symbol_names
        names[first] = min(names[first], names[second])
        return Attempt({**merged, second: first}, self.attempt.fixed)

    def _bounds(self, key):
        """A symbol's bounds as a program shows them: integers are said to be positive."""
        low, high = self.ranges[key]
        unbounded = low == -_UNBOUNDED and self.hints[key] >= 0
        return (0 if unbounded else low), high

    def finish(self, program):
        """Tells a program the bounds of its sizes, and what it has to check."""
        ranges = {
            number.expr: self._bounds(key) for key, number in self.symbols.items()
        }
        ranges |= {
            made.expr: [spec.factor * one + spec.rest for one in ranges[symbol.expr]]
            for spec, symbol, made in self.rest
        }
        ranges |= {
            read.symbol: (read.symbol.low, read.symbol.high)
            for read in self.env.elements.reads
        }
        program._range_constraints = {
            SizeText(expr): ValueRange(*bounds) for expr, bounds in ranges.items()
        }
        program._guards = [
            guard_of(formula, outcome, program) for formula, outcome in self.checks
        ]


_MORE = 'For more information, run with TORCH_LOGS="+dynamic".'


def _symbol_names(wanted):
    """The name of each open size's symbol: PyTorch's, of equal sizes the first in order."""
    found: dict = {}
    taken: set = set()
    roots = []
    for one in (one for several in wanted.values() for one in several):
        spec = one.spec
        if isinstance(spec, (int, type(None))) or getattr(spec, "type", "") == "STATIC":
            continue
        name = symbol_name(one.source, taken)
        if isinstance(spec, Dim) and spec is not spec.root:
            roots.append(spec.root.__name__)
            continue
        key = spec.__name__ if isinstance(spec, Dim) else one.source
        found[key] = min(name, found.get(key, name))
    for key in roots:  # of which no size is known but what is computed of it
        if key not in found:
            found[key] = symbol_name(key, taken)
    return found


def _shown(formula: Formula, outcome):
    return str(formula) if outcome else f"not {formula}"


def _violated(name, fact, fix):
    fixes = f"\nSuggested fixes:\n  {fix}\n" if fix else ""
    return UserError(
        UserErrorType.CONSTRAINT_VIOLATION,
        f"Constraints violated ({name})! {_MORE}\n  - {fact}{fixes}",
        case_name="constraint_violation",
    )
