"""The uniform law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all, same_options

__all__ = ["Uniform"]


class Uniform(Distribution):
    """The uniform law: density ``1 / (high - low)`` on ``[low, high)``.

    Args:
        low: lower end, a number or a tensor of the batch's shape.
        high: upper end, above the lower, likewise.

    >>> Uniform(0.0, 4.0).cdf(rl.tensor([1.0, 2.0]))
    tensor([0.2500, 0.5000])
    """

    has_rsample = True
    _expandable = ("low", "high")

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self):
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def mode(self):
        return math.nan * self.high

    @property
    def stddev(self):
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self):
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        u = rl.rand(shape, **same_options(self.low))
        return self.low + u * (self.high - self.low)

    def log_prob(self, value):
        self._check_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return rl.log(inside.type_as(self.low)) - rl.log(self.high - self.low)

    def cdf(self, value):
        self._check_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return rl.log(self.high - self.low)
