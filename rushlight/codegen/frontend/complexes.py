"""Complex numbers in kernels: pairs of real expressions, split while tracing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rushlight.ir import expr
from rushlight.ir.expr import Call, Expr, Type, select

# The dtypes of complex numbers, and those of their parts.
PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True, eq=False)
class Complex:
    """A symbolic complex value; arithmetic follows the textbook formulas."""

    real: Expr
    imag: Expr

    @staticmethod
    def of(value, like) -> Complex:
        """Any value as a complex one whose parts have the type ``like``."""
        if isinstance(value, Complex):
            return Complex(expr.cast(like, value.real), expr.cast(like, value.imag))
        if isinstance(value, complex):
            return Complex(expr.Const(like, value.real), expr.Const(like, value.imag))
        part = expr.as_expr(value, like)
        return Complex(expr.cast(like, part), expr.Const(like.like(part.type), 0))

    def cast(self, type) -> Expr:
        """The real part in a real type; as a truth value, whether either part is set."""
        if type.is_bool:
            return (self.real != 0) | (self.imag != 0)
        return expr.cast(type, self.real)

    @property
    def type(self):
        """The type of the parts."""
        return self.real.type

    @staticmethod
    def pair(left, right) -> tuple[Complex, Complex]:
        """Both values as complex ones."""
        like = (left if isinstance(left, Complex) else right).real.type
        return Complex.of(left, like), Complex.of(right, like)

    def __add__(self, other):
        a, b = Complex.pair(self, other)
        return Complex(a.real + b.real, a.imag + b.imag)

    __radd__ = __add__

    def __sub__(self, other):
        a, b = Complex.pair(self, other)
        return Complex(a.real - b.real, a.imag - b.imag)

    def __rsub__(self, other):
        return Complex.pair(self, other)[1] - self

    def __mul__(self, other):
        if is_real(other):
            other = expr.as_expr(other, self.type)
            return Complex(self.real * other, self.imag * other)
        a, b = Complex.pair(self, other)
        return Complex(
            a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
        )

    __rmul__ = __mul__

    def __truediv__(self, other):
        """Divides by Smith's method: scaled by the larger part, no overflow."""
        if is_real(other):
            other = expr.as_expr(other, self.type)
            return Complex(self.real / other, self.imag / other)
        a, b = Complex.pair(self, other)
        steep = abs(b.real) < abs(b.imag)
        large = expr.select(steep, b.imag, b.real)
        small = expr.select(steep, b.real, b.imag)
        ratio = small / large
        scale = 1.0 / _fma(small, ratio, large)
        first = expr.select(steep, a.imag, a.real)
        second = expr.select(steep, a.real, a.imag)
        top = _fma(second, ratio, first) * scale
        swapped = expr.select(steep, first, -first)
        rest = expr.select(steep, -second, second)
        cross = _fma(swapped, ratio, rest) * scale
        nothing = (b.real == 0) & (b.imag == 0)
        return Complex(
            expr.select(nothing, a.real / abs(b.real), top),
            expr.select(nothing, a.imag / abs(b.imag), cross),
        )

    def __rtruediv__(self, other):
        return Complex.pair(self, other)[1] / self

    def __neg__(self):
        return Complex(-self.real, -self.imag)

    def __abs__(self):
        return magnitude(self)

    def __eq__(self, other):
        a, b = Complex.pair(self, other)
        return (a.real == b.real) & (a.imag == b.imag)

    def __ne__(self, other):
        a, b = Complex.pair(self, other)
        return (a.real != b.real) | (a.imag != b.imag)

    __hash__ = object.__hash__


def _fma(x, y, z):
    return Call("fma", x.type, x, y, z)


def is_real(value) -> bool:
    """Whether a value beside a complex one has no imaginary part at all."""
    return not isinstance(value, (Complex, complex))


def math_call(name, x, *more):
    return Call(name, x.type, x, *more)


def is_nan(x):
    return x != x


def is_infinite(x):
    return abs(x) == math.inf


def ordered(z):
    """The larger and the smaller size of the parts; NaN last."""
    x, y = abs(z.real), abs(z.imag)
    swap = (x < y) | is_nan(y)
    return select(swap, y, x), select(swap, x, y)


def length(z):
    """The length without overflow: infinite beside an infinity, whatever the other."""
    large, small = ordered(z)
    ratio = small / large
    root = math_call("sqrt", ratio * ratio + 1.0)
    plain = (large == 0) | (large == math.inf)
    flat = select(is_infinite(z.real) | is_infinite(z.imag), math.inf, large)
    return select(plain | is_infinite(z.real) | is_infinite(z.imag), flat, large * root)


def magnitude(z):
    """The length, from squares in double precision where that cannot overflow."""
    if z.type.name != "float32":
        return length(z)
    double = Type("float64").like(z.type)
    x, y = expr.cast(double, z.real), expr.cast(double, z.imag)
    root = expr.cast(z.type, math_call("sqrt", x * x + y * y))
    return select(is_infinite(z.real) | is_infinite(z.imag), math.inf, root)
