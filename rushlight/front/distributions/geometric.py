"""The geometric law."""

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import BinaryParameter, broadcast_all, same_options
from rushlight.nn import functional as F
from rushlight.operators import call as ops

__all__ = ["Geometric"]


class Geometric(BinaryParameter, Distribution):
    """The geometric law: probability ``(1 - p)^k * p`` of ``k`` failures before a success.

    Args:
        probs: the probability ``p`` of success, in (0, 1]; a number or a tensor of the
            batch's shape.
        logits: its log-odds, in place of it.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _expandable = ("probs", "logits", "_param")

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if (
            self._validate_args
            and probs is not None
            and not ops._is_all_true(self.probs > 0)
        ):
            value = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) of distribution {self!r} to be positive but "
                f"found invalid values:\n{value[value <= 0]}"
            )

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return rl.zeros_like(self.probs)

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            tiny = rl.finfo(self.probs.dtype).tiny
            u = rl.empty(shape, **same_options(self.probs)).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        self._check_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # No failure before a certain success: 0 * log(0) is 0.
        probs = rl.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        binary = F.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )
        return binary / self.probs
