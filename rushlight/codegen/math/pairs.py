"""Numbers as sums of two: what rounding takes from an operation, kept beside it."""

from rushlight.codegen.math.formats import fma, polynomial, rounded
from rushlight.ir.expr import Const


def sum_of_sorted(x, y):
    """``x + y`` exactly, for ``x`` zero or not smaller than ``y``."""
    total = x + y
    return total, y - (total - x)


def sum_of_two(x, y):
    """``x + y`` exactly."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def product_of_two(x, y):
    """``x * y`` exactly."""
    product = x * y
    return product, fma(x, y, -product)


def times(a, b):
    """The product of two sums of two."""
    high, low = product_of_two(a[0], b[0])
    return sum_of_sorted(high, low + fma(a[0], b[1], a[1] * b[0]))


def plus(a, b):
    """The sum of two sums of two, the first not smaller."""
    high, low = sum_of_sorted(a[0], b[0])
    return sum_of_sorted(high, low + (a[1] + b[1]))


def over(a, b):
    """The quotient of two sums of two."""
    inverse = 1.0 / b[0]
    quotient = a[0] * inverse
    rest = fma(-quotient, b[0], a[0]) + (a[1] - quotient * b[1])
    return quotient, rest * inverse


def fine_polynomial(x, coefficients):
    """A polynomial of a sum of two, whose last steps of Horner's rule keep their errors.

    The leading coefficients are sums of two themselves, and as many steps are taken so.
    ``x`` may come without a second part.
    """
    high, low = x
    fine = [c for c in coefficients if isinstance(c, tuple)]
    total, rest = polynomial(high, coefficients[len(fine) :]), None
    for first, second in reversed(fine):
        product, lost = product_of_two(total, high)
        lost = lost if low is None else fma(total, low, lost)
        lost = lost if rest is None else fma(rest, high, lost)
        near = rounded(first, high)
        total, more = sum_of_two(Const(high.type, near), product)
        rest = more + (lost + (second + (first - near)))
    return total, rest
