"""Losses that want a margin, and what all losses share."""

from rushlight.nn import functional as F
from rushlight.nn._functions.reduction import legacy_reduction
from rushlight.nn.modules.distance import PairwiseDistance
from rushlight.nn.modules.module import Module


class _Loss(Module):
    """A loss with a choice of reduction."""

    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = legacy_reduction(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a factor for each class or element, kept as a buffer."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class HingeEmbeddingLoss(_Loss):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    Args:
        margin: from where on a distance counts nothing.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> HingeEmbeddingLoss()(rl.tensor([0.5, 0.25]), rl.tensor([1, -1]))
    tensor(0.6250)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input, target):
        return F.hinge_embedding_loss(
            input, target, self.margin, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    """What the losses of pairs keep that are apart by a margin."""

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """``max(0, -target * (input1 - input2) + margin)``.

    Args:
        margin: how far apart the two ought to be.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> MarginRankingLoss(1.0)(rl.tensor([0.5]), rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(0.5000)
    """

    def forward(self, input1, input2, target):
        return F.margin_ranking_loss(
            input1, input2, target, self.margin, reduction=self.reduction
        )


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        margin: the largest cosine of vectors that differ.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> CosineEmbeddingLoss()(rl.tensor([[1.0, 0.0]]), rl.tensor([[0.0, 1.0]]), rl.tensor([1]))
    tensor(1.)
    """

    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(
            input1, input2, target, self.margin, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """``max(0, margin - x[target] + x[i]) ** p`` over the wrong classes ``i``.

    Args:
        p: 1 or 2, the power of what is missing.
        margin: how far the target ought to be above the others.
        weight: one factor for each class.
        size_average, reduce, reduction: as in ``L1Loss``.

    Raises:
        ValueError: ``p`` is neither.

    >>> MultiMarginLoss()(rl.tensor([[0.5, 0.0]]), rl.tensor([0]))
    tensor(0.2500)
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p=1,
        margin=1.0,
        weight=None,
        size_average=None,
        reduce=None,
        reduction="mean",
    ):
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise AssertionError(
                f"weight must be None or 1-dimensional, got {weight.dim()}D"
            )
        self.p = p
        self.margin = margin

    def forward(self, input, target):
        return F.multi_margin_loss(
            input, target, self.p, self.margin, self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """``max(0, 1 - x[y] + x[i])`` over target classes ``y`` and others ``i``.

    Args:
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> MultiLabelMarginLoss()(rl.tensor([[0.5, 0.0]]), rl.tensor([[0, -1]]))
    tensor(0.2500)
    """

    def forward(self, input, target):
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over the classes of ``BCEWithLogitsLoss``.

    Args:
        weight: one factor for each class.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> MultiLabelSoftMarginLoss()(rl.tensor([[0.0]]), rl.tensor([[1.0]]))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.multilabel_soft_margin_loss(
            input, target, self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """``max(0, margin + |anchor - positive| - |anchor - negative|)``.

    Args:
        margin: how much farther the negative ought to be.
        p: the order of the distance.
        eps: added to differences.
        swap: whether the negative's distance to the positive counts, where it is less.
        size_average, reduce, reduction: as in ``L1Loss``.

    Raises:
        ValueError: the margin is not above zero.

    >>> near, far = rl.tensor([[0.0]]), rl.tensor([[0.5]])
    >>> TripletMarginLoss()(near, near, far)
    tensor(0.5000)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin=1.0,
        p=2.0,
        eps=1e-6,
        swap=False,
        size_average=None,
        reduce=None,
        reduction="mean",
    ):
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got "
                f"{margin} instead"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            self.margin,
            self.p,
            self.eps,
            self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """``TripletMarginLoss`` with a distance of the caller's.

    Args:
        distance_function: from two batches to distances; ``PairwiseDistance()`` by default.
        margin, swap: as in ``TripletMarginLoss``.
        reduction: as in ``L1Loss``.

    Raises:
        ValueError: the margin is not above zero.

    >>> near, far = rl.tensor([[0.0]]), rl.tensor([[0.5]])
    >>> TripletMarginWithDistanceLoss()(near, near, far)
    tensor(0.5000)
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
    ):
        super().__init__(None, None, reduction)
        if margin <= 0:
            raise ValueError(
                "TripletMarginWithDistanceLoss: expected margin to be greater than 0, "
                f"got {margin} instead"
            )
        self.distance_function = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
