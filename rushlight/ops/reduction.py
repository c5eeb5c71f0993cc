"""Functions that reduce dimensions to one value each, and their gradients."""

import math

import rushlight
from rushlight.ops import call as ops
from rushlight.ops.shared import count, restore, unreduce, wrap_dim, wrap_dims


def prod_gradient(grad, self, result, dim=None, keepdim=False):
    """The product of all the other elements, exact where some are zero."""
    if self.ndim == 0:
        return grad
    if dim is None:
        flat = self.reshape(-1)
        return (grad * _products_of_others(flat, 0)).reshape(self.shape)
    if not keepdim:
        grad = grad.unsqueeze(dim)
    return grad * _products_of_others(self, dim)


def _products_of_others(x, dim):
    """Products of all elements before times products of all after."""
    if x.numel() == 0:
        return x
    first = ops.ones_like(x.narrow(dim, 0, 1))
    length = x.shape[dim] - 1
    before = ops.cumprod(ops.cat([first, x.narrow(dim, 0, length)], dim), dim)
    back = ops.cat([first, x.narrow(dim, 1, length).flip([dim])], dim)
    return before * ops.cumprod(back, dim).flip([dim])


def spread_evenly(grad, self, result, dim=(), keepdim=False):
    """The gradient shared by all elements that equal the extreme."""
    grad = unreduce(grad, self.ndim, dim, keepdim)
    result = unreduce(result, self.ndim, dim, keepdim)
    mask = (self == result) | (self != self)
    return ops.where(mask, grad / mask.sum(wrap_dims(dim, self.ndim), keepdim=True), 0)


def scatter_back(grad, shape, dim, index, keepdim):
    """Zeros, with the gradient at the chosen positions."""
    if not shape:
        return grad
    if not keepdim:
        grad, index = grad.unsqueeze(dim), index.unsqueeze(dim)
    return ops.scatter(ops.new_zeros(grad, shape), dim, index, grad)


def nanmean(self, dim, keepdim, dtype):
    """The sum without NaN over the number of elements that are not NaN.

    Raises:
        RuntimeError: the input isn't floating.
    """
    if not self.is_floating_point():
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got "
            f"{self.dtype}"
        )
    present = ops.logical_not(ops.isnan(self.detach())).sum(dim, keepdim)
    return ops.nansum(self, dim, keepdim, dtype=dtype) / present


def _with_index(name, self, dim, keepdim):
    dim = wrap_dim(dim, self.ndim)
    if self.ndim and self.shape[dim] == 0:
        raise IndexError(
            f"{name}(): Expected reduction dim {dim} to have non-zero size."
        )
    index = getattr(ops, f"_arg{name}")(self, [dim], True)
    values = ops.gather(self, dim, index) if self.ndim else ops.clone(self)
    if keepdim or not self.ndim:
        return values, index
    return values.squeeze(dim), index.squeeze(dim)


def max_with_index(self, dim, keepdim):
    """The position first, then the value there.

    Raises:
        IndexError: the dimension is empty or doesn't exist.
    """
    return _with_index("max", self, dim, keepdim)


def min_with_index(self, dim, keepdim):
    """The position first, then the value there.

    Raises:
        IndexError: the dimension is empty or doesn't exist.
    """
    return _with_index("min", self, dim, keepdim)


def _position(name, self, dim, keepdim):
    if self.numel() == 0 and (dim is None or self.shape[dim] == 0):
        raise IndexError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    if dim is not None:
        return getattr(ops, f"_{name}")(self, [dim], keepdim)
    result = getattr(ops, f"_{name}")(self.reshape(-1), [0], False)
    return result.reshape([1] * self.ndim) if keepdim else result


def argmax(self, dim, keepdim):
    """The first position of the largest element; in all of them without ``dim``.

    Raises:
        IndexError: there is nothing to choose from.
    """
    return _position("argmax", self, dim, keepdim)


def argmin(self, dim, keepdim):
    """The first position of the smallest element; in all of them without ``dim``.

    Raises:
        IndexError: there is nothing to choose from.
    """
    return _position("argmin", self, dim, keepdim)


def aminmax(self, dim, keepdim):
    """Both extremes.

    Raises:
        RuntimeError: there are no elements.
    """
    if self.numel() == 0 and dim is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation "
            "has no identity."
        )
    dims = [] if dim is None else [dim]
    return ops.amin(self, dims, keepdim), ops.amax(self, dims, keepdim)


def _check_floating(name, self):
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError(f"{name} only support floating point and complex dtypes")


def var_correction(self, dim, correction, keepdim):
    """The mean first, then the mean square of what is left.

    Raises:
        RuntimeError: the input isn't floating.
    """
    _check_floating("std and var", self)
    correction = 1 if correction is None else correction
    wide = self.to(rushlight.float32) if self.dtype.itemsize == 2 else self
    centered = wide - wide.mean(dim, True)
    squares = (centered * centered).sum(dim, keepdim)
    left = count(self.shape, dim) - correction
    result = squares / max(left, 0) if left else squares * math.inf
    return result.to(self.dtype)


def std_correction(self, dim, correction, keepdim):
    """The root of the variance."""
    return ops.sqrt(var_correction(self, dim, correction, keepdim))


def var_gradient(grad, self, dim, correction, keepdim):
    """Twice the distance from the mean over the corrected count."""
    correction = 1 if correction is None else correction
    left = count(self.shape, dim) - correction
    grad = unreduce(grad, self.ndim, dim, keepdim)
    centered = self - self.mean(dim, True)
    return grad * (2.0 / left if left else math.inf) * centered


def std_gradient(grad, self, result, dim, correction, keepdim):
    """The variance's gradient over twice the deviation, zero for no deviation."""
    grad = ops.masked_fill(grad / (result * 2), result == 0, 0)
    return var_gradient(grad, self, dim, correction, keepdim)


def var(self, unbiased):
    """Over all the elements."""
    return ops.var(self, None, correction=int(unbiased))


def std(self, unbiased):
    """Over all the elements."""
    return ops.std(self, None, correction=int(unbiased))


def var_along(self, dim, unbiased, keepdim):
    """Over the dimensions."""
    return ops.var(self, dim, correction=int(unbiased), keepdim=keepdim)


def std_along(self, dim, unbiased, keepdim):
    """Over the dimensions."""
    return ops.std(self, dim, correction=int(unbiased), keepdim=keepdim)


def var_mean_correction(self, dim, correction, keepdim):
    """Variance and mean."""
    variance = ops.var(self, dim, correction=correction, keepdim=keepdim)
    return variance, self.mean(dim, keepdim)


def std_mean_correction(self, dim, correction, keepdim):
    """Standard deviation and mean."""
    deviation = ops.std(self, dim, correction=correction, keepdim=keepdim)
    return deviation, self.mean(dim, keepdim)


def var_mean(self, unbiased):
    """Over all the elements."""
    return var_mean_correction(self, None, int(unbiased), False)


def std_mean(self, unbiased):
    """Over all the elements."""
    return std_mean_correction(self, None, int(unbiased), False)


def var_mean_along(self, dim, unbiased, keepdim):
    """Over the dimensions."""
    return var_mean_correction(self, dim, int(unbiased), keepdim)


def std_mean_along(self, dim, unbiased, keepdim):
    """Over the dimensions."""
    return std_mean_correction(self, dim, int(unbiased), keepdim)


def logsumexp(self, dim, keepdim):
    """The largest element is taken out first, so that nothing overflows."""
    if not self.is_floating_point():
        self = self.to(rushlight.get_default_dtype())
    if self.numel() == 0:
        return ops.log(ops.exp(self).sum(dim, keepdim))
    largest = ops.amax(self, dim, True)
    largest = ops.masked_fill(largest, ops.isinf(largest), 0)
    mass = ops.exp(self - largest).sum(dim, keepdim)
    if not keepdim:
        largest = largest.squeeze(wrap_dims(dim, self.ndim))
    return ops.log(mass) + largest


def logsumexp_gradient(grad, self, result, dim, keepdim):
    """Every element's share of the sum."""
    if self.ndim:
        grad = unreduce(grad, self.ndim, dim, keepdim)
        result = unreduce(result, self.ndim, dim, keepdim)
    return grad * ops.exp(self - result)


def vector_norm(self, ord, dim, keepdim, dtype):
    """The root of the sum of powers; extremes for infinite orders, a count for zero.

    Raises:
        RuntimeError: the input isn't floating, or has no elements and no norm.
    """
    _check_floating("linalg.vector_norm: Expected a floating point tensor. It", self)
    if dtype is not None:
        self = self.to(dtype)
    dims = wrap_dims(dim, self.ndim)
    if not dims:
        return (self != 0).to(self.dtype) if ord == 0 else ops.abs(self)
    if self.numel() == 0 and (ord < 0 or ord == math.inf) and not count(self.shape, dims):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor "
            "because the operation does not have an identity"
        )
    if ord == 0:
        return (self != 0).to(self.dtype).sum(dims, keepdim)
    size = ops.abs(self)
    if abs(ord) == math.inf:
        return (ops.amax if ord > 0 else ops.amin)(size, dims, keepdim)
    if ord == 1:
        return size.sum(dims, keepdim)
    if ord == 2:
        return ops.sqrt((self * self).sum(dims, keepdim))
    return (size**ord).sum(dims, keepdim) ** (1.0 / ord)


def vector_norm_gradient(grad, self, ord, result, dim, keepdim):
    """Zero wherever the norm is zero, as the subgradient of least size."""
    if ord == 0:
        return ops.zeros_like(self)
    dims = wrap_dims(dim, self.ndim)
    if dims:
        grad = unreduce(grad, self.ndim, dims, keepdim)
        result = unreduce(result, self.ndim, dims, keepdim)
    grad = grad.to(self.dtype)
    if ord == 1:
        return grad * ops.sgn(self)
    if ord == 2:
        return ops.masked_fill(self * (grad / result), result == 0, 0)
    size = ops.abs(self)
    if abs(ord) == math.inf:
        mask = size == result
        shares = grad / mask.sum(dims, keepdim=True) if dims else grad
        return ops.where(mask, shares * ops.sgn(self), 0)
    slope = ops.sgn(self) * size ** (ord - 1) * (grad / result ** (ord - 1))
    return ops.masked_fill(slope, (result == 0) | (size == 0) & (ord < 1), 0)


def norm(self, p):
    """Of all the elements."""
    return ops.linalg_vector_norm(self, p)


def norm_along(self, p, dim, keepdim, dtype):
    """Of the elements along dimensions."""
    return ops.linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)


def dist(self, other, p):
    """The norm of the difference."""
    return ops.linalg_vector_norm(self - other, p)


def trace(self):
    """The sum of the diagonal.

    Raises:
        RuntimeError: the input isn't a matrix.
    """
    if self.ndim != 2:
        raise RuntimeError(
            f"trace: expected a matrix, but got tensor with dim {self.ndim}"
        )
    return ops.diagonal(self).sum()
