"""Invertible maps between tensors, with the logarithms of their Jacobians.

Transforms of single numbers are here, with those that are made of others; those of
vectors and matrices come from `_vector_transforms`.
"""

import functools
import math
import operator
from numbers import Number

import rushlight as rl
from rushlight.distributions import _vector_transforms, constraints
from rushlight.distributions._transform import (
    Transform,
    _check_dims,
    _clipped,
    _clipped_sigmoid,
    _Stateless,
)
from rushlight.distributions._transform import _InverseTransform as _InverseTransform
from rushlight.distributions._vector_transforms import *  # noqa: F403
from rushlight.distributions.utils import _sum_rightmost, broadcast_all, lazy_property
from rushlight.nn import functional as F

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ComposeTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
__all__ += _vector_transforms.__all__


class _Monotone(_Stateless):
    """An increasing bijection of the real line onto a part of it."""

    domain = constraints.real
    bijective = True
    sign = +1


# Numbers.


class ExpTransform(_Monotone):
    """``y = exp(x)``."""

    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(_Monotone):
    """``y = 1 / (1 + exp(-x))``, kept within the open interval."""

    codomain = constraints.unit_interval

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        y = _clipped(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Monotone):
    """``y = log(1 + exp(x))``; the identity where ``x > 20``."""

    codomain = constraints.positive

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x)


class TanhTransform(_Monotone):
    """``y = tanh(x)``.

    The inverse is inexact near -1 and 1; a cache makes it exact for known outputs.
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        # log(1 - tanh(x)^2) without cancellation.
        return 2 * (math.log(2) - x - F.softplus(-2 * x))


class AbsTransform(_Stateless):
    """``y = |x|``, with the positive number as the pseudo-inverse."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class PowerTransform(Transform):
    """``y = x ** exponent`` of positive numbers.

    Args:
        exponent: number or tensor.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _rebuilt(self, cache_size):
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def __eq__(self, other):
        return (
            isinstance(other, PowerTransform)
            and self.exponent.eq(other.exponent).all().item()
        )

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return _broadcast(shape, self.exponent)

    def inverse_shape(self, shape):
        return _broadcast(shape, self.exponent)


class AffineTransform(Transform):
    """``y = loc + scale * x``.

    Args:
        loc: number or tensor.
        scale: number or tensor.
        event_dim: dimensions of an event: 0 for numbers, 1 for vectors, 2 for matrices.
    """

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self):
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self.domain

    def _rebuilt(self, cache_size):
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other):
        return (
            isinstance(other, AffineTransform)
            and _same(self.loc, other.loc)
            and _same(self.scale, other.scale)
        )

    @property
    def sign(self):
        if isinstance(self.scale, Number):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, Number):
            result = rl.full_like(x, math.log(abs(self.scale)))
        else:
            result = self.scale.abs().log()
        # Every element of an event is scaled, by whatever shape of scale.
        result = result.expand(_broadcast(x.shape, self.scale))
        return _sum_rightmost(result, self.event_dim)

    def forward_shape(self, shape):
        return _broadcast(shape, self.loc, self.scale)

    def inverse_shape(self, shape):
        return _broadcast(shape, self.loc, self.scale)


class CumulativeDistributionTransform(Transform):
    """``y = cdf(x)``: numbers of a law to uniform ones.

    Args:
        distribution: a law with ``cdf``, ``icdf`` and ``log_prob``.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        return self.distribution.support

    def _rebuilt(self, cache_size):
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


# Transforms made of others.


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: the transforms, the first to be applied first.
        cache_size: 1 to keep the last value and its image.

    >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(torch.zeros(1))
    tensor([3.])
    """

    def __init__(self, parts, cache_size=0):
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        ends = [(part.codomain, part.domain) for part in reversed(self.parts)]
        return _end_of_chain(ends)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return _end_of_chain([(part.domain, part.codomain) for part in self.parts])

    @lazy_property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self):
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def _rebuilt(self, cache_size):
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return rl.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, events = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:]):
            term = part.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(term, events - part.domain.event_dim))
            events += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform, whose rightmost batch dimensions count as part of the event.

    Args:
        base_transform: the other transform.
        reinterpreted_batch_ndims: how many dimensions.
    """

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _rebuilt(self, cache_size):
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(
            self.base_transform.domain, self.reinterpreted_batch_ndims
        )

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.independent(
            self.base_transform.codomain, self.reinterpreted_batch_ndims
        )

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        _check_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        _check_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        result = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(result, self.reinterpreted_batch_ndims)

    def __repr__(self):
        return (
            f"{type(self).__name__}({self.base_transform!r}, "
            f"{self.reinterpreted_batch_ndims})"
        )

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The rightmost dimensions in another shape; the Jacobian is the identity.

    Args:
        in_shape: shape of an event of the input.
        out_shape: shape of an event of the output, with as many elements.
    """

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape = rl.Size(in_shape)
        self.out_shape = rl.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    def _rebuilt(self, cache_size):
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape):
        return _with_events(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return _with_events(shape, self.out_shape, self.in_shape)


# Helpers.


def _broadcast(shape, *parameters):
    """A shape broadcast with those of parameters that may be numbers."""
    return rl.broadcast_shapes(shape, *(getattr(p, "shape", ()) for p in parameters))


def _same(left, right):
    """Whether two parameters, numbers or tensors, are equal everywhere."""
    if isinstance(left, Number) and isinstance(right, Number):
        return left == right
    return (left == right).all().item()


def _with_events(shape, old, new):
    """A shape that ends in ``old``, ending in ``new`` instead."""
    _check_dims(shape, len(old))
    cut = len(shape) - len(old)
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new


def _end_of_chain(links):
    """What a chain of maps ends in, with enough event dimensions for every link.

    Args:
        links: pairs of the constraints that each map takes and gives.
    """
    if not links:
        return constraints.real
    events = links[0][0].event_dim
    for taken, given in links:
        events = max(events + given.event_dim - taken.event_dim, given.event_dim)
    end = links[-1][1]
    if events > end.event_dim:
        end = constraints.independent(end, events - end.event_dim)
    return end
