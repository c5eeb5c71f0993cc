"""What one asks of a tensor's layout, and conversions between layouts."""

from rushlight.core import layout as layouts
from rushlight.core import sparse
from rushlight.core.dtype import get_default_dtype
from rushlight.core.dtypes import int64
from rushlight.core.state import is_grad_enabled
from rushlight.operators import call as ops
from rushlight.operators.sparse import sparse_coo

_NAMES = {
    layouts.strided: "Strided",
    layouts.sparse_coo: "Sparse",
    layouts.sparse_csr: "SparseCsr",
    layouts.sparse_csc: "SparseCsc",
    layouts.sparse_bsr: "SparseBsr",
    layouts.sparse_bsc: "SparseBsc",
}
BY_ROWS = (layouts.sparse_csr, layouts.sparse_bsr)
BY_COLUMNS = (layouts.sparse_csc, layouts.sparse_bsc)
IN_BLOCKS = (layouts.sparse_bsr, layouts.sparse_bsc)
COMPRESSED = (*BY_ROWS, *BY_COLUMNS)


def layout_name(layout):
    """The name of a layout, as messages have it."""
    return _NAMES.get(layout, str(layout))


def _refuse(name, wanted, self):
    raise RuntimeError(
        f"{name} expected {wanted} layout but got {_NAMES.get(self.layout, self.layout)}"
    )


def _coo_only(name, self):
    if self.layout is not layouts.sparse_coo:
        _refuse(name, "sparse coordinate tensor", self)


# ---- parts


def indices(self):
    """The coordinates of a tensor that has each once.

    Raises:
        RuntimeError: the layout is another, or the tensor is not coalesced.
    """
    _coo_only("indices", self)
    if not sparse.parts_of(self).coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
        )
    return ops._indices(self)


def values(self):
    """The values of a tensor that has each coordinate once.

    Raises:
        RuntimeError: the tensor is dense, or not coalesced.
    """
    if self.layout in COMPRESSED:
        return ops._compressed_values(self)
    if self.layout is not layouts.sparse_coo:
        _refuse("values", "sparse tensor", self)
    if not sparse.parts_of(self).coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
        )
    return ops._values(self)


def _part(name, which, allowed, what):
    def read(self):
        if self.layout not in allowed:
            _refuse(name, f"sparse {what} compressed tensor", self)
        return getattr(sparse.parts_of(self), which)

    read.__doc__ = f"The {name.replace('_', ' ')} of a tensor compressed by {what}s."
    return read


crow_indices = _part("crow_indices", "compressed", BY_ROWS, "row")
col_indices = _part("col_indices", "plain", BY_ROWS, "row")
ccol_indices = _part("ccol_indices", "compressed", BY_COLUMNS, "column")
row_indices = _part("row_indices", "plain", BY_COLUMNS, "column")


def _copied(read):
    def copy(self):
        return read(self).clone()

    if read.__doc__ is not None:  # python -OO leaves docstrings out
        copy.__doc__ = f"{read.__doc__[:-1]}, copied."
    return copy


indices_copy, values_copy = _copied(indices), _copied(values)
crow_indices_copy, col_indices_copy = _copied(crow_indices), _copied(col_indices)
ccol_indices_copy, row_indices_copy = _copied(ccol_indices), _copied(row_indices)


def sparse_dim(self):
    """Dense tensors have none."""
    if self.layout is layouts.strided:
        return 0
    found = sparse.parts_of(self)
    return 2 if self.layout in COMPRESSED else found.indices.shape[0]


def dense_dim(self):
    """Dense tensors have nothing else."""
    if self.layout is layouts.strided:
        return self.ndim
    found = sparse.parts_of(self)
    if self.layout in COMPRESSED:
        return _dense_dim(found, self.layout)
    return found.values.ndim - 1


def _dense_dim(found, layout):
    blocks = 2 if layout in IN_BLOCKS else 0
    return found.values.ndim - found.plain.ndim - blocks


def nnz(self):
    """How many coordinates there are.

    Raises:
        RuntimeError: the tensor is dense.
    """
    if self.layout is layouts.strided:
        _refuse("_nnz", "sparse tensor", self)
    found = sparse.parts_of(self)
    if self.layout in COMPRESSED:
        return found.plain.shape[-1]
    return found.values.shape[0]


def is_coalesced(self):
    """Whether each coordinate is there once."""
    _coo_only("is_coalesced", self)
    return sparse.parts_of(self).coalesced


def coalesce(self):
    """Itself where it is in order."""
    _coo_only("coalesce", self)
    return self if sparse.parts_of(self).coalesced else ops._coalesce(self)


# ---- conversions


def to_dense(self, dtype, masked_grad):
    """Dense tensors are returned as they are.

    Raises:
        RuntimeError: a sparse tensor is to be of another type.
    """
    if self.layout is layouts.strided:
        return self if dtype is None else self.to(dtype)
    if dtype is not None:
        kind = "sparse_csr" if self.layout in COMPRESSED else "sparse"
        raise RuntimeError(f"dtype argument is not supported by {kind}_to_dense")
    if self.layout in COMPRESSED:
        result = ops._compressed_to_dense(self, masked_grad)
    else:
        result = ops._coo_to_dense(self, masked_grad)
    return result


def to_sparse(self, layout, blocksize, dense_dim):
    """In the layout asked for; coordinates where none is.

    Raises:
        RuntimeError: what is asked for doesn't go with the layout.
    """
    layout = layouts.sparse_coo if layout is None else layout
    if layout is layouts.strided and self.layout is layout:
        return self
    if layout not in _NAMES or layout is layouts.strided:
        raise RuntimeError(
            f"to_sparse: conversion from {_NAMES[self.layout]} to {layout} layout is not "
            "supported"
        )
    if (blocksize is not None) != (layout in IN_BLOCKS):
        raise RuntimeError(
            f"{_verb(self)}: conversion from {_NAMES[self.layout]} to {_NAMES[layout]} "
            + (
                "without blocksize argument given is not supported"
                if blocksize is None
                else "with blocksize argument given is not supported"
            )
        )
    if layout is layouts.sparse_coo:
        if self.layout is layouts.sparse_coo:
            return self
        if self.layout in COMPRESSED:
            return _coo_of_compressed(self)
        count = self.ndim - (dense_dim or 0)
        return to_sparse_of_dim(self, count)
    _refuse_complex_gradient(f"_to_{layout.name}", self)
    if self.layout is layout and blocksize is None:
        return self
    if self.layout in IN_BLOCKS and layout in IN_BLOCKS:
        _refuse_other_blocks(self, layout, blocksize)
    elif self.layout in IN_BLOCKS:
        raise RuntimeError(
            f"sparse_compressed_to_{layout.name}: expected SparseCsr or SparseCsc layout "
            f"but got {_NAMES[self.layout]}"
        )
    dense = dense_dim or 0
    source = self
    if self.layout is not layouts.strided:
        dense = globals()["dense_dim"](self)
        if self.ndim - dense == 2 and self.layout not in IN_BLOCKS:
            pairs = self if self.layout is layouts.sparse_coo else to_sparse_coo(self)
            return _compressed_of_coo(pairs, layout, blocksize)
        source = to_dense(self, None, None)
    return ops._compressed_from_dense(source, layout, blocksize, dense)


def _refuse_other_blocks(self, layout, blocksize):
    found = sparse.parts_of(self)
    at = found.plain.ndim
    own = list(found.values.shape[at : at + 2])
    if own != list(blocksize):
        raise RuntimeError(
            f"to_{layout.name}: conversion from {_NAMES[self.layout]} to {_NAMES[layout]} "
            f"with blocksize changed from {own} to {list(blocksize)} is not supported"
        )


def _refuse_complex_gradient(name, self):
    """Refuses complex numbers where a gradient is wanted of them."""
    if self.is_complex() and self.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"{name} does not support automatic differentiation for outputs with complex "
            "dtype."
        )


def _compressed_of_coo(self, layout, blocksize):
    """Every place that is written down, those of zeros too.

    Raises:
        RuntimeError: the matrix is not made of whole blocks.
    """
    rows, columns = self.shape[:2]
    high, wide = blocksize or (1, 1)
    if high <= 0 or wide <= 0 or rows % high or columns % wide:
        raise RuntimeError(
            f"coo_to_{layout.name}: tensor sparse size ({rows},{columns}) must be "
            f"divisible by given blocksize ({high},{wide})"
        )
    self = sparse_coo.coalesced_of(self)
    (row, column), found = indices(self).unbind(0), values(self)
    down, across = row // high, column // wide
    lines, others = rows // high, columns // wide
    if layout in BY_COLUMNS:
        down, across, lines, others = across, down, others, lines
    keys = down * max(others, 1) + across
    if blocksize is None:
        keys, order = ops.sort(keys)
        found = ops.index_select(found, 0, order)
    else:
        keys, at = ops._unique2(keys, True, True, False)[:2]
        empty = ops.new_zeros(found, [keys.shape[0], high, wide, *found.shape[1:]])
        found = ops.index_put(empty, [at, row % high, column % wide], found)
    counts = ops.bincount(keys // max(others, 1), minlength=lines)
    ends = ops.cat([ops.zeros_like(counts[:1]), ops.cumsum(counts, 0)])
    if not lines:
        ends = ops.new_zeros(keys, [1])
    return ops._sparse_compressed_tensor_unsafe(
        ends, keys % max(others, 1), found, list(self.shape), layout=layout
    )


def _verb(self):
    return "dense_to_sparse" if self.layout is layouts.strided else "to_sparse"


def _coo_of_compressed(self):
    found = sparse.parts_of(self)
    if found.plain.ndim > 1:
        return to_sparse_of_dim(
            to_dense(self, None, None), self.ndim - _dense_dim(found, self.layout)
        )
    lines = sparse_coo.numbered(ops.diff(found.compressed), found.plain.shape[-1])
    plain = found.plain.to(lines.dtype)
    pair = [lines, plain] if self.layout in BY_ROWS else [plain, lines]
    inner, size = values(self), list(self.shape)
    if self.layout in IN_BLOCKS:  # every place of a block, in the order of blocks
        shape, rest = inner.shape[:3], inner.shape[3:]
        pair = [
            (
                start.reshape([-1, 1, 1]) * extent
                + sparse_coo.up_to(extent, start).reshape(along)
            )
            .expand(shape)
            .reshape([-1])
            for start, extent, along in zip(pair, shape[1:], ([-1, 1], [1, -1]))
        ]
        inner = inner.reshape([pair[0].shape[0], *rest])
        blocks = ops._sparse_coo_tensor_unsafe(ops.stack(pair), inner, size)
        return sparse_coo.coalesced_of(blocks) if self.layout in BY_ROWS else blocks
    in_order = True if self.layout in BY_ROWS else None
    return ops._sparse_coo_tensor_unsafe(
        ops.stack(pair), inner, size, is_coalesced=in_order
    )


def to_sparse_of_dim(self, sparse_dim):
    """Coordinates for the first dimensions; the others are dense.

    Raises:
        RuntimeError: there are not so many.
    """
    if self.layout is layouts.sparse_coo:
        if sparse_dim != globals()["sparse_dim"](self):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument "
                "!=self.sparse_dim() is not supported"
            )
        return self
    if self.layout in COMPRESSED:
        if sparse_dim != 2:
            raise RuntimeError(
                f"sparse_compressed_to_sparse: conversion from {_NAMES[self.layout]} to "
                "Sparse with sparse_dim argument !=2 is not supported"
            )
        return _coo_of_compressed(self)
    _refuse_complex_gradient("_to_sparse", self)
    if self.ndim and sparse_dim == 0:
        raise RuntimeError(
            "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0"
        )
    if not 0 <= sparse_dim <= self.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.ndim}] range, but "
            f"{sparse_dim} is given"
        )
    return ops._coo_from_dense(self, sparse_dim)


def to_sparse_coo(self):
    """Coordinates for all dimensions."""
    return to_sparse(self, layouts.sparse_coo, None, None)


def to_sparse_csr(self, dense_dim):
    """Rows of values."""
    return to_sparse(self, layouts.sparse_csr, None, dense_dim)


def to_sparse_csc(self, dense_dim):
    """Columns of values."""
    return to_sparse(self, layouts.sparse_csc, None, dense_dim)


def to_sparse_bsr(self, blocksize, dense_dim):
    """Rows of blocks."""
    return to_sparse(self, layouts.sparse_bsr, _pair(self, blocksize, "bsr"), dense_dim)


def to_sparse_bsc(self, blocksize, dense_dim):
    """Columns of blocks."""
    return to_sparse(self, layouts.sparse_bsc, _pair(self, blocksize, "bsc"), dense_dim)


def _pair(self, blocksize, layout):
    if len(blocksize) != 2:
        raise RuntimeError(
            f"{_verb(self)}_{layout}: blocksize needs to be a tuple of size 2, but got "
            f"{len(blocksize)}"
        )
    return list(blocksize)


def masked_like(self, mask):
    """A gradient at the places of what it belongs to."""
    if mask.layout is layouts.sparse_coo:
        if self.layout in COMPRESSED:
            self = to_sparse_coo(self)
        return ops.sparse_mask(self, sparse_coo.coalesced_of(mask))
    return ops.sparse_mask(self, mask)


def smm(self, mat2):
    """A product that is written down as a sparse matrix.

    Raises:
        RuntimeError: they are no matrices.
    """
    if self.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            f"smm: matrices expected, got {self.ndim}D and {mat2.ndim}D tensors"
        )
    none = sparse_coo.empty([self.shape[0], mat2.shape[1]], mat2.dtype, mat2.device)
    return ops.sspaddmm(none, self, mat2)


def empty_in_layout(size, dtype, layout, device):
    """A tensor without values.

    Raises:
        RuntimeError: the layout needs blocks, or more dimensions.
    """
    dtype = get_default_dtype() if dtype is None else dtype
    if layout is layouts.sparse_coo:
        return sparse_coo.empty(size, dtype, device)
    if layout not in COMPRESSED or layout in IN_BLOCKS:
        raise RuntimeError(
            "empty: expected a layout of sparse_coo, sparse_csr or sparse_csc, but got "
            f"{layout}"
        )
    if len(size) < 2:
        raise RuntimeError(
            "torch.empty: Only batched sparse compressed (non-block) tensors are "
            f"supported, but got size {size}"
        )
    batch, lines = size[:-2], size[-2] if layout in BY_ROWS else size[-1]
    whole = int64
    return ops._sparse_compressed_tensor_unsafe(
        ops.zeros([*batch, lines + 1], dtype=whole, device=device),
        ops.empty([*batch, 0], dtype=whole, device=device),
        ops.empty([*batch, 0], dtype=dtype, device=device),
        size,
        layout=layout,
    )
