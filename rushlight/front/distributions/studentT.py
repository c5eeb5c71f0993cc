"""Student's law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's law: density proportional to ``(1 + z^2 / df)^(-(df + 1) / 2)``.

    ``z = (x - loc) / scale`` is a standard normal number over the root of an independent
    chi-squared one that is divided by its degrees of freedom.

    Args:
        df: degrees of freedom, positive; a number or a tensor of the batch's shape.
        loc: median, likewise.
        scale: scale, positive, likewise.
    """

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _expandable = ("df", "loc", "scale", "_chi2")

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self):
        return rl.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        # Infinite from one to two degrees of freedom, undefined below.
        df = rl.where(self.df > 2, self.df, 3.0)  # any number, which is not chosen
        finite = self.scale.pow(2) * df / (df - 2)
        rest = rl.where(self.df > 1, math.inf, math.nan).type_as(finite)
        return rl.where(self.df > 2, finite, rest)

    def rsample(self, sample_shape=()):
        # Normal numbers first: the order of the draws is PyTorch's.
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, self.df.dtype, self.df.device)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (noise * rl.rsqrt(squares / self.df))

    def _log_normalizer(self):
        half = 0.5 * self.df
        gap = rl.lgamma(half) - rl.lgamma(0.5 * (self.df + 1.0))
        return self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + gap

    def log_prob(self, value):
        self._check_sample(value)
        z = (value - self.loc) / self.scale
        tail = -0.5 * (self.df + 1.0) * rl.log1p(z**2.0 / self.df)
        return tail - self._log_normalizer()

    def entropy(self):
        above = 0.5 * (self.df + 1)
        spread = above * (rl.digamma(above) - rl.digamma(0.5 * self.df))
        return spread + self._log_normalizer()
