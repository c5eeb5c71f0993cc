"""The floating-point formats, and the bit tricks that the functions are made of."""

import functools
import struct
from dataclasses import dataclass

from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.expr import Call, Const, Expr, Reinterpret, Type


@dataclass(frozen=True)
class Format:
    """One IEEE format.

    Attributes:
        mantissa: stored bits of the fraction.
        bias: of the exponent.
        magic: added to a small number, it leaves the nearest integer in the low bits.
        tiny: the smallest normal number.
    """

    bits: int
    mantissa: int
    bias: int

    @property
    def magic(self) -> float:
        return 1.5 * 2.0**self.mantissa

    @property
    def tiny(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def integer(self) -> Type:
        return Type(f"int{self.bits}")


FORMATS = {"float32": Format(32, 23, 127), "float64": Format(64, 52, 1023)}


def format_of(x) -> Format:
    """The format of a value's lanes."""
    return FORMATS[x.type.name]


def bits(x) -> Expr:
    """The bits of a float as a signed integer."""
    return Reinterpret(format_of(x).integer.like(x.type), x)


def from_bits(i, like) -> Expr:
    """The float, of the type of ``like``, that has these bits."""
    return Reinterpret(like.type, i)


def literal_bits(value, x) -> int:
    """The bits of a Python float in the format of ``x``."""
    letter = "fi" if x.type.name == "float32" else "dq"
    return struct.unpack("<" + letter[1], struct.pack("<" + letter[0], value))[0]


def power_of_two(k, like) -> Expr:
    """Two to an integer power within the range of normal numbers."""
    form = format_of(like)
    return from_bits((k + form.bias) << form.mantissa, like)


def rounded(number, x) -> float:
    """The nearest number of the format of ``x``."""
    value = float(number)
    if x.type.name == "float32":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return value


def fma(x, y, z) -> Expr:
    """``x * y + z`` with one rounding."""
    x, y, z = ir.unify(x, y, z)
    return Call("fma", x.type, x, y, z)


def polynomial(x, coefficients) -> Expr:
    """A polynomial by Horner's rule; coefficients from the constant term up."""
    *rest, result = (Const(x.type, c) for c in coefficients)
    for coefficient in reversed(rest):
        result = fma(result, x, coefficient)
    return result


def in_two_chains(x, square, coefficients) -> Expr:
    """A polynomial as that of its even powers and that of its odd ones.

    Half as many steps wait for one another; coefficients may be values.
    """
    chains = []
    for first in (0, 1):
        *rest, value = coefficients[first::2]
        value = ir.unify(value, x)[0]
        for coefficient in reversed(rest):
            value = fma(value, square, coefficient)
        chains.append(value)
    return fma(chains[1], x, chains[0])


def clamp(x, low, high) -> Expr:
    """``x`` within bounds; NaN passes. Each side is one machine instruction."""
    x = ir.select(x > high, high, x)
    return ir.select(x < low, low, x)


def copysign(x, y) -> Expr:
    """The magnitude of ``x`` with the sign of ``y``."""
    return Call("copysign", x.type, x, y)


def root(x) -> Expr:
    """The square root."""
    return Call("sqrt", x.type, x)


def short_quotient(x, y) -> Expr:
    """``x / y`` of float64 numbers, to 46 bits; ``y`` is a normal float32 in size.

    A division of float32 takes a third of the time; one step makes its inverse fine.
    """
    inverse = ir.cast(x.type, 1.0 / ir.cast(ir.f32, y))
    quotient = x * inverse
    return fma(fma(-quotient, y, x), inverse, quotient)


def short_inverse_root(x) -> Expr:
    """One over the root of a float64, to 45 bits; ``x`` is a normal float32 in size.

    As `short_quotient`: Newton's step behind a root and a division of float32.
    """
    inverse = ir.cast(x.type, 1.0 / root(ir.cast(ir.f32, x)))
    return fma(fma(-x * inverse, inverse, 1.0), inverse * 0.5, inverse)


# Less half of a positive float32's bits: those of about one over its root.
INVERSE_ROOT_BITS = 0x5F3759DF


def half_inverse_root(x) -> Expr:
    """Half of one over the root of a float32, to three digits; finite for zero."""
    inverse = from_bits(INVERSE_ROOT_BITS - (bits(x) >> 1), x)
    return inverse * fma(x * -0.25 * inverse, inverse, 0.75)


def nearest(x, scale) -> tuple[Expr, Expr]:
    """The integer nearest to ``x * scale``, as a float and as bits whose low end counts.

    Right for magnitudes below a quarter of two to the mantissa's bits.
    """
    shifted = fma(x, scale, format_of(x).magic)
    return shifted - format_of(x).magic, bits(shifted)


def in_double(function):
    """A float32 function computed in float64, hence correctly rounded almost always."""

    @functools.wraps(function)
    def widened(*args):
        if args[0].type.name != "float32":
            return function(*args)
        wide = function(*(ir.cast(ir.f64, arg) for arg in args))
        return ir.cast(ir.f32, wide)

    return widened


def in_double_or_short(function):
    """As `in_double`; the function is told whether float32's accuracy is enough."""

    @functools.wraps(function)
    def widened(*args):
        if args[0].type.name != "float32":
            return function(*args, False)
        wide = function(*(ir.cast(ir.f64, arg) for arg in args), True)
        return ir.cast(ir.f32, wide)

    return widened


def spares_doubles(widen, *fine):
    """As `in_double` or its like, but on GPUs, of whose units few take float64.

    There a float32 is computed as it is, with sums of two where the function has those.

    Args:
        widen: how hosts compute it.
        fine: what the function is told beside its operands on GPUs.
    """

    def decorate(function):
        wide = widen(function)

        @functools.wraps(function)
        def chosen(*args):
            alone = args[0].type.name == "float32" and current().is_gpu
            return function(*args, *fine) if alone else wide(*args)

        return chosen

    return decorate


def pick(x, narrow, wide):
    """The constant for the format of ``x``: float32's or float64's."""
    return narrow if x.type.name == "float32" else wide
