"""Batches of laws as one law of several variables."""

from types import GenericAlias

from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """The joint law of independent variables: dimensions of the batch become events.

    Args:
        base_distribution: a law whose batch is taken.
        reinterpreted_batch_ndims: how many of its rightmost dimensions.

    Raises:
        ValueError: the batch has fewer dimensions.
    """

    arg_constraints: dict = {}
    _expandable = ("base_dist",)
    _kept = ("reinterpreted_batch_ndims",)
    # ``Independent[Normal]`` in annotations.
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(
        self, base_distribution, reinterpreted_batch_ndims, validate_args=None
    ):
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= "
                "len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        super().__init__(
            batch[:cut],
            batch[cut:] + base_distribution.event_shape,
            validate_args=validate_args,
        )

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self):
        if self.reinterpreted_batch_ndims > 0:
            return False
        return self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        support = self.base_dist.support
        if not self.reinterpreted_batch_ndims:
            return support
        return constraints.independent(support, self.reinterpreted_batch_ndims)

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        log_prob = self.base_dist.log_prob(value)
        return _sum_rightmost(log_prob, self.reinterpreted_batch_ndims)

    def entropy(self):
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(
                "Enumeration over cartesian product is not implemented"
            )
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return (
            f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
        )
