"""Losses: how far a prediction is from its target."""

from __future__ import annotations

import math
import warnings

import rushlight as rl
from rushlight.nn._functions.reduction import (
    chosen_reduction,
    reduce_loss,
    reduction_number,
)
from rushlight.ops import call


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """Negative log likelihood of the targets under ``softmax(input)``.

    Args:
        input: logits ``(C,)``, ``(N, C)`` or ``(N, C, d1, ...)``.
        target: class numbers without the class dimension, or probabilities of
            the input's shape.
        weight: one factor for each class.
        ignore_index: a class number that counts for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target that is spread over all classes.

    >>> cross_entropy(rl.tensor([[0.0, 0.0]]), rl.tensor([1]))
    tensor(0.6931)
    """
    if size_average is None and reduce is None:
        number = reduction_number(reduction)
    else:
        number = chosen_reduction(size_average, reduce, reduction)
    return call.cross_entropy_loss(
        input, target, weight, number, ignore_index, label_smoothing
    )


def nll_loss(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
):
    """Negative of the log probability ``input`` gives to each target class."""
    number = chosen_reduction(size_average, reduce, reduction)
    return call.nll_loss_nd(input, target, weight, number, ignore_index)


def _same_size(input, target):
    """Both broadcast to one shape, with a warning where they differ."""
    if input.shape == target.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size "
        f"({input.size()}). This will likely lead to incorrect results due to "
        "broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    return rl.broadcast_tensors(input, target)


def _weighted(loss, weight, input, number, by_weight):
    """The loss with a factor for each element; the mean is over the weights."""
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if number == 1 and by_weight:
        return loss.sum() / weight.sum()
    return reduce_loss(loss, number)


def mse_loss(
    input, target, size_average=None, reduce=None, reduction="mean", weight=None
):
    """Squared difference of input and target."""
    input, target = _same_size(input, target)
    number = chosen_reduction(size_average, reduce, reduction)
    if weight is None:
        return call.mse_loss(input, target, number)
    return _weighted((input - target) ** 2, weight, input, number, by_weight=True)


def l1_loss(
    input, target, size_average=None, reduce=None, reduction="mean", weight=None
):
    """Absolute difference of input and target."""
    input, target = _same_size(input, target)
    number = chosen_reduction(size_average, reduce, reduction)
    loss = (input - target).abs()
    if weight is None:
        return reduce_loss(loss, number)
    return _weighted(loss, weight, input, number, by_weight=True)


def smooth_l1_loss(
    input, target, size_average=None, reduce=None, reduction="mean", beta=1.0
):
    """Squared difference over ``2 * beta`` below ``beta``, else absolute."""
    input, target = _same_size(input, target)
    number = chosen_reduction(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0.0:
        return reduce_loss((input - target).abs(), number)
    return call.smooth_l1_loss(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the squared difference below ``delta``, else linear."""
    input, target = _same_size(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    number = reduction_number(reduction)
    if weight is None:
        return call.huber_loss(input, target, number, delta)
    loss = call.huber_loss(input, target, 0, delta)
    return _weighted(loss, weight, input, number, by_weight=False)


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """``-(t * log(x) + (1 - t) * log(1 - x))`` of probabilities ``x``."""
    number = chosen_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input "
            f"size ({input.size()}) is deprecated. Please ensure they have the same "
            "size."
        )
    if weight is not None:
        weight = weight.expand(rl.broadcast_shapes(target.shape, weight.shape))
    return call.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
    pos_weight=None,
):
    """``binary_cross_entropy`` of ``sigmoid(input)``, without overflow."""
    number = chosen_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size "
            f"({input.size()})"
        )
    return call.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, number
    )


def kl_div(
    input, target, size_average=None, reduce=None, reduction="mean", log_target=False
):
    """Kullback-Leibler divergence; ``input`` holds log probabilities."""
    if size_average is not None or reduce is not None:
        number = chosen_reduction(size_average, reduce, reduction)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and "
                "the support size.'batchmean' divides only by the batch size, and "
                "aligns with the KL div math definition.'mean' will be changed to "
                "behave the same as 'batchmean' in the next major release.",
                stacklevel=2,
            )
        number = reduction_number("sum" if reduction == "batchmean" else reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = rl.xlogy(target, target) - target * input
    loss = reduce_loss(loss, number)
    if reduction == "batchmean" and input.dim() != 0:
        loss = loss / input.size(0)
    return loss


def poisson_nll_loss(
    input,
    target,
    log_input=True,
    full=False,
    size_average=None,
    eps=1e-8,
    reduce=None,
    reduction="mean",
):
    """Negative log likelihood of counts under Poisson distributions."""
    number = chosen_reduction(size_average, reduce, reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduce_loss(loss, number)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of targets under normal distributions.

    Raises:
        ValueError: a negative variance, or one of another shape than the input.
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * rl.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif (
            input.ndim != var.ndim
            or sum(v for i, v in zip(input.shape, var.shape) if i != v) != 1
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with rl.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce_loss(loss, reduction_number(reduction))


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """``log(1 + exp(-target * input))`` for targets of 1 and -1."""
    number = chosen_reduction(size_average, reduce, reduction)
    return call.soft_margin_loss(input, target, number)


def margin_ranking_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """``max(0, -target * (input1 - input2) + margin)``."""
    number = chosen_reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but "
            f"got sizes: input1: {input1.size()}, input2: {input2.size()}, target: "
            f"{target.size()} "
        )
    loss = (-target * (input1 - input2) + margin).clamp_min(0)
    return reduce_loss(loss, number)


def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1."""
    number = chosen_reduction(size_average, reduce, reduction)
    zero = input.new_zeros(())
    apart = rl.where(target != 1, (margin - input).clamp_min(0), zero)
    together = rl.where(target != -1, input, zero)
    return reduce_loss(apart + together, number)


def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""
    number = chosen_reduction(size_average, reduce, reduction)
    if target.dim() not in (0, 1):
        raise RuntimeError(
            "0D or 1D target tensor expected, multi-target not supported"
        )
    if target.dim() == 1 and not input1.dim() == input2.dim() == 2:
        raise RuntimeError(
            "1D target tensor expects 2D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    if target.dim() == 0 and not input1.dim() == input2.dim() == 1:
        raise RuntimeError(
            "0D target tensor expects 1D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    tiny = 1e-12
    along = (input1 * input2).sum(-1)
    lengths = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = along / lengths.sqrt()
    zero = input1.new_zeros(())
    together = rl.where(target == 1, 1 - cosine, zero)
    apart = rl.where(target == -1, (cosine - margin).clamp_min(0), zero)
    return reduce_loss(together + apart, number)


def multi_margin_loss(
    input,
    target,
    p=1,
    margin=1.0,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """``max(0, margin - x[target] + x[i]) ** p`` over the wrong classes ``i``."""
    number = chosen_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    _check_multi_margin(input, target, weight)
    single = input.dim() < 2
    if single:
        input = input.reshape(-1)
    index = target.reshape(1) if single else target.reshape(-1, 1)
    _check_labels(index, input.size(-1), "target out of range")
    gap = (margin - input.gather(-1, index) + input).clamp_min(0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * weight[index]
    wrong = rl.ones_like(input).scatter_(-1, index, 0.0)
    loss = (gap * wrong).mean(-1)
    return reduce_loss(loss.reshape(target.shape) if single else loss, number)


def _check_labels(labels, classes, words):
    """Labels are class numbers, or the words are raised as a RuntimeError."""
    if labels.is_meta or not labels.numel():
        return
    low, high = labels.aminmax()
    if low < 0 or high >= classes:
        raise RuntimeError(
            f"{words}\n  labels: {low.item()} to {high.item()}\n  classes: {classes}"
        )


def _check_long(target):
    if target.dtype != rl.int64:
        raise RuntimeError(
            f"expected scalar type Long but found {target.dtype.name.capitalize()}"
        )


def _check_multi_margin(input, target, weight):
    """Refuses operands that ``multi_margin_loss`` has no meaning for."""
    ndim = input.dim()
    if ndim > 2 or (ndim and input.size(-1) == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but "
            f"got: {list(input.shape)}"
        )
    samples = input.size(0) if ndim == 2 else 1
    if target.dim() > 1 or target.numel() != samples:
        raise RuntimeError(
            "target tensor should be 1-D with size equal to the input's batch size. "
            f"Expected target size [{samples}], but got {list(target.shape)}"
        )
    classes = input.size(-1) if ndim else 1
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    _check_long(target)
    _check_float("multi_margin_loss", input)


def _check_float(name, input):
    if not input.is_floating_point():
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{input.dtype.name.capitalize()}'"
        )


def multilabel_margin_loss(
    input, target, size_average=None, reduce=None, reduction="mean"
):
    """``max(0, 1 - x[y] + x[i])`` over classes ``y`` in the target and ``i`` not in it.

    A target row lists class numbers and ends at its first -1.
    """
    number = chosen_reduction(size_average, reduce, reduction)
    ndim = input.dim()
    if ndim > 2 or (ndim and input.size(-1) == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but "
            f"got: {list(input.shape)}"
        )
    if target.shape != input.shape and not (
        ndim < 2 and target.numel() == input.numel()
    ):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: "
            f"{list(input.shape)}"
        )
    _check_long(target)
    _check_float("multilabel_margin_loss", input)
    if target.numel() and not target.is_meta:
        low, high = target.aminmax()
        if low < -1 or high >= (input.size(-1) if ndim else 1):
            raise RuntimeError(
                f"argument #2 'target' is out of range\n  labels: {low.item()} to "
                f"{high.item()}"
            )
    if input.dim() == 0:
        input, target = input.reshape(1), target.reshape(1)
    listed = (target < 0).long().cumsum(-1) == 0
    index = target.masked_fill(~listed, 0)
    member = rl.zeros_like(input).scatter_add_(-1, index, listed.to(input.dtype)) > 0
    chosen = input.gather(-1, index).unsqueeze(-1)
    gap = (1 - chosen + input.unsqueeze(-2)).clamp_min(0)
    counted = listed.unsqueeze(-1) & ~member.unsqueeze(-2)
    loss = (gap * counted.to(input.dtype)).sum((-1, -2)) / input.size(-1)
    return reduce_loss(loss, number)


def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Mean over the classes of ``binary_cross_entropy_with_logits``."""
    number = chosen_reduction(size_average, reduce, reduction)
    loss = -(target * call.log_sigmoid(input) + (1 - target) * call.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduce_loss(loss.mean(-1), number)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """``p``-norm of ``x1 - x2 + eps`` along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Cosine of the angle between two tensors' vectors along a dimension."""
    sizes = rl.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = x1.expand(sizes), x2.expand(sizes)
    unit1 = x1 / x1.norm(2, dim, keepdim=True).clamp_min(eps)
    unit2 = x2 / x2.norm(2, dim, keepdim=True).clamp_min(eps)
    return (unit1 * unit2).sum(dim)


def _check_margin(margin):
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


def _triplet(anchor, positive, negative, distance, margin, swap, number):
    ndims = anchor.ndim, positive.ndim, negative.ndim
    if len(set(ndims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same "
            f"number of dimensions, but got: anchor {ndims[0]}D, positive {ndims[1]}D, "
            f"and negative {ndims[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = rl.minimum(far, distance(positive, negative))
    return reduce_loss((margin + near - far).clamp_min(0), number)


def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """``max(0, margin + |anchor - positive| - |anchor - negative|)``."""
    number = chosen_reduction(size_average, reduce, reduction)
    _check_margin(margin)

    def distance(a, b):
        return pairwise_distance(a, b, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, number)


def triplet_margin_with_distance_loss(
    anchor,
    positive,
    negative,
    *,
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
):
    """``triplet_margin_loss`` with a distance of the caller's."""
    number = reduction_number(reduction)
    _check_margin(margin)
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, number)
