"""Transforms of vectors and matrices, and those that treat slices differently.

They belong to `transforms`, which shows them.
"""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions._transform import (
    Transform,
    _check_dims,
    _clipped_sigmoid,
    _Stateless,
)
from rushlight.distributions.utils import (
    _sum_rightmost,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from rushlight.nn import functional as F

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
]


def _led_by_one(x):
    """A vector without its last element, behind a one."""
    return F.pad(x[..., :-1], [1, 0], value=1)


class CorrCholeskyTransform(Transform):
    """A vector of ``D * (D - 1) / 2`` numbers to a Cholesky factor of a correlation.

    The numbers fill the triangle below the diagonal; ``z = tanh(x)`` are the canonical
    partial correlations, and row by row ``y_ij = z_ij * sqrt(prod_{k<j} (1 - z_ik^2))``.
    (D. Lewandowski, D. Kurowicka, H. Joe: Generating random correlation matrices, 2009.)
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = rl.finfo(x.dtype).eps
        z = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - z**2).sqrt().cumprod(-1)
        unit = rl.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        return (z + unit) * _led_by_one(left)

    def _inverse(self, y):
        left = _led_by_one(1 - (y * y).cumsum(-1))
        z = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()
        return (z.log1p() - z.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        # The first element of each row below the diagonal has all of its length left.
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        sticks = 0.5 * left.log().sum(-1)
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return sticks + tanh

    def forward_shape(self, shape):
        _check_dims(shape, 1)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape):
        _check_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        size = shape[-1]
        return shape[:-2] + (size * (size - 1) // 2,)


class SoftmaxTransform(_Stateless):
    """``y = softmax(x)``, with the logarithm as the pseudo-inverse.

    No bijection: adding a number to all of ``x`` changes nothing.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        return F.softmax(x, dim=-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        _check_dims(shape, 1)
        return shape

    def inverse_shape(self, shape):
        _check_dims(shape, 1)
        return shape


class StickBreakingTransform(_Stateless):
    """A vector to one longer by one, in the simplex: each number breaks off a share.

    ``z_k = sigmoid(x_k - log(K - k))`` of what is left after the first ``k`` breaks, so
    that zeros give equal shares.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _offset(x, count):
        return (count + 1 - x.new_ones(count).cumsum(-1)).log()

    def _call(self, x):
        z = _clipped_sigmoid(x - self._offset(x, x.shape[-1]))
        left = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y):
        shares = y[..., :-1]
        # A left-over below zero is rounding's.
        left = (1 - shares.cumsum(-1)).clamp(min=rl.finfo(y.dtype).tiny)
        return shares.log() - left.log() + self._offset(y, shares.shape[-1])

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x, x.shape[-1])
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        _check_dims(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        _check_dims(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_Stateless):
    """A matrix to a lower triangular one, whose diagonal is exponentiated."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    @staticmethod
    def _on_diagonal(x, function):
        return x.tril(-1) + function(x.diagonal(dim1=-2, dim2=-1)).diag_embed()

    def _call(self, x):
        return self._on_diagonal(x, rl.exp)

    def _inverse(self, y):
        return self._on_diagonal(y, rl.log)


class PositiveDefiniteTransform(_Stateless):
    """A matrix to a positive-definite one, through its Cholesky factor."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(rl.linalg.cholesky(y))


class _SliceTransform(Transform):
    """Transforms of slices along one dimension."""

    def __init__(self, tseq, dim, cache_size):
        tseq = list(tseq)
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(1) for t in tseq] if cache_size else tseq
        self.dim = dim

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)

    def _check_slices(self, name, x, expected):
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for {name} with {x.dim()} dimensions"
            )
        if x.size(self.dim) != expected:
            raise AssertionError(
                f"{name}.size({self.dim}) = {x.size(self.dim)} must equal {expected}"
            )


class CatTransform(_SliceTransform):
    """Transforms of slices along a dimension, as ``cat`` joins them.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: the length of each slice; one by default.
    """

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        count = len(self.transforms)
        self.lengths = [1] * count if lengths is None else list(lengths)
        if len(self.lengths) != count:
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({count})"
            )

    @lazy_property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self):
        """The length of all slices together."""
        return sum(self.lengths)

    def _rebuilt(self, cache_size):
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _slices(self, name, x):
        self._check_slices(name, x, self.length)
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [
            x.narrow(self.dim, start, length)
            for start, length in zip(starts, self.lengths)
        ]

    def _call(self, x):
        slices = zip(self.transforms, self._slices("x", x))
        return rl.cat([t(part) for t, part in slices], dim=self.dim)

    def _inverse(self, y):
        slices = zip(self.transforms, self._slices("y", y))
        return rl.cat([t.inv(part) for t, part in slices], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = []
        slices = zip(self.transforms, self._slices("x", x), self._slices("y", y))
        for t, before, after in slices:
            term = t.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        # The dimension counted from the right, once the event has been summed.
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return rl.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self):
        parts = [t.domain for t in self.transforms]
        return constraints.cat(parts, self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        parts = [t.codomain for t in self.transforms]
        return constraints.cat(parts, self.dim, self.lengths)


class StackTransform(_SliceTransform):
    """Transforms of the slices of a dimension, as ``stack`` joins them.

    Args:
        tseq: the transforms.
        dim: the dimension.
    """

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    def _rebuilt(self, cache_size):
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, name, x):
        self._check_slices(name, x, len(self.transforms))
        return [x.select(self.dim, i) for i in range(x.size(self.dim))]

    def _call(self, x):
        slices = zip(self.transforms, self._slices("x", x))
        return rl.stack([t(part) for t, part in slices], dim=self.dim)

    def _inverse(self, y):
        slices = zip(self.transforms, self._slices("y", y))
        return rl.stack([t.inv(part) for t, part in slices], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        slices = zip(self.transforms, self._slices("x", x), self._slices("y", y))
        terms = [t.log_abs_det_jacobian(*parts) for t, *parts in slices]
        return rl.stack(terms, dim=self.dim)

    @constraints.dependent_property
    def domain(self):
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
