"""The Laplace law."""

import rushlight as rl
from rushlight.distributions._centred import Centred, Placed
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import same_options

__all__ = ["Laplace"]


class Laplace(Placed, Centred, Distribution):
    """The Laplace law: density ``exp(-|x - loc| / scale) / (2 * scale)``.

    Args:
        loc: mean, a number or a tensor of the batch's shape.
        scale: mean distance from it, positive, likewise.
    """

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        return 2**0.5 * self.scale

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        # Never -1, whose logarithm would be infinite.
        least = rl.finfo(self.loc.dtype).eps - 1
        u = rl.empty(shape, **same_options(self.loc)).uniform_(least, 1)
        return self.loc - self.scale * u.sign() * rl.log1p(-u.abs())

    def log_prob(self, value):
        self._check_sample(value)
        return -rl.log(2 * self.scale) - rl.abs(value - self.loc) / self.scale

    def cdf(self, value):
        self._check_sample(value)
        gap = value - self.loc
        return 0.5 - 0.5 * gap.sign() * rl.expm1(-gap.abs() / self.scale)

    def icdf(self, value):
        gap = value - 0.5
        return self.loc - self.scale * gap.sign() * rl.log1p(-2 * gap.abs())

    def entropy(self):
        return 1 + rl.log(2 * self.scale)
