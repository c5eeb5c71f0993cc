"""Functions in pieces: of each interval of the argument a short polynomial.

The coefficients lie in tables of constants, from which every lane takes its own (see
``lookup`` of the emitters): where a processor permutes registers, a table of 16 or 32 is
one instruction, and a polynomial of degree five does what takes one of fifteen in one
piece.
"""

import functools
from decimal import Decimal, localcontext

from rushlight.codegen.math.formats import fma, in_two_chains, rounded
from rushlight.codegen.math.pairs import product_of_two, sum_of_two
from rushlight.codegen.math.series import DIGITS
from rushlight.codegen.target import current
from rushlight.ir.expr import Call, Const


def lookup(index, like, table):
    """The number at the place of a table that the low bits of an index name."""
    return Call("lookup", like.type, index, *(Const(like.type, v) for v in table))


def looked_up(index, like, columns):
    """The numbers of a row of a table, given by columns, that an index's low bits name.

    From memory, where `rows_from_memory`: a part of each lane's row is one load.
    """
    # Of float64 a register holds four, and a row takes half as many loads.
    held = permuted_floats() * 4 if like.type.itemsize == 4 else permuted_floats() // 2
    if not rows_from_memory() or len(columns[0]) <= held:
        return [lookup(index, like, column) for column in columns]
    wide = [*columns, *([columns[0]] * (-len(columns) % (16 // like.type.itemsize)))]
    table = [
        Const(like.type, number) for row in zip(*wide, strict=True) for number in row
    ]
    width = Const(index.type, len(wide))
    return [
        Call("column", like.type, index, Const(index.type, k), width, *table)
        for k in range(len(columns))
    ]


def rows_from_memory() -> bool:
    """Whether a long table is read by rows: where its registers hold few numbers."""
    return not current().is_gpu and not tables_in_registers()


def threads_alone() -> bool:
    """Whether values are a thread's each, which reads a table number by number."""
    return current().is_gpu


def permuted_floats() -> int:
    """How many float32 one instruction picks from: 32 by AVX-512, 8 by AVX2, or none.

    A table of so many places costs nothing; a longer one costs as many instructions and a
    choice for each further bit, or a load for each lane.
    """
    target = current()
    return 32 if target.has("v4") else 8 if target.has("v3") else 0


def tables_in_registers() -> bool:
    """Whether the processor permutes 16 float64, or 32 float32: a table costs nothing."""
    return permuted_floats() == 32


def equal_widths(count, step):
    """Intervals of one width, the first of which is around zero."""
    return tuple((k * step, step / 2) for k in range(count))


@functools.cache
def pieces(series, intervals, degree):
    """Polynomials for intervals of a function: a row of coefficients for each.

    Args:
        series: a function of `series`: the Taylor series around a place.
        intervals: pairs of the middle of a interval and how far it reaches.
        degree: of the polynomials. Their first terms are the function's, exactly; what
            is left is shortened by Chebyshev's polynomials.
    """
    rows = []
    with localcontext() as context:
        context.prec = DIGITS
        for middle, reach in intervals:
            first, *rest = series(Decimal(middle))
            rows.append((first, *shortened(rest, Decimal(reach), degree)))
    return tuple(rows)


@functools.cache
def from_zero(series, reach, degree):
    """The coefficients of a function that begins at zero, from there to ``reach``.

    As its quotient by the argument around the middle: zero is exact, and what is near to
    it as near as what is not.
    """
    with localcontext() as context:
        context.prec = DIGITS
        middle = Decimal(reach) / 2
        terms, quotient = series(middle), []
        for term in terms:  # times the middle and a step is the function's
            quotient.append((term - (quotient[-1] if quotient else 0)) / middle)
        around, moved = shortened(quotient, middle, degree), []
        for term in reversed(
            around
        ):  # by Horner's rule, for the argument less the middle
            raised = [Decimal(0), *moved]
            lowered = [*(-middle * c for c in moved), Decimal(0)]
            moved = [a + b for a, b in zip(raised, lowered, strict=True)]
            moved[0] += term
        return (Decimal(0), *moved[:degree])


def shortened(terms, reach, count):
    """A polynomial on ``-reach`` to ``reach`` with fewer terms, by Chebyshev's."""
    terms = list(terms)
    while len(terms) > count:
        n = len(terms) - 1
        last = terms.pop()
        # T_n without its leading term, scaled to the reach and to a leading one.
        factor = Decimal(1)
        for k in range(1, n // 2 + 1):
            factor = -factor * (n - 2 * k + 2) * (n - 2 * k + 1)
            factor = factor / (4 * k * (n - k))
            terms[n - 2 * k] -= last * factor * reach ** (2 * k)
    return terms


def columns(rows, x):
    """Coefficients of one power each, in the format of ``x``."""
    return [[rounded(c, x) for c in column] for column in zip(*rows, strict=True)]


def parts(column, x):
    """A column of numbers, and what rounding takes from them."""
    high = [rounded(number, x) for number in column]
    low = [rounded(n - Decimal(h), x) for n, h in zip(column, high, strict=True)]
    return high, low


def curve(d, index, rows):
    """The polynomial of every lane's piece."""
    *rest, value = looked_up(index, d, columns(rows, d))
    for coefficient in reversed(rest):
        value = fma(value, d, coefficient)
    return value


def fine_curve(d, index, rows, low=None):
    """The same as a sum of two, the second of which is small.

    The line is exact: the first coefficient is zero or not smaller than the step. ``low``
    is a second part of ``d``.
    """
    return fine_sum(d, looked_up(index, d, fine_columns(rows, d)), low)


def fine_columns(rows, x):
    """The columns that `fine_sum` takes the numbers of."""
    first, line, *more = zip(*rows, strict=True)
    more = [[rounded(c, x) for c in column] for column in more]
    return [*parts(first, x), *parts(line, x), *more]


def fine_sum(d, numbers, low=None):
    """`fine_curve` of a piece's numbers."""
    start, start_low, slope, slope_low, *more = numbers
    if len(more) > 8:
        value = in_two_chains(d, d * d, more)
    else:
        *rest, value = more
        for coefficient in reversed(rest):
            value = fma(value, d, coefficient)
    rest = fma(fma(value, d, slope_low), d, start_low)
    if low is not None:  # by the slope where it stands
        rest = fma(low, fma(d + d, more[0], slope), rest)
    step = d * slope
    lost = fma(d, slope, -step)
    total = start + step
    return total, (step - (total - start)) + (lost + rest)


def steady_curve(d, index, rows):
    """The same for a function that hardly changes within a piece.

    The second of the sum may be a hundredth of the first: rounding it takes nothing.
    """
    first, *more = zip(*rows, strict=True)
    high, low = parts(first, d)
    *rest, value = (
        lookup(index, d, [rounded(c, d) for c in column]) for column in more
    )
    for coefficient in reversed(rest):
        value = fma(value, d, coefficient)
    return lookup(index, d, high), fma(value, d, lookup(index, d, low))


def finer_curve(d, index, rows, steps):
    """The polynomial as a sum of two, whose last ``steps`` of Horner's rule are."""
    several = list(zip(*rows, strict=True))
    *rest, total = ([rounded(c, d) for c in column] for column in several[steps:])
    total = lookup(index, d, total)
    for column in reversed(rest):
        total = fma(total, d, lookup(index, d, column))
    low = None
    for column in reversed(several[:steps]):
        first, second = (lookup(index, d, part) for part in parts(column, d))
        product, lost = product_of_two(total, d)
        lost = lost if low is None else fma(low, d, lost)
        total, more = sum_of_two(first, product)
        low = more + (lost + second)
    return total, low
