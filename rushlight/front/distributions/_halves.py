"""Laws of the absolute value of a number whose law is centred at zero."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AbsTransform
from rushlight.distributions.utils import of_base


class Halved(TransformedDistribution):
    """The law of absolute values; ``_whole`` is that of the numbers."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _expandable = ()
    _whole: type

    def __init__(self, scale, validate_args=None):
        base = self._whole(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale = of_base("scale", "The scale of the law of the numbers.")

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
