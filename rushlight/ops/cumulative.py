"""Derivatives of running sums and products, and functions made of them."""

import rushlight
from rushlight.ops import call as ops
from rushlight.ops.shared import conjugated, readable, wrap_dim


def cumsum_gradient(grad, dim):
    """The sums of the gradient from every position to the end."""
    if grad.ndim == 0:
        return grad
    return grad.flip([dim]).cumsum(dim).flip([dim])


def cumprod_gradient(grad, self, dim, result):
    """Sums from the end, divided by the element; by summing products if one is zero."""
    if self.ndim == 0 or self.numel() == 0:
        return grad
    grad = grad.to(self.dtype)
    if readable(self) and not ops.any(self.detach() == 0).item():
        return cumsum_gradient(grad * result, dim) / self
    size, parts = self.shape[dim], []
    for place in range(size):
        before = self.narrow(dim, 0, place).prod(dim, keepdim=True)
        tail = self.narrow(dim, place + 1, size - place - 1)
        one = ops.ones_like(self.narrow(dim, 0, 1))
        products = ops.cat([one, tail], dim).cumprod(dim)
        arriving = grad.narrow(dim, place, size - place)
        parts.append((products * arriving).sum(dim, keepdim=True) * before)
    return ops.cat(parts, dim)


def logcumsumexp_gradient(grad, self, result, dim):
    """Every element's share of the sums that it is part of, by logarithms of each sign."""
    if grad.ndim == 0:
        return grad
    if grad.is_complex():
        tail = (ops.log(conjugated(grad)) - result).flip([dim]).logcumsumexp(dim)
        return conjugated(ops.exp(tail.flip([dim]) + self))
    lowest = rushlight.finfo(grad.dtype).min  # its difference to a result is finite
    rising = ops.where(grad > 0, ops.log(ops.abs(grad)), lowest)
    falling = ops.where(grad < 0, ops.log(ops.abs(grad)), lowest)

    def share(logarithms):
        tail = (logarithms - result).flip([dim]).logcumsumexp(dim).flip([dim])
        return ops.exp(tail + self)

    return share(rising) - share(falling)


def _means(y, dim):
    length = y.shape[dim]
    return (y.narrow(dim, 1, length - 1) + y.narrow(dim, 0, length - 1)) / 2


def _steps(x, y, dim):
    """The distances between points, shaped so that they broadcast against ``y``."""
    if x.ndim == 1:
        x = x.reshape([-1, *[1] * (y.ndim - 1 - wrap_dim(dim, y.ndim))])
        dim = 0
    else:
        dim = wrap_dim(dim, y.ndim) - y.ndim
    length = x.shape[dim]
    return x.narrow(dim, 1, length - 1) - x.narrow(dim, 0, length - 1)


def trapezoid_x(y, x, dim):
    """Widths times mean heights, summed."""
    if y.shape[dim] == 0:
        return ops.sum(y * 0, [dim])
    return (_means(y, dim) * _steps(x, y, dim)).sum(dim)


def trapezoid_dx(y, dx, dim):
    """One width times the mean heights, summed."""
    if y.shape[dim] == 0:
        return ops.sum(y * 0, [dim])
    return _means(y, dim).sum(dim) * dx


def cumulative_trapezoid_x(y, x, dim):
    """Widths times mean heights, summed so far."""
    return (_means(y, dim) * _steps(x, y, dim)).cumsum(dim)


def cumulative_trapezoid_dx(y, dx, dim):
    """One width times the mean heights, summed so far."""
    return _means(y, dim).cumsum(dim) * dx


def diff(self, n, dim, prepend, append):
    """Differences of neighbours, taken ``n`` times.

    Raises:
        RuntimeError: there is no dimension, or ``n`` is negative.
    """
    if self.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return ops.clone(self)
    parts = [part for part in (prepend, self, append) if part is not None]
    result = ops.cat(parts, dim) if len(parts) > 1 else self
    for _ in range(min(n, result.shape[dim])):
        length = result.shape[dim]
        later = result.narrow(dim, 1, max(length - 1, 0))
        earlier = result.narrow(dim, 0, max(length - 1, 0))
        same = result.dtype.category == 0
        result = ops.logical_xor(later, earlier) if same else later - earlier
    return result
