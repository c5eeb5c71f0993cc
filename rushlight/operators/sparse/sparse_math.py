"""Arithmetic of sparse tensors with coordinates: sums, products, softmax."""

import math

from rushlight.core import layout as layouts
from rushlight.core import sparse
from rushlight.core.dtype import FLOATING, promote_types
from rushlight.core.dtypes import bool_, int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators import operand_types
from rushlight.operators.functions import broadcast_shapes
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.shared import wrap_dims
from rushlight.operators.sparse import row_products
from rushlight.operators.sparse.sparse_access import COMPRESSED, masked_like
from rushlight.operators.sparse.sparse_compressed import starts_of
from rushlight.operators.sparse.sparse_coo import (
    coalesced_of,
    coordinates,
    empty,
    flat_positions,
    is_coo,
    like,
    made,
    numbered,
    parts,
    permute,
    rows_at,
    up_to,
)

# ---- element by element


def on_values(name, ordered=True):
    """An operator that leaves zeros alone, applied to the values.

    Args:
        name: of the operator.
        ordered: whether values of one coordinate have to be added first.
    """
    function = getattr(ops, name)

    def apply(self, *args):
        source = coalesced_of(self) if ordered else self
        return like(source, function(parts(source)[1], *args))

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the values."
    return apply


def on_values_(name, ordered=True):
    """`on_values` in place."""
    function = getattr(ops, name)

    def apply(self, *args):
        indices, values, done = parts(self)
        if ordered and not done and values.shape[0] > 1:
            raise RuntimeError(f"{name}_ requires coalesced input")
        fresh = function(values, *args)
        if fresh.dtype is not self.dtype:
            _refuse_other_kind(name, fresh.dtype, self.dtype)
            fresh = fresh.to(self.dtype)
        parts_of(self).values = fresh
        return self

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the values, in place."
    return apply


def on_linear_values(name):
    """An operator that is linear: values of one coordinate may be added later."""
    return on_values(name, ordered=False)


def on_linear_values_(name):
    """`on_linear_values` in place."""
    return on_values_(name, ordered=False)


def _refuse_other_kind(name, result, own):
    """Raises RuntimeError where values in place would have to be of a larger kind."""
    if own.is_complex:
        raise RuntimeError(f"In-place {name} is not supported for complex tensors.")
    if result.category > own.category:
        raise RuntimeError(
            f"result type {scalar_name(result)} can't be cast to the desired output type "
            f"{scalar_name(own)}"
        )


parts_of = sparse.parts_of


def add(self, other, alpha):
    """Sparse and sparse: the coordinates of both. Dense and sparse: dense.

    Raises:
        RuntimeError: the first is sparse and the second dense, the sizes differ, or the
            scale is of a larger kind than the result.
    """
    if isinstance(other, Tensor):
        operand_types.scale_of(promote_types(self.dtype, other.dtype), alpha)
    return _add(self, other, alpha)


def _add(self, other, alpha):
    if not isinstance(other, Tensor) or not is_coo(other):
        raise RuntimeError(
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
        )
    if not is_coo(self):
        return _add_to_dense(self.clone(), other, alpha)
    _same_sizes("add", self, other)
    dtype = promote_types(self.dtype, other.dtype)
    one, two = parts(self), parts(other)
    if one[0].shape[0] != two[0].shape[0]:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same number of sparse dimensions"
        )
    if not two[1].shape[0]:
        return made(one[0], one[1].to(dtype, copy=True), self.shape, one[2])
    second = _scaled(two[1], dtype, alpha)
    if _same_indices(one[0], two[0]):
        return made(one[0], one[1] + second, self.shape, one[2] and two[2])
    indices = ops.cat([one[0], two[0]], 1)
    values = ops.cat([one[1].to(dtype), second])
    result = made(indices, values, self.shape)
    if (one[2] and two[2]) or values.shape[0] > self.numel():
        # in order they stay so, and coordinates must not pile up
        return coalesced_of(result)
    return result


def _scaled(values, dtype, alpha):
    """Values times a scale, both in ``dtype``."""
    values = values.to(dtype)
    if alpha == 1:
        return values
    if dtype is bool_:
        return values & bool(alpha)
    if isinstance(alpha, complex) and not dtype.is_complex:
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name} without overflow: {alpha}"
        )
    exact = dtype.category < FLOATING and isinstance(alpha, float)
    return values * (int(alpha) if exact else alpha)


def _same_indices(one, two):
    if one is two or one.shape != two.shape:
        return one is two
    return not one.numel() or bool(ops.equal(one, two))


def _same_sizes(name, self, other):
    if list(self.shape) != list(other.shape):
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but "
            f"{list(self.shape)} != {list(other.shape)}"
        )


def _add_to_dense(self, other, alpha):
    """Adds a sparse tensor to a dense one that is written."""
    if list(self.shape) != list(other.shape):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(self.shape)} while other has size {list(other.shape)} (FYI: dense-"
            "sparse addition does not currently support broadcasting)"
        )
    dtype = promote_types(self.dtype, other.dtype)
    self = self if dtype is self.dtype else self.to(dtype)
    indices, values, _ = parts(other)
    if not values.numel():
        return self
    values = _scaled(values, dtype, alpha)
    if not indices.shape[0]:
        return self.add_(values.sum([0]))
    if dtype is bool_:
        return self.copy_(self | ops.to_dense(other))
    return ops.index_put_(self, list(indices.unbind(0)), values, True)


def add_(self, other, alpha):
    """`add` in place."""
    if is_coo(self):
        if not isinstance(other, Tensor) or not is_coo(other):
            return _add(self, other, alpha)
        result = _add(self, other, alpha)
        found = parts_of(result)
        if result.dtype is not self.dtype:
            if result.dtype.category > self.dtype.category:
                raise RuntimeError(
                    f"Can't convert result type {result.dtype} to output {self.dtype}"
                )
            found.values = found.values.to(self.dtype)
        return sparse.put(self, list(self.shape), found)
    if other.dtype.category > self.dtype.category:
        raise RuntimeError(
            f"Can't convert result type {other.dtype} to output {self.dtype}"
        )
    wide = _add_to_dense(self, other, alpha)
    return self if wide is self else self.copy_(wide)


def sub(self, other, alpha):
    """``self`` plus the other's negative.

    Raises:
        RuntimeError: an operand or the scale is a truth value.
    """
    operand_types.subtraction(self, other)
    return add(self, other, _negative(alpha))


def rsub(self, other, alpha):
    """A number, or a tensor of the same sizes, without ``self``."""
    if not isinstance(other, Tensor):
        other = ops.full((), other, dtype=self.dtype, device=self.device)
    return ops.sub(other, self, alpha=alpha)


def sub_(self, other, alpha):
    """`sub` in place."""
    operand_types.subtraction(self, other)
    return add_(self, other, _negative(alpha))


def _negative(alpha):
    if isinstance(alpha, bool):
        raise RuntimeError(
            "torch boolean negative, the `-` operator, is not supported."
        )
    return -alpha


def mul(self, other):
    """A factor for all values, or the elements that both have.

    Raises:
        RuntimeError: the sizes differ.
    """
    if is_coo(self) and not self.numel():
        return _times_nothing(self, other)
    if not isinstance(other, Tensor):
        return like(self, parts(self)[1] * other)
    if not is_coo(self):
        self, other = other, self
    if not is_coo(other):
        if other.ndim == 0:
            return like(self, parts(self)[1] * other)
        return _times_dense(self, other)
    if other.ndim == 0 and self.ndim:
        return like(self, parts(self)[1] * ops.to_dense(other))
    if self.ndim == 0 and other.ndim:
        return like(other, parts(other)[1] * ops.to_dense(self))
    _same_sizes("mul", self, other)
    dtype = promote_types(self.dtype, other.dtype)
    one, two = _met(self, other)
    if parts(one)[2] and _same_indices(parts(one)[0], parts(two)[0]):
        return like(one, parts(one)[1] * parts(two)[1])
    if not parts(one)[1].shape[0] or not parts(two)[1].shape[0]:
        return empty(list(self.shape), dtype, self.device, parts(one)[0].shape[0])
    sizes = self.shape[: parts(one)[0].shape[0]]
    mine, theirs = (
        flat_positions(parts(one)[0], sizes),
        flat_positions(parts(two)[0], sizes),
    )
    at = ops.clamp(ops.searchsorted(theirs, mine), 0, theirs.shape[0] - 1)
    found = ops.index_select(theirs, 0, at) == mine
    if not parts(one)[2]:  # keeps its elements, those that the other lacks as zeros
        values = parts(one)[1] * ops.index_select(parts(two)[1], 0, at)
        shown = found.reshape([-1] + [1] * (values.ndim - 1))
        values = ops.where(shown, values, 0)
        return made(parts(one)[0], values, self.shape, False)
    both = ops.nonzero(found).reshape([-1])
    values = ops.index_select(parts(one)[1], 0, both) * ops.index_select(
        parts(two)[1], 0, ops.index_select(at, 0, both)
    )
    element_indices = ops.index_select(mine, 0, both)
    return made(coordinates(element_indices, sizes), values, self.shape, parts(one)[2])


def mul_(self, other):
    """`mul` in place; a dense tensor stays dense."""
    result = mul(self, other)
    if not is_coo(self):
        return ops.copy_(self, ops.to_dense(result))
    ops.copy_(self, result)
    if not isinstance(other, Tensor) or not is_coo(other):
        parts_of(self).coalesced = False
    return self


def _times_nothing(self, other):
    """A product without elements has no coordinates either."""
    size, dtype = list(self.shape), self.dtype
    if isinstance(other, Tensor):
        size = list(broadcast_shapes(tuple(size), tuple(other.shape)))
        dtype = promote_types(dtype, other.dtype) if other.ndim else dtype
    return empty(size, dtype, self.device, min(len(size), parts(self)[0].shape[0]))


def _met(self, other):
    """Whose values keep their order in a product, and the other in order.

    The one that is not in order stays as it is; where both are alike, the shorter.
    """
    mine, theirs = parts(self), parts(other)
    first = theirs[1].shape[0] > mine[1].shape[0] if mine[2] == theirs[2] else theirs[2]
    one, two = (self, other) if first else (other, self)
    return one, coalesced_of(two)


def _times_dense(self, other):
    size = broadcast_shapes(tuple(self.shape), tuple(other.shape))
    if tuple(size) != tuple(self.shape):
        raise RuntimeError(
            f"mul(sparse, dense): the dense tensor's sizes {list(other.shape)} must not "
            f"exceed the sparse one's {list(self.shape)}"
        )
    indices, values, done = parts(self)
    wide = other.expand(list(self.shape))
    if indices.shape[0]:
        taken = ops.index(wide, list(indices.unbind(0)))
    else:
        taken = wide.unsqueeze(0)
    return made(indices, values * taken, self.shape, done)


def div(self, other):
    """A divisor for all values.

    Raises:
        RuntimeError: the divisor has dimensions.
    """
    return _divided(self, other, ops.div)


def div_mode(self, other, rounding_mode):
    """A divisor for all values, and quotients rounded."""
    if rounding_mode is None:
        return div(self, other)
    return _divided(
        coalesced_of(self),
        other,
        lambda x, y: ops.div(x, y, rounding_mode=rounding_mode),
    )


def floor_divide(self, other):
    """Quotients rounded down."""
    return _divided(coalesced_of(self), other, ops.floor_divide)


def _divided(self, other, divide):
    if isinstance(other, Tensor):
        if is_coo(other) or other.ndim:
            raise RuntimeError(
                "Sparse division requires a scalar or zero-dim dense tensor divisor (got "
                f"shape {list(other.shape)} for divisor)"
            )
        if not is_coo(self):
            raise RuntimeError("a dense tensor can't be divided by a sparse one")
    return like(self, divide(parts(self)[1], other))


def pow(self, exponent):
    """Powers of the values.

    Raises:
        RuntimeError: the exponent is zero, which would make zeros ones.
    """
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result "
            "tensor dense"
        )
    source = coalesced_of(self)
    return like(source, ops.pow(parts(source)[1], exponent))


def square(self):
    """Squares of the values."""
    return pow(self, 2)


# ---- sums


def total(self, dtype):
    """The sum of all values."""
    return ops.sum(parts(self)[1], dtype=dtype)


def sum_along(self, dim):
    """Sums along dimensions; dense where none with coordinates is left."""
    dims = wrap_dims(tuple(dim), self.ndim)
    if not dims:
        return self.clone()
    indices, values, done = parts(self)
    count = indices.shape[0]
    dense = [d - count + 1 for d in dims if d >= count]
    if dense:
        values = ops.sum(values, dense)
    kept = [d for d in range(count) if d not in dims]
    if not kept:
        return ops.sum(values, [0])
    size = [self.shape[d] for d in range(self.ndim) if d not in dims]
    if len(kept) == count:
        return made(indices, values, size, done)
    rows = rows_at(indices, kept)
    return coalesced_of(made(rows, values, size))


def sum_dims(self, dim, keepdim, dtype):
    """``sum`` along dimensions of a sparse tensor.

    Raises:
        RuntimeError: the dimensions are to be kept.
    """
    if dtype is not None:
        self = like(self, parts(self)[1].to(dtype))
    elif self.dtype.category < FLOATING:
        self = like(self, parts(self)[1].to(int64))
    if dim is None or not len(dim):
        dim = tuple(range(self.ndim))
    result = sum_along(self, dim)
    if keepdim:
        for d in sorted(wrap_dims(tuple(dim), self.ndim)):
            result = result.unsqueeze(d)
        return result
    return result


def spread_sum(grad, self, dim):
    """The gradient of a sum, at the coordinates that were summed."""
    for d in sorted(wrap_dims(tuple(dim), self.ndim)):
        grad = grad.unsqueeze(d)
    source = coalesced_of(self)
    indices, values, done = parts(source)
    dims = set(wrap_dims(tuple(dim), self.ndim))
    if is_coo(grad):
        # each coordinate asks for the sum that it went into
        held = [
            row * 0 if d in dims else row for d, row in enumerate(indices.unbind(0))
        ]
        size = list(grad.shape)
        asked = made(
            ops.stack(held),
            ops.new_zeros(values, [values.shape[0], *size[indices.shape[0] :]]),
            size,
        )
        taken = parts(ops._masked_by_coo(grad, asked))[1]
    else:
        wide = grad.expand(list(self.shape))
        taken = ops.index(wide, list(indices.unbind(0)))
    return made(indices, taken.expand(values.shape).clone(), self.shape, done)


def vector_norm(self, order, dim, keepdim, dtype):
    """The norm of all values: dimensions can't be chosen.

    Raises:
        RuntimeError: some are, or they are to be kept.
    """
    if dim is not None and 0 < len(dim) < self.ndim:
        raise RuntimeError("norm_sparse currently only supports full reductions")
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    values = parts(coalesced_of(self))[1]
    return ops.linalg_vector_norm(values, order, dtype=dtype)


def refuse_reshape(self, shape):
    """Coordinates don't follow the elements.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("reshape is not implemented for sparse tensors")


def any_all(self):
    """Whether any value is not zero."""
    return ops.any(parts(self)[1])


# ---- products


def mm(self, mat2):
    """Sparse by dense and dense by sparse: dense. Sparse by sparse: sparse.

    Raises:
        RuntimeError: the sizes don't go together.
    """
    _check_product(self, mat2)
    if is_coo(self) and is_coo(mat2):
        return multiply_sparse(self, mat2)
    if not is_coo(self):
        return mm(ops.t(mat2), self.t()).t()
    indices, values, in_order = parts(self)
    if indices.shape[0] != 2:
        raise RuntimeError(
            f"addmm: expected first two dims to be sparse (indices has size 2 at first "
            f"dim), but got {indices.shape[0]} sparse dims"
        )
    dtype = promote_types(self.dtype, mat2.dtype)
    if dtype is not self.dtype or dtype is not mat2.dtype:
        raise RuntimeError(
            f"addmm: expected mat1 and mat2 to have the same dtype, but got "
            f"{self.dtype} and {mat2.dtype}"
        )
    if in_order and row_products.serves(values, mat2):
        starts = starts_of(indices[0], self.shape[0])
        return row_products.weigh_rows(starts, indices[1], values, mat2)
    rows = ops.index_select(mat2, 0, indices[1]) * values.unsqueeze(1)
    out = ops.zeros([self.shape[0], mat2.shape[1]], dtype=dtype, device=mat2.device)
    return ops.index_add_(out, 0, indices[0], rows)


def _check_product(self, mat2):
    if self.ndim != 2:
        raise RuntimeError(f"mm: Expected dim 2 for 'mat1', got {self.ndim}D tensor")
    if mat2.ndim != 2:
        raise RuntimeError(f"mm: Expected dim 2 for 'mat2', got {mat2.ndim}D tensor")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {self.shape[1]}, got "
            f"{mat2.shape[0]}"
        )


def _check_first(name, mat1, mat2):
    if not is_coo(mat1) or is_coo(mat2):
        raise RuntimeError(
            f"{name}: expected 'mat1' to have sparse and 'mat2' to have strided layout, "
            f"got {mat1.layout} and {mat2.layout}"
        )


def mv(self, vec):
    """A sparse matrix by a vector."""
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {self.ndim}"
            f"Tensor Dim: {vec.ndim}"
        )
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"mv: expected self.size(-1) == vec.size(-1), but got {self.shape[1]} and "
            f"{vec.shape[0]}"
        )
    return mm(self, vec.unsqueeze(1)).squeeze(1)


def addmm(self, mat1, mat2, beta, alpha):
    """A matrix plus a product with a sparse one."""
    product = mm(mat1, mat2)
    if alpha != 1:
        product = product * alpha
    if is_coo(self):
        return add(self if beta == 1 else mul(self, beta), product, 1)
    if is_coo(product):
        product = ops.to_dense(product)
    if beta == 0:
        return product
    return (self if beta == 1 else self * beta) + product


def bmm(self, mat2):
    """Products of the matrices of two batches, the first sparse."""
    if self.ndim != 3 or mat2.ndim != 3 or self.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm_sparse: Argument 1 must be a 3-D batch like argument 2, but they have "
            f"sizes {list(self.shape)} and {list(mat2.shape)}"
        )
    if not is_coo(self):
        return ops.stack(
            [ops.mm(self[i], select_dense(mat2, i)) for i in range(self.shape[0])]
        )
    return ops.stack(
        [mm(ops.select(self, 0, i), mat2[i]) for i in range(self.shape[0])]
    )


def select_dense(tensor, at):
    """One matrix of a sparse batch, dense."""
    return ops.to_dense(ops.select(tensor, 0, at))


def linear(input, weight, bias):
    """``input @ weight.T + bias`` where one of them is sparse.

    Raises:
        RuntimeError: the weight is no matrix, or their sizes don't go together.
    """
    if weight.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {weight.ndim}-D tensor")
    rows = input if input.ndim == 2 else input.reshape([-1, *input.shape[-1:]])
    result = ops.mm(rows, weight.t())
    if input.ndim != 2:
        result = result.reshape([*input.shape[:-1], weight.shape[0]])
    return result if bias is None else result + bias


def multiply_sparse(self, mat2):
    """Each value meets the row of the other matrix that its column names.

    Raises:
        RuntimeError: they are no matrices, or their sizes or types differ.
    """
    _check_product(self, mat2)
    if self.layout in COMPRESSED or mat2.layout in COMPRESSED:
        result = multiply_sparse(ops.to_sparse_coo(self), ops.to_sparse_coo(mat2))
        by_columns = self.layout is mat2.layout is layouts.sparse_csc
        return ops.to_sparse_csc(result) if by_columns else ops.to_sparse_csr(result)
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x"
            f"{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    if self.dtype is not mat2.dtype:
        raise RuntimeError(
            f"mat1 dtype {self.dtype} does not match mat2 dtype {mat2.dtype}"
        )
    one, two = parts(coalesced_of(self)), parts(coalesced_of(mat2))
    if one[1].ndim > 1 or two[1].ndim > 1:
        raise RuntimeError(
            "sparse_matmul: scalar values expected, got "
            f"{max(one[1].ndim, two[1].ndim) - 1}D values"
        )
    size = [self.shape[0], mat2.shape[1]]
    if not one[1].shape[0] or not two[1].shape[0]:
        return empty(size, self.dtype, self.device)
    lengths = ops.bincount(two[0][0], minlength=mat2.shape[0])
    starts = ops.cumsum(lengths, 0) - lengths
    counts = ops.index_select(lengths, 0, one[0][1])
    left = numbered(counts)
    first = ops.cumsum(counts, 0) - counts
    within = up_to(left.shape[0], left) - ops.index_select(first, 0, left)
    right = ops.index_select(starts, 0, ops.index_select(one[0][1], 0, left)) + within
    indices = ops.stack(
        [ops.index_select(one[0][0], 0, left), ops.index_select(two[0][1], 0, right)]
    )
    values = ops.index_select(one[1], 0, left) * ops.index_select(two[1], 0, right)
    return coalesced_of(made(indices, values, size))


def hspmm(mat1, mat2):
    """Rows of the product, for the rows of the first matrix that have values.

    Raises:
        RuntimeError: the first is not sparse, the second is, or they don't go together.
    """
    _check_product(mat1, mat2)
    _check_first("hspmm", mat1, mat2)
    source = coalesced_of(mat1)
    indices, values, _ = parts(source)
    if values.ndim > 1:
        raise RuntimeError(
            f"hspmm: scalar values expected, got {values.ndim - 1}D values"
        )
    dtype = mat2.dtype
    if not values.shape[0]:
        return empty([mat1.shape[0], mat2.shape[1]], dtype, mat2.device, 1)
    rows = indices[0]
    fresh = ops.cat([ops.ones_like(rows[:1], dtype=bool_), ops.diff(rows) != 0])
    group = ops.cumsum(fresh.to(int64), 0) - 1
    named = ops.masked_select(rows, fresh)
    terms = ops.index_select(mat2, 0, indices[1]) * values.unsqueeze(1)
    out = ops.new_zeros(mat2, [named.shape[0], mat2.shape[1]])
    sums = ops.index_add_(out, 0, group, terms)
    return made(named.unsqueeze(0), sums, [mat1.shape[0], mat2.shape[1]])


def sspaddmm(self, mat1, mat2, beta, alpha):
    """A row of the product is written down whole where the first matrix has values."""
    if not is_coo(self):
        raise RuntimeError("sspaddmm: expected 'self' to be sparse, but it is dense")
    _check_first("sspaddmm", mat1, mat2)
    _check_product(mat1, mat2)
    if list(self.shape) != [mat1.shape[0], mat2.shape[1]]:
        raise RuntimeError(
            f"sspaddmm: Argument #1: Expected sizes [{mat1.shape[0]}, {mat2.shape[1]}], "
            f"got {list(self.shape)}"
        )
    rows = hspmm(mat1, mat2)
    (named,), sums, _ = parts(rows)
    columns = up_to(mat2.shape[1], named)
    pair = ops.stack(
        [ops.repeat_interleave(named, mat2.shape[1]), columns.repeat([named.shape[0]])]
    )
    product = made(pair, sums.reshape([-1]) * alpha, [mat1.shape[0], mat2.shape[1]])
    if not parts(self)[1].shape[0]:
        return product
    return add(mul(self, beta), product, 1)


# ---- softmax


def _pools(self, dim):
    """For each value, the number of the line along ``dim`` that it is on."""
    indices = parts(self)[0]
    sizes = [size for d, size in enumerate(self.shape[: indices.shape[0]]) if d != dim]
    rows = [d for d in range(indices.shape[0]) if d != dim]
    kept = rows_at(indices, rows)
    return flat_positions(kept, sizes), math.prod(sizes)


def _pooled(values, pool, count, reduce):
    """A sum or the largest value of each line, for each of its values."""
    wide = pool.reshape([-1, *[1] * (values.ndim - 1)]).expand(values.shape)
    start = -math.inf if reduce == "amax" else 0.0
    lines = ops.new_full(values, [count, *values.shape[1:]], start)
    return ops.scatter_reduce(lines, 0, wide, values, reduce).gather(0, wide)


def softmax(self, dim, half_to_float):
    """Elements that are not there have no share."""
    return _softmax(self, dim, log=False)


def log_softmax(self, dim, half_to_float):
    """Elements that are not there have no share."""
    return _softmax(self, dim, log=True)


def _softmax(self, dim, log):
    source = coalesced_of(self)
    indices, values, _ = parts(source)
    dim = wrap_dim(dim, self.ndim)
    if dim >= indices.shape[0]:
        function = ops.log_softmax if log else ops.softmax
        return like(source, function(values, dim - indices.shape[0] + 1))
    if not values.numel():
        return like(source, values.clone())
    pool, count = _pools(source, dim)
    gaps = values - _pooled(values, pool, count, "amax")
    mass = ops.exp(gaps)
    share = _pooled(mass, pool, count, "sum")
    return like(source, gaps - ops.log(share) if log else mass / share)


def softmax_gradient(grad, result, self, dim):
    """Each share less what its line gets on the whole."""
    source = parts(_at_positions(grad, result))[1]
    shares = parts(result)[1]
    indices = parts(result)[0]
    dim = wrap_dim(dim, self.ndim)
    if dim >= indices.shape[0]:
        along = ops.sum(source * shares, [dim - indices.shape[0] + 1], True)
    else:
        pool, count = _pools(result, dim)
        along = _pooled(source * shares, pool, count, "sum")
    return like(result, shares * (source - along))


def log_softmax_gradient(grad, result, self, dim):
    """Each gradient less the share of what its line gets on the whole."""
    source = parts(_at_positions(grad, result))[1]
    shares = ops.exp(parts(result)[1])
    indices = parts(result)[0]
    dim = wrap_dim(dim, self.ndim)
    if dim >= indices.shape[0]:
        along = ops.sum(source, [dim - indices.shape[0] + 1], True)
    else:
        pool, count = _pools(result, dim)
        along = _pooled(source, pool, count, "sum")
    return like(result, source - shares * along)


def _at_positions(grad, result):
    return masked_like(grad, result)


def stack(tensors, dim):
    """Sparse tensors along a new dimension.

    Raises:
        RuntimeError: their sizes differ, or one is dense.
    """
    from rushlight.operators.sparse.sparse_coo import cat, unsqueeze

    dim = wrap_dim(dim, tensors[0].ndim + 1)
    first = list(tensors[0].shape)
    for place, tensor in enumerate(tensors):
        if list(tensor.shape) != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {first} at entry 0 "
                f"and {list(tensor.shape)} at entry {place}"
            )
        if not is_coo(tensor):
            raise RuntimeError(
                "Concatenating sparse tensors, but a dense tensor was found at position "
                f"{place}."
            )
    return cat([unsqueeze(tensor, dim) for tensor in tensors], dim)


def nan_to_num(self, nan, posinf, neginf):
    """Replaces values that are no numbers."""
    source = coalesced_of(self)
    return like(source, ops.nan_to_num(parts(source)[1], nan, posinf, neginf))
