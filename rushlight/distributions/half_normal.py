"""The half-normal law."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.normal import Normal
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AbsTransform

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """The half-normal law: that of the absolute value of a centred normal number.

    Args:
        scale: scale of the normal law, positive; a number or a tensor of the batch's
            shape.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _expandable = ()

    def __init__(self, scale, validate_args=None):
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self):
        """The scale of the normal law."""
        return self.base_dist.scale

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)

    @property
    def mode(self):
        return rl.zeros_like(self.scale)

    def log_prob(self, value):
        self._check_sample(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return rl.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value):
        self._check_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
