"""Bernoulli laws relaxed to the open interval."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import SigmoidTransform
from rushlight.distributions.utils import (
    BinaryParameter,
    broadcast_all,
    clamp_probs,
    of_base,
    same_options,
)

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(BinaryParameter, Distribution):
    """The law of the log-odds of a `RelaxedBernoulli` number: a logistic law.

    (C. Maddison, A. Mnih, Y. Teh: The concrete distribution, 2017.)

    Args:
        temperature: tensor, the scale of the logistic noise's inverse.
        probs: the probability of 1, a number or a tensor of the batch's shape.
        logits: its log-odds, in place of it.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _expandable = ("probs", "logits", "_param")
    _kept = ("temperature",)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._take_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rl.rand(shape, **same_options(probs)))
        noise = u.log() - (-u).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        gap = logits - value * self.temperature
        return self.temperature.log() + gap - 2 * gap.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A Bernoulli law relaxed to (0, 1), with samples that have gradients.

    (E. Jang, S. Gu, B. Poole: Categorical reparameterization with Gumbel-softmax, 2017.)

    Args:
        temperature: tensor; the smaller, the closer the samples are to 0 and 1.
        probs: the probability of 1, a number or a tensor of the batch's shape.
        logits: its log-odds, in place of it.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _expandable = ()

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    temperature = of_base("temperature", "The temperature.")
    logits = of_base("logits", "The log-odds of 1.")
    probs = of_base("probs", "The probability of 1.")
