"""What all distributions share: shapes, checks of arguments and samples, expansion."""

import warnings

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.utils import lazy_property
from rushlight.operators import call as ops

__all__ = ["Distribution"]


def _as_size(shape):
    """A sequence of sizes as one; what laws from outside keep in its place is theirs."""
    return rl.Size(shape) if isinstance(shape, (tuple, list)) else shape


class Distribution:
    """The base of all distributions: a batch of laws, each over events of one shape.

    A sample has the shape ``sample_shape + batch_shape + event_shape``, and its
    log-density the shape ``sample_shape + batch_shape``.

    Args:
        batch_shape: shape over which the parameters vary.
        event_shape: shape of a single sample.
        validate_args: whether arguments and samples are checked; None for the default,
            which is to check unless Python runs with ``-O``.

    Raises:
        ValueError: an argument is outside its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    # Names of the attributes whose leading dimensions are the batch (tensors and other
    # distributions), and of those that an expanded copy takes as they are. A class that
    # names the first has `expand`.
    _expandable: tuple[str, ...]
    _kept: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value):
        """Sets whether new distributions check their arguments.

        Args:
            value: a bool.

        Raises:
            ValueError: the value is not a bool.
        """
        if value not in (True, False):
            raise ValueError(f"the default must be True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape = _as_size(batch_shape)
        self._event_shape = _as_size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self):
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in wanted.items():
            derived = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (
                derived and name not in self.__dict__
            ):
                continue
            value = getattr(self, name)
            if not ops._is_all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the "
                    f"constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape, _instance=None):
        """The same laws over a larger batch; parameters become expanded views.

        Args:
            batch_shape: the batch shape wanted, to which the present one broadcasts.
            _instance: an instance of a derived class that is to be filled.

        >>> from rushlight.distributions import Normal
        >>> Normal(rl.zeros(3), rl.ones(3)).expand((2, 3)).batch_shape
        rushlight.Size([2, 3])
        """
        owner = next((c for c in type(self).__mro__ if "_expandable" in vars(c)), None)
        if owner is None:
            raise NotImplementedError(f"{type(self).__name__} has no expand()")
        new = self._get_checked_instance(owner, _instance)
        batch_shape = rl.Size(batch_shape)
        self._expand_parts(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_parts(self, new, batch_shape):
        """Gives a blank instance its parameters, over another batch."""
        for name in self._kept:
            setattr(new, name, getattr(self, name))
        for name in self._expandable:
            value = self.__dict__.get(name)
            if value is None:  # an attribute that was not needed so far
                continue
            inner = (
                value._batch_shape if isinstance(value, Distribution) else value.shape
            )
            rest = inner[len(self._batch_shape) :]
            setattr(new, name, value.expand(batch_shape + rest))

    def _get_checked_instance(self, cls, _instance=None):
        """A blank instance, unless a derived class's own constructor forbids it."""
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self))

    @property
    def batch_shape(self):
        """The shape over which the parameters vary."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of a single sample."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """From the names of the arguments to the constraints that they satisfy."""
        raise NotImplementedError(f"{type(self).__name__} defines no arg_constraints")

    @property
    def support(self):
        """The constraint that samples satisfy."""
        raise NotImplementedError(f"{type(self).__name__} defines no support")

    @property
    def mean(self):
        """The expected value."""
        raise NotImplementedError(f"{type(self).__name__} defines no mean")

    @property
    def mode(self):
        """The point of highest density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self):
        """The expected squared distance from the mean."""
        raise NotImplementedError(f"{type(self).__name__} defines no variance")

    @property
    def stddev(self):
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape=()):
        """Samples through which no gradient flows.

        Args:
            sample_shape: shape in front of the batch.
        """
        with rl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """Samples that are differentiable functions of the parameters.

        Args:
            sample_shape: shape in front of the batch.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no rsample")

    def sample_n(self, n):
        """``n`` samples: an old name of ``sample((n,))``."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(rl.Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density, or of the probability, at a value.

        Args:
            value: tensor that broadcasts to ``batch_shape + event_shape``.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no log_prob")

    def cdf(self, value):
        """The probability of no more than a value.

        Args:
            value: tensor that broadcasts to ``batch_shape + event_shape``.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no cdf")

    def icdf(self, value):
        """The quantile of a probability: the inverse of `cdf`.

        Args:
            value: tensor of probabilities.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no icdf")

    def enumerate_support(self, expand=True):
        """All values of a discrete law, along a new first dimension.

        Args:
            expand: whether they are expanded over the batch; else its sizes are one.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no enumerate_support")

    def entropy(self):
        """The expected negative log-density, over the batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no entropy")

    def perplexity(self):
        """The exponential of the entropy."""
        return rl.exp(self.entropy())

    def _extended_shape(self, sample_shape=()):
        return rl.Size(sample_shape) + self._batch_shape + self._event_shape

    def _check_sample(self, value):
        """Checks a value where checks are on; what `log_prob` and its like begin with."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value):
        """Checks that a value fits the batch, the event and the support.

        Raises:
            ValueError: it does not.
        """
        if not isinstance(value, rl.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        actual, events = value.shape, len(self._event_shape)
        if actual[len(actual) - events :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{actual} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for have, want in zip(reversed(actual), reversed(expected)):
            if have != want and 1 not in (have, want):
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{actual} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. "
                "Please initialize the distribution with `validate_args=False` to turn "
                "off validation.",
                stacklevel=3,
            )
            return
        if not ops._is_all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape "
                f"{tuple(actual)}) to be within the support ({support!r}) of the "
                f"distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self):
        given = {n: vars(self)[n] for n in self.arg_constraints if n in vars(self)}
        shown = ", ".join(
            f"{name}: {value if value.numel() == 1 else value.size()}"
            for name, value in given.items()
        )
        return f"{type(self).__name__}({shown})"
