"""Losses: how far a prediction is from its target."""

from __future__ import annotations

import math
import warnings

import rushlight as rl
from rushlight.dispatch.python_key import recording
from rushlight.nn._functions.reduction import (
    chosen_reduction,
    reduce_loss,
    reduction_number,
)
from rushlight.operators import call


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
        # a recorded program may be run with other sizes: there it is a step
        return rl.broadcast_tensors(input, target) if recording() else (input, target)
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
    if weight is None:
        return call.l1_loss(input, target, number)
    loss = (input - target).abs()
    return _weighted(loss, weight, input, number, by_weight=True)


def smooth_l1_loss(
    input, target, size_average=None, reduce=None, reduction="mean", beta=1.0
):
    """Squared difference over ``2 * beta`` below ``beta``, else absolute."""
    input, target = _same_size(input, target)
    number = chosen_reduction(size_average, reduce, reduction)
    if beta == 0.0:
        return call.l1_loss(input, target, number)
    return call.smooth_l1_loss(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the squared difference below ``delta``, else linear."""
    input, target = _same_size(input, target)
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
    loss = call.kl_div(input, target, number, log_target=log_target)
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
    return call.poisson_nll_loss(input, target, log_input, full, eps, number)


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
        loss += 0.5 * math.log(2 * math.pi)
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
    return call.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1."""
    number = chosen_reduction(size_average, reduce, reduction)
    return call.hinge_embedding_loss(input, target, margin, number)


def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""
    number = chosen_reduction(size_average, reduce, reduction)
    return call.cosine_embedding_loss(input1, input2, target, margin, number)


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
    return call.multi_margin_loss(input, target, p, margin, weight, number)


def multilabel_margin_loss(
    input, target, size_average=None, reduce=None, reduction="mean"
):
    """``max(0, 1 - x[y] + x[i])`` over classes ``y`` in the target and ``i`` not in it.

    A target row lists class numbers and ends at its first -1.
    """
    number = chosen_reduction(size_average, reduce, reduction)
    return call.multilabel_margin_loss(input, target, number)


def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Mean over the classes of ``binary_cross_entropy_with_logits``."""
    number = chosen_reduction(size_average, reduce, reduction)
    loss = -(target * call.log_sigmoid(input) + (1 - target) * call.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input.dim() - 1
    return reduce_loss(loss.sum(last) / input.size(last), number)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """``p``-norm of ``x1 - x2 + eps`` along the last dimension."""
    return rl.ops.call.pairwise_distance(x1, x2, p, eps, keepdim)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Cosine of the angle between two tensors' vectors along a dimension."""
    return rl.ops.call.cosine_similarity(x1, x2, dim, eps)


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
    return call.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, number
    )


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


def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """Connectionist temporal classification: the loss of all alignments.

    Args:
        log_probs: ``(T, N, C)`` or ``(T, C)``: log probabilities of classes by time.
        targets: ``(N, S)``, or all labels one after the other.
        input_lengths: how much of the time each sequence takes.
        target_lengths: how many labels each has.
        blank: the class between labels.
        reduction: ``"none"``, ``"mean"`` (of losses over lengths) or ``"sum"``.
        zero_infinity: whether impossible alignments cost nothing.

    Raises:
        RuntimeError: the lengths don't fit.
    """
    return call.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        reduction_number(reduction),
        zero_infinity,
    )
