"""The Gumbel law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import AffineTransform, ExpTransform
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The Gumbel law: density ``exp(z - exp(z)) / scale`` with ``z = (loc - x) / scale``.

    Args:
        loc: the mode, a number or a tensor of the batch's shape.
        scale: scale, positive, likewise.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _expandable = ("loc", "scale")

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        finfo = rl.finfo(self.loc.dtype)
        base = Uniform(
            rl.full_like(self.loc, finfo.tiny),
            rl.full_like(self.loc, 1 - finfo.eps),
            validate_args=validate_args,
        )
        # loc - scale * log(-log(u)).
        log = ExpTransform().inv
        transforms = [
            log,
            AffineTransform(loc=0, scale=-rl.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def log_prob(self, value):
        self._check_sample(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()

    @property
    def mean(self):
        return self.loc + self.scale * euler_constant

    @property
    def mode(self):
        return self.loc

    @property
    def stddev(self):
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)
