"""Losses with a margin: how much farther apart things should be; distances of vectors."""

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.nn._functions.reduction import (
    chosen_reduction,
    reduce_loss,
    reduction_number,
)
from rushlight.operators import call
from rushlight.operators.loss.margin_loss import check_triplet


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """``log(1 + exp(-target * input))`` for targets of 1 and -1.

    Args:
        input: predictions.
        target: 1 or -1 for each element.

    >>> soft_margin_loss(rl.tensor([1.0, -1.0]), rl.tensor([1.0, 1.0]))
    tensor(0.8133)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    return call.soft_margin_loss(input, target, number)


def margin_ranking_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """``max(0, -target * (input1 - input2) + margin)``.

    Args:
        input1: scores.
        input2: scores.
        target: 1 where the first should be larger, -1 where the second should.

    >>> margin_ranking_loss(rl.tensor([1.0, 2.0]), rl.tensor([2.0, 1.0]), rl.tensor([1.0, 1.0]))
    tensor(0.5000)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but "
            f"got sizes: input1: {input1.size()}, input2: {input2.size()}, target: "
            f"{target.size()} "
        )
    return call.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    Args:
        input: distances.
        target: 1 or -1 for each of them.

    >>> hinge_embedding_loss(rl.tensor([0.5, 0.25]), rl.tensor([1.0, -1.0]))
    tensor(0.6250)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    return call.hinge_embedding_loss(input, target, margin, number)


def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1: vectors ``(N, D)`` or ``(D,)``.
        input2: vectors of the same shape.
        target: 1 where they should be alike, -1 where not.

    >>> cosine_embedding_loss(rl.tensor([[1.0, 0.0]]), rl.tensor([[1.0, 1.0]]), rl.tensor([1.0]))
    tensor(0.2929)
    """
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
    """``max(0, margin - x[target] + x[i]) ** p`` over the wrong classes ``i``.

    Args:
        input: scores ``(N, C)`` or ``(C,)``.
        target: class numbers.
        p: 1 or 2, the power of what a margin is missed by.
        weight: what each element, or each class, counts; None counts them alike.

    >>> multi_margin_loss(rl.tensor([[0.1, 0.8, 0.2]]), rl.tensor([1]))
    tensor(0.2333)
    """
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

    Args:
        input: scores ``(N, C)`` or ``(C,)``.
        target: class numbers, of the same shape; -1 ends the list.

    >>> multilabel_margin_loss(rl.tensor([0.1, 0.8, 0.2]), rl.tensor([1, -1, 0]))
    tensor(0.2333)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    return call.multilabel_margin_loss(input, target, number)


def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Mean over the classes of ``binary_cross_entropy_with_logits``.

    Args:
        input: logits ``(N, C)`` or ``(C,)``.
        target: 0 or 1 for each class.
        weight: what each element, or each class, counts; None counts them alike.

    >>> multilabel_soft_margin_loss(rl.tensor([[1.0, -1.0]]), rl.tensor([[1.0, 0.0]]))
    tensor(0.3133)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    loss = -(target * call.log_sigmoid(input) + (1 - target) * call.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input.dim() - 1
    return reduce_loss(loss.sum(last) / input.size(last), number)


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


def _triplet(anchor, positive, negative, distance, margin, swap, number):
    check_triplet(anchor, positive, negative)
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
    """``max(0, margin + |anchor - positive| - |anchor - negative|)``.

    Args:
        anchor: what both are compared with, ``(N, D)``.
        positive: what should be near the anchor.
        negative: what should be far from it.
        p: the order of the norm.
        eps: what is added to each difference.
        swap: whether the distance from positive to negative counts if it is
            smaller.

    >>> x, near, far = rl.zeros(1, 2), rl.tensor([[0.0, 1.0]]), rl.tensor([[3.0, 4.0]])
    >>> triplet_margin_loss(x, near, far, margin=5.0)
    tensor(1.0000)
    """
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
    """``triplet_margin_loss`` with a distance of the caller's.

    Args:
        anchor: what both are compared with, ``(N, D)``.
        positive: what should be near the anchor.
        negative: what should be far from it.
        distance_function: a function of two tensors; ``pairwise_distance`` by
            default.
        swap: whether the distance from positive to negative counts if it is
            smaller.

    >>> x, near, far = rl.zeros(1, 1), rl.tensor([[1.0]]), rl.tensor([[3.0]])
    >>> triplet_margin_with_distance_loss(x, near, far, margin=5.0)
    tensor(3.)
    """
    number = reduction_number(reduction)
    _check_margin(margin)
    distance = (
        call.pairwise_distance if distance_function is None else distance_function
    )
    return _triplet(anchor, positive, negative, distance, margin, swap, number)


describe_arguments(
    globals(),
    reduction='``"none"``, ``"mean"`` or ``"sum"``.',
    size_average="replaced by ``reduction``.",
    reduce="replaced by ``reduction``.",
    margin="how far apart is enough.",
)
