"""The normal law."""

import math

import rushlight as rl
from rushlight.distributions._centred import Centred, Placed
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import _standard_normal

__all__ = ["Normal"]


class Normal(Placed, Centred, ExponentialFamily):
    """The normal law: density ``exp(-((x - loc) / scale)^2 / 2) / (scale * sqrt(2 pi))``.

    Args:
        loc: mean, a number or a tensor of the batch's shape.
        scale: standard deviation, positive, likewise.

    >>> Normal(0.0, 1.0).log_prob(rl.tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self):
        return self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            return rl.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value):
        self._check_sample(value)
        distance = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -distance - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value):
        self._check_sample(value)
        z = (value - self.loc) * self.scale.reciprocal() / math.sqrt(2)
        return 0.5 * (1 + rl.erf(z))

    def icdf(self, value):
        return self.loc + self.scale * rl.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self):
        precision = self.scale.pow(2).reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * rl.log(-math.pi / y)
