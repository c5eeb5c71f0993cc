"""Sparse tensors: sums, products, softmax, and what their parts have to keep.

>>> import rushlight as rl
>>> s = rl.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
>>> mm(s, rl.ones(2, 1))
tensor([[2.],
        [3.]])
"""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

import rushlight as rl
from rushlight.core import layout as layouts
from rushlight.operators import call
from rushlight.sparse import _types
from rushlight.sparse.gradcheck import as_sparse_gradcheck
from rushlight.sparse.invariants import check_sparse_tensor_invariants

_LATER = "semi_structured", "_semi_structured_conversions"
_OF_SEMI_STRUCTURED = (
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "to_sparse_semi_structured",
)
__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
    "to_sparse_semi_structured",
]
_COMPRESSED = (
    layouts.sparse_csr,
    layouts.sparse_csc,
    layouts.sparse_bsr,
    layouts.sparse_bsc,
)
globals().update(_types.sparse_types())


__getattr__ = _lazy_getattr(
    __name__, _LATER, dict.fromkeys(_OF_SEMI_STRUCTURED, "semi_structured")
)


def mm(mat1, mat2, reduce=None):
    """The product of matrices of which one is sparse; gradients of it are as sparse.

    Args:
        mat1, mat2: the matrices.
        reduce: in place of ``"sum"``, ``"mean"``, ``"amax"`` or ``"amin"`` of the terms
            of each element; ``mat1`` is compressed by rows then.

    Raises:
        RuntimeError: both are dense, or the sizes don't go together.

    >>> mm(rl.eye(2).to_sparse(), rl.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if reduce is not None:
        return _reduced(mat1, mat2, reduce)
    for name, matrix in (("mat1", mat1), ("mat2", mat2)):
        if matrix.dim() != 2:
            raise RuntimeError(f"{name} must be a matrix, got {matrix.dim()}-D tensor")
    one = mat1.layout is not layouts.strided
    two = mat2.layout is not layouts.strided
    if one and two:
        return call._sparse_sparse_matmul(mat1, mat2)
    if not one and not two:
        return call.mm(mat1, mat2)
    if two:
        return mm(mat2.t(), mat1.t()).t()
    none = mat2.new_zeros((mat1.shape[0], mat2.shape[1]))
    return call._sparse_addmm(none, mat1, mat2, beta=0, alpha=1)


def _reduced(mat1, mat2, reduce):
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, mean, amax or amin, got {reduce}"
        )
    if mat1.layout is not layouts.sparse_csr or mat2.layout is not layouts.strided:
        refusal = RuntimeError if mat1.layout in _COMPRESSED else NotImplementedError
        raise refusal(
            "sparse_mm_reduce: expect self to be SparseCsr and other to be Strided, got "
            f"{mat1.layout} and {mat2.layout}"
        )
    if mat2.dim() != 2 or mat1.dim() != 2 or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sparse_mm_reduce: a product of sizes {list(mat1.shape)} and "
            f"{list(mat2.shape)} does not exist"
        )
    if mat1.dtype is not mat2.dtype:
        raise RuntimeError(
            "sparse_mm_reduce: expect self and other to have the same dtype, got "
            f"{mat1.dtype} and {mat2.dtype}"
        )
    if reduce == "sum":
        with rl.autocast(mat2.device.type, enabled=False):  # which casts no reduction
            return mm(mat1, mat2)
    source = mat1.to_sparse_coo()
    rows, columns = source.indices().unbind(0)
    terms = mat2.index_select(0, columns) * source.values().unsqueeze(1)
    terms = terms.float() if mat2.dtype.itemsize == 2 else terms
    out = terms.new_zeros((mat1.shape[0], mat2.shape[1]))
    wide = rows.unsqueeze(1).expand(terms.shape)
    out = out.scatter_reduce(0, wide, terms, reduce, include_self=False)
    return out.to(mat2.dtype)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """``beta mat + alpha mat1 @ mat2`` with a sparse ``mat1``, whose gradient is as sparse.

    Args:
        mat: the matrix that is added, sparse or dense.
        mat1: a sparse matrix.
        mat2: a dense matrix.
        beta: the factor of the first matrix.
        alpha: the factor of the product.

    >>> addmm(rl.ones(2, 2), rl.eye(2).to_sparse(), rl.ones(2, 2))
    tensor([[2., 2.],
            [2., 2.]])
    """
    return call._sparse_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """A product of dense matrices, computed where ``input`` has elements, and ``input``.

    Args:
        input: a matrix compressed by rows, whose places count.
        mat1, mat2: what is multiplied.
        beta, alpha: factors of ``input`` and of the product.
        out: where to write.

    >>> element_indices = rl.eye(2).to_sparse_csr()
    >>> rl.sparse.sampled_addmm(element_indices, rl.ones(2, 3), rl.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    result = call.sparse_sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return result if out is None else out.copy_(result)


def sum(input, dim=None, dtype=None):
    """The sum of a sparse tensor along dimensions; its gradient is as sparse.

    Args:
        dim: the dimensions; all, where none are given.
        dtype: the type that values are converted to first.

    >>> sum(rl.eye(2).to_sparse())
    tensor(2.)
    """
    if dtype is not None:
        input = input.to(dtype)
    if dim is None:
        dim = tuple(range(input.dim()))
        if input.layout in _COMPRESSED:
            name = "".join(
                word.capitalize() for word in str(input.layout).split(".")[1].split("_")
            )
            raise RuntimeError(
                "coalesce expected sparse coordinate tensor layout but got "
                f"{name}\n  remedy: sum() of the tensor itself"
            )
        return call._sparse_sum(input, list(dim))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return call._sparse_sum(input, dims)


def _converted(input, dtype):
    return input if dtype is None else input.to(dtype)


def softmax(input, dim, *, dtype=None):
    """Softmax of the elements that are there, along a dimension.

    Args:
        input: a sparse tensor.
        dim: the dimension.
        dtype: what the elements are converted to before.

    >>> softmax(rl.tensor([[1.0, 1.0], [0.0, 2.0]]).to_sparse(), 1).values()
    tensor([0.5000, 0.5000, 1.0000])
    """
    return call._sparse_softmax(_converted(input, dtype), dim, False)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of `softmax`.

    Args:
        input: a sparse tensor.
        dim: the dimension.
        dtype: what the elements are converted to before.

    >>> log_softmax(rl.tensor([[1.0, 1.0], [0.0, 2.0]]).to_sparse(), 1).values()
    tensor([-0.6931, -0.6931,  0.0000])
    """
    return call._sparse_log_softmax(_converted(input, dtype), dim, False)


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with given diagonals.

    Args:
        diagonals: a row for each; its elements stand in the columns of their number.
        offsets: how far right of the main diagonal each is.
        shape: the sizes of the matrix.
        layout: of the result; coordinates by default.

    Raises:
        RuntimeError: the diagonals and offsets don't go together.

    >>> spdiags(rl.tensor([[1.0, 2.0]]), rl.tensor([0]), (2, 2)).to_dense()
    tensor([[1., 0.],
            [0., 2.]])
    """
    diagonals = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    offsets = offsets.reshape(1) if offsets.dim() == 0 else offsets
    if diagonals.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.dim() != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if offsets.shape[0] != diagonals.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of "
            f"offsets ({offsets.shape[0]})"
        )
    if offsets.dtype is not rl.int64:
        raise RuntimeError(
            f"Offset Tensor must have dtype Long but got {offsets.dtype.name}"
        )
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    if layout not in (None, *_COMPRESSED[:2], layouts.sparse_coo):
        raise RuntimeError(
            "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got "
            f"{layout}"
        )
    columns = rl.arange(diagonals.shape[1], device=diagonals.device).expand(
        diagonals.shape
    )
    rows = columns - offsets.unsqueeze(1)
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    element_indices = rl.stack([rows[inside], columns[inside]])
    result = call._sparse_coo_tensor_unsafe(
        element_indices, diagonals[inside], list(shape)
    )
    return result if layout is None else result.to_sparse(layout=layout)
