"""The negative binomial law."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import BinaryParameter, lazy_property
from rushlight.nn import functional as F

__all__ = ["NegativeBinomial"]


class NegativeBinomial(BinaryParameter, Distribution):
    """The negative binomial law: ``k`` successes before ``r`` failures.

    Its probability is ``Gamma(r + k) / (k! * Gamma(r)) * p^k * (1 - p)^r``; a Poisson law
    whose rate is a gamma number.

    Args:
        total_count: the number ``r`` of failures, not negative; a number or a tensor of
            the batch's shape.
        probs: the probability ``p`` of success, in [0, 1), likewise.
        logits: its log-odds, in place of it.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _expandable = ("total_count", "probs", "logits", "_param")

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        (total_count,) = self._take_parameter(probs, logits, total_count)
        self.total_count = total_count.type_as(self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * self.logits.exp()

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / rl.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        rate = rl.exp(-self.logits)
        return Gamma(self.total_count, rate, validate_args=False)

    def sample(self, sample_shape=()):
        with rl.no_grad():
            return rl.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value):
        self._check_sample(value)
        r = self.total_count
        powers = r * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = (r + value).lgamma() - (1.0 + value).lgamma() - r.lgamma()
        # No success is certain before no failure.
        return powers + ways.masked_fill(r + value == 0.0, 0.0)
