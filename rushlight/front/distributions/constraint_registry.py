"""From a constraint to a transform that takes real numbers into it.

`biject_to` gives a bijection, for change of variables; `transform_to` a cheap map, for
optimization, which need not be injective.
"""

from numbers import Number

from rushlight.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make transforms.

    Called with a constraint, as in ``biject_to(constraint)``, it gives a transform whose
    values fulfil it; arguments as in ``register``.

    >>> biject_to(constraints.unit_interval)
    SigmoidTransform()
    """

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint, factory=None):
        """Adds a row; without a factory, a decorator that adds it.

        Args:
            constraint: a subclass of `Constraint`, or an instance of one.
            factory: from a constraint of that class to a `Transform`.

        Raises:
            TypeError: the first argument is no constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not (
            isinstance(constraint, type)
            and issubclass(constraint, constraints.Constraint)
        ):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, "
                f"but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _shifted(bound, sign):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(bound, sign)]
    )


def _above(constraint):
    return _shifted(constraint.lower_bound, 1)


def _below(constraint):
    return _shifted(constraint.upper_bound, -1)


def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and isinstance(high, Number) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


def _of_parts(registry):
    """Rows for constraints made of others; the parts are looked up in the registry."""

    def independent(constraint):
        return transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        )

    def cat(constraint):
        parts = [registry(part) for part in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def stack(constraint):
        parts = [registry(part) for part in constraint.cseq]
        return transforms.StackTransform(parts, constraint.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_EITHER = (
    (constraints.real, lambda _: transforms.identity_transform),
    (constraints.greater_than, _above),
    (constraints.greater_than_eq, _above),
    (constraints.less_than, _below),
    (constraints.interval, _between),
    (constraints.half_open_interval, _between),
    (constraints.corr_cholesky, lambda _: transforms.CorrCholeskyTransform()),
)
_OPTIMIZING = (
    (constraints.simplex, lambda _: transforms.SoftmaxTransform()),
    (constraints.lower_cholesky, lambda _: transforms.LowerCholeskyTransform()),
    (constraints.positive_definite, lambda _: transforms.PositiveDefiniteTransform()),
    (
        constraints.positive_semidefinite,
        lambda _: transforms.PositiveDefiniteTransform(),
    ),
)
for _constraint, _factory in _EITHER:
    biject_to.register(_constraint, _factory)
    transform_to.register(_constraint, _factory)
for _constraint, _factory in _OPTIMIZING:
    transform_to.register(_constraint, _factory)
biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
_of_parts(biject_to)
_of_parts(transform_to)
