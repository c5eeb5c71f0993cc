"""Activations, softmax, and dropout."""

import math

import rushlight as rl
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.onnx.lowering.elementwise import extreme
from rushlight.operators import call


@lowers(call.gelu)
def gelu(g, self, approximate="none"):
    """x Phi(x), exact or by a hyperbolic tangent."""
    kind = self.dtype
    if g.opset >= 20:
        return g.op("Gelu", self, approximate=approximate, dtype=kind)
    if approximate == "tanh":
        cube = g.mul(g.mul(self, self), self)
        inner = g.mul(g.add(self, g.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
        share = g.add(g.op("Tanh", inner, dtype=kind), 1.0)
    else:
        share = g.add(g.op("Erf", g.mul(self, math.sqrt(0.5)), dtype=kind), 1.0)
    return g.mul(g.mul(self, 0.5), share)


@lowers(call.silu)
def silu(g, self):
    """x sigmoid(x)."""
    return g.mul(self, g.op("Sigmoid", self, dtype=self.dtype))


@lowers(call.mish)
def mish(g, self):
    """x tanh(softplus(x))."""
    return g.op("Mish", self, dtype=self.dtype)


@lowers(call.elu)
def elu(g, self, alpha=1, scale=1, input_scale=1):
    """x, or alpha (exp(x) - 1) below zero."""
    if scale == 1 and input_scale == 1:
        return g.op("Elu", self, alpha=float(alpha), dtype=self.dtype)
    inner = g.mul(self, input_scale)
    below = g.mul(g.sub(g.op("Exp", inner, dtype=self.dtype), 1.0), alpha * scale)
    return g.where(g.compare("Greater", self, 0.0), g.mul(self, scale), below)


@lowers(call.selu)
def selu(g, self):
    """The elu that keeps mean and variance."""
    return g.op("Selu", self, dtype=self.dtype)


@lowers(call.celu)
def celu(g, self, alpha=1):
    """x, or alpha (exp(x / alpha) - 1) below zero."""
    inner = g.op("Exp", g.div(self, float(alpha)), dtype=self.dtype)
    below = g.mul(g.sub(inner, 1.0), float(alpha))
    return g.where(g.compare("Greater", self, 0.0), self, below)


@lowers(call.leaky_relu)
def leaky_relu(g, self, negative_slope=0.01):
    """x, or a little of it below zero."""
    return g.op("LeakyRelu", self, alpha=float(negative_slope), dtype=self.dtype)


@lowers(call.rrelu)
def rrelu(g, self, lower=1 / 8, upper=1 / 3, training=False):
    """The leaky rectifier with the slope in the middle."""
    if training:
        raise Unsupported("its slopes are random in training")
    return leaky_relu(g, self, (lower + upper) / 2)


@lowers(call._prelu_kernel)
def prelu_kernel(g, self, weight):
    """x, or weight x below zero, where the weight has its dimensions."""
    return g.op("PRelu", self, weight, dtype=self.dtype)


@lowers(call.prelu)
def prelu(g, self, weight):
    """x, or weight x below zero, with a weight for each channel."""
    if self.rank > 1:
        weight = g.reshape(weight, [-1, *[1] * (self.rank - 2)])
    elif self.rank == 0:
        weight = g.reshape(weight, [])
    return g.op("PRelu", self, weight, dtype=self.dtype)


@lowers(call.softplus)
def softplus(g, self, beta=1, threshold=20):
    """log(1 + exp(beta x)) / beta, and x itself far above zero."""
    kind = self.dtype
    scaled = g.mul(self, float(beta))
    made = g.div(g.op("Softplus", scaled, dtype=kind), float(beta))
    return g.where(g.compare("Greater", scaled, float(threshold)), self, made)


@lowers(call.log_sigmoid)
def log_sigmoid(g, self):
    """The logarithm of the sigmoid, without overflow."""
    kind = self.dtype
    inner = g.op("Softplus", g.op("Neg", self, dtype=kind), dtype=kind)
    return g.op("Neg", inner, dtype=kind)


@lowers(call.hardsigmoid)
def hardsigmoid(g, self):
    """A ramp from -3 to 3."""
    return g.op("HardSigmoid", self, alpha=1 / 6, beta=0.5, dtype=self.dtype)


@lowers(call.hardswish)
def hardswish(g, self):
    """x times the ramp."""
    return g.op("HardSwish", self, dtype=self.dtype)


def _within(g, value, low, high):
    kind = value.dtype
    value = extreme(g, "Max", value, g.const(g._as_number(low, kind), kind))
    return extreme(g, "Min", value, g.const(g._as_number(high, kind), kind))


@lowers(call.hardtanh)
def hardtanh(g, self, min_val=-1, max_val=1):
    """x within two bounds."""
    return _within(g, self, min_val, max_val)


@lowers(call.relu6)
def relu6(g, self):
    """x within 0 and 6."""
    return _within(g, self, 0, 6)


@lowers(call.hardshrink)
def hardshrink(g, self, lambd=0.5):
    """x, or zero near zero."""
    near = g.compare("LessOrEqual", g.op("Abs", self, dtype=self.dtype), float(lambd))
    return g.where(near, g.const(0.0, self.dtype), self)


@lowers(call.softshrink)
def softshrink(g, self, lambd=0.5):
    """x moved towards zero, and zero near zero."""
    return g.op("Shrink", self, lambd=float(lambd), bias=float(lambd), dtype=self.dtype)


@lowers(call.threshold)
def threshold(g, self, threshold, value):
    """x above a threshold, else a value."""
    kind = self.dtype
    above = g.compare("Greater", self, threshold)
    return g.where(above, self, g.cast(value, kind))


@lowers(call.glu)
def glu(g, self, dim=-1):
    """The first half times the sigmoid of the second."""
    first, second = halves(g, self, dim)
    return g.mul(first, g.op("Sigmoid", second, dtype=self.dtype))


def halves(g, value, dim):
    """The two halves of a value along a dimension."""
    parts = g.op("Split", value, axis=dim, num_outputs=2, outputs=2)
    for one in parts:
        one.dtype = value.dtype
    return parts


def _softmax(g, op_type, self, dim, kind):
    self = g.cast(self, kind)
    if self.rank == 0:
        return g.reshape(g.op(op_type, g.reshape(self, [1]), axis=0, dtype=kind), [])
    return g.op(op_type, self, axis=dim, dtype=kind)


@lowers(call.softmax, call._softmax, call._safe_softmax)
def softmax(g, self, dim, dtype=None, half_to_float=False):
    """Exponentials that sum to one."""
    return _softmax(g, "Softmax", self, dim, g.kind)


@lowers(call.log_softmax, call._log_softmax)
def log_softmax(g, self, dim, dtype=None, half_to_float=False):
    """The logarithm of the softmax."""
    return _softmax(g, "LogSoftmax", self, dim, g.kind)


def _dropped(g, value, p, train):
    kind = value.dtype
    return g.op(
        "Dropout", value, g.const(float(p), rl.float32), g.const(bool(train), rl.bool),
        outputs=2, dtype=kind,
    )  # fmt: skip


@lowers(call.dropout)
def dropout(g, input, p, train):
    """Elements dropped in training; else the value itself."""
    if not train or p == 0:
        return input
    return _dropped(g, input, p, train)[0]


@lowers(call.native_dropout)
def native_dropout(g, input, p, train):
    """The same, with which elements are left."""
    result, mask = _dropped(g, input, p, train)
    mask.dtype = rl.bool
    return result, mask
