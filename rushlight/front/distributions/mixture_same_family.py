"""Mixtures of laws of one family."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: a component is drawn by a categorical law, then a value by the component.

    Args:
        mixture_distribution: `Categorical` over ``K`` components.
        component_distribution: a law whose batch ends in the ``K`` components.

    Raises:
        ValueError: the two do not fit, or are no such laws.

    >>> from rushlight.distributions import Normal
    >>> weights = Categorical(rl.tensor([0.25, 0.75]))
    >>> MixtureSameFamily(weights, Normal(rl.tensor([0.0, 4.0]), rl.ones(2))).mean
    tensor(3.)
    """

    arg_constraints: dict = {}
    has_rsample = False
    _expandable = ("_mixture_distribution", "_component_distribution")
    _kept = ("_num_component", "_event_ndims")

    def __init__(
        self, mixture_distribution, component_distribution, validate_args=None
    ):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        _check_mixture(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = component_distribution.batch_shape[-1]
        events = component_distribution.event_shape
        self._event_ndims = len(events)
        super().__init__(
            component_distribution.batch_shape[:-1], events, validate_args=validate_args
        )

    @property
    def mixture_distribution(self):
        """The law of the components' indices."""
        return self._mixture_distribution

    @property
    def component_distribution(self):
        """The laws of the components."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(
            self.component_distribution.support
        )

    def _weighted(self, values):
        """Sums values of the components, weighted by their probabilities."""
        probs = self.mixture_distribution.probs
        return (self._pad_events(probs) * values).sum(-1 - self._event_ndims)

    def _pad_events(self, probs):
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self):
        return self._weighted(self.component_distribution.mean)

    @property
    def variance(self):
        # The mean of the variances and the variance of the means.
        part = self.component_distribution
        deviation = (part.mean - self._pad(self.mean)).pow(2.0)
        return self._weighted(part.variance) + self._weighted(deviation)

    def cdf(self, x):
        x = self.component_distribution.cdf(self._pad(x))
        return (x * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        self._check_sample(x)
        given = self.component_distribution.log_prob(self._pad(x))
        weights = rl.log_softmax(self.mixture_distribution.logits, dim=-1)
        return rl.logsumexp(given + weights, dim=-1)

    def sample(self, sample_shape=()):
        with rl.no_grad():
            sample_shape = rl.Size(sample_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            # One component of each mixture, at the dimension behind the batch.
            dim = len(sample_shape) + len(self.batch_shape)
            events = self.event_shape
            index = chosen.reshape(*chosen.shape, 1, *[1] * len(events))
            index = index.expand(values.shape[:dim] + (1,) + events)
            return values.gather(dim, index).squeeze(dim)

    def __repr__(self):
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},"
            f"\n  {self.component_distribution})"
        )


def _check_mixture(mixture, component):
    """Refuses batches that do not broadcast, and different numbers of components."""
    weights, values = mixture.batch_shape, component.batch_shape[:-1]
    for one, other in zip(reversed(weights), reversed(values)):
        if one != other and 1 not in (one, other):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                f"`component_distribution.batch_shape`({values})"
            )
    count, given = mixture.logits.shape[-1], component.batch_shape[-1]
    if count != given:
        raise ValueError(
            f"`mixture_distribution component` ({count}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({given})"
        )
