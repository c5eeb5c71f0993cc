"""Losses about margins, ranks and counts, made of other operators."""

import math

from rushlight.core.dtypes import int64
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.loss.loss import NONE, reduce
from rushlight.operators.shape.copying import check_number
from rushlight.operators.shared import (
    differentiated,
    readable,
    refuse_gradient,
    written,
)

# What is added to squared lengths, so that those of zero can be divided by.
TINY = 1e-12


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """``exp(input) - target * input``, with Stirling's term for ``full``."""
    if log_input:
        product = target * input
        loss = ops.exp(input) - product
    else:
        loss = input - target * ops.log(input + float(eps))
    if full:
        rest = 0.5 * ops.log(2 * math.pi * target)
        stirling = target * ops.log(target) - target + rest
        loss = ops.add_(loss, stirling.masked_fill(target <= 1, 0))
    return reduce(loss, reduction)


def hinge_embedding_loss(self, target, margin, reduction):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1."""
    zeros = ops.zeros_like(self)
    # the margin in the input's dtype, whatever that is
    gap = ops.empty_like(self).fill_(margin).sub_(self).clamp_min_(0)
    others = ops.where(target != 1, gap, zeros)
    together = ops.where(target != -1, self, zeros)
    return reduce(others + together, reduction)


def margin_ranking_loss(input1, input2, target, margin, reduction):
    """``max(0, -target * (input1 - input2) + margin)``.

    Raises:
        RuntimeError: the tensors differ in their number of dimensions.
    """
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but "
            f"got sizes: input1: {input1.size()}, input2: {input2.size()}, target: "
            f"{target.size()} "
        )
    gap = input1 - input2
    loss = (-target * gap + float(margin)).clamp_min_(0)
    return reduce(loss, reduction)


def cosine_embedding_loss(input1, input2, target, margin, reduction):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Raises:
        RuntimeError: the target isn't one number for each pair of vectors.
    """
    if target.ndim not in (0, 1):
        raise RuntimeError(
            "0D or 1D target tensor expected, multi-target not supported"
        )
    wanted = target.ndim + 1
    if not input1.ndim == input2.ndim == wanted:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {wanted}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    along = (input1 * input2).sum(target.ndim)
    first = (input1 * input1).sum(target.ndim) + TINY
    second = (input2 * input2).sum(target.ndim) + TINY
    cosine = along / (first * second).sqrt_()
    zeros = ops.zeros_like(cosine)
    unlike = ops.empty_like(cosine).fill_(1).sub_(cosine)
    beyond = (cosine - float(margin)).clamp_min_(0)
    together = ops.where(target == 1, unlike, zeros)
    dissimilar = ops.where(target == -1, beyond, zeros)
    return reduce(together + dissimilar, reduction)


def check_triplet(anchor, positive, negative):
    """Refuses tensors that differ in their number of dimensions.

    Raises:
        RuntimeError: they differ.
    """
    ndims = anchor.ndim, positive.ndim, negative.ndim
    if len(set(ndims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same "
            f"number of dimensions, but got: anchor {ndims[0]}D, positive {ndims[1]}D, "
            f"and negative {ndims[2]}D inputs"
        )


def triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction):
    """``max(0, margin + |anchor - positive| - |anchor - negative|)``.

    Raises:
        RuntimeError: the tensors differ in their number of dimensions.
    """
    check_triplet(anchor, positive, negative)

    def distance(a, b):
        return ops.pairwise_distance(a, b, p, eps)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduce(ops.clamp_min(margin + near - far, 0), reduction)


# Losses over class numbers


def _check_vectors(self):
    if self.ndim > 2 or (self.ndim and self.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but "
            f"got: {list(self.shape)}"
        )


def _check_types(name, self, target):
    if not self.is_floating_point():
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{scalar_name(self.dtype)}'"
        )
    if target.dtype is not int64:
        raise RuntimeError(
            f"expected scalar type Long but found {scalar_name(target.dtype)}"
        )


def _check_labels(labels, low, high, words):
    """Labels are whole numbers from ``low`` to below ``high``.

    Raises:
        RuntimeError: one isn't.
    """
    if not readable(labels) or not labels.numel():
        return
    least, most = (end.item() for end in labels.aminmax())
    if least < low or most >= high:  # as numbers: types without a sign have no -1
        raise RuntimeError(f"{words}\n  labels: {least} to {most}\n  classes: {high}")


def _in_one_sweep(self, *others):
    """Whether one kernel does it: numbers in memory, of a type that it sums in."""
    tensors = [t for t in (self, *others) if t is not None]
    return self.dtype.itemsize >= 4 and all(map(readable, tensors))


def multi_margin_loss(self, target, p, margin, weight, reduction):
    """``max(0, margin - x[target] + x[i]) ** p`` over the wrong classes ``i``.

    Raises:
        RuntimeError: the operands' sizes or dtypes don't fit, or a label is no class.
    """
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    _check_vectors(self)
    single = self.ndim < 2
    samples = 1 if single else self.shape[0]
    if target.ndim > 1 or target.numel() != samples:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the input's "
            f"batch size. Expected target size [{samples}], but got {list(target.shape)}"
        )
    classes = self.shape[-1] if self.ndim else 1
    if weight is not None and (weight.ndim > 1 or weight.numel() != classes):
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    _check_types("multi_margin_loss", self, target)
    check_number(self.dtype, margin)
    if weight is not None and weight.dtype is not self.dtype:
        raise RuntimeError(
            f"expected scalar type {scalar_name(self.dtype)} but found "
            f"{scalar_name(weight.dtype)}"
        )
    if weight is not None:
        refuse_gradient("multi_margin_loss", weight=weight)
    rows = self.reshape(-1) if single else self
    index = target.reshape(1) if single else target.reshape(-1, 1)
    if _in_one_sweep(self, target, weight) and (p == 1 or not differentiated(self)):
        loss, _ = ops._multi_margins(
            self if self.ndim else rows, index.reshape(-1), p, margin, weight
        )
        if single and reduction == NONE:
            return loss.reshape(() if self.ndim == 0 else target.shape)
        return reduce(loss, reduction)
    _check_labels(index, 0, classes, "target out of range")
    gap = margin - rows.gather(-1, index) + rows
    gap = ops.where(gap > 0, gap, 0)  # what is no number is no loss either
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * weight.reshape(-1)[index]
    wrong = written("scatter", ops.ones_like(rows), -1, index, 0.0)
    loss = (gap * wrong).mean(-1)
    if single and reduction == NONE:
        return loss.reshape(() if self.ndim == 0 else target.shape)
    return reduce(loss, reduction)


def multilabel_margin_loss(self, target, reduction):
    """``max(0, 1 - x[y] + x[i])`` over classes ``y`` of the target and ``i`` not in it.

    A target row lists class numbers and ends at its first -1.

    Raises:
        RuntimeError: the operands' sizes or dtypes don't fit, or a label is no class.
    """
    _check_vectors(self)
    fits = self.ndim < 2 and target.ndim < 2 and target.numel() == self.numel()
    if not fits and target.shape != self.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: "
            f"{list(self.shape)}"
        )
    classes = self.shape[-1] if self.ndim else 1
    whole = _in_one_sweep(self, target) and target.dtype is int64
    if not whole:
        _check_labels(target, -1, classes, "argument #2 'target' is out of range")
    _check_types("multilabel_margin_loss", self, target)
    if self.ndim == 0:
        self = self.reshape(1)
    target = target.reshape(self.shape)
    if whole:
        return reduce(ops._multilabel_margins(self, target)[0], reduction)
    listed = ops.cumsum((target < 0).to(int64), -1) == 0
    index = target.masked_fill(~listed, 0)
    counts = written(
        "scatter_add", ops.zeros_like(self), -1, index, listed.to(self.dtype)
    )
    chosen = self.gather(-1, index).unsqueeze(-1)
    gap = ops.clamp_min(1 - chosen + self.unsqueeze(-2), 0)
    counted = listed.unsqueeze(-1) & ~(counts > 0).unsqueeze(-2)
    loss = (gap * counted.to(self.dtype)).sum((-1, -2)) / classes
    return reduce(loss, reduction)
