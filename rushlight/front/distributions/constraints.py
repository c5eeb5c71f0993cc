"""Sets that parameters and samples belong to, as objects that check membership.

Each constraint says over how many of the rightmost dimensions one member extends
(``event_dim``) and whether its values can be counted (``is_discrete``).
"""

import rushlight as rl

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

# Attributes that a constraint with bounds shows when it is printed.
_BOUNDS = ("lower_bound", "upper_bound")


class Constraint:
    """A set in which a variable is valid, such as the domain of a density.

    >>> positive.check(rl.tensor([-1.0, 1.0]))
    tensor([False,  True])
    """

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """Which events of ``value`` are members.

        Args:
            value: tensor of shape ``(*, event)``.

        Returns:
            A tensor of bools of the shape of the batch.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no check")

    def __repr__(self):
        bounds = [f"{n}={getattr(self, n)}" for n in _BOUNDS if n in vars(self)]
        return f"{type(self).__name__[1:]}({', '.join(bounds)})"


class _Dependent(Constraint):
    """A set that depends on other variables, and cannot be checked by itself.

    Args:
        is_discrete: whether it is countable; NotImplemented where that is not known.
        event_dim: dimensions of an event; NotImplemented where that is not known.
    """

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self):
        return self._known("is_discrete")

    @property
    def event_dim(self):
        return self._known("event_dim")

    def _known(self, name):
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """The same with more known about it."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint):
    """Whether a constraint depends on other variables.

    >>> is_dependent(dependent), is_dependent(real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint, and that is one on the class.

    Used as ``@constraints.dependent_property`` or with what is known of the constraint,
    ``@constraints.dependent_property(is_discrete=False, event_dim=0)``.
    """

    def __init__(
        self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented
    ):
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn):
        return _DependentProperty(
            fn, is_discrete=self._is_discrete, event_dim=self._event_dim
        )


class _Derived(Constraint):
    """A constraint that takes its kind from another."""

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                "base_constraint must be a Constraint, got "
                f"{type(base_constraint).__name__}"
            )
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim


class _IndependentConstraint(_Derived):
    """Another constraint on every element of the rightmost dimensions.

    Args:
        base_constraint: the constraint on an element.
        reinterpreted_batch_ndims: how many dimensions of the batch join the event.
    """

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        super().__init__(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(
                "reinterpreted_batch_ndims must be an int, got "
                f"{type(reinterpreted_batch_ndims).__name__}"
            )
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(
                "reinterpreted_batch_ndims must be >= 0, got "
                f"{reinterpreted_batch_ndims}"
            )
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        members = self.base_constraint.check(value)
        kept = members.dim() - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim} but got {value.dim()}"
            )
        return members.reshape(*members.shape[:kept], -1).all(-1)

    def __repr__(self):
        return (
            f"{type(self).__name__[1:]}({self.base_constraint!r}, "
            f"{self.reinterpreted_batch_ndims})"
        )


class MixtureSameFamilyConstraint(_Derived):
    """The support of a mixture: a value is in that of every component.

    Args:
        base_constraint: the support of the components, their dimension included.
    """

    def check(self, value):
        events = self.event_dim
        if value.dim() < events:
            raise ValueError(f"Expected value.dim() >= {events} but got {value.dim()}")
        members = self.base_constraint.check(value.unsqueeze(-1 - events))
        kept = value.dim() - events
        return members.reshape(*members.shape[:kept], -1).all(-1)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


# Numbers.


class _Real(Constraint):
    """Numbers: anything but NaN."""

    def check(self, value):
        return value == value


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _Bounded(Constraint):
    """Numbers between bounds; a derived class says which, and whether they belong.

    Args:
        lower_bound: number or tensor.
        upper_bound: number or tensor.
    """

    def __init__(self, lower_bound, upper_bound):
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()


class _FromBelow(Constraint):
    """Numbers with a lower bound."""

    def __init__(self, lower_bound):
        self.lower_bound = lower_bound
        super().__init__()


class _FromAbove(Constraint):
    """Numbers with an upper bound."""

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound
        super().__init__()


class _Interval(_Bounded):
    """Numbers from the lower to the upper bound, both included."""

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    """Numbers from the lower bound up to but not including the upper."""

    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _GreaterThan(_FromBelow):
    """Numbers above the bound."""

    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_FromBelow):
    """Numbers not below the bound."""

    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_FromAbove):
    """Numbers below the bound."""

    def check(self, value):
        return value < self.upper_bound


def _whole(value):
    return value % 1 == 0


class _IntegerInterval(_Bounded):
    """Integers from the lower to the upper bound, both included."""

    is_discrete = True

    def check(self, value):
        inside = (self.lower_bound <= value) & (value <= self.upper_bound)
        return _whole(value) & inside


class _IntegerLessThan(_FromAbove):
    """Integers not above the bound."""

    is_discrete = True

    def check(self, value):
        return _whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_FromBelow):
    """Integers not below the bound."""

    is_discrete = True

    def check(self, value):
        return _whole(value) & (value >= self.lower_bound)


# Vectors.


class _OneHot(Constraint):
    """Vectors of zeros with a single one."""

    is_discrete = True
    event_dim = 1

    def check(self, value):
        binary = (value == 0) | (value == 1)
        return binary.all(-1) & value.sum(-1).eq(1)


class _Simplex(Constraint):
    """Vectors of no negative numbers that sum to one."""

    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_FromAbove):
    """Vectors of counts with at most the bound in all."""

    is_discrete = True
    event_dim = 1

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)

    def __repr__(self):
        return f"{type(self).__name__[1:]}()"


# Matrices.


class _LowerTriangular(Constraint):
    """Matrices without anything above the diagonal."""

    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices of positive diagonal."""

    def check(self, value):
        positive = value.diagonal(dim1=-2, dim2=-1) > 0
        return super().check(value) & positive.all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangular matrices of positive diagonal whose rows have unit length."""

    def check(self, value):
        tolerance = rl.finfo(value.dtype).eps * value.size(-1) * 10
        lengths = value.detach().square().sum(-1).sqrt()
        unit = (lengths - 1).abs().le(tolerance).all(-1)
        return super().check(value) & unit


class _Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value):
        rows, columns = value.shape[-2:]
        return rl.full(
            value.shape[:-2], rows == columns, dtype=rl.bool, device=value.device
        )


class _Symmetric(_Square):
    """Square matrices equal to their transposes, up to 1e-6."""

    def check(self, value):
        square = super().check(value)
        if not square.all():
            return square
        return rl.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without a negative eigenvalue."""

    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return rl.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices of positive eigenvalues."""

    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return rl.linalg.cholesky_ex(value).info.eq(0)


# Parts.


class _Parts(Constraint):
    """Constraints on parts of a tensor along one dimension."""

    def __init__(self, cseq, dim):
        self.cseq = list(cseq)
        if not all(isinstance(part, Constraint) for part in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self):
        return any(part.is_discrete for part in self.cseq)

    def _check_dim(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for value with {value.dim()} dimensions"
            )


class _Cat(_Parts):
    """Constraints on slices along a dimension, as ``cat`` joins them.

    Args:
        cseq: the constraints.
        dim: the dimension.
        lengths: the length of each slice; one by default.
    """

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})"
            )

    @property
    def event_dim(self):
        return max(part.event_dim for part in self.cseq)

    def check(self, value):
        self._check_dim(value)
        checks, start = [], 0
        for part, length in zip(self.cseq, self.lengths):
            checks.append(part.check(value.narrow(self.dim, start, length)))
            start += length
        return rl.cat(checks, self.dim)


class _Stack(_Parts):
    """Constraints on the slices of a dimension, as ``stack`` joins them.

    Args:
        cseq: the constraints.
        dim: the dimension.
    """

    def __init__(self, cseq, dim=0):
        super().__init__(cseq, dim)

    @property
    def event_dim(self):
        events = max(part.event_dim for part in self.cseq)
        # A dimension counted from the right may lie within the event.
        return events + 1 if self.dim + events < 0 else events

    def check(self, value):
        self._check_dim(value)
        checks = [
            part.check(value.select(self.dim, i))
            for i, part in zip(range(value.size(self.dim)), self.cseq)
        ]
        return rl.stack(checks, self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
