"""Elementwise functions of several operands that ONNX lacks: made of its own."""

import math

import rushlight as rl
from rushlight.onnx._registry import lowers
from rushlight.onnx.lowering.elementwise import extreme, infinite, is_signed, scaled
from rushlight.operators import call


@lowers(call.lerp)
def lerp(g, self, end, weight):
    """Between two values; from the end that is nearer."""
    weight = g.cast(weight, g.kind)
    gap = g.sub(end, self)
    first = g.add(self, g.mul(weight, gap))
    second = g.sub(end, g.mul(gap, g.sub(g.const(1.0, g.kind), weight)))
    near = g.compare("Less", g.op("Abs", weight, dtype=g.kind), 0.5)
    return g.where(near, first, second)


@lowers(call.addcmul)
def addcmul(g, self, tensor1, tensor2, value=1):
    """self + value * tensor1 * tensor2."""
    kind = g.kind
    product = g.mul(g.cast(tensor1, kind), g.cast(tensor2, kind))
    return g.add(g.cast(self, kind), scaled(g, product, value))


@lowers(call.addcdiv)
def addcdiv(g, self, tensor1, tensor2, value=1):
    """self + value * tensor1 / tensor2."""
    kind = g.kind
    quotient = g.div(g.cast(tensor1, kind), g.cast(tensor2, kind))
    return g.add(g.cast(self, kind), scaled(g, quotient, value))


@lowers(call.atan2)
def atan2(g, self, other):
    """The angle of a point, in all quadrants."""
    kind = g.kind
    y, x = g.cast(self, kind), g.cast(other, kind)
    angle = g.op("Atan", g.div(y, x), dtype=kind)
    iteration = g.where(g.compare("Less", y, 0.0), g.const(-math.pi, kind), math.pi)
    angle = g.where(g.compare("Less", x, 0.0), g.add(angle, iteration), angle)
    up = g.mul(g.op("Sign", y, dtype=kind), math.pi / 2)
    angle = g.where(g.compare("Equal", x, 0.0), up, angle)
    return angle


@lowers(call.copysign)
def copysign(g, self, other):
    """A size with another's sign."""
    kind = g.kind
    size = g.op("Abs", g.cast(self, kind), dtype=kind)
    other = g.cast(other, kind)
    below = g.compare("Less", g.op("Reciprocal", other, dtype=kind), 0.0)
    negative = g.op("Or", g.compare("Less", other, 0.0), below, dtype=rl.bool)
    return g.where(negative, g.op("Neg", size, dtype=kind), size)


@lowers(call.hypot)
def hypot(g, self, other):
    """The length of a pair, without overflow."""
    kind = g.kind
    left, right = (g.op("Abs", g.cast(one, kind), dtype=kind) for one in (self, other))
    large, small = extreme(g, "Max", left, right), extreme(g, "Min", left, right)
    ratio = g.div(
        small, g.where(g.compare("Equal", large, 0.0), g.const(1.0, kind), large)
    )
    return g.mul(large, g.op("Sqrt", g.add(g.mul(ratio, ratio), 1.0), dtype=kind))


def _log_sum(packet, base):
    @lowers(packet)
    def lower(g, self, other):
        kind = g.kind
        left, right = g.cast(self, kind), g.cast(other, kind)
        top = extreme(g, "Max", left, right)
        gap = g.op("Neg", g.op("Abs", g.sub(left, right), dtype=kind), dtype=kind)
        scaled = g.mul(gap, math.log(base)) if base else gap
        rest = g.op("Log", g.add(g.op("Exp", scaled, dtype=kind), 1.0), dtype=kind)
        rest = g.mul(rest, 1 / math.log(base)) if base else rest
        same = g.compare("Equal", left, right)
        one = g.const(1.0 if base else math.log(2), kind)
        return g.add(top, g.where(same, one, rest))


_log_sum(call.logaddexp, None)
_log_sum(call.logaddexp2, 2)


def _times_logarithm(packet, more):
    @lowers(packet)
    def lower(g, self, other):
        kind = g.kind
        left, right = g.cast(self, kind), g.cast(other, kind)
        inner = g.add(right, 1.0) if more else right
        made = g.mul(left, g.op("Log", inner, dtype=kind))
        made = g.where(g.compare("Equal", left, 0.0), g.const(0.0, kind), made)
        return g.where(
            g.op("IsNaN", right, dtype=rl.bool), g.const(math.nan, kind), made
        )


_times_logarithm(call.xlogy, False)
_times_logarithm(call.special_xlog1py, True)


@lowers(call.heaviside)
def heaviside(g, self, values):
    """A step; the values are for zero."""
    kind = g.kind
    self, values = g.cast(self, kind), g.cast(values, kind)
    step = g.cast(g.compare("Greater", self, 0), kind)
    return g.where(g.compare("Equal", self, 0), values, step)


def _shift(packet, direction):
    @lowers(packet)
    def lower(g, self, other):
        kind = g.kind
        left, right = g.cast(self, kind), g.cast(other, kind)
        if not is_signed(kind):
            return g.op("BitShift", left, right, direction=direction, dtype=kind)
        power = g.op("Pow", g.const(2.0, rl.float64), g.cast(right, rl.float64))
        power.dtype = rl.float64
        if direction == "LEFT":
            return g.mul(left, g.cast(power, kind))
        made = g.div(g.cast(left, rl.float64), power)
        return g.cast(g.op("Floor", made, dtype=rl.float64), kind)


for _packet in (call.bitwise_left_shift, call.__lshift__):
    _shift(_packet, "LEFT")
for _packet in (call.bitwise_right_shift, call.__rshift__):
    _shift(_packet, "RIGHT")


@lowers(call.nan_to_num)
def nan_to_num(g, self, nan=None, posinf=None, neginf=None):
    """Numbers in the place of what is none, or infinite."""
    kind = self.dtype
    if not kind.is_floating_point:
        return self
    info = rl.finfo(kind)
    top = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    made = g.where(
        g.op("IsNaN", self, dtype=rl.bool),
        g.const(0.0 if nan is None else nan, kind),
        self,
    )
    made = g.where(infinite(g, self, negative=False), g.const(top, kind), made)
    return g.where(infinite(g, self, positive=False), g.const(low, kind), made)


@lowers(call.logit)
def logit(g, self, eps=None):
    """The logarithm of the odds."""
    kind = g.kind
    x = g.cast(self, kind)
    if eps is not None:
        x = extreme(g, "Min", extreme(g, "Max", x, g.const(eps, kind)),
                    g.const(1 - eps, kind))  # fmt: skip
    odds = g.div(x, g.sub(g.const(1.0, kind), x))
    return g.op("Log", odds, dtype=kind)


@lowers(call.sinc)
def sinc(g, self):
    """sin(pi x) / (pi x)."""
    kind = g.kind
    x = g.mul(g.cast(self, kind), math.pi)
    zero = g.compare("Equal", x, 0.0)
    safe = g.where(zero, g.const(1.0, kind), x)
    return g.where(zero, g.const(1.0, kind), g.div(g.op("Sin", safe, dtype=kind), safe))


def _scaled_by(packet, factor):
    @lowers(packet)
    def lower(g, self):
        return g.mul(g.cast(self, g.kind), factor)


_scaled_by(call.deg2rad, math.pi / 180)
_scaled_by(call.rad2deg, 180 / math.pi)
