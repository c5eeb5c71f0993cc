"""The Bernoulli law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import BinaryParameter, broadcast_all
from rushlight.nn import functional as F

__all__ = ["Bernoulli"]


class Bernoulli(BinaryParameter, ExponentialFamily):
    """The Bernoulli law: 1 with probability ``p``, else 0.

    Args:
        probs: the probability ``p``, a number or a tensor of the batch's shape.
        logits: its log-odds ``log(p / (1 - p))``, in place of it.

    >>> Bernoulli(0.25).log_prob(rl.tensor([0.0, 1.0])).exp()
    tensor([0.7500, 0.2500])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _expandable = ("probs", "logits", "_param")

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs)
        return rl.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            return rl.bernoulli(self.probs.expand(shape))

    def log_prob(self, value):
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return F.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )

    def enumerate_support(self, expand=True):
        return _count_up(2, self, expand)

    @property
    def _natural_params(self):
        return (rl.logit(self.probs),)

    def _log_normalizer(self, x):
        return rl.log1p(rl.exp(x))


def _count_up(count, law, expand, dtype=None):
    """The first integers along a new dimension in front of a law's batch."""
    param = law._param
    dtype = param.dtype if dtype is None else dtype
    values = rl.arange(count, dtype=dtype, device=param.device)
    values = values.view(-1, *[1] * len(law._batch_shape))
    return values.expand(-1, *law._batch_shape) if expand else values
