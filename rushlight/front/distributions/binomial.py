"""The binomial law."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.bernoulli import _count_up
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import BinaryParameter

__all__ = ["Binomial"]


class Binomial(BinaryParameter, Distribution):
    """The binomial law: ``k`` successes in ``n`` trials of probability ``p``.

    Its probability is ``n! / (k! * (n - k)!) * p^k * (1 - p)^(n - k)``. Large counts are
    drawn as in W. Hoermann: The generation of binomial random variates, 1993.

    Args:
        total_count: the number ``n`` of trials, a number or a tensor of the batch's shape.
        probs: the probability ``p``, likewise.
        logits: its log-odds, in place of it.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _expandable = ("total_count", "probs", "logits", "_param")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        (total_count,) = self._take_parameter(probs, logits, total_count)
        self.total_count = total_count.type_as(self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        most = ((self.total_count + 1) * self.probs).floor()
        return most.clamp(max=self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            return rl.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._check_sample(value)
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        # n * log(1 - p) without overflow; half of the gradient on either side of zero.
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        failures = n * positive + n * rl.log1p(rl.exp(-logits.abs()))
        return ways + value * logits - failures

    def _one_count(self, method):
        most = int(self.total_count.max())
        if not self.total_count.min() == most:
            raise NotImplementedError(
                f"Inhomogeneous total count not supported by `{method}`."
            )
        return most

    def entropy(self):
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        return _count_up(1 + self._one_count("enumerate_support"), self, expand)
