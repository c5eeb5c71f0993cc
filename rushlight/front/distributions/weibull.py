"""The Weibull law."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, PowerTransform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """The Weibull law: distribution function ``1 - exp(-(x / scale)^k)``.

    Args:
        scale: scale, positive; a number or a tensor of the batch's shape.
        concentration: the exponent ``k``, positive, likewise.
    """

    arg_constraints = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    _expandable = ("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(rl.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _log_moment(self, n):
        """``log E[(x / scale)^n]``."""
        return rl.lgamma(1 + n * self.concentration_reciprocal)

    @property
    def mean(self):
        return self.scale * self._log_moment(1).exp()

    @property
    def mode(self):
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self):
        spread = self._log_moment(2).exp() - (2 * self._log_moment(1)).exp()
        return self.scale.pow(2) * spread

    def entropy(self):
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1
