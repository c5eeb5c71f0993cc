"""The Cauchy law."""

import math

import rushlight as rl
from rushlight.distributions._centred import Placed
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import same_options

__all__ = ["Cauchy"]


class Cauchy(Placed, Distribution):
    """The Cauchy law: density ``1 / (pi * scale * (1 + ((x - loc) / scale)^2))``.

    It is that of a quotient of two centred normal numbers, and has no moments.

    Args:
        loc: median, a number or a tensor of the batch's shape.
        scale: half the distance between the quartiles, positive, likewise.
    """

    @property
    def mean(self):
        return rl.full(self._extended_shape(), math.nan, **same_options(self.loc))

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return rl.full(self._extended_shape(), math.inf, **same_options(self.loc))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        noise = rl.empty(shape, **same_options(self.loc)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value):
        self._check_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z**2).log1p()

    def cdf(self, value):
        self._check_sample(value)
        return rl.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return rl.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()
