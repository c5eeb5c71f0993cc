"""Categorical laws whose samples are vectors with a single one."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import CategoricalParameter, same_options
from rushlight.nn import functional as F

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(CategoricalParameter, Distribution):
    """The categorical law, its samples vectors with a one at the category.

    Args:
        probs: tensor of shape ``(*, K)`` of relative probabilities.
        logits: tensor of shape ``(*, K)`` of their logarithms, in place of them.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _expandable = ("_categorical",)

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        best = self.probs.argmax(dim=-1)
        return F.one_hot(best, self.event_shape[0]).to(self.probs)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        categories = self._categorical.sample(sample_shape)
        return F.one_hot(categories, self.event_shape[0]).to(self.probs)

    def log_prob(self, value):
        self._check_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        (count,) = self.event_shape
        batch = self.batch_shape
        values = rl.eye(count, **same_options(self._param))
        values = values.view(count, *[1] * len(batch), count)
        return values.expand(count, *batch, count) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities in place of the sample's.

    (Y. Bengio, N. Leonard, A. Courville: Estimating or propagating gradients through
    stochastic neurons for conditional computation, 2013.)

    Args:
        probs: tensor of shape ``(*, K)`` of relative probabilities.
        logits: tensor of shape ``(*, K)`` of their logarithms, in place of them.
    """

    has_rsample = True

    def rsample(self, sample_shape=()):
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())
