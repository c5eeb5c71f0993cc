"""The log-normal law."""

from rushlight.distributions import constraints
from rushlight.distributions.normal import Normal
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import ExpTransform
from rushlight.distributions.utils import of_base

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """The log-normal law: that of the exponential of a normal number.

    Args:
        loc: mean of the logarithm, a number or a tensor of the batch's shape.
        scale: standard deviation of the logarithm, positive, likewise.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expandable = ()

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc = of_base("loc", "The mean of the logarithm.")
    scale = of_base("scale", "The standard deviation of the logarithm.")

    @property
    def mean(self):
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self):
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self):
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc
