"""The continuous Bernoulli law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    BinaryParameter,
    broadcast_all,
    check_one_of,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    same_options,
)
from rushlight.nn import functional as F

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(BinaryParameter, ExponentialFamily):
    """The continuous Bernoulli law: density ``C(p) * p^x * (1 - p)^(1 - x)`` on [0, 1].

    Its constant ``C`` and moments are quotients that vanish at one half, so they are
    replaced by their Taylor series there. (G. Loaiza-Ganem, J. Cunningham: The continuous
    Bernoulli, 2019.)

    Args:
        probs: the parameter ``p`` in (0, 1), a number or a tensor of the batch's shape.
        logits: its log-odds, in place of it.
        lims: between which values of ``p`` the series are used.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _expandable = ("probs", "logits", "_param")
    _kept = ("_lims",)

    def __init__(
        self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None
    ):
        check_one_of(probs, logits)
        self._lims = lims
        if probs is not None:
            (probs,) = broadcast_all(probs)
            valid = self.arg_constraints["probs"].check(probs)
            if validate_args is not None and not valid.all():
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(probs)
        self._take_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self):
        """The parameter, kept away from 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self):
        """The parameter, moved out of the region where quotients are unstable."""
        return rl.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _choose(self, quotient, series):
        return rl.where(self._outside_unstable_region(), quotient, series)

    def _cont_bern_log_norm(self):
        """``log C = log(2 * atanh(1 - 2 p) / (1 - 2 p))``."""
        p = self._cut_probs()
        below, above = rl.where(p <= 0.5, p, 0.0), rl.where(p >= 0.5, p, 1.0)
        gap = rl.where(p <= 0.5, rl.log1p(-2.0 * below), rl.log(2.0 * above - 1.0))
        quotient = rl.log(rl.abs(rl.log1p(-p) - rl.log(p))) - gap
        x = (self.probs - 0.5).pow(2)
        return self._choose(quotient, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self):
        p = self._cut_probs()
        quotient = p / (2.0 * p - 1.0) + 1.0 / (rl.log1p(-p) - rl.log(p))
        x = self.probs - 0.5
        return self._choose(quotient, 0.5 + (1 / 3 + 16 / 45 * x.pow(2)) * x)

    @property
    def stddev(self):
        return self.variance.sqrt()

    @property
    def variance(self):
        p = self._cut_probs()
        curve = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2)
        quotient = curve + 1.0 / (rl.log1p(-p) - rl.log(p)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return self._choose(quotient, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def sample(self, sample_shape=()):
        with rl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(rl.rand(shape, **same_options(self.probs)))

    def log_prob(self, value):
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        binary = F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - binary

    def cdf(self, value):
        self._check_sample(value)
        p = self._cut_probs()
        powers = p.pow(value) * (1.0 - p).pow(1.0 - value)
        inside = self._choose((powers + p - 1.0) / (2.0 * p - 1.0), value)
        return rl.where(value <= 0.0, 0.0, rl.where(value >= 1.0, 1.0, inside))

    def icdf(self, value):
        p = self._cut_probs()
        rise = rl.log1p(-p + value * (2.0 * p - 1.0)) - rl.log1p(-p)
        return self._choose(rise / (rl.log(p) - rl.log1p(-p)), value)

    def entropy(self):
        failure, success = rl.log1p(-self.probs), self.probs.log()
        return self.mean * (failure - success) - self._cont_bern_log_norm() - failure

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        stable = (x <= low) | (x > high)
        cut = rl.where(stable, x, low)
        quotient = rl.log(rl.abs(rl.expm1(cut))) - rl.log(rl.abs(cut))
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return rl.where(stable, quotient, series)
