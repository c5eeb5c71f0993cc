"""Derivatives of running sums and products, and functions made of them."""

from rushlight.core.dtype import BOOLEAN, finfo
from rushlight.core.dtypes import int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.operators import call as ops
from rushlight.operators.shared import conjugated, differentiated, readable


def cumsum_gradient(grad, dim):
    """The sums of the gradient from every position to the end."""
    if grad.ndim == 0:
        return grad
    return grad.flip([dim]).cumsum(dim).flip([dim])


def cumprod_gradient(grad, self, dim, result):
    """Sums from the end, divided by the element; by summing products if one is zero."""
    if self.numel() <= 1 or self.shape[dim] == 1:
        return grad
    grad = grad.to(self.dtype)
    if readable(self) and not ops.any(self.detach() == 0).item():
        return cumsum_gradient(grad * result, dim) / self
    if readable(self) and not differentiated(self):
        return _cumprod_gradient_around_zeros(grad, self, dim, result)
    size, parts = self.shape[dim], []
    for place in range(size):
        before = self.narrow(dim, 0, place).prod(dim, keepdim=True)
        tail = self.narrow(dim, place + 1, size - place - 1)
        one = ops.ones_like(self.narrow(dim, 0, 1))
        products = ops.cat([one, tail], dim).cumprod(dim)
        arriving = grad.narrow(dim, place, size - place)
        parts.append((products * arriving).sum(dim, keepdim=True) * before)
    return ops.cat(parts, dim)


def _cumprod_gradient_around_zeros(grad, self, dim, result):
    """As without zeros before the first zero, and nothing behind it.

    To the first zero goes, for each place up to the second, the product of all the other
    elements so far.
    """
    zero = self == 0
    zeros = zero.to(int64).cumsum(dim)
    before, between = zeros == 0, zeros == 1
    front = ops.masked_fill(grad * result, ~before, 0)
    front = cumsum_gradient(front, dim) / self
    first = zero & between
    others = ops.masked_fill(self, first, 1).cumprod(dim)
    arriving = ops.masked_fill(grad * others, ~between, 0).sum(dim, keepdim=True)
    return ops.where(before, front, ops.where(first, arriving, 0))


def logcumsumexp_gradient(grad, self, result, dim):
    """Every element's share of the sums that it is part of, by logarithms of each sign."""
    if grad.ndim == 0:
        return grad
    if grad.is_complex():
        tail = (ops.log(conjugated(grad)) - result).flip([dim]).logcumsumexp(dim)
        return conjugated(ops.exp(tail.flip([dim]) + self))
    lowest = finfo(grad.dtype).min  # its difference to a result is finite
    rising = ops.where(grad > 0, ops.log(ops.abs(grad)), lowest)
    falling = ops.where(grad < 0, ops.log(ops.abs(grad)), lowest)

    def share(logarithms):
        tail = (logarithms - result).flip([dim]).logcumsumexp(dim).flip([dim])
        return ops.exp(tail + self)

    return share(rising) - share(falling)


def _ends(y, dim):
    """The points without the last, and without the first."""
    dim = wrap_dim(dim, y.ndim)
    length = max(y.shape[dim] - 1, 0)
    return y.narrow(dim, 0, length), y.narrow(dim, min(y.shape[dim], 1), length)


def _check_points(name, y, x=None, dx=1):
    """Refuses truth values, a single number, and a step that isn't real.

    Raises:
        RuntimeError: a point is a truth value, or the step isn't real.
        IndexError: there is no dimension.
    """
    if y.dtype.category == BOOLEAN or (x is not None and x.dtype.category == BOOLEAN):
        which = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(
            f"{name}: received a bool input for {which}, but bool is not supported"
        )
    if isinstance(dx, (bool, complex)):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    if y.ndim == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")


def _steps(name, x, y, dim):
    """The distances between points, shaped so that they broadcast against ``y``.

    Raises:
        RuntimeError: a vector doesn't have a place for each point.
    """
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point"
            )
        x = x.reshape([-1, *[1] * (y.ndim - 1 - dim)])
    x = x.reshape([*[1] * (y.ndim - x.ndim), *x.shape]) if x.ndim < y.ndim else x
    left, right = _ends(x, dim)
    return right - left


def trapezoid_x(y, x, dim):
    """Widths times mean heights, summed."""
    _check_points("trapezoid", y, x)
    dim = wrap_dim(dim, y.ndim)  # the points' may have more
    if y.shape[dim] == 0:
        return ops.sum(y.detach(), [dim], dtype=y.dtype)  # of nothing, no history
    steps = _steps("trapezoid", x, y, dim)
    left, right = _ends(y, dim)
    return ((left + right) * steps).sum(dim) / 2.0


def trapezoid_dx(y, dx, dim):
    """One width times the sum of the heights, the outer ones counted half."""
    _check_points("trapezoid", y, dx=dx)
    if y.shape[wrap_dim(dim, y.ndim)] == 0:
        return ops.sum(y.detach(), [dim], dtype=y.dtype)  # of nothing, no history
    return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * dx


def trapz_dx(y, dx, dim):
    """`trapezoid_dx`, whose width may be a truth value here."""
    return trapezoid_dx(y, float(dx), dim)


def cumulative_trapezoid_x(y, x, dim):
    """Widths times mean heights, summed so far."""
    _check_points("cumulative_trapezoid", y, x)
    dim = wrap_dim(dim, y.ndim)
    steps = _steps("cumulative_trapezoid", x, y, dim)
    left, right = _ends(y, dim)
    return ((left + right) * steps).cumsum(dim) / 2.0


def cumulative_trapezoid_dx(y, dx, dim):
    """One width times the mean heights, summed so far."""
    _check_points("cumulative_trapezoid", y, dx=dx)
    left, right = _ends(y, dim)
    return (dx / 2.0 * (left + right)).cumsum(dim)


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
    dim = wrap_dim(dim, self.ndim)
    parts = [part for part in (prepend, self, append) if part is not None]
    result = ops.cat(parts, dim) if len(parts) > 1 else self
    for _ in range(min(n, result.shape[dim])):
        length = result.shape[dim]
        later = result.narrow(dim, 1, max(length - 1, 0))
        earlier = result.narrow(dim, 0, max(length - 1, 0))
        same = result.dtype.category == BOOLEAN
        result = ops.logical_xor(later, earlier) if same else later - earlier
    return result


def products_of_others(x, result, dim):
    """The product of all over each; beside zeros of all before times all after."""
    if readable(x) and not ops.any(x.detach() == 0).item():
        return result / x
    if x.numel() == 0:
        return x
    first = ops.ones_like(x.narrow(dim, 0, 1))
    length = x.shape[dim] - 1
    before = ops.cumprod(ops.cat([first, x.narrow(dim, 0, length)], dim), dim)
    back = ops.cat([first, x.narrow(dim, 1, length).flip([dim])], dim)
    return before * ops.cumprod(back, dim).flip([dim])
