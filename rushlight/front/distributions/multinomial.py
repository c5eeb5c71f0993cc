"""The multinomial law."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import CategoricalParameter, broadcast_all

__all__ = ["Multinomial"]


class Multinomial(CategoricalParameter, Distribution):
    """The multinomial law: how often each category comes up in ``n`` draws.

    The probability is ``n! / prod(x_k!) * prod(p_k^x_k)``.

    Args:
        total_count: the number ``n`` of draws, an int.
        probs: tensor of shape ``(*, K)`` of relative probabilities.
        logits: tensor of shape ``(*, K)`` of their logarithms, in place of them.

    Raises:
        NotImplementedError: the number of draws is no int.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _expandable = ("_categorical",)
    _kept = ("total_count",)

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        sample_shape = rl.Size(sample_shape)
        draws = self._categorical.sample((self.total_count, *sample_shape))
        draws = draws.movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add(-1, draws, rl.ones_like(draws)).type_as(self.probs)

    def entropy(self):
        # The expected logarithms of the factorials, from each category's own count.
        n = rl.tensor(self.total_count)
        single = Binomial(self.total_count, probs=self.probs)
        counts = single.enumerate_support(expand=False)[1:]
        weights = single.log_prob(counts).exp() * rl.lgamma(counts + 1)
        return n * self._categorical.entropy() - rl.lgamma(n + 1) + weights.sum([0, -1])

    def log_prob(self, value):
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = rl.lgamma(value.sum(-1) + 1) - rl.lgamma(value + 1).sum(-1)
        # An impossible category that does not come up: 0 * -inf is 0.
        silent = (value == 0) & logits.isneginf()
        return ways + (rl.where(silent, 0.0, logits) * value).sum(-1)
