"""The half-Cauchy law."""

import math

import rushlight as rl
from rushlight.distributions._halves import Halved
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.utils import of_base, same_options

__all__ = ["HalfCauchy"]


class HalfCauchy(Halved):
    """The half-Cauchy law: that of the absolute value of a centred Cauchy number.

    Args:
        scale: scale of the Cauchy law, positive; a number or a tensor of the batch's
            shape.
    """

    _whole = Cauchy

    @property
    def mean(self):
        return rl.full(self._extended_shape(), math.inf, **same_options(self.scale))

    variance = of_base("variance", "The variance of the Cauchy law: there is none.")

    def log_prob(self, value):
        self._check_sample(value)
        return super().log_prob(rl.as_tensor(value, **same_options(self.scale)))
