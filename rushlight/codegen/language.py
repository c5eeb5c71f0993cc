"""The language that kernels are written in: maths over symbolic values.

Every function takes symbolic scalars or vectors, and Python numbers beside them. The
kernel's front objects (`pointwise`, `reduction`, `rowwise`) are re-exported, so that
kernel files import only this module.
"""

import math

from rushlight.codegen.frontend.complexes import Complex
from rushlight.codegen.frontend.faults import refuse_zero
from rushlight.codegen.frontend.nest import fold
from rushlight.codegen.frontend.pointwise import (
    computing,
    pointwise,
    rounded,
    rounds_between,
)
from rushlight.codegen.frontend.reduction import reduction
from rushlight.codegen.frontend.rowwise import (
    element,
    largest,
    length,
    mean,
    position,
    rowwise,
    smallest,
    total,
)
from rushlight.codegen.math import complex_functions
from rushlight.ir import expr
from rushlight.ir.expr import Call, Expr, Reinterpret, Type, boolean, unify

FRONT = (
    pointwise,
    computing,
    rounded,
    rounds_between,
    reduction,
    rowwise,
    element,
    fold,
    largest,
    length,
    mean,
    position,
    smallest,
    total,
)
inf, nan, pi, e = math.inf, math.nan, math.pi, math.e


def _unary(name, doc):
    def function(x):
        if isinstance(x, Complex):
            return complex_functions.complex_function(name, x)
        return Call(name, _floating(name, x), x)

    return _named(function, name, doc)


def _named(function, name, doc):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _floating(name, x):
    if not isinstance(x, Expr) or not x.type.is_float:
        kind = getattr(x, "type", type(x).__name__)
        raise TypeError(f"{name} takes a floating-point value, not {kind}")
    return x.type


def _binary(op, doc):
    def function(x, y):
        return expr.binary(op, x, y)

    return _named(function, op, doc)


sqrt = _unary("sqrt", "Square root, correctly rounded; NaN below zero.")
rsqrt = _unary("rsqrt", "One over the square root.")
exp = _unary("exp", "The exponential.")
exp2 = _unary("exp2", "Two to the power of the argument.")
expm1 = _unary("expm1", "The exponential less one, exact near zero.")
log = _unary("log", "Natural logarithm; -inf at zero, NaN below.")
log2 = _unary("log2", "Logarithm to base two.")
log10 = _unary("log10", "Logarithm to base ten.")
log1p = _unary("log1p", "Logarithm of one plus the argument, exact near zero.")
sin = _unary("sin", "Sine of an angle in radians.")
cos = _unary("cos", "Cosine of an angle in radians.")
tan = _unary("tan", "Tangent of an angle in radians.")
asin = _unary("asin", "Inverse sine.")
acos = _unary("acos", "Inverse cosine.")
atan = _unary("atan", "Inverse tangent.")
sinh = _unary("sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "Hyperbolic cosine.")
tanh = _unary("tanh", "Hyperbolic tangent.")
asinh = _unary("asinh", "Inverse hyperbolic sine.")
acosh = _unary("acosh", "Inverse hyperbolic cosine; NaN below one.")
atanh = _unary("atanh", "Inverse hyperbolic tangent; NaN outside [-1, 1].")
sigmoid = _unary("sigmoid", "The logistic function ``1 / (1 + exp(-x))``.")
erf = _unary("erf", "The error function.")
erfc = _unary("erfc", "One less the error function, exact far out.")
normal_cdf = _unary("normal_cdf", "The normal distribution function, right beside one.")
scaled_erfc = _unary("scaled_erfc", "``exp(x^2) erfc(x)``, from zero on.")
erfinv = _unary("erfinv", "Inverse of the error function.")
erfcinv = _unary("erfcinv", "Inverse of `erfc`, exact however small its argument.")
i0 = _unary("i0", "Modified Bessel function of the first kind, of order zero.")
i1 = _unary("i1", "Modified Bessel function of the first kind, of order one.")
scaled_i0 = _unary("scaled_i0", "``exp(-|x|)`` times `i0`.")
scaled_i1 = _unary("scaled_i1", "``exp(-|x|)`` times `i1`.")
lgamma = _unary("lgamma", "Logarithm of the absolute value of the gamma function.")
digamma = _unary("digamma", "Derivative of `lgamma`.")


def _division(op, doc):
    divide = _binary(op, doc)

    def function(x, y):
        x, y = unify(x, y)
        value = divide(x, y)
        return refuse_zero(value, y) if value.type.is_int else value

    return _named(function, op, doc)


floor_div = _division("floordiv", "Quotient rounded towards minus infinity.")
remainder = _division(
    "mod", "Remainder with the sign of the divisor, as Python's ``%``."
)
trunc_div = _division("tdiv", "Integer quotient rounded towards zero.")
fmod = _division("rem", "Remainder with the sign of the dividend.")
minimum = _binary("min", "The smaller value; NaN where either side is NaN.")
maximum = _binary("max", "The larger value; NaN where either side is NaN.")
fmin = _binary("fmin", "The smaller value; the other side where one is NaN.")
fmax = _binary("fmax", "The larger value; the other side where one is NaN.")


def _rounding(name, doc):
    def function(x):
        return Call(name, x.type, x) if x.type.is_float else x

    return _named(function, name, doc)


floor = _rounding("floor", "The largest integer that is not above; integers pass.")
ceil = _rounding("ceil", "The smallest integer that is not below; integers pass.")
trunc = _rounding("trunc", "The integer part; integers pass.")
round = _rounding("round", "The nearest integer, halves to even; integers pass.")


def select(condition, yes, no):
    """``yes`` where ``condition`` holds, else ``no``; both are evaluated."""
    if isinstance(yes, Complex) or isinstance(no, Complex):
        yes, no = Complex.pair(yes, no)
        return Complex(
            expr.select(condition, yes.real, no.real),
            expr.select(condition, yes.imag, no.imag),
        )
    if isinstance(condition, bool):
        return yes if condition else no
    return expr.select(condition, yes, no)


where = select


def fma(x, y, z):
    """``x * y + z`` with one rounding."""
    x, y, z = unify(x, y, z)
    return Call("fma", x.type, x, y, z)


def pow(x, y):
    """``x`` to the power ``y``, floats or integers of one type."""
    if isinstance(x, Complex) or isinstance(y, Complex):
        x, y = Complex.pair(x, y)
        return complex_functions.pow(x, y)
    x, y = unify(x, y)
    return Call("pow", x.type, x, y)


def atan2(y, x):
    """The angle of the point ``(x, y)``."""
    y, x = unify(y, x)
    return Call("atan2", y.type, y, x)


def copysign(x, y):
    """The magnitude of ``x`` with the sign of ``y``."""
    x, y = unify(x, y)
    return Call("copysign", x.type, x, y)


def isnan(x):
    """Whether a value is NaN; never, for integers."""
    if isinstance(x, Complex):
        return isnan(x.real) | isnan(x.imag)
    if not x.type.is_float:
        return x != x
    return Call("isnan", boolean.like(x.type), x)


def isinf(x):
    """Whether a value is an infinity of either sign."""
    if isinstance(x, Complex):
        return isinf(x.real) | isinf(x.imag)
    return abs(x) == inf if x.type.is_float else x != x


def isfinite(x):
    """Whether a value is neither infinite nor NaN."""
    if isinstance(x, Complex):
        return isfinite(x.real) & isfinite(x.imag)
    return abs(x) < inf if x.type.is_float else x == x


def sign(x):
    """-1, 0 or 1 by the sign; 0 for NaN."""
    real_only(x)
    if x.type.is_bool:
        return x
    zero, one = expr.Const(x.type, 0), expr.Const(x.type, 1)
    if not (x.type.is_float or x.type.is_signed):
        return select(x > 0, one, zero)
    return select(x > 0, one, select(x < 0, -one, zero))


def sgn(x):
    """`sign`; for complex values the direction, zero at zero."""
    if not isinstance(x, Complex):
        return sign(x)
    size = abs(x)
    flat = size == 0
    return Complex(select(flat, 0, x.real / size), select(flat, 0, x.imag / size))


def real_only(*values):
    """Refuses complex values where a formula could be applied to them but is not meant.

    Raises:
        TypeError: a value is complex.
    """
    if any(isinstance(value, Complex) for value in values):
        raise TypeError("complex values are not meant here")


def signbit(x):
    """Whether the sign bit is set; true for -0.0."""
    if x.type.is_float:
        return bits_of(x) < 0
    return x < 0 if x.type.is_signed else x != x


def square(x):
    """``x * x``."""
    return x * x


def reciprocal(x):
    """``1 / x``."""
    return 1 / x


def clamp(x, low=None, high=None):
    """``x`` held within bounds; NaN stays NaN, and so does a bound that is NaN."""
    if x.type.is_bool:
        x = x if low is None else maximum(x, low)
        return x if high is None else minimum(x, high)
    value = x
    if low is not None:
        value = select(value < low, low, value)
    if high is not None:
        value = select(value > high, high, value)
    if not x.type.is_float:
        return value
    # Asked of both bounds at once, as one instruction does.
    return nan_where(_is_nan(low, x) | _is_nan(high, x), value)


def _is_nan(bound, x):
    """Whether a bound of ``x`` is NaN: a value, a number or none."""
    if isinstance(bound, Expr):
        return isnan(bound)
    return constant(bound is not None and math.isnan(bound), x < x)


def nan_where(condition, x):
    """``x``, or NaN where a condition holds.

    All bits set are NaN: a condition is that many bits of a lane already, and to join them
    is one instruction where a choice between registers is three.
    """
    joined = bits_of(x) | select(condition, constant(-1, bits_of(x)), 0)
    return reinterpret(joined, x.type.name)


def logical_not(x):
    """Whether a value is zero."""
    if isinstance(x, Complex):
        return ~truth(x)
    return ~x if x.type.is_bool else x == 0


def truth(x):
    """Whether a value is not zero, as ``bool``."""
    if isinstance(x, Complex):
        return (x.real != 0) | (x.imag != 0)
    return cast(x, "bool")


def logical_and(x, y):
    """Whether both values are not zero."""
    return truth(x) & truth(y)


def logical_or(x, y):
    """Whether either value is not zero."""
    return truth(x) | truth(y)


def logical_xor(x, y):
    """Whether exactly one value is not zero."""
    return truth(x) ^ truth(y)


def cast(x, dtype):
    """``x`` converted to another dtype, named or given as a `Type`."""
    if isinstance(dtype, str) and dtype.startswith("complex"):
        return Complex.of(x, Type("float32" if dtype == "complex64" else "float64"))
    if isinstance(x, Complex):
        if str(dtype) in ("bool", "boolean"):
            return truth(x)
        x = x.real
    return expr.cast(Type(dtype) if isinstance(dtype, str) else dtype, x)


def reinterpret(x, dtype):
    """The bits of ``x`` read as another type of the same width."""
    dtype = Type(dtype) if isinstance(dtype, str) else dtype
    return Reinterpret(dtype.like(x.type), x)


def bits_of(x):
    """The bits of a float as a signed integer."""
    return reinterpret(x, f"int{x.type.bits}")


def float_of(x):
    """The float that an integer's bits are."""
    return reinterpret(x, f"float{x.type.bits}")


def constant(value, like):
    """A literal with the type of another value."""
    return expr.as_expr(value, like.type)


def popcount(x):
    """How many bits are set."""
    return Call("popcount", x.type, x)


def real(x):
    """The real part of a complex value."""
    return x.real if isinstance(x, Complex) else x


def imag(x):
    """The imaginary part of a complex value."""
    return x.imag if isinstance(x, Complex) else constant(0, x)


def is_complex(x):
    """Whether a value is complex: known while tracing."""
    return isinstance(x, Complex)


def conj(x):
    """The complex conjugate."""
    return Complex(x.real, -x.imag) if isinstance(x, Complex) else x


def log_add_exp(x, y):
    """The logarithm of ``exp(x) + exp(y)``, for complex values."""
    return complex_functions.log_add_exp(x, y)


def make_complex(x, y):
    """The complex number ``x + y i``."""
    return Complex(*unify(x, y))


def absolute(x):
    """The magnitude."""
    return abs(x)


def lanes_of(x):
    """How many values are computed at once."""
    return x.type.lanes


__all__ = [
    name
    for name in globals()
    if not name.startswith("_")
    and name
    not in (
        "Call",
        "Expr",
        "FRONT",
        "Reinterpret",
        "annotations",
        "complex_functions",
        "expr",
        "math",
        "refuse_zero",
        "unify",
    )
]
