"""Losses: how far a prediction is from its target."""

import math
import warnings

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
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
    """Negative of the log probability ``input`` gives to each target class.

    Args:
        input: log-probabilities ``(N, C, ...)`` or ``(C,)``.
        target: class numbers without the class dimension.
        ignore_index: a class number that counts for nothing.

    >>> nll_loss(rl.tensor([[-1.0, -2.0], [-3.0, -0.5]]), rl.tensor([0, 1]))
    tensor(0.7500)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    return call.nll_loss_nd(input, target, weight, number, ignore_index)


def _same_size(input, target):
    """Both broadcast to one shape, with a warning where they differ."""
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to "
            "broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
    elif not recording():  # a recorded program may be run with other sizes
        return input, target
    input, target = rl.broadcast_tensors(input, target)
    return input, target


def _weighted(loss, weight, input, number: int, by_weight: bool):
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
    """Squared difference of input and target.

    >>> mse_loss(rl.tensor([1.0, 2.0]), rl.tensor([1.0, 4.0]))
    tensor(2.)
    """
    input, target = _same_size(input, target)
    number = chosen_reduction(size_average, reduce, reduction)
    if weight is None:
        return call.mse_loss(input, target, number)
    return _weighted((input - target) ** 2, weight, input, number, by_weight=True)


def l1_loss(
    input, target, size_average=None, reduce=None, reduction="mean", weight=None
):
    """Absolute difference of input and target.

    >>> l1_loss(rl.tensor([1.0, 2.0]), rl.tensor([1.0, 4.0]))
    tensor(1.)
    """
    input, target = _same_size(input, target)
    number = chosen_reduction(size_average, reduce, reduction)
    if weight is None:
        return call.l1_loss(input, target, number)
    loss = (input - target).abs()
    return _weighted(loss, weight, input, number, by_weight=True)


def smooth_l1_loss(
    input, target, size_average=None, reduce=None, reduction="mean", beta=1.0
):
    """Squared difference over ``2 * beta`` below ``beta``, else absolute.

    Args:
        beta: where the parabola becomes a line.

    >>> smooth_l1_loss(rl.tensor([1.0, 2.0]), rl.tensor([1.5, 4.0]), reduction='none')
    tensor([0.1250, 1.5000])
    """
    input, target = _same_size(input, target)
    number = chosen_reduction(size_average, reduce, reduction)
    if beta == 0.0:
        return call.l1_loss(input, target, number)
    return call.smooth_l1_loss(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the squared difference below ``delta``, else linear.

    Args:
        delta: where the parabola becomes a line.

    >>> huber_loss(rl.tensor([1.0, 2.0]), rl.tensor([1.5, 4.0]), reduction='none')
    tensor([0.1250, 1.5000])
    """
    input, target = _same_size(input, target)
    number = reduction_number(reduction)
    if weight is None:
        return call.huber_loss(input, target, number, delta)
    loss = call.huber_loss(input, target, 0, delta)
    return _weighted(loss, weight, input, number, by_weight=False)


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """``-(t * log(x) + (1 - t) * log(1 - x))`` of probabilities ``x``.

    Args:
        input: probabilities from 0 to 1.

    >>> binary_cross_entropy(rl.tensor([0.9, 0.2]), rl.tensor([1.0, 0.0]))
    tensor(0.1643)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input "
            f"size ({input.size()}) is deprecated. Please ensure they have the same "
            "size."
        )
    if weight is not None:
        weight = rl.broadcast_tensors(weight, target)[0]
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
    """``binary_cross_entropy`` of ``sigmoid(input)``, without overflow.

    Args:
        input: logits.
        pos_weight: what positive examples count, for each class.

    >>> binary_cross_entropy_with_logits(rl.tensor([2.0, -1.0]), rl.tensor([1.0, 0.0]))
    tensor(0.2201)
    """
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
    """Kullback-Leibler divergence; ``input`` holds log probabilities.

    Args:
        input: log-probabilities.
        target: probabilities, or with ``log_target`` their logarithms.
        reduction: ``"none"``, ``"batchmean"``, ``"sum"`` or ``"mean"``.
        log_target: whether targets are logarithms.

    >>> kl_div(rl.tensor([0.5, 0.5]).log(), rl.tensor([0.25, 0.75]), reduction='sum')
    tensor(0.1308)
    """
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
    """Negative log likelihood of counts under Poisson distributions.

    Args:
        target: counts.
        log_input: whether the input is the logarithm of the rate.
        full: whether Stirling's approximation of ``log(target!)`` is added.
        eps: a small number against division by zero.

    >>> poisson_nll_loss(rl.tensor([0.0, 1.0]), rl.tensor([1.0, 2.0]))
    tensor(0.8591)
    """
    number = chosen_reduction(size_average, reduce, reduction)
    return call.poisson_nll_loss(input, target, log_input, full, eps, number)


def _differing(sizes: list[int], others: list[int]) -> int:
    """The sum of the others that are not as the sizes are."""
    total = 0
    for size, other in zip(sizes, others):
        total += other if size != other else 0
    return total


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of targets under normal distributions.

    Args:
        input: the means.
        var: the variances, one for all of a row or one for each element.
        full: whether the constant ``log(2 pi) / 2`` is added.
        eps: a small number against division by zero.

    Raises:
        ValueError: a negative variance, or one of another shape than the input.

    >>> gaussian_nll_loss(rl.tensor([1.0, 2.0]), rl.tensor([1.0, 3.0]), rl.tensor([1.0, 1.0]))
    tensor(0.2500)
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * rl.ones_like(input)
    elif rl.any(var < 0):  # what is no tensor is refused
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or _differing(input.shape, var.shape) != 1:
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

    >>> scores = rl.zeros(4, 1, 3).log_softmax(2)
    >>> ctc_loss(scores, rl.tensor([[1, 2]]), rl.tensor([4]), rl.tensor([2]))
    tensor(0.8432)
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


describe_arguments(
    globals(),
    reduction='``"none"``, ``"mean"`` or ``"sum"``.',
    size_average="replaced by ``reduction``.",
    reduce="replaced by ``reduction``.",
    target="what they should be, of the same shape.",
    weight="what each element, or each class, counts; None counts them alike.",
    input="predictions.",
)
