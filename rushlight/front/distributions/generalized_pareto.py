"""The generalized Pareto law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all, same_options

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The generalized Pareto law: survival ``(1 + c * z)^(-1 / c)``, ``z = (x - loc) / scale``.

    Without concentration, ``c = 0``, it is the exponential law.

    Args:
        loc: the least value, a number or a tensor of the batch's shape.
        scale: scale, positive, likewise.
        concentration: the shape ``c``, likewise.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _expandable = ("loc", "scale", "concentration")

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(
            loc, scale, concentration
        )
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        upper = rl.where(self.concentration < 0, end, math.inf)
        return constraints.interval(self.loc, upper)

    def _safe_concentration(self):
        """Where the law is the exponential one, and a concentration to divide by."""
        zero = rl.isclose(self.concentration, rl.zeros_like(self.concentration))
        return zero, rl.where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(rl.rand(shape, **same_options(self.loc)))

    def log_prob(self, value):
        self._check_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._safe_concentration()
        power = 1 / c + rl.ones_like(z)
        fall = rl.where(power == 0, power, power * rl.log1p(c * z))
        return -self.scale.log() - rl.where(zero, z, fall)

    def log_survival_function(self, value):
        """The logarithm of the probability of more than a value."""
        self._check_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._safe_concentration()
        return rl.where(zero, -z, -rl.log1p(c * z) / c)

    def log_cdf(self, value):
        """The logarithm of the probability of no more than a value."""
        return rl.log1p(-rl.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return self.log_cdf(value).exp()

    def icdf(self, value):
        zero, c = self._safe_concentration()
        log_survival = rl.log1p(-value)
        curved = self.loc + self.scale / c * rl.expm1(-c * log_survival)
        return rl.where(zero, self.loc - self.scale * log_survival, curved)

    @property
    def mean(self):
        finite = self.concentration < 1
        c = rl.where(finite, self.concentration, 0.5)
        return rl.where(finite, self.loc + self.scale / (1 - c), math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        finite = self.concentration < 0.5
        c = rl.where(finite, self.concentration, 0.25)
        variance = self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))
        return rl.where(finite, variance, math.nan)

    def entropy(self):
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)
