"""Arithmetic, comparisons, activations."""

import math

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.onnx._types import dtype_of
from rushlight.onnx.errors import OnnxLoadError
from rushlight.onnx.importing._table import implements

_UNARY = {
    "Abs": rl.abs, "Acos": rl.acos, "Acosh": rl.acosh, "Asin": rl.asin,
    "Asinh": rl.asinh, "Atan": rl.atan, "Atanh": rl.atanh, "BitwiseNot": rl.bitwise_not,
    "Ceil": rl.ceil, "Cos": rl.cos, "Cosh": rl.cosh, "Erf": rl.erf, "Exp": rl.exp,
    "Floor": rl.floor, "HardSwish": F.hardswish, "IsNaN": rl.isnan, "Log": rl.log,
    "Mish": F.mish, "Neg": rl.neg, "Not": rl.logical_not, "Reciprocal": rl.reciprocal,
    "Relu": rl.relu, "Round": rl.round, "Sigmoid": rl.sigmoid, "Sign": rl.sign,
    "Sin": rl.sin, "Sinh": rl.sinh, "Softplus": F.softplus, "Softsign": F.softsign,
    "Sqrt": rl.sqrt, "Tan": rl.tan, "Tanh": rl.tanh,
}  # fmt: skip
_BINARY = {
    "Add": rl.add, "And": rl.logical_and, "BitwiseAnd": rl.bitwise_and,
    "BitwiseOr": rl.bitwise_or, "BitwiseXor": rl.bitwise_xor, "Equal": rl.eq,
    "Greater": rl.gt, "GreaterOrEqual": rl.ge, "Less": rl.lt, "LessOrEqual": rl.le,
    "Mul": rl.mul, "Or": rl.logical_or, "Sub": rl.sub, "Xor": rl.logical_xor,
}  # fmt: skip


def _register_unary(name, function):
    @implements(name)
    def apply(x):
        return function(x)


def _register_binary(name, function):
    @implements(name)
    def apply(a, b, axis=None, broadcast=None):
        return function(a, b)


for _name, _function in _UNARY.items():
    _register_unary(_name, _function)
for _name, _function in _BINARY.items():
    _register_binary(_name, _function)


@implements("Div")
def div(a, b):
    """The quotient; of integers rounded towards zero."""
    if a.dtype.is_floating_point:
        return a / b
    return rl.div(a, b, rounding_mode="trunc")


@implements("Mod")
def mod(a, b, fmod=0):
    """What is left of a division, with the sign of either operand."""
    return rl.fmod(a, b) if fmod else rl.remainder(a, b)


@implements("Pow")
def pow_(a, b):
    """A power, in the base's type."""
    made = rl.pow(a, b)
    return made.to(a.dtype)


@implements("BitShift")
def bit_shift(a, b, direction):
    """Bits moved to one side."""
    if direction == "LEFT":
        return rl.bitwise_left_shift(a, b)
    return rl.bitwise_right_shift(a, b)


# What is too large for these types is the largest number, unless one asks for none.
_BYTES = (rl.float8_e4m3fn, rl.float8_e4m3fnuz, rl.float8_e5m2, rl.float8_e5m2fnuz)


def _converted(x, kind, saturate):
    if kind not in _BYTES or not x.dtype.is_floating_point:
        return x.to(kind)
    top = rl.finfo(kind).max
    if saturate:
        return x.clamp(-top, top).to(kind)
    infinite = kind is rl.float8_e5m2
    near = x.clamp(-top, top).to(kind)
    beyond = math.inf if infinite else math.nan
    large = x.abs() > top * (1 + 2.0 ** -(3 if infinite else 4))
    return rl.where(
        large, (x.sign() * beyond).to(kind).to(x.dtype), near.to(x.dtype)
    ).to(kind)


@implements("Cast")
def cast(x, to, saturate=1, round_mode="up"):
    """Elements of another type."""
    kind = dtype_of(to)
    if kind is None:
        raise OnnxLoadError(f"elements of ONNX's type {to} are not there in Rushlight")
    return _converted(x, kind, saturate)


@implements("CastLike")
def cast_like(x, like, saturate=1, round_mode="up"):
    """Elements of another tensor's type."""
    return _converted(x, like.dtype, saturate)


@implements("Identity")
def identity(x):
    """The value itself."""
    return x


@implements("IsInf")
def isinf(x, detect_negative=1, detect_positive=1):
    """Which elements are infinite, of either sign or of one."""
    made = rl.isinf(x)
    if not detect_negative:
        made = made & (x > 0)
    return made if detect_positive else made & (x < 0)


@implements("Where")
def where(condition, x, y):
    """One of two values, element by element."""
    return rl.where(condition, x, y)


def _extreme(name, function):
    @implements(name)
    def apply(*operands):
        made = operands[0]
        for one in operands[1:]:
            made = function(made, one)
        return made


_extreme("Max", rl.maximum)
_extreme("Min", rl.minimum)
_extreme("Sum", rl.add)


@implements("Mean")
def mean_of(*operands):
    """The mean of several tensors."""
    made = operands[0]
    for one in operands[1:]:
        made = made + one
    return made / len(operands)


@implements("Clip")
def clip(x, low=None, high=None, min=None, max=None):
    """Within bounds, which older versions have as attributes."""
    low, high = min if low is None else low, max if high is None else high
    kind = x.dtype
    if low is not None:
        x = rl.maximum(x, rl.as_tensor(low, dtype=kind))
    return x if high is None else rl.minimum(x, rl.as_tensor(high, dtype=kind))


# -- activations -------------------------------------------------------------------------


@implements("Celu")
def celu(x, alpha=1.0):
    """x, or alpha (exp(x / alpha) - 1) below zero."""
    return F.celu(x, alpha)


@implements("Elu")
def elu(x, alpha=1.0):
    """x, or alpha (exp(x) - 1) below zero."""
    return F.elu(x, alpha)


@implements("Selu")
def selu(x, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875):
    """gamma times the elu."""
    return rl.where(x > 0, gamma * x, gamma * alpha * rl.expm1(rl.clamp(x, max=0)))


@implements("LeakyRelu")
def leaky_relu(x, alpha=0.01):
    """x, or a little of it below zero."""
    return F.leaky_relu(x, alpha)


@implements("PRelu")
def prelu(x, slope):
    """x, or slope x below zero."""
    return rl.where(x >= 0, x, x * slope)


@implements("ThresholdedRelu")
def thresholded_relu(x, alpha=1.0):
    """x above a threshold, else zero."""
    return rl.where(x > alpha, x, rl.zeros_like(x))


@implements("HardSigmoid")
def hard_sigmoid(x, alpha=0.2, beta=0.5):
    """A ramp from zero to one."""
    return (x * alpha + beta).clamp(0, 1)


@implements("Gelu")
def gelu(x, approximate="none"):
    """x Phi(x)."""
    return F.gelu(x, approximate=approximate)


@implements("Swish")
def swish(x, alpha=1.0):
    """x sigmoid(alpha x)."""
    return x * rl.sigmoid(alpha * x)


@implements("Shrink")
def shrink(x, bias=0.0, lambd=0.5):
    """Towards zero by a bias, and zero near it."""
    made = rl.where(x < -lambd, x + bias, rl.zeros_like(x))
    return rl.where(x > lambd, x - bias, made).to(x.dtype)


def _rows(x, axis, opset, function):
    """A function of rows; of all dimensions from an axis on before version 13."""
    if opset >= 13:
        return function(x, dim=-1 if axis is None else axis)
    axis = (1 if axis is None else axis) % max(x.dim(), 1)
    flat = x.reshape(math.prod(x.shape[:axis]), -1)
    return function(flat, dim=1).reshape(x.shape)


@implements("Softmax")
def softmax(x, axis=None, opset=13):
    """Exponentials that sum to one."""
    return _rows(x, axis, opset, rl.softmax)


@implements("LogSoftmax")
def log_softmax(x, axis=None, opset=13):
    """The logarithm of the softmax."""
    return _rows(x, axis, opset, rl.log_softmax)


def _first_largest(x, dim):
    indices = x.argmax(dim, keepdim=True)
    return rl.zeros_like(x).scatter(dim, indices, 1)


@implements("Hardmax")
def hardmax(x, axis=None, opset=13):
    """One at the first of the largest, else zero."""
    return _rows(x, axis, opset, _first_largest)


@implements("Dropout")
def dropout(
    x, ratio=None, training_mode=None, seed=None, outputs=1, opset=13, is_test=None
):
    """Elements dropped in training mode, else the value itself."""
    ratio = 0.5 if ratio is None else float(ratio)
    if training_mode is None or not bool(training_mode) or ratio == 0:
        mask = rl.ones_like(x, dtype=rl.bool)
        return (x, mask) if outputs > 1 else x
    mask = rl.rand(x.shape) >= ratio
    made = rl.where(mask, x / (1 - ratio), rl.zeros_like(x))
    return (made, mask) if outputs > 1 else made
