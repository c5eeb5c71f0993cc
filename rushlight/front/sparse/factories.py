"""Sparse tensors made of parts that a program gives."""

import rushlight as rl
from rushlight.core import layout as layouts
from rushlight.core.dtype import by_python_type
from rushlight.core.facts import with_requires_grad
from rushlight.core.tensor import Tensor
from rushlight.operators import call
from rushlight.sparse.invariants import (
    check_compressed,
    check_coo,
    check_sparse_tensor_invariants,
)


def _values(values, dtype, device):
    if isinstance(values, Tensor):
        return values.to(device=device, dtype=dtype)
    return rl.tensor(values, dtype=dtype, device=device)


def _indices(indices, device):
    if isinstance(indices, Tensor):
        return indices.to(device=device, dtype=rl.int64)
    return rl.tensor(indices, dtype=rl.int64, device=device)


def _leaf(result, requires_grad):
    return with_requires_grad(result, requires_grad)


def _checked(wanted):
    if wanted is None:
        return check_sparse_tensor_invariants.is_enabled()
    return wanted


def sparse_coo_tensor(
    indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None, is_coalesced=None,
):  # fmt: skip
    """A sparse tensor with values at coordinates; elsewhere it is zero.

    Args:
        indices: a row of coordinates for each sparse dimension; or, alone, the sizes of a
            tensor without values.
        values: the elements at them; further dimensions are dense.
        size: the sizes; by default as large as the coordinates ask for.
        dtype: the type of the values.
        check_invariants: whether coordinates are checked against the sizes.
        is_coalesced: says that each coordinate is there once, in order.

    Raises:
        RuntimeError: parts and sizes don't go together.

    >>> sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    dtype = None if dtype is None else by_python_type(dtype)
    if indices is None and size is None:
        raise TypeError(
            "sparse_coo_tensor() received an invalid combination of arguments - got no "
            "indices and no size\n  remedy: sparse_coo_tensor(indices, values, size), or "
            "sparse_coo_tensor(size)"
        )
    if values is None:
        sizes = list(size if indices is None else indices)
        values = rl.empty(0, dtype=dtype, device=device)
        result = call._sparse_coo_tensor_unsafe(
            *(rl.empty((len(sizes), 0), dtype=rl.int64, device=device), values, sizes),
            is_coalesced=True,
        )
        return _leaf(result, requires_grad)
    values = _values(values, dtype, device)
    if device is None and not isinstance(indices, Tensor):
        device = values.device
    indices = _indices(indices, device)
    if values.dim() == 0:
        values = values.reshape(1)
    size = _sizes(indices, values) if size is None else list(size)
    _check_coo_shapes(indices, values, size)
    if _checked(check_invariants):
        check_coo(indices, values, size, is_coalesced)
    result = call._sparse_coo_tensor_unsafe(
        indices, values, size, is_coalesced=is_coalesced
    )
    return _leaf(result, requires_grad)


def _sizes(indices, values):
    """The least sizes that have room for the coordinates."""
    if indices.dim() != 2:
        raise RuntimeError(
            f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}"
        )
    if not indices.numel():
        return [0] * indices.shape[0] + list(values.shape[1:])
    lowest = call.amin(indices, [1]).tolist()
    for dim, low in enumerate(lowest):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
    highest = call.amax(indices, [1]).tolist()
    return [high + 1 for high in highest] + list(values.shape[1:])


def _check_coo_shapes(indices, values, size):
    if any(extent < 0 for extent in size):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(size)}: {size}"
        )
    count, rest = indices.shape[0] if indices.dim() else 0, values.dim() - 1
    if len(size) != count + rest:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {count}, dense_dim = {rest}"
        )
    if indices.dim() != 2:
        raise RuntimeError(
            f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}"
        )
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{indices.shape[1]}, nnz from values: {values.shape[0]}"
        )
    wanted = [values.shape[0], *size[count:]]
    if list(values.shape) != wanted:
        raise RuntimeError(
            f"values has incorrect size, expected {wanted}, got {list(values.shape)}"
        )


def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None,
    device=None, pin_memory=False, requires_grad=False, check_invariants=None,
):  # fmt: skip
    """A sparse tensor compressed by rows or columns.

    Args:
        compressed_indices: where each row, or column, begins among the values.
        plain_indices: the column, or row, of each value.
        values: the elements, or blocks of them.
        size: the sizes; by default as large as the indices ask for.
        layout: which of the four layouts.
        check_invariants: whether the indices are checked against each other.

    Raises:
        RuntimeError: no layout is given, or the parts don't go together.

    >>> sparse_compressed_tensor(
    ...     [0, 1, 2], [1, 0], [3.0, 4.0], (2, 2), layout=rl.sparse_csr
    ... ).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    if layout is None:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got none"
        )
    dtype = None if dtype is None else by_python_type(dtype)
    if layout not in _COMPRESSED:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            f"{layout}"
        )
    values = _values(values, dtype, device)
    parts = [
        part.to(device=device)
        if isinstance(part, Tensor)
        else rl.tensor(part, dtype=rl.int64, device=values.device)
        for part in (compressed_indices, plain_indices)
    ]
    _check_dimensions(*parts, values, layout)
    if size is None:
        size = _compressed_sizes(*parts, values, layout)
    size = list(size)
    if _checked(check_invariants):
        check_compressed(*parts, values, size, layout)
    _check_compressed_shapes(*parts, values, size, layout)
    result = call._sparse_compressed_tensor_unsafe(*parts, values, size, layout=layout)
    return _leaf(result, requires_grad)


_COMPRESSED = (
    layouts.sparse_csr,
    layouts.sparse_csc,
    layouts.sparse_bsr,
    layouts.sparse_bsc,
)


def _in_blocks(layout):
    return layout in (layouts.sparse_bsr, layouts.sparse_bsc)


def _by_rows(layout):
    return layout in (layouts.sparse_csr, layouts.sparse_bsr)


def _compressed_sizes(compressed, plain, values, layout):
    batch = list(compressed.shape[:-1])
    lines = compressed.shape[-1] - 1
    element_indices = int(plain.max().item()) + 1 if plain.numel() else 0
    at = len(batch) + 1
    high, wide = values.shape[at : at + 2] if _in_blocks(layout) else (1, 1)
    rest = list(values.shape[at + (2 if _in_blocks(layout) else 0) :])
    pair = (lines, element_indices) if _by_rows(layout) else (element_indices, lines)
    return [*batch, pair[0] * high, pair[1] * wide, *rest]


def _check_dimensions(compressed, plain, values, layout):
    blocks = 2 if _in_blocks(layout) else 0
    batch = compressed.dim() - 1
    if compressed.dim() and values.dim() <= batch + blocks:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities "
            f"(={batch} + {blocks}) but got {values.dim()}"
        )


def _check_compressed_shapes(compressed, plain, values, size, layout):
    if compressed.dim() < 1 or compressed.dim() != plain.dim():
        raise RuntimeError(
            "compressed_indices and plain_indices dimensionalities must be equal but got "
            f"{compressed.dim()} and {plain.dim()}, respectively"
        )
    batch = compressed.dim() - 1
    if len(size) < batch + 2:
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense "
            f"dimensionalities, but sizes are {size}"
        )
    at = batch if _by_rows(layout) else batch + 1
    high = (
        values.shape[batch + 1]
        if _in_blocks(layout) and values.dim() > batch + 2
        else 1
    )
    wide = (
        values.shape[batch + 2]
        if _in_blocks(layout) and values.dim() > batch + 2
        else 1
    )
    for d, extent in enumerate((high, wide)):
        if extent and size[batch + d] % extent:
            raise RuntimeError(
                f"tensor shape[{batch + d}] (={size[batch + d]}) must be divisible with "
                f"blocksize[{d}] (={extent}) as defined by values shape"
            )
    lines = size[at] // max(high if _by_rows(layout) else wide, 1)
    if compressed.shape[-1] != lines + 1:
        raise RuntimeError(
            f"compressed_indices.shape[-1] must be equal to the number of compressed_"
            f"indices_names + 1 (={lines + 1}), but got {compressed.shape[-1]}"
        )
    if plain.shape[-1] != values.shape[batch]:
        raise RuntimeError(
            f"plain_indices.shape[-1] must be equal to nnz (={values.shape[batch]}) as "
            f"defined by values.shape[{batch}], but got {plain.shape[-1]}"
        )


def _of_layout(layout, names):
    own = layout

    def make(
        compressed, plain, values, size=None, *, dtype=None, device=None,
        pin_memory=False, requires_grad=False, check_invariants=None, layout=layout,
    ):  # fmt: skip
        if layout is not own:
            raise RuntimeError(
                f"{own.name}_tensor: layout must be {own} but got {layout}"
            )
        return sparse_compressed_tensor(
            compressed, plain, values, size, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad, check_invariants=check_invariants,
        )  # fmt: skip

    def call_with_names(*args, **kwargs):
        renamed = {names.get(name, name): value for name, value in kwargs.items()}
        return make(*args, **renamed)

    call_with_names.__name__ = f"{layout.name}_tensor"
    call_with_names.__doc__ = f"A sparse tensor of layout {layout.name}, of its parts."
    return call_with_names


_ROWS = {"crow_indices": "compressed", "col_indices": "plain"}
_COLUMNS = {"ccol_indices": "compressed", "row_indices": "plain"}
sparse_csr_tensor = _of_layout(layouts.sparse_csr, _ROWS)
sparse_csc_tensor = _of_layout(layouts.sparse_csc, _COLUMNS)
sparse_bsr_tensor = _of_layout(layouts.sparse_bsr, _ROWS)
sparse_bsc_tensor = _of_layout(layouts.sparse_bsc, _COLUMNS)


# ---- older names of products


def hsmm(mat, mat2):
    """``mat @ mat2`` with coordinates for the rows.

    Args:
        mat: a sparse matrix.
        mat2: a dense one.

    >>> torch.hsmm(torch.eye(2).to_sparse(), torch.ones(2, 1)).layout
    rushlight.sparse_coo
    """
    return call.hspmm(mat, mat2)


def saddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """A sparse matrix plus the product of a sparse and a dense one.

    Args:
        input: a sparse matrix.
        mat1: a sparse matrix.
        mat2: a dense matrix.
        beta, alpha: factors of the first and of the product.

    >>> eye = torch.eye(2).to_sparse()
    >>> torch.saddmm(eye, eye, torch.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    return call.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


def spmm(input, mat2):
    """``input @ mat2``.

    Args:
        input: a matrix, sparse or dense.
        mat2: a matrix with as many rows as the first has columns.

    >>> torch.dsmm(torch.eye(2).to_sparse(), torch.tensor([[1.0], [2.0]]))
    tensor([[1.],
            [2.]])
    """
    return call.mm(input, mat2)


dsmm = spmm
