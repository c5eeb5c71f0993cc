"""Functions that reduce dimensions to one value each, and their gradients."""

import functools
import math

from rushlight.codegen import language as L
from rushlight.codegen.frontend.type_support import ALL_FLOAT8
from rushlight.codegen.language import reduction
from rushlight.core import warning
from rushlight.core.dtype import FLOATING, finfo, get_default_dtype, promote_types
from rushlight.core.dtypes import float32
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import changed_in_place
from rushlight.operators.scan.cumulative import products_of_others
from rushlight.operators.shared import conjugated, count, restore, unreduce, wrap_dims

ROW = 4096  # elements of a row of a sum over all elements
NOWHERE = 1 << 62  # the position of no element: any other comes before it


@reduction(identity=0)
def sum(left, right):
    """Adds; any nonzero for booleans."""
    return left + right


@reduction(identity=0, prepare=lambda x: x * x)
def square_sum(left, right):
    """Adds squares."""
    return left + right


def _share(total, scalar):
    """The total over the count, which is of the total's kind: infinite parts show."""
    number = L.cast(scalar, total.type)
    if L.is_complex(total):
        number = L.make_complex(number, L.constant(0, number))
    return total / number


@reduction(identity=0, finish=_share, error_name="sum_cpu")
def mean(left, right):
    """The sum over the count."""
    return left + right


@reduction(identity=1, widens=("float32",), error_name="prod_out_cpu")
def prod(left, right):
    """Multiplies."""
    return left * right


def _number_or_zero(x):
    return x if L.is_complex(x) else L.select(L.isnan(x), 0, x)


@reduction(
    identity=0,
    prepare=_number_or_zero,
    complex_error=RuntimeError("nansum on CPU does not support complex inputs"),
)
def nansum(left, right):
    """Adds what is a number."""
    return left + right


@reduction(identity=-math.inf, error_name="max_values_cpu")
def amax(left, right):
    """The larger; NaN stays."""
    return left | right if left.type.is_bool else L.maximum(left, right)


@reduction(identity=math.inf, error_name="min_values_cpu")
def amin(left, right):
    """The smaller; NaN stays."""
    return left & right if left.type.is_bool else L.minimum(left, right)


def _truth_byte(x):
    """A truth value as a byte: vectors of bits that a loop carries are slow in AVX2."""
    return L.cast(L.truth(x), "uint8")


_TRUTHS = dict(
    finish=lambda state, scalar: state != 0, float8=ALL_FLOAT8, complex_half=True
)


@reduction(0, _truth_byte, **_TRUTHS)
def any(left, right):
    """Whether one is true."""
    return left | right


@reduction(1, _truth_byte, **_TRUTHS)
def all(left, right):
    """Whether both are true."""
    return left & right


@reduction(
    identity=0,
    prepare=lambda x: L.cast(L.truth(x), "int64"),
    error_name="nonzero_count_cpu",
    complex_half=True,
)
def count_nonzero(left, right):
    """Counts."""
    return left + right


def _first_of(beats):
    """A combination that keeps the winner, of equals the first; NaN beats all."""

    def combine(left, right):
        (x, i), (y, j) = left, right
        earlier = j < i
        takes = beats(y, x) | ((x == y) & earlier)
        if x.type.is_float:
            takes = takes | (L.isnan(y) & (~L.isnan(x) | earlier))
        return L.select(takes, y, x), L.select(takes, j, i)

    return combine


def _extreme(name, identity, beats, finish, **support):
    combine = _first_of(beats)
    combine.__name__ = name
    return reduction(
        identity=(identity, NOWHERE),
        prepare=lambda x, index: (x, index),
        finish=finish,
        **support,
    )(combine)


def _larger(x, y):
    return x & ~y if x.type.is_bool else x > y


def _smaller(x, y):
    return ~x & y if x.type.is_bool else x < y


def _place(name, identity, beats):
    error = RuntimeError(f"{name}(): does not support complex input")
    return _extreme(name, identity, beats, lambda state: state[1], complex_error=error)


argmax = _place("argmax", -math.inf, _larger)
argmin = _place("argmin", math.inf, _smaller)
max_with_index = _extreme(
    "max_with_index", -math.inf, _larger, None, error_name="max_all"
)
min_with_index = _extreme(
    "min_with_index", math.inf, _smaller, None, error_name="min_all"
)


def _moments(name, finish, **support):
    """Count, mean and sum of squared distances, merged as Welford and Chan do."""

    def combine(left, right):
        (n, mean_n, spread_n), (m, mean_m, spread_m) = left, right
        total = n + m
        share = m / total
        gap = mean_m - mean_n
        mean = mean_n + gap * share
        spread = spread_n + spread_m + gap * gap * n * share
        # beside nothing, what there is stays: it may be infinite
        mean = L.select(m > 0, L.select(n > 0, mean, mean_m), mean_n)
        spread = L.select(m > 0, L.select(n > 0, spread, spread_m), spread_n)
        return total, mean, spread

    def accumulate(state, x):
        n, mean_n, spread = state
        gap = x - mean_n
        moved = mean_n + gap / (n + 1)
        return n + 1, moved, spread + gap * (x - moved)

    combine.__name__ = name
    return reduction(
        identity=(0, 0, 0), prepare=lambda x: (x * 0 + 1, x, x * 0),
        accumulate=accumulate, finish=finish,
        widens=("float32", "bfloat16"),  # squares of what float32 holds
        **support,
    )(combine)  # fmt: skip


def _variance(state, scalar):
    return state[2] / L.cast(scalar, state[2].type)


def _deviation(state, scalar):
    return L.sqrt(_variance(state, scalar))


var = _moments("var", _variance)
std = _moments("std", _deviation)


def _mean(state):
    """Nothing has no mean."""
    return L.select(state[0] > 0, state[1], math.nan)


def _with_mean(name, spread):
    def finish(state, scalar):
        return spread(state, scalar), _mean(state)

    return _moments(name, finish, error_name="std_cpu")


var_mean = _with_mean("var_mean", _variance)
std_mean = _with_mean("std_mean", _deviation)


def prod_gradient(grad, self, result, dim=None, keepdim=False):
    """The product of all the other elements, exact where some are zero."""
    if self.ndim == 0:
        return grad
    if dim is None:
        flat = self.reshape(-1)
        others = conjugated(products_of_others(flat, result, 0))
        # beside two zeros no product is left, of infinite or unknown elements either
        none = (flat == 0).sum() > 1
        others = ops.masked_fill(others, none & (others != others), 0)
        return (grad * others).reshape(self.shape)
    if not keepdim:
        grad, result = grad.unsqueeze(dim), result.unsqueeze(dim)
    return grad * conjugated(products_of_others(self, result, dim))


def spread_evenly(grad, self, result, dim=(), keepdim=False):
    """The gradient shared by all elements that equal the extreme."""
    grad = unreduce(grad, self.ndim, dim, keepdim)
    result = unreduce(result, self.ndim, dim, keepdim)
    mask = (self == result) | ((self != self) & (result != result))
    return ops.where(mask, grad / mask.sum(wrap_dims(dim, self.ndim), keepdim=True), 0)


def share_evenly(grad, self, result, dim, keepdim):
    """The gradient shared by all elements that equal the extreme; NaN equals nothing."""
    grad = unreduce(grad, self.ndim, dim, keepdim)
    mask = self == unreduce(result, self.ndim, dim, keepdim)
    return grad * mask / mask.sum(wrap_dims(dim, self.ndim), keepdim=True)


def scatter_back(grad, shape, dim, index, keepdim):
    """Zeros, with the gradient at the chosen positions."""
    if not shape:
        return grad
    if not keepdim:
        grad, index = grad.unsqueeze(dim), index.unsqueeze(dim)
    zeros = ops.new_zeros(grad, shape)
    return changed_in_place(ops.scatter, zeros, dim, index, grad)


def nanmean(self, dim, keepdim, dtype):
    """The sum without NaN over the number of elements that are not NaN.

    Raises:
        RuntimeError: the input isn't floating.
    """
    if self.is_complex():
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if not self.is_floating_point():
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got "
            f"{TYPE_NAMES[self.dtype.name]}"
        )
    present = ops.logical_not(ops.isnan(self.detach())).sum(dim, keepdim)
    return ops.nansum(self, dim, keepdim, dtype=dtype) / present


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
    if dim is not None and self.ndim and not self.shape[wrap_dim(dim, self.ndim)]:
        raise IndexError(
            f"aminmax: Expected reduction dim {wrap_dim(dim, self.ndim)} to have "
            "non-zero size."
        )
    dims = [] if dim is None else [dim]
    return ops.amin(self, dims, keepdim), ops.amax(self, dims, keepdim)


# Kernels of spread: whether the root is taken, and whether the mean is given, too.
SPREADS = {
    "var": (False, False),
    "std": (True, False),
    "var_mean": (False, True),
    "std_mean": (True, True),
}


def _warn_of_both_parts(_, name):
    for _ in range(2):  # PyTorch says it of each
        warning.warn_of_freedom(name)


_warn_of_freedom = KernelTable(cpu=_warn_of_both_parts, meta=lambda *_: None)


def spread_of_complex(name, self, dim, correction, keepdim):
    """Variances of the parts added; the mean's parts are put together again."""
    dims = wrap_dims(dim, self.ndim) or [0]
    keepdim = keepdim and self.ndim > 0
    parts = ops.view_as_real(self if self.ndim else self.reshape([1]))
    with warning.quiet():
        parts, means = ops.var_mean(parts, dims, correction=correction, keepdim=keepdim)
    spread = parts.sum([-1])
    counted = count(self.shape, dim) if spread.numel() else 0
    if counted - correction <= 0:
        _warn_of_freedom(self.device, name)
    rooted, with_mean = SPREADS[name]
    spread = ops.sqrt(spread) if rooted else spread
    if not with_mean:
        return spread
    return spread, ops.view_as_complex(means.contiguous())


for _kernel in (var, std, var_mean, std_mean):
    _kernel.of_complex = functools.partial(spread_of_complex, _kernel.name)


def var_gradient(grad, self, dim, correction, keepdim):
    """Twice the distance from the mean over the corrected count."""
    correction = 1 if correction is None else correction
    left = count(self.shape, dim) - correction
    if left <= 0 and (self.ndim == 0 or dim is None):
        return grad * ops.where(self == self.mean(), math.nan, math.inf)
    grad = unreduce(grad, self.ndim, dim, keepdim)
    centered = self - self.mean(dim, True)
    return grad * (2.0 / left if left else math.inf) * centered


def std_gradient(grad, self, result, dim, correction, keepdim):
    """The variance's gradient over twice the deviation, zero for no deviation."""
    grad = ops.masked_fill(grad / (result * 2), result == 0, 0)
    return var_gradient(grad, self, dim, correction, keepdim)


def of_all(name):
    """A spread over all the elements."""
    run = getattr(ops, name)
    return lambda self, unbiased: run(self, None, correction=int(unbiased))


def along(name):
    """A spread over dimensions."""
    run = getattr(ops, name)

    def function(self, dim, unbiased, keepdim):
        return run(self, dim, correction=int(unbiased), keepdim=keepdim)

    return function


def moments_gradient(grads, gradient_of_spread, self, dim, keepdim):
    """The spread's gradient and the mean's, whichever arrived."""
    spread, mean = grads
    result = None
    if spread is not None:
        result = gradient_of_spread(spread)
    if mean is not None:
        share = restore(mean, self.shape, dim, keepdim) / count(self.shape, dim)
        result = share if result is None else result + share
    return result


def var_mean_gradient(grads, self, dim, correction, keepdim):
    """Of the variance and the mean."""
    return moments_gradient(
        grads, lambda grad: var_gradient(grad, self, dim, correction, keepdim),
        self, dim, keepdim,
    )  # fmt: skip


def std_mean_gradient(grads, self, result, dim, correction, keepdim):
    """Of the standard deviation and the mean."""
    return moments_gradient(
        grads, lambda grad: std_gradient(grad, self, result, dim, correction, keepdim),
        self, dim, keepdim,
    )  # fmt: skip


def _check_norm(self, ord, dtype):
    """Refuses what has no norm, and a dtype that cannot hold it.

    Raises:
        RuntimeError: the input or the dtype isn't floating, or the order isn't real.
    """
    own = TYPE_NAMES[self.dtype.name]
    if self.dtype.category < FLOATING:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {own}"
        )
    if isinstance(ord, complex):
        raise RuntimeError(
            "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
        )
    if dtype is None:
        return
    other = TYPE_NAMES.get(dtype.name, dtype.name)
    if dtype.category < FLOATING:
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex, but got "
            f"{other}"
        )
    if dtype.category != self.dtype.category:
        kind = "complex" if self.is_complex() else "real"
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got "
            f"{other}"
        )
    if promote_types(self.dtype, dtype) is not dtype:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({own}) should be convertible "
            f"without narrowing to the specified dtype ({other})"
        )


def logsumexp(self, dim, keepdim):
    """The largest element is taken out first, so that nothing overflows."""
    if self.dtype.category < FLOATING:
        self = self.to(get_default_dtype())
    if self.numel() == 0:
        return ops.log(ops.exp(self).sum(dim, keepdim))
    largest = ops.amax(ops.real(self), dim, True)
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
    return grad * conjugated(ops.exp(self - result))


def real_of(self):
    """The dtype of the sizes of a tensor's elements."""
    return self.dtype.to_real() if self.is_complex() else self.dtype


def vector_norm(self, ord, dim, keepdim, dtype):
    """The root of the sum of powers; extremes for infinite orders, a count for zero.

    Raises:
        RuntimeError: the input isn't floating, or has no elements and no norm.
    """
    _check_norm(self, ord, dtype)
    if dtype is not None:
        self = self.to(dtype)
    if self.dtype.itemsize == 2:  # squares would overflow, sums lose their ends
        wide = self.to(float32)
        return vector_norm(wide, ord, dim, keepdim, None).to(self.dtype)
    dims = wrap_dims(dim, self.ndim)
    if not dims and (ord in (0, 1, 2) or abs(ord) == math.inf):
        return (self != 0).to(real_of(self)) if ord == 0 else ops.abs(self)
    if (
        self.numel() == 0
        and (ord < 0 or ord == math.inf)
        and not count(self.shape, dims)
    ):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor "
            "because the operation does not have an identity"
        )
    if ord == 0:
        return (self != 0).to(real_of(self)).sum(dims, keepdim)
    # An element is its own norm, of any order (its square may be out of range); with a
    # dimension that it has not, it is not.
    alone = count(self.shape, dims) == 1 and (self.ndim > 0 or not dim)
    if ord == 2 and self.is_floating_point() and self.numel() and not alone:
        return ops.sqrt(_sum_of_squares(self, dims, keepdim))
    size = self = ops.abs(self)
    if abs(ord) == math.inf:
        return (ops.amax if ord > 0 else ops.amin)(size, dims, keepdim)
    if ord == 1 or alone or not self.numel():
        return size.sum(dims, keepdim)
    if ord == 2:
        return ops.sqrt((self * self).sum(dims, keepdim))
    if size.dtype is float32 and abs(ord) > finfo(size.dtype).max:
        ord = math.copysign(math.inf, ord)  # as it is in single precision
    return (size**ord).sum(dims, keepdim) ** (1.0 / ord)


def _sum_of_squares(self, dims, keepdim):
    """In one sweep; very many in rows, which the host's threads divide among themselves."""
    few = len(dims) < self.ndim or self.numel() < 2 * ROW
    if few or not self.is_contiguous():
        return ops._square_sum(self, dims, keepdim)
    return _square_sum(self.device, self, dims, keepdim)


def _square_sum_on_host(device, self, dims, keepdim):
    flat = self.reshape(-1)
    whole = self.numel() // ROW * ROW
    total = ops._square_sum(flat[:whole].view(-1, ROW), [1]).sum()
    if whole < self.numel():
        total = total + ops._square_sum(flat[whole:], [0])
    return total.reshape([1] * self.ndim) if keepdim else total


def _square_sum_on_device(device, self, dims, keepdim):
    return ops._square_sum(self, dims, keepdim)


_square_sum = KernelTable(
    cpu=_square_sum_on_host, cuda=_square_sum_on_device, meta=_square_sum_on_device
)


def vector_norm_gradient(grad, self, ord, result, dim, keepdim):
    """Zero wherever the norm is zero, as the subgradient of least size."""
    if ord == 0:
        return None
    dims = wrap_dims(dim, self.ndim)
    if dims:
        grad = unreduce(grad, self.ndim, dims, keepdim)
        result = unreduce(result, self.ndim, dims, keepdim)
    grad = grad.to(real_of(self))
    if ord == 1:
        return grad * ops.sgn(self)
    if ord == 2:
        slope = self / result
        return ops.masked_fill_(slope, result == 0, 0) * grad
    size, ord = ops.abs(self), float(ord)
    if math.isnan(ord):
        return grad * self * math.nan
    if abs(ord) == math.inf:
        mask = (size == result) | ops.isnan(size)
        shares = grad / mask.sum(dims, keepdim=True) if dims else grad
        return ops.sgn(self) * (shares * mask)
    # a power of the ratio: powers of the two may overflow where it does not
    none = result == 0
    whole = ops.masked_fill(result, none, 1)  # has a slope where there is none
    if (
        1 < ord < 2
    ):  # zeros have an infinite second slope, of which the whole knows nothing
        whole = ops.where(size == 0, whole.detach(), whole)
    share = size / whole
    slope = ops.sgn(self) * share ** (ord - 1)
    return ops.masked_fill(slope, none | (size == 0) & (ord < 1), 0) * grad


def norm(self, p):
    """Of all the elements."""
    return ops.linalg_vector_norm(self, p)


def norm_along(self, p, dim, keepdim, dtype):
    """Of the elements along dimensions."""
    return ops.linalg_vector_norm(
        self, 2 if p is None else p, dim, keepdim, dtype=dtype
    )


def dist(self, other, p):
    """The norm of the difference."""
    if 0 in (self.dtype.category, other.dtype.category):
        ops.sub(self, other)  # refused, as the difference of truth values
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you "
            "are trying to invert a mask, use the `~` or `logical_not()` operator "
            "instead."
        )
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
