"""Formulas of sizes that compiled code has computed, from what it gives at sample points.

A size is found among the expressions that an operator was called with, or else as one of
a few forms of them: ``(a*e + b) // c``, a sum with whole coefficients of expressions and
products of two, or a minimum or maximum with a number. Within a form the formula is the
only one that fits: the operator is asked at as many further points as that takes, and at
some more. A size of no such form has no formula, and is a name of its own.
"""

import itertools
import math
from fractions import Fraction

from rushlight.ir import formulas, sizes
from rushlight.ir.symbolic import POINTS

MORE = 5  # points that a form is asked at besides those that have decided it
_MOST = 64  # points that deciding takes
_PAIRED = 5  # expressions of which two together are tried
_COLUMNS = 8  # of a sum's unknown coefficients


def derived_size(env, values, candidates, again):
    """The expression that has values at sample points.

    Args:
        env: the `ShapeEnv`.
        values: of all of its points.
        candidates: expressions that it may be, or be made of.
        again: the value at another point; None where there is none.
    """
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    samples = Samples(values, again, POINTS)
    others, symbols = env.expressions()
    found = known(samples, candidates, len(values) == POINTS)
    if found is None:
        found = fitted(samples, [*dict.fromkeys([*candidates, *symbols])])
    if found is None:
        found = known(samples, others)
    return env.size(samples.at) if found is None else found


class Samples:
    """What a number is at sample points.

    Args:
        values: by point.
        again: what it is at another point; None where the operator does not run.
        first: the first of the points that were not asked yet.
    """

    def __init__(self, values, again, first):
        self.values, self.again, self.next = dict(values), again, first

    def at(self, point):
        """The value at a point; None where there is none."""
        if point not in self.values:
            self.values[point] = self.again(point)
        return self.values[point]

    def one_more(self):
        """Asks at one more point; False where all were."""
        if self.next >= _MOST:
            return False
        found = self.again(self.next)
        if found is not None:
            self.values[self.next] = found
        self.next += 1
        return True

    def fits(self, expr):
        """Whether an expression has these values."""
        return all(formulas.at_point(expr, at) == v for at, v in self.values.items())

    def confirmed(self, expr):
        """An expression that fits at some more points, too; else None."""
        for _ in range(MORE):
            self.one_more()
        return expr if self.fits(expr) else None


def known(samples, candidates, sure=False):
    """The first of some expressions that has the values; None where none has.

    Args:
        candidates: the expressions.
        sure: whether one that has them is not asked at more points.
    """
    for one in candidates:
        if samples.fits(one) and (sure or samples.confirmed(one) is not None):
            return one
    return None


def fitted(samples, bases):
    """An expression of some others that has the values; None where there is none."""
    pairs = list(itertools.combinations(bases[:_PAIRED], 2))
    for make, among in (
        (_line, bases),
        (_extreme, pairs),
        (_clamped, bases),
        (_line, [sizes.subtract(*pair) for pair in pairs]),
        (_line, [sizes.add(*pair) for pair in pairs]),
    ):
        for base in among:
            made = make(samples, base)
            if made is not None:
                return made
    return _sum(samples, bases)


def _extreme(samples, pair):
    """The smaller or the larger of two expressions."""
    for pick in (sizes.minimum, sizes.maximum):
        made = pick(*pair)
        if samples.fits(made):
            return samples.confirmed(made)
    return None


def _line(samples, base):
    """``(a*e + b) // c``, with the only ``b`` that fits."""
    at = {one: formulas.at_point(base, one) for one in samples.values}
    if None in at.values():
        return None
    low, high = min(at, key=at.get), max(at, key=at.get)
    length = at[high] - at[low]
    if not length:
        return None
    slope = Fraction(samples.values[high] - samples.values[low], length)
    slope = slope.limit_denominator(max(math.isqrt(length // 2), 1))
    a, c = slope.numerator, slope.denominator
    if not a:
        return None
    while True:
        rests = [
            c * value - a * formulas.at_point(base, one)
            for one, value in samples.values.items()
        ]
        least, most = max(rests), min(rests) + c - 1
        if least > most:
            return None
        if least == most or not samples.one_more():
            break
    total = sizes.add(sizes.multiply(base, a), least)
    return samples.confirmed(sizes.floordiv(total, c))


def _clamped(samples, base):
    """The smaller or the larger of an expression and a number."""
    values = samples.values.values()
    for pick, bound in ((sizes.minimum, max(values)), (sizes.maximum, min(values))):
        made = pick(base, bound)
        if made not in (base, bound) and samples.fits(made):
            return samples.confirmed(made)
    return None


def _sum(samples, bases):
    """A sum with whole coefficients, with products of two where plain ones do not do."""
    products = [
        sizes.multiply(one, other)
        for at, one in enumerate(bases)
        for other in bases[at:]
    ]
    for columns in (bases, [*bases, *products]):
        columns = [1, *dict.fromkeys(columns)][:_COLUMNS]
        while len(samples.values) < len(columns) + 2 and samples.one_more():
            pass
        found = _solved(samples, columns)
        if found is not None:
            made = 0
            for count, one in zip(found, columns):
                made = sizes.add(made, sizes.multiply(one, count))
            return samples.confirmed(made)
    return None


def _solved(samples, columns):
    """Whole coefficients of columns that give the values; None where there are none."""
    rows = []
    for at, value in samples.values.items():
        row = [formulas.at_point(one, at) for one in columns]
        if None in row:
            return None
        rows.append([Fraction(one) for one in (*row, value)])
    pivots: list = []
    for column in range(len(columns)):
        count = len(pivots)
        pivot = next((r for r in range(count, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[count], rows[pivot] = rows[pivot], rows[count]
        scale = rows[count][column]
        rows[count] = [one / scale for one in rows[count]]
        for r, row in enumerate(rows):
            if r != count and row[column]:
                rows[r] = [a - row[column] * b for a, b in zip(row, rows[count])]
        pivots.append(column)
    if len(rows) < len(pivots) + 2 or any(row[-1] for row in rows[len(pivots) :]):
        return None
    found = [0] * len(columns)
    for row, column in zip(rows, pivots):
        if row[-1].denominator != 1:
            return None
        found[column] = int(row[-1])
    return found
