"""The Kumaraswamy law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, PowerTransform
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy law: distribution function ``1 - (1 - x^a)^b`` on (0, 1).

    Args:
        concentration1: the exponent ``a``, positive; a number or a tensor of the batch's
            shape.
        concentration0: the exponent ``b``, positive, likewise.
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _expandable = ("concentration1", "concentration0")

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(
            concentration1, concentration0
        )
        base = Uniform(
            rl.zeros_like(self.concentration0),
            rl.ones_like(self.concentration0),
            validate_args=validate_args,
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n):
        """``E[x^n] = b * B(1 + n / a, b)``."""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * rl.exp(a.lgamma() + b.lgamma() - (a + b).lgamma())

    @property
    def mean(self):
        return self._moment(1)

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return rl.where((b < 1) | (a < 1), math.nan, log_mode).exp()

    @property
    def variance(self):
        return self._moment(2) - self.mean.pow(2)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = rl.digamma(b + 1) + euler_constant
        spread = 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic
        return spread - a.log() - b.log()
