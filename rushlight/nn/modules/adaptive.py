"""A softmax over many classes, the rare ones in clusters."""

from collections import namedtuple
from itertools import pairwise

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.modules.container import ModuleList, Sequential
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of targets among classes that are sorted by frequency.

    The head scores the frequent classes and the clusters; a cluster's smaller layers
    run for those inputs only whose target is among its classes.

    Args:
        in_features: size of the input's last dimension.
        n_classes: how many classes there are.
        cutoffs: where the clusters begin, in increasing order.
        div_value: each cluster's layers are narrower by this factor than the last's.
        head_bias: whether the head has a bias.

    Raises:
        ValueError: the cutoffs are not increasing class numbers.

    >>> rl.manual_seed(0) and None
    >>> softmax = AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])
    >>> output, loss = softmax(rl.ones(2, 16), rl.tensor([3, 17]))
    >>> output.shape, loss.shape
    (rushlight.Size([2]), rushlight.Size([]))
    """

    def __init__(
        self,
        in_features,
        n_classes,
        cutoffs,
        div_value=4.0,
        head_bias=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        options = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for index, (low, high) in enumerate(pairwise(self.cutoffs), 1):
            width = int(in_features // div_value**index)
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **options),
                    Linear(width, high - low, bias=False, **options),
                )
            )

    def reset_parameters(self):
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for narrow, widen in self.tail:
            narrow.reset_parameters()
            widen.reset_parameters()

    def forward(self, input_, target_):
        """The log probability of each target, and the mean of their negatives."""
        _check_shapes(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        output = input.new_zeros(target.size(0))
        place = target.clone()  # in the head's result
        rows_used = 0
        for index, (low, high) in enumerate(pairwise([0, *self.cutoffs]), -1):
            mask = (target >= low) & (target < high)
            rows = mask.nonzero().squeeze(1)
            rows_used += rows.numel()
            if index < 0 or rows.numel() == 0:
                continue
            scores = self.tail[index](input.index_select(0, rows))
            logs = F.log_softmax(scores, dim=1)
            own = logs.gather(1, (target[mask] - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, own)
            place.index_fill_(0, rows, self.shortlist_size + index)
        if rows_used != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in "
                f"range [{target.min().item()}, {target.max().item()}] were found. "
            )
        logs = F.log_softmax(self.head(input), dim=1)
        output = output + logs.gather(1, place.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input, head_output):
        """The log probabilities of all classes, from the head's result."""
        logs = F.log_softmax(head_output, dim=1)
        parts = [logs[:, : self.shortlist_size]]
        for index, layers in enumerate(self.tail):
            cluster = logs[:, self.shortlist_size + index].unsqueeze(1)
            parts.append(F.log_softmax(layers(input), dim=1) + cluster)
        return rl.cat(parts, 1)

    def log_prob(self, input):
        """The log probabilities ``(N, n_classes)`` of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most probable class of each input."""
        scores = self.head(input)
        best = scores.argmax(dim=1)
        rare = best >= self.shortlist_size
        if rare.any():
            logs = self._get_full_log_prob(input[rare], scores[rare])
            best[rare] = logs.argmax(dim=1)
        return best


def _check_cutoffs(cutoffs, n_classes):
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    rising = all(low < high for low, high in pairwise(cutoffs))
    whole = all(int(each) == each for each in cutoffs)
    if not (rising and whole and cutoffs[0] > 0 and cutoffs[-1] <= n_classes - 1):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an "
            "increasing order, where each value is between 1 and n_classes-1"
        )


def _check_shapes(input, target):
    if target.dim() > 1:
        raise RuntimeError(
            "0D or 1D target tensor expected, multi-target not supported"
        )
    if target.dim() == 1 and input.size(0) != target.size(0):
        raise RuntimeError(
            "Input and target should have the same size in the batch dimension."
        )
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, "
            f"but found inputs with size {input.size()}"
        )
