"""The beta law."""

from numbers import Number

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.dirichlet import Dirichlet
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """The beta law: density ``x^(a - 1) * (1 - x)^(b - 1) / B(a, b)`` on (0, 1).

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
    _expandable = ("_dirichlet",)

    def __init__(self, concentration1, concentration0, validate_args=None):
        pair = (concentration1, concentration0)
        if all(isinstance(x, Number) for x in pair):
            both = rl.tensor([float(x) for x in pair])
        else:
            both = rl.stack(broadcast_all(*pair), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self):
        """The exponent of the number."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self):
        """The exponent of one minus the number."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        spread = self.concentration1 * self.concentration0
        return spread / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        self._check_sample(value)
        return self._dirichlet.log_prob(rl.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
