"""The half-Cauchy law."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AbsTransform
from rushlight.distributions.utils import same_options

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """The half-Cauchy law: that of the absolute value of a centred Cauchy number.

    Args:
        scale: scale of the Cauchy law, positive; a number or a tensor of the batch's
            shape.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _expandable = ()

    def __init__(self, scale, validate_args=None):
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self):
        """The scale of the Cauchy law."""
        return self.base_dist.scale

    @property
    def mean(self):
        return rl.full(self._extended_shape(), math.inf, **same_options(self.scale))

    @property
    def variance(self):
        return self.base_dist.variance

    @property
    def mode(self):
        return rl.zeros_like(self.scale)

    def log_prob(self, value):
        self._check_sample(value)
        value = rl.as_tensor(value, **same_options(self.scale))
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return rl.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value):
        self._check_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
