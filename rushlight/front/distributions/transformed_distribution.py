"""Laws of transformed variables."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.independent import Independent
from rushlight.distributions.transforms import ComposeTransform, Transform
from rushlight.distributions.utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The law of ``y = t_n(... t_1(x))`` where ``x`` has a base law.

    The density changes with the Jacobian: ``log p(y) = log p(x) - log |dy/dx|``.

    Args:
        base_distribution: the law of ``x``.
        transforms: a `Transform`, or a list of them, the first to be applied first.

    Raises:
        ValueError: they are no transforms, or need more dimensions than the base has.

    >>> from rushlight.distributions import ExpTransform, Normal
    >>> log_normal = TransformedDistribution(Normal(0.0, 1.0), ExpTransform())
    >>> log_normal.cdf(rl.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints: dict = {}
    _expandable = ()
    _kept = ("transforms",)

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = _listed(transforms)
        chain = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        events, needed = len(base_distribution.event_shape), chain.domain.event_dim
        if len(base_shape) < needed:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{needed}, but got {base_shape}."
            )
        # Parameters of the transforms may broadcast the base.
        shape = chain.forward_shape(base_shape)
        broadcast = chain.inverse_shape(shape)
        if broadcast != base_shape:
            batch = broadcast[: len(broadcast) - events]
            base_distribution = base_distribution.expand(batch)
        if needed > events:
            base_distribution = Independent(base_distribution, needed - events)
        self.base_dist = base_distribution
        made = chain.codomain.event_dim
        cut = len(shape) - max(made, events + made - needed)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_parts(self, new, batch_shape):
        super()._expand_parts(new, batch_shape)
        shape = batch_shape + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=()):
        with rl.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        self._check_sample(value)
        events, total, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            taken = transform.domain.event_dim
            events += taken - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(slope, events - taken)
            y = x
        base = self.base_dist.log_prob(y)
        return total + _sum_rightmost(base, events - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        """Turns probabilities around where the transforms decrease."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


def _listed(transforms):
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(
            f"transforms must be a Transform or list, but was {transforms}"
        )
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms
