"""The von Mises law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions._centred import Centred
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


class VonMises(Centred, Distribution):
    """The von Mises law on the circle: density ``exp(k * cos(x - loc)) / (2 pi I0(k))``.

    Drawn as in D. Best, N. Fisher: Efficient simulation of the von Mises distribution,
    1979, in float64.

    Args:
        loc: the mean angle in radians, a number or a tensor of the batch's shape.
        concentration: the concentration ``k``, positive, likewise.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _expandable = ("loc", "concentration")

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value):
        self._check_sample(value)
        k = self.concentration
        # I0 without overflow is I0(k) * exp(-k).
        scaled = rl.special.i0e(k).log()
        return k * rl.cos(value - self.loc) - math.log(2 * math.pi) - scaled - k

    @lazy_property
    def _loc(self):
        return self.loc.to(rl.double)

    @lazy_property
    def _concentration(self):
        return self.concentration.to(rl.double)

    @lazy_property
    def _proposal_r(self):
        """The parameter of the wrapped Cauchy law that proposes."""
        k = self._concentration
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return rl.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape=()):
        with rl.no_grad():
            angles = self._reject(self._extended_shape(sample_shape))
            wrapped = (angles + math.pi + self._loc) % (2 * math.pi) - math.pi
            return wrapped.to(self.loc.dtype)

    def _reject(self, shape):
        """Centred angles; all are proposed until each has been accepted."""
        k, r = self._concentration, self._proposal_r
        device = self.loc.device
        angles = rl.empty(shape, dtype=rl.double, device=device)
        done = rl.zeros(shape, dtype=rl.bool, device=device)
        while not done.all():
            u = rl.rand((3, *shape), dtype=rl.double, device=device)
            z = rl.cos(math.pi * u[0])
            cosine = (1 + r * z) / (r + z)
            c = k * (r - cosine)
            accept = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
            angles = rl.where(accept, (u[2] - 0.5).sign() * cosine.acos(), angles)
            done = done | accept
        return angles

    @lazy_property
    def variance(self):
        """The circular variance ``1 - I1(k) / I0(k)``."""
        k = self.concentration
        return 1 - rl.special.i1e(k) / rl.special.i0e(k)
