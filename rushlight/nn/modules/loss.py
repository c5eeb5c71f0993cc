"""Losses as modules; what they compute is described in ``nn.functional``."""

import math
import warnings

from rushlight.nn import functional as F
from rushlight.nn.modules._margin_losses import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
    _Loss,
    _MarginLoss,
    _WeightedLoss,
)
from rushlight.nn.modules.linear import Linear

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

for _kind in (
    *(CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss, MultiLabelMarginLoss),
    *(MultiLabelSoftMarginLoss, MultiMarginLoss, TripletMarginLoss),
    *(TripletMarginWithDistanceLoss, _Loss, _MarginLoss, _WeightedLoss),
):
    _kind.__module__ = __name__  # where programs find it


class L1Loss(_Loss):
    """Absolute difference of input and target.

    Args:
        size_average, reduce: the older way to say ``reduction``.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    >>> L1Loss()(rl.tensor([1.0, 3.0]), rl.zeros(2))
    tensor(2.)
    """

    def forward(self, input, target):
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared difference of input and target.

    Args:
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> MSELoss()(rl.tensor([1.0, 3.0]), rl.zeros(2))
    tensor(5.)
    """

    def forward(self, input, target):
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Negative of the log probability given to each target class.

    Args:
        weight: one factor for each class.
        ignore_index: a class number that counts for nothing.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> NLLLoss()(rl.tensor([[-0.5, -1.5]]), rl.tensor([1]))
    tensor(1.5000)
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight=None,
        size_average=None,
        ignore_index=-100,
        reduce=None,
        reduction="mean",
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input, target):
        return F.nll_loss(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """``NLLLoss`` of images, which ``NLLLoss`` takes since long ago."""

    def __init__(self, *args, **kwargs):
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """Negative log likelihood of the targets under ``softmax(input)``.

    Args:
        weight: one factor for each class.
        ignore_index: a class number that counts for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target that is spread over all classes.

    Shape: logits ``(N, C, *)`` and class numbers ``(N, *)``, or probabilities of the
    logits' shape.
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight=None,
        size_average=None,
        ignore_index=-100,
        reduce=None,
        reduction="mean",
        label_smoothing=0.0,
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Cross entropy of probabilities and targets between 0 and 1.

    Args:
        weight: one factor for each element.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> BCELoss()(rl.tensor([0.5]), rl.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.binary_cross_entropy(
            input, target, self.weight, reduction=self.reduction
        )


class BCEWithLogitsLoss(_Loss):
    """``BCELoss`` of ``sigmoid(input)``, without overflow.

    Args:
        weight: one factor for each element.
        pos_weight: one factor for the positive part of each class.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> BCEWithLogitsLoss()(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight=None,
        size_average=None,
        reduce=None,
        reduction="mean",
        pos_weight=None,
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification: the loss of all alignments.

    Shape: ``(T, N, C)`` log probabilities, ``(N, S)`` labels, ``N`` lengths of both.

    Args:
        blank: the number of the label that stands for none.
        reduction: as in ``L1Loss``; the mean is over lengths of labels first.
        zero_infinity: whether what has no alignment counts zero.

    >>> loss = CTCLoss()(rl.full((3, 1, 2), 0.5).log(), rl.tensor([[1]]), (3,), (1,))
    >>> loss
    tensor(0.2877)
    """

    __constants__ = ["blank", "reduction"]

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of log probabilities from a target.

    Args:
        size_average, reduce: as in ``L1Loss``.
        reduction: as in ``L1Loss``, or ``"batchmean"``.
        log_target: whether the target holds logarithms, too.

    >>> KLDivLoss(reduction="sum")(rl.tensor([0.5, 0.5]).log(), rl.tensor([0.5, 0.5]))
    tensor(0.)
    """

    __constants__ = ["reduction"]

    def __init__(
        self, size_average=None, reduce=None, reduction="mean", log_target=False
    ):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input, target):
        return F.kl_div(
            input, target, reduction=self.reduction, log_target=self.log_target
        )


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts under Poisson distributions.

    Args:
        log_input: whether the input holds logarithms of the rates.
        full: whether Stirling's term is added.
        eps: added to rates whose logarithm is taken.
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> PoissonNLLLoss()(rl.tensor([0.0]), rl.tensor([2.0]))
    tensor(1.)
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input=True,
        full=False,
        size_average=None,
        eps=1e-8,
        reduce=None,
        reduction="mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input, target):
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Negative log likelihood of targets under normal distributions.

    Args:
        full: whether the constant term is added.
        eps: the least variance.
        reduction: as in ``L1Loss``.

    >>> GaussianNLLLoss()(rl.tensor([1.0]), rl.tensor([3.0]), rl.tensor([1.0]))
    tensor(2.)
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input, target, var):
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class SmoothL1Loss(_Loss):
    """Squared difference over ``2 * beta`` below ``beta``, else absolute.

    Args:
        size_average, reduce, reduction: as in ``L1Loss``.
        beta: where the two parts meet.

    >>> SmoothL1Loss()(rl.tensor([0.5, 3.0]), rl.zeros(2))
    tensor(1.3125)
    """

    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared difference below ``delta``, else linear."""

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction="mean", delta=1.0):
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input, target):
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` for targets of 1 and -1.

    Args:
        size_average, reduce, reduction: as in ``L1Loss``.

    >>> SoftMarginLoss()(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross entropy of a linear layer's results, which are the classes' scores.

    Args:
        in_features: size of the input's last dimension.
        num_classes: how many classes there are.
        out_features: sizes of the positions that each have a class of their own.
        bias: whether the layer has a bias.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        weight: one factor for each class.
        ignore_index: a class number that counts for nothing.
        label_smoothing: share of the target that is spread over all classes.
        options: how the batch is split, so that fewer scores exist at a time.

    Raises:
        RuntimeError: the weight has a wrong shape, or the smoothing is no share.

    >>> import rushlight as rl
    >>> loss = LinearCrossEntropyLoss(3, 10)
    >>> loss(rl.ones(4, 3), rl.tensor([1, 2, 3, 4])).shape
    rushlight.Size([])
    """

    __constants__ = [
        "num_classes",
        "out_features",
        "reduction",
        "ignore_index",
        "label_smoothing",
    ]

    def __init__(
        self,
        in_features,
        num_classes,
        *,
        out_features=(),
        bias=False,
        device=None,
        dtype=None,
        reduction="mean",
        weight=None,
        ignore_index=None,
        label_smoothing=0.0,
        options=None,
    ):
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got "
                f"{tuple(weight.shape)}"
            )
        if label_smoothing < 0 or label_smoothing > 1.0:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(
            in_features,
            math.prod(out_features, start=num_classes),
            bias=bias,
            device=device,
            dtype=dtype,
        )
        self.options = options

    def forward(self, input, target):
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*sizes, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self):
        values = {
            "in_features": self.linear.in_features,
            "num_classes": self.num_classes,
            "out_features": self.out_features,
            "bias": self.linear.bias is not None,
            "reduction": self.reduction,
            "ignore_index": self.ignore_index,
            "label_smoothing": self.label_smoothing,
            "options": self.options,
        }
        return ", ".join(f"{name}={value}" for name, value in values.items())
