"""Complex numbers in kernels: pairs of real expressions, split while tracing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rushlight.compiler import expr
from rushlight.compiler.expr import Call, Expr


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
        a, b = Complex.pair(self, other)
        return Complex(
            a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
        )

    __rmul__ = __mul__

    def __truediv__(self, other):
        """Divides by Smith's method: scaled by the larger part, no overflow."""
        a, b = Complex.pair(self, other)
        steep = abs(b.real) < abs(b.imag)
        large = expr.select(steep, b.imag, b.real)
        small = expr.select(steep, b.real, b.imag)
        ratio = small / large
        scale = large + small * ratio
        top = expr.select(steep, a.real * ratio + a.imag, a.real + a.imag * ratio)
        cross = expr.select(steep, a.imag * ratio - a.real, a.imag - a.real * ratio)
        return Complex(top / scale, cross / scale)

    def __rtruediv__(self, other):
        return Complex.pair(self, other)[1] / self

    def __neg__(self):
        return Complex(-self.real, -self.imag)

    def __abs__(self):
        x, y = abs(self.real), abs(self.imag)
        large, small = expr.binary("max", x, y), expr.binary("min", x, y)
        ratio = small / large
        root = Call("sqrt", large.type, ratio * ratio + 1.0)
        plain = (large == 0) | (large == math.inf)
        return expr.select(plain, large, large * root)

    def __eq__(self, other):
        a, b = Complex.pair(self, other)
        return (a.real == b.real) & (a.imag == b.imag)

    def __ne__(self, other):
        a, b = Complex.pair(self, other)
        return (a.real != b.real) | (a.imag != b.imag)

    __hash__ = object.__hash__


def _call(name, x):
    return Call(name, x.type, x)


def _angle(z):
    return Call("atan2", z.real.type, z.imag, z.real)


def _exp(z):
    size = _call("exp", z.real)
    return Complex(size * _call("cos", z.imag), size * _call("sin", z.imag))


def _log(z):
    return Complex(_call("log", abs(z)), _angle(z))


def _sqrt(z):
    """The root with a non-negative real part."""
    root = _call("sqrt", (abs(z) + abs(z.real)) * 0.5)
    other = expr.select(root == 0, root, z.imag / (root + root))
    right = z.real >= 0
    signed = Call("copysign", root.type, root, z.imag)
    return Complex(
        expr.select(right, root, abs(other)), expr.select(right, other, signed)
    )


def _sin(z):
    return Complex(
        _call("sin", z.real) * _call("cosh", z.imag),
        _call("cos", z.real) * _call("sinh", z.imag),
    )


def _cos(z):
    return Complex(
        _call("cos", z.real) * _call("cosh", z.imag),
        -(_call("sin", z.real) * _call("sinh", z.imag)),
    )


def _sinh(z):
    return Complex(
        _call("sinh", z.real) * _call("cos", z.imag),
        _call("cosh", z.real) * _call("sin", z.imag),
    )


def _cosh(z):
    return Complex(
        _call("cosh", z.real) * _call("cos", z.imag),
        _call("sinh", z.real) * _call("sin", z.imag),
    )


FUNCTIONS = {
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
    "sinh": _sinh,
    "cosh": _cosh,
    "tan": lambda z: _sin(z) / _cos(z),
    "tanh": lambda z: _sinh(z) / _cosh(z),
    "rsqrt": lambda z: 1 / _sqrt(z),
    "sigmoid": lambda z: 1 / (_exp(-z) + 1),
    "log2": lambda z: _log(z) * (1 / math.log(2)),
    "log10": lambda z: _log(z) * (1 / math.log(10)),
}


def complex_function(name, z) -> Complex:
    """A function of `language` at a complex point."""
    if name not in FUNCTIONS:
        raise TypeError(f"{name} is not defined on complex values")
    return FUNCTIONS[name](z)
