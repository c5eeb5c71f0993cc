"""Categorical laws relaxed to the simplex."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import ExpTransform
from rushlight.distributions.utils import (
    CategoricalParameter,
    broadcast_all,
    clamp_probs,
    of_base,
    same_options,
)

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(CategoricalParameter, Distribution):
    """The law of the logarithm of a `RelaxedOneHotCategorical` vector.

    (C. Maddison, A. Mnih, Y. Teh: The concrete distribution, 2017.)

    Args:
        temperature: tensor, by which the perturbed logits are divided.
        probs: tensor of shape ``(*, K)`` of relative probabilities.
        logits: tensor of shape ``(*, K)`` of their logarithms, in place of them.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # The vectors lie on a surface, which is not checked.
    support = constraints.real_vector
    has_rsample = True
    _expandable = ("_categorical",)
    _kept = ("temperature",)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(rl.rand(shape, **same_options(self.logits)))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value):
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        count = self.event_shape[0]
        t = self.temperature
        scale = rl.full_like(t, float(count)).lgamma() + (count - 1) * t.log()
        score = logits - value * t
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A one-hot categorical law relaxed to the simplex, with samples that have gradients.

    (E. Jang, S. Gu, B. Poole: Categorical reparameterization with Gumbel-softmax, 2017.)

    Args:
        temperature: tensor; the smaller, the closer the samples are to the corners.
        probs: tensor of shape ``(*, K)`` of relative probabilities.
        logits: tensor of shape ``(*, K)`` of their logarithms, in place of them.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    _expandable = ()

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = ExpRelaxedCategorical(
            temperature, probs, logits, validate_args=validate_args
        )
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    temperature = of_base("temperature", "The temperature.")
    logits = of_base("logits", "The logarithms of the probabilities.")
    probs = of_base("probs", "The probabilities of the categories.")
