"""Masked tensors of sparse layouts: data and mask have the same indices."""

import rushlight as rl
from rushlight.masked import _sparse


def values_of(x):
    """The elements that a tensor has: all of a dense one."""
    return x if x.layout is rl.strided else x.values()


def indices_of(x):
    """Where the elements of a sparse tensor are."""
    if x.layout is rl.sparse_coo:
        return (x.indices(),)
    return x.crow_indices(), x.col_indices()


def with_values(x, values):
    """Other elements at the same places; values themselves where ``x`` is dense."""
    if x.layout is rl.strided:
        return values
    if x.layout is rl.sparse_coo:
        made = rl.sparse_coo_tensor(x.indices(), values, x.shape)
        return made._coalesced_(True)
    return rl.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape)


def same(one, other):
    """Whether two masks have the same layout, indices and elements."""
    if one.layout is not other.layout:
        return False
    pairs = [(values_of(one), values_of(other))]
    if one.layout is not rl.strided:
        pairs += zip(indices_of(one), indices_of(other))
    return all(rl.equal(a, b) for a, b in pairs)


def prepared(data, mask):
    """Data and mask with the same indices: of a sparse mask's.

    Raises:
        ValueError: the data has as many elements, but others.
    """
    if data.layout is rl.strided:
        return data, mask
    coo = data.layout is rl.sparse_coo
    if coo:
        data, mask = data.coalesce(), mask.coalesce()
    if data._nnz() != mask._nnz():
        data = _sparse.where(mask, data, rl.zeros((), dtype=data.dtype))
    if not all(map(rl.equal, indices_of(data), indices_of(mask))):
        if coo:
            raise ValueError(
                "data and mask are both sparse COO tensors but do not have the same "
                "indices."
            )
        raise ValueError(
            "data and mask are both sparse CSR tensors but do not share either crow or "
            "col indices."
        )
    return data, mask


def converted(data, mask, layout):
    """Data and mask in another layout; what does not count is left out of a sparse one."""
    if data.layout is layout:
        return data, mask
    if layout is rl.strided:
        return data.to_dense(), mask.to_dense()
    if data.layout is rl.strided:
        mask = mask.to_sparse()
        data = data.sparse_mask(mask)
    else:
        data, mask = data.to_sparse_coo().coalesce(), mask.to_sparse_coo().coalesce()
    if layout is rl.sparse_csr:
        data, mask = data.to_sparse_csr(), mask.to_sparse_csr()
    return data, mask


def flat_index(x, at):
    """The index, in the dense tensor, of an element of a sparse one."""
    indices = _coordinates(x)[:, at.long()]
    found = rl.zeros((), dtype=rl.int64)
    for place, size in zip(indices, x.shape):
        found = found * size + place
    return found


def _coordinates(x):
    return x.to_sparse_coo().coalesce().indices()
