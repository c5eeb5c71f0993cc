"""Losses: one number, or one for each element."""

import rushlight as rl
from rushlight.onnx._registry import lowers
from rushlight.operators import call

_NONE, _MEAN = 0, 1


def _reduced(g, losses, reduction):
    if reduction == _NONE:
        return losses
    return g.reduce("ReduceMean" if reduction == _MEAN else "ReduceSum", losses)


@lowers(call.mse_loss)
def mse_loss(g, self, target, reduction=_MEAN):
    """Squared differences."""
    gap = g.sub(g.cast(self, g.kind), g.cast(target, g.kind))
    return _reduced(g, g.mul(gap, gap), reduction)


@lowers(call.l1_loss)
def l1_loss(g, self, target, reduction=_MEAN):
    """Differences without their sign."""
    gap = g.sub(g.cast(self, g.kind), g.cast(target, g.kind))
    return _reduced(g, g.op("Abs", gap, dtype=g.kind), reduction)


def _distance(g, self, target):
    gap = g.sub(g.cast(self, g.kind), g.cast(target, g.kind))
    return g.op("Abs", gap, dtype=g.kind)


@lowers(call.smooth_l1_loss)
def smooth_l1_loss(g, self, target, reduction=_MEAN, beta=1.0):
    """Squared differences near zero, plain ones far from it."""
    gap = _distance(g, self, target)
    if beta == 0:
        return _reduced(g, gap, reduction)
    near = g.mul(g.mul(gap, gap), 0.5 / beta)
    far = g.sub(gap, 0.5 * beta)
    return _reduced(
        g, g.where(g.compare("Less", gap, float(beta)), near, far), reduction
    )


@lowers(call.huber_loss)
def huber_loss(g, self, target, reduction=_MEAN, delta=1.0):
    """The same, scaled by the place where it turns."""
    gap = _distance(g, self, target)
    near = g.mul(g.mul(gap, gap), 0.5)
    far = g.mul(g.sub(gap, 0.5 * delta), float(delta))
    below = g.compare("LessOrEqual", gap, float(delta))
    return _reduced(g, g.where(below, near, far), reduction)


@lowers(call.soft_margin_loss)
def soft_margin_loss(g, self, target, reduction=_MEAN):
    """log(1 + exp(-y x))."""
    inner = g.op("Neg", g.mul(self, g.cast(target, self.dtype)), dtype=self.dtype)
    return _reduced(g, g.op("Softplus", inner, dtype=self.dtype), reduction)


def _logarithm(g, value):
    """The logarithm, no less than -100."""
    kind = value.dtype
    made = g.op("Log", value, dtype=kind)
    return g.op("Max", made, g.const(-100.0, kind), dtype=kind)


@lowers(call.binary_cross_entropy)
def binary_cross_entropy(g, self, target, weight=None, reduction=_MEAN):
    """The cross entropy of probabilities."""
    kind = self.dtype
    one = g.const(1.0, kind)
    first = g.mul(g.sub(target, one), _logarithm(g, g.sub(one, self)))
    second = g.mul(target, _logarithm(g, self))
    losses = g.sub(first, second)
    return _reduced(g, losses if weight is None else g.mul(losses, weight), reduction)


@lowers(call.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(
    g, self, target, weight=None, pos_weight=None, reduction=_MEAN
):
    """The cross entropy of log odds."""
    kind = self.dtype
    one = g.const(1.0, kind)
    below = g.op("Softplus", g.op("Neg", self, dtype=kind), dtype=kind)
    rest = g.mul(g.sub(one, target), self)
    if pos_weight is not None:
        share = g.add(g.mul(g.sub(pos_weight, one), target), one)
        below = g.mul(below, share)
    losses = g.add(rest, below)
    return _reduced(g, losses if weight is None else g.mul(losses, weight), reduction)


@lowers(call.nll_loss_forward, call.nll_loss)
def nll_loss(g, self, target, weight=None, reduction=_MEAN, ignore_index=-100):
    """What a classifier gave the right class, negative; and the weight in all."""
    words = ("none", "mean", "sum")
    several = not isinstance(g.node.meta["val"], rl.Tensor)
    lone = self.rank == 1
    if lone:
        self = g.unsqueeze(self, [0])
        target = g.reshape(target, [1])
    made = g.op(
        "NegativeLogLikelihoodLoss", self, target, weight,
        reduction=words[reduction], ignore_index=ignore_index, dtype=self.dtype,
    )  # fmt: skip
    if lone and reduction == _NONE:
        made = g.op("Squeeze", made, g.ints([0]), dtype=self.dtype)
    if not several:
        return made
    return made, _total_weight(g, self, target, weight, reduction, ignore_index)


def _total_weight(g, self, target, weight, reduction, ignore_index):
    """The weight of all classes that count."""
    if reduction == _NONE:
        return g.const(0.0, self.dtype)
    kept = g.op("Not", g.compare("Equal", target, ignore_index), dtype=rl.bool)
    counts = g.cast(kept, self.dtype)
    if weight is not None:
        classes = g.where(kept, target, g.const(0, rl.int64))
        counts = g.mul(counts, g.op("Gather", weight, classes, dtype=self.dtype))
    return g.reduce("ReduceSum", counts)


@lowers(call.kl_div)
def kl_div(g, self, target, reduction=_MEAN, log_target=False):
    """How far a distribution is from another, in logarithms."""
    kind = g.kind
    if log_target:
        losses = g.mul(g.op("Exp", target, dtype=kind), g.sub(target, self))
    else:
        product = g.mul(target, g.op("Log", target, dtype=kind))
        zero = g.compare("Equal", target, 0.0)
        product = g.where(zero, g.const(0.0, kind), product)
        losses = g.sub(product, g.mul(target, self))
    return _reduced(g, losses, reduction)
