"""The gamma law."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all
from rushlight.operators import call as ops

__all__ = ["Gamma"]


def _standard_gamma(concentration):
    return ops._standard_gamma(concentration)


class Gamma(ExponentialFamily):
    """The gamma law: density ``rate^a * x^(a - 1) * exp(-rate * x) / Gamma(a)``.

    Samples are drawn as in G. Marsaglia, W. Tsang: A simple method for generating gamma
    variables, 2000; they move with the concentration at a fixed quantile.

    Args:
        concentration: the shape ``a``, positive; a number or a tensor of the batch's shape.
        rate: inverse of the scale, positive, likewise.
    """

    arg_constraints = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _expandable = ("concentration", "rate")

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate
        # Zero has no density; the gradient is that of the number before it was raised.
        value.detach().clamp_(min=rl.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value):
        value = rl.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._check_sample(value)
        return (
            rl.xlogy(self.concentration, self.rate)
            + rl.xlogy(self.concentration - 1, value)
            - self.rate * value
            - rl.lgamma(self.concentration)
        )

    def cdf(self, value):
        self._check_sample(value)
        return rl.special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return rl.lgamma(x + 1) + (x + 1) * rl.log(-y.reciprocal())
