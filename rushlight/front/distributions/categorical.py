"""The categorical law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.bernoulli import _count_up
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import (
    check_one_of,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    same_options,
)

__all__ = ["Categorical"]


class Categorical(Distribution):
    """The categorical law: category ``k`` with a probability of its own.

    Args:
        probs: tensor of shape ``(*, K)`` of relative probabilities, divided by their sum.
        logits: tensor of shape ``(*, K)`` of their logarithms, in place of them.

    >>> Categorical(rl.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _expandable = ("probs", "logits", "_param")
    _kept = ("_num_events",)

    def __init__(self, probs=None, logits=None, validate_args=None):
        check_one_of(probs, logits)
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self._param = self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self._param = self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self):
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        """The probabilities of the categories."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.size()

    @property
    def mean(self):
        return rl.full(self._extended_shape(), math.nan, **same_options(self.probs))

    @property
    def mode(self):
        return self.probs.argmax(dim=-1)

    @property
    def variance(self):
        return self.mean

    def sample(self, sample_shape=()):
        sample_shape = rl.Size(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        draws = rl.multinomial(rows, sample_shape.numel(), True)
        return draws.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._check_sample(value)
        value = value.long().unsqueeze(-1)
        value, logits = rl.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        # An impossible category adds nothing: its logarithm is made finite.
        logits = self.logits.clamp(min=rl.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        return _count_up(self._num_events, self, expand, rl.int64)
