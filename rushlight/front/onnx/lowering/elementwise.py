"""Arithmetic, comparisons, rounding: one element of the result for one of each operand."""

import math

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.operators import call

_UNARY = {
    call.abs: "Abs", call.ceil: "Ceil", call.floor: "Floor", call.neg: "Neg",
    call.sign: "Sign", call.sgn: "Sign", call.relu: "Relu",
}  # fmt: skip
# The same, for which integers become floating-point numbers.
_FLOAT_UNARY = {
    call.acos: "Acos", call.acosh: "Acosh", call.asin: "Asin", call.asinh: "Asinh",
    call.atan: "Atan", call.atanh: "Atanh", call.cos: "Cos", call.cosh: "Cosh",
    call.erf: "Erf", call.exp: "Exp", call.log: "Log", call.reciprocal: "Reciprocal",
    call.sigmoid: "Sigmoid", call.sin: "Sin", call.sinh: "Sinh", call.sqrt: "Sqrt",
    call.tan: "Tan", call.tanh: "Tanh",
}  # fmt: skip
_COMPARISONS = {
    call.eq: "Equal", call.ge: "GreaterOrEqual", call.gt: "Greater",
    call.le: "LessOrEqual", call.lt: "Less",
}  # fmt: skip
_LOGIC = {call.logical_and: "And", call.logical_or: "Or", call.logical_xor: "Xor"}
_BITS = {
    call.bitwise_and: ("And", "BitwiseAnd"), call.bitwise_or: ("Or", "BitwiseOr"),
    call.bitwise_xor: ("Xor", "BitwiseXor"),
    call.__and__: ("And", "BitwiseAnd"), call.__or__: ("Or", "BitwiseOr"),
    call.__xor__: ("Xor", "BitwiseXor"),
}  # fmt: skip


def _register_unary(packet, op_type, floats):
    @lowers(packet)
    def lower(g, self):
        rounds = op_type in ("Ceil", "Floor")
        if rounds and not self.dtype.is_floating_point:
            return self
        if op_type in ("Abs", "Relu") and self.dtype is rl.bool:
            return self
        kind = g.kind if floats else self.dtype
        return g.op(op_type, g.cast(self, kind), dtype=kind)


for _packet, _type in _UNARY.items():
    _register_unary(_packet, _type, False)
for _packet, _type in _FLOAT_UNARY.items():
    _register_unary(_packet, _type, True)


def common_type(self, other):
    """The type that two operands are compared in: numbers, sizes, and tensors."""
    kinds = []
    for one in (self, other):
        if isinstance(one, Value):
            known = not one.is_size and one.shape is not None
            dims = len(one.shape) if known else 0
            kinds.append(1 if one.is_size else rl.empty([1] * dims, dtype=one.dtype))
        else:
            kinds.append(one)
    if not any(isinstance(one, rl.Tensor) for one in kinds):
        return rl.int64
    return rl.result_type(*kinds)


def _register_comparison(packet, op_type):
    @lowers(packet)
    def lower(g, self, other):
        kind = common_type(self, other)
        if kind is rl.bool:
            kind = rl.int32  # ORT compares no truth values but for equality
        return g.op(op_type, g.cast(self, kind), g.cast(other, kind), dtype=rl.bool)


for _packet, _type in _COMPARISONS.items():
    _register_comparison(_packet, _type)


def _register_logic(packet, op_type):
    @lowers(packet)
    def lower(g, self, other):
        return g.op(op_type, truth(g, self), truth(g, other), dtype=rl.bool)


for _packet, _type in _LOGIC.items():
    _register_logic(_packet, _type)


def _register_bits(packet, truth_type, bits_type):
    @lowers(packet)
    def lower(g, self, other):
        kind = g.kind
        op_type = truth_type if kind is rl.bool else bits_type
        return g.op(op_type, g.cast(self, kind), g.cast(other, kind), dtype=kind)


for _packet, _types in _BITS.items():
    _register_bits(_packet, *_types)


def truth(g, value):
    """A value as truth values: what is not zero."""
    if not isinstance(value, Value) or value.dtype is rl.bool:
        return g.cast(value, rl.bool)
    return g.op("Cast", value, to=9, dtype=rl.bool, shape=value.shape)


@lowers(call.ne)
def ne(g, self, other):
    """Not equal."""
    kind = common_type(self, other)
    equal = g.op("Equal", g.cast(self, kind), g.cast(other, kind), dtype=rl.bool)
    return g.op("Not", equal, dtype=rl.bool)


@lowers(call.logical_not)
def logical_not(g, self):
    """What is zero."""
    return g.op("Not", truth(g, self), dtype=rl.bool)


@lowers(call.bitwise_not)
def bitwise_not(g, self):
    """All bits the other way."""
    op_type = "Not" if self.dtype is rl.bool else "BitwiseNot"
    return g.op(op_type, self, dtype=self.dtype)


# -- arithmetic ------------------------------------------------------------------------


def scaled(g, other, alpha):
    """A number times a value, in the result's type."""
    kind = g.kind
    if isinstance(alpha, Value) or alpha != 1:
        if not isinstance(other, Value) and not isinstance(alpha, Value):
            return g.cast(other * alpha, kind)
        return g.mul(g.cast(other, kind), g.cast(alpha, kind))
    return g.cast(other, kind)


@lowers(call.add)
def add(g, self, other, alpha=1):
    """self + alpha * other."""
    if g.kind is rl.bool:
        return g.op("Or", g.cast(self, rl.bool), g.cast(other, rl.bool), dtype=rl.bool)
    return g.add(g.cast(self, g.kind), scaled(g, other, alpha))


@lowers(call.sub)
def sub(g, self, other, alpha=1):
    """self - alpha * other."""
    return g.sub(g.cast(self, g.kind), scaled(g, other, alpha))


@lowers(call.rsub)
def rsub(g, self, other, alpha=1):
    """other - alpha * self."""
    return g.sub(g.cast(other, g.kind), scaled(g, self, alpha))


@lowers(call.mul)
def mul(g, self, other):
    """The product."""
    if g.kind is rl.bool:
        return g.op("And", g.cast(self, rl.bool), g.cast(other, rl.bool), dtype=rl.bool)
    return g.mul(g.cast(self, g.kind), g.cast(other, g.kind))


@lowers(call.div)
def div(g, self, other, rounding_mode=None):
    """The quotient, as it is or rounded."""
    if rounding_mode == "floor":
        return floor_divide(g, self, other)
    kind = g.kind
    if rounding_mode is None or not kind.is_floating_point:
        return g.div(g.cast(self, kind), g.cast(other, kind))  # of integers: truncated
    return truncated(g, g.div(g.cast(self, kind), g.cast(other, kind)))


@lowers(call.floor_divide)
def floor_divide(g, self, other):
    """The quotient, rounded down."""
    kind = g.kind
    left, right = g.cast(self, kind), g.cast(other, kind)
    if kind.is_floating_point:
        # as PyTorch has it: the remainder is exact, the quotient of what is left near
        rest = _remainder(g, left, right)
        quotient = g.div(g.sub(left, rest), right)
        near = g.op("Round", quotient, dtype=kind)
        zero = g.compare("Equal", right, 0)
        return g.where(zero, g.div(left, right), near)
    quotient = g.div(left, right)
    if not is_signed(kind):
        return quotient
    rest = g.sub(left, g.mul(quotient, right))
    differs = g.op(
        "Xor", g.compare("Less", rest, 0), g.compare("Less", right, 0), dtype=rl.bool
    )
    exact = g.compare("Equal", rest, 0)
    lower = g.op("And", differs, g.op("Not", exact, dtype=rl.bool), dtype=rl.bool)
    return g.sub(quotient, g.cast(lower, kind))


def is_signed(kind):
    """Whether a type has negative numbers."""
    return kind not in (rl.uint8, rl.uint16, rl.uint32, rl.uint64, rl.bool)


@lowers(call.true_divide)
def true_divide(g, self, other):
    """The quotient."""
    return g.div(g.cast(self, g.kind), g.cast(other, g.kind))


def _remainder(g, left, right):
    kind = left.dtype
    if not kind.is_floating_point:
        return g.op("Mod", left, right, dtype=kind)
    rest = g.op("Mod", left, right, fmod=1, dtype=kind)
    other_sign = g.compare("Less", g.mul(g.op("Sign", rest, dtype=kind), right), 0)
    return g.where(other_sign, g.add(rest, right), rest)


@lowers(call.remainder)
def remainder(g, self, other):
    """What is left of a division, with the divisor's sign."""
    return _remainder(g, g.cast(self, g.kind), g.cast(other, g.kind))


@lowers(call.fmod)
def fmod(g, self, other):
    """What is left of a division, with the dividend's sign."""
    kind = g.kind
    return g.op("Mod", g.cast(self, kind), g.cast(other, kind), fmod=1, dtype=kind)


@lowers(call.pow)
def pow(g, self, exponent):
    """A power."""
    kind = g.kind
    if exponent == 2 and isinstance(self, Value):
        self = g.cast(self, kind)
        return g.mul(self, self)
    if exponent == 0.5 and kind.is_floating_point:
        return g.op("Sqrt", g.cast(self, kind), dtype=kind)
    return g.op("Pow", g.cast(self, kind), g.cast(exponent, kind), dtype=kind)


@lowers(call.square)
def square(g, self):
    """The second power."""
    self = g.cast(self, g.kind)
    return g.mul(self, self)


@lowers(call.rsqrt)
def rsqrt(g, self):
    """One by the square root."""
    root = g.op("Sqrt", g.cast(self, g.kind), dtype=g.kind)
    return g.op("Reciprocal", root, dtype=g.kind)


@lowers(call.exp2)
def exp2(g, self):
    """A power of two."""
    return g.op("Pow", g.const(2.0, g.kind), g.cast(self, g.kind), dtype=g.kind)


@lowers(call.expm1)
def expm1(g, self):
    """The exponential less one: 2 sinh(x/2) exp(x/2), exact near zero."""
    half = g.mul(g.cast(self, g.kind), 0.5)
    power = g.op("Exp", half, dtype=g.kind)
    near = g.mul(g.mul(g.op("Sinh", half, dtype=g.kind), 2.0), power)
    x = g.cast(self, g.kind)
    wide = g.compare("Greater", g.op("Abs", x, dtype=g.kind), 1.0)
    return g.where(wide, g.sub(g.op("Exp", x, dtype=g.kind), 1.0), near)


@lowers(call.log1p)
def log1p(g, self):
    """The logarithm of one more: x log(u)/(u-1) with u = 1+x, exact near zero."""
    x = g.cast(self, g.kind)
    more = g.add(x, 1.0)
    logarithm = g.op("Log", more, dtype=g.kind)
    gap = g.sub(more, 1.0)
    exact = g.op("Or", g.compare("Equal", gap, 0.0), g.compare("Equal", more, math.inf))
    exact.dtype = rl.bool
    near = g.div(g.mul(logarithm, x), g.where(exact, g.const(1.0, g.kind), gap))
    whole = g.compare("Equal", gap, 0.0)
    return g.where(whole, x, g.where(exact, logarithm, near))


def _logarithm(packet, base):
    @lowers(packet)
    def lower(g, self):
        made = g.op("Log", g.cast(self, g.kind), dtype=g.kind)
        return g.mul(made, 1 / math.log(base))


_logarithm(call.log2, 2)
_logarithm(call.log10, 10)


@lowers(call.erfc)
def erfc(g, self):
    """One less the error function."""
    return g.sub(g.const(1.0, g.kind), g.op("Erf", g.cast(self, g.kind), dtype=g.kind))


# -- rounding --------------------------------------------------------------------------


def truncated(g, value):
    """A value rounded towards zero."""
    kind = value.dtype
    if not kind.is_floating_point:
        return value
    size = g.op("Floor", g.op("Abs", value, dtype=kind), dtype=kind)
    return g.where(g.compare("Less", value, 0.0), g.op("Neg", size, dtype=kind), size)


@lowers(call.trunc)
def trunc(g, self):
    """Rounded towards zero."""
    return truncated(g, self)


@lowers(call.frac)
def frac(g, self):
    """What is behind the point."""
    return g.sub(self, truncated(g, self))


@lowers(call.round)
def round(g, self, decimals=0):
    """To the nearest, ties to even."""
    if not self.dtype.is_floating_point:
        return self
    if decimals == 0:
        return g.op("Round", self, dtype=self.dtype)
    scale = 10.0 ** abs(decimals)
    before, after = (g.mul, g.div) if decimals > 0 else (g.div, g.mul)
    return after(g.op("Round", before(self, scale), dtype=self.dtype), scale)


# -- questions -------------------------------------------------------------------------


@lowers(call.isnan)
def isnan(g, self):
    """Which elements are no number."""
    if not self.dtype.is_floating_point:
        return all_same(g, self, False, rl.bool)
    return g.op("IsNaN", self, dtype=rl.bool)


def infinite(g, self, positive=True, negative=True):
    """Which elements are infinite, of either sign or of one."""
    if not self.dtype.is_floating_point:
        return all_same(g, self, False, rl.bool)
    return g.op(
        "IsInf",
        self,
        detect_positive=int(positive),
        detect_negative=int(negative),
        dtype=rl.bool,
    )


@lowers(call.isinf)
def isinf(g, self):
    """Which elements are infinite."""
    return infinite(g, self)


@lowers(call.isposinf)
def isposinf(g, self):
    """Which elements are infinite and positive."""
    return infinite(g, self, negative=False)


@lowers(call.isneginf)
def isneginf(g, self):
    """Which elements are infinite and negative."""
    return infinite(g, self, positive=False)


@lowers(call.isfinite)
def isfinite(g, self):
    """Which elements are finite numbers."""
    if not self.dtype.is_floating_point:
        return all_same(g, self, True, rl.bool)
    odd = g.op("Or", g.op("IsNaN", self), g.op("IsInf", self), dtype=rl.bool)
    return g.op("Not", odd, dtype=rl.bool)


def all_same(g, like, value, dtype):
    """A constant in the sizes of a value."""
    if like.shape is not None and like.is_static():
        return g.op("Expand", g.const(value, dtype), g.ints(like.shape), dtype=dtype)
    return g.op("Expand", g.const(value, dtype), g.shape_of(like), dtype=dtype)


@lowers(call.signbit)
def signbit(g, self):
    """Which elements are negative."""
    if self.dtype is rl.bool:
        return all_same(g, self, False, rl.bool)
    negative = g.compare("Less", self, 0)
    if not self.dtype.is_floating_point:
        return negative
    below = g.compare("Less", g.op("Reciprocal", self, dtype=self.dtype), 0.0)
    return g.op("Or", negative, below, dtype=rl.bool)


# -- choices ---------------------------------------------------------------------------


@lowers(call.where)
def where(g, condition, self=None, other=None):
    """One of two values, element by element."""
    if self is None:
        raise Unsupported("of a condition alone it gives several tensors")
    kind = g.kind
    return g.op(
        "Where",
        truth(g, condition),
        g.cast(self, kind),
        g.cast(other, kind),
        dtype=kind,
    )


@lowers(call.masked_fill)
def masked_fill(g, self, mask, value):
    """A value with another where a mask is true."""
    return g.op("Where", mask, g.cast(value, self.dtype), self, dtype=self.dtype)


def extreme(g, op_type, left, right):
    """The larger or the smaller of two; no number wins."""
    kind = left.dtype
    if kind is rl.bool:
        return g.op("Or" if op_type == "Max" else "And", left, right, dtype=kind)
    return g.op(op_type, left, right, dtype=kind)


@lowers(call.maximum)
def maximum(g, self, other):
    """The larger of two."""
    return extreme(g, "Max", g.cast(self, g.kind), g.cast(other, g.kind))


@lowers(call.minimum)
def minimum(g, self, other):
    """The smaller of two."""
    return extreme(g, "Min", g.cast(self, g.kind), g.cast(other, g.kind))


def _number_wins(packet, op_type):
    @lowers(packet)
    def lower(g, self, other):
        left, right = g.cast(self, g.kind), g.cast(other, g.kind)
        made = extreme(g, op_type, left, right)
        if not g.kind.is_floating_point:
            return made
        made = g.where(g.op("IsNaN", left, dtype=rl.bool), right, made)
        return g.where(g.op("IsNaN", right, dtype=rl.bool), left, made)


_number_wins(call.fmax, "Max")
_number_wins(call.fmin, "Min")


@lowers(call.clamp)
def clamp(g, self, min=None, max=None):
    """Within bounds; the upper one wins."""
    made = g.cast(self, g.kind)
    if min is not None:
        made = extreme(g, "Max", made, g.cast(min, g.kind))
    if max is not None:
        made = extreme(g, "Min", made, g.cast(max, g.kind))
    return made


@lowers(call.clamp_min)
def clamp_min(g, self, min):
    """No less than a bound."""
    return extreme(g, "Max", g.cast(self, g.kind), g.cast(min, g.kind))


@lowers(call.clamp_max)
def clamp_max(g, self, max):
    """No more than a bound."""
    return extreme(g, "Min", g.cast(self, g.kind), g.cast(max, g.kind))
