"""The Dirichlet law."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.nn import functional as F
from rushlight.operators import call as ops

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """The Dirichlet law over the simplex: density proportional to ``prod(x_k^(a_k - 1))``.

    Samples move with the concentrations at fixed quantiles of their shares.

    Args:
        concentration: tensor of shape ``(*, K)`` of the exponents ``a_k``, positive.
    """

    arg_constraints = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    _expandable = ("concentration",)

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError(
                "`concentration` parameter must be at least one-dimensional."
            )
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return ops._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value):
        self._check_sample(value)
        powers = rl.xlogy(self.concentration - 1.0, value).sum(-1)
        return powers - self._log_normalizer(self.concentration)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        # Without an interior maximum: one of the corners.
        corner = F.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode)
        hollow = (self.concentration < 1).all(-1, keepdim=True)
        return rl.where(hollow, corner, mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        spread = self.concentration * (total - self.concentration)
        return spread / (total.pow(2) * (total + 1))

    def entropy(self):
        a, total = self.concentration, self.concentration.sum(-1)
        return (
            self._log_normalizer(a)
            - (a.size(-1) - total) * total.digamma()
            - ((a - 1.0) * a.digamma()).sum(-1)
        )

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
