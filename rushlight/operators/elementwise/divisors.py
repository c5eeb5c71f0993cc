"""Divisors and multiples of integers, one element at a time."""

from rushlight.codegen.frontend.branching import branching
from rushlight.codegen.frontend.pointwise import integers_only
from rushlight.codegen.loops import T, formula, highest, i64, loops_inline
from rushlight.ir import expr as ir


@formula
def rest_of(x, y):
    """What is left of ``x``, with its sign; ``y`` is known not to be zero."""
    return ir.binary("rem", x, y)


@formula
def quotient_of(x, y):
    """The quotient towards zero; ``y`` is known not to be zero."""
    return ir.binary("tdiv", x, y)


@loops_inline
def common_divisor(x, y):
    """Euclid's algorithm; the lowest number of a type, which has no size, goes as it is."""
    one = abs(x)
    other = abs(y)
    while other != T(0):
        rest = rest_of(one, other)
        one = other
        other = rest
    return one


@integers_only
@branching
def gcd(self, other):
    """Greatest common divisor."""
    return common_divisor(self, other)


@integers_only
@branching
def lcm(self, other):
    """Least common multiple, zero if either is zero; products of small types are wide."""
    divisor = common_divisor(self, other)
    product = i64(0)
    if divisor != T(0):
        product = i64(quotient_of(self, divisor)) * i64(other)
    value = T(abs(product))
    if i64(highest(T)) == 2147483647:  # as wide as a C int, which wraps before its sign
        value = abs(T(product))
    return value
