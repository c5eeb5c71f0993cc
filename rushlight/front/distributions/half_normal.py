"""The half-normal law."""

import math

from rushlight.distributions._halves import Halved
from rushlight.distributions.normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Halved):
    """The half-normal law: that of the absolute value of a centred normal number.

    Args:
        scale: scale of the normal law, positive; a number or a tensor of the batch's
            shape.
    """

    _whole = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)
