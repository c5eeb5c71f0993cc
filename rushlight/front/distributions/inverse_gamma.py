"""The inverse gamma law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import PowerTransform
from rushlight.distributions.utils import of_base

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The inverse gamma law: that of the reciprocal of a gamma number.

    Args:
        concentration: shape of the gamma law, positive; a number or a tensor of the
            batch's shape.
        rate: its rate, the scale of this one, positive, likewise.
    """

    arg_constraints = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    _expandable = ()

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        reciprocal = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, reciprocal, validate_args=validate_args)

    concentration = of_base("concentration", "The shape of the gamma law.")
    rate = of_base("rate", "The rate of the gamma law.")

    @property
    def mean(self):
        a = self.concentration
        return rl.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return rl.where(a > 2, variance, math.inf)

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
