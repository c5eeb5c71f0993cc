"""Matrices of which two elements of four are zero, packed, and back.

Packed are the two of each four that are left, and where they were: four bits, of which the
lower two are the place of the first and the higher ones that of the second. Four or eight
such are an integer, and integers lie in the order that CUTLASS reads them in. Of float32 one
element of two is left, whose place counts as that of two halves.
"""

import rushlight as rl

_META = {
    rl.int8: rl.int32,
    rl.float16: rl.int16,
    rl.bfloat16: rl.int16,
    rl.float32: rl.int16,
}
_ROWS = {rl.int32: 16, rl.int16: 32}


def _quads(meta_dtype):
    """How many places of two an integer holds."""
    return meta_dtype.itemsize * 2


def _calculate_meta_reordering_scatter_offsets(m, meta_ncols, meta_dtype, device):
    """Where each integer of places goes, of a matrix of them row by row."""
    rows = rl.arange(m, device=device)[:, None].repeat(1, meta_ncols)
    columns = rl.arange(meta_ncols, device=device).repeat(m, 1)
    group, woven = (32, 4) if meta_dtype.itemsize == 2 else (16, 2)
    rows = rows // group * group + rows % 8 * woven + rows % group // 8
    # the corners of squares of two by two change places
    right = (rows % 2 == 0) & (columns % 2 == 1)
    left = (rows % 2 == 1) & (columns % 2 == 0)
    change = right.to(rl.int64) - left.to(rl.int64)
    rows, columns = rows + change, columns - change
    return (columns // 2 * (2 * m) + rows * 2 + columns % 2).view(-1)


def _check_dense(dense):
    if dense.dim() != 2:
        raise RuntimeError(
            f"Expected 2-dimensional dense tensor, got {dense.dim()}-dimensional tensor"
        )
    if dense.dtype not in _META:
        raise RuntimeError(f"Invalid datatype {dense.dtype} of dense matrix")
    meta = _META[dense.dtype]
    rows, columns = dense.shape
    if rows % _ROWS[meta]:
        raise RuntimeError(
            f"Number of rows of dense matrix {rows} must be divisible by {_ROWS[meta]}"
        )
    if columns % (4 * _quads(meta)):
        raise RuntimeError(
            f"Number of columns of dense matrix {columns} must be divisible by "
            f"{4 * _quads(meta)}"
        )
    return meta


def sparse_semi_structured_from_dense_cutlass(dense):
    """What is left of a matrix, and where it was.

    Where more than two of four are not zero, some of them are left out.

    Args:
        dense: int8, float16, bfloat16 or float32 of two dimensions.

    Raises:
        RuntimeError: its type or sizes are not those that are packed.
    """
    meta_dtype = _check_dense(dense)
    m, k = dense.shape
    size = 2 if dense.dtype is rl.float32 else 4
    parts = dense.view(m, k // size, size)
    present = (parts != 0).unbind(-1)
    first, second, last = present[0], present[1], present[-1]
    if size == 2:  # an element stands for two halves
        first, second, last = present[0], present[0], present[1]
    neither, only = ~first & ~second, ~first & second
    lower = only.long() | neither.long() << 1
    higher = (first & second | neither | last).long()
    higher = higher | (only | ~second).long() << 1
    if size == 4:
        picked = rl.stack([lower, higher], -1)
        packed = parts.gather(-1, picked).view(m, k // 2)
    else:
        packed = parts.gather(-1, lower.unsqueeze(-1) // 2).view(m, k // 2)
    quads = _quads(meta_dtype)
    codes = (lower | higher << 2).view(m, -1, quads)
    shifts = 4 * rl.arange(quads, device=dense.device)
    meta = (codes << shifts).sum(-1).to(meta_dtype)
    order = _calculate_meta_reordering_scatter_offsets(
        m, meta.shape[1], meta_dtype, dense.device
    )
    laid = meta.new_empty(meta.numel()).scatter_(0, order, meta.view(-1))
    return packed, laid.view(meta.shape)


def _check_packed(sparse, meta):
    if sparse.dim() != 2:
        raise RuntimeError(
            f"Expected 2-dimensional sparse tensor, got {sparse.dim()}-dimensional tensor"
        )
    if meta.dim() != 2:
        raise RuntimeError(
            f"Expected 2-dimensional meta tensor, got {meta.dim()}-dimensional tensor"
        )
    if meta.device != sparse.device:
        raise RuntimeError(
            f"Expected meta matrix to be on {sparse.device} device, got matrix on "
            f"{meta.device} device"
        )
    if meta.dtype not in _ROWS:
        raise RuntimeError(f"Invalid datatype {meta.dtype} of meta matrix")
    (m, k), size = sparse.shape, 2 if sparse.dtype is rl.float32 else 4
    if meta.shape[0] != m:
        raise RuntimeError(
            f"Number of rows of meta matrix {meta.shape[0]} must be equal to number of "
            f"columns of sparse matrix {m}"
        )
    wanted = meta.shape[1] * size * _quads(meta.dtype)
    if wanted != 2 * k:
        raise RuntimeError(
            f"Number of columns of sparse matrix {k} different from the {wanted // 2}, "
            "expected according to the number of columns of meta matrix"
        )


def sparse_semi_structured_to_dense_cutlass(sparse, meta_reordered):
    """The matrix of what was left and where it was.

    Raises:
        RuntimeError: both do not go together.
    """
    _check_packed(sparse, meta_reordered)
    (m, k), meta = sparse.shape, meta_reordered
    order = _calculate_meta_reordering_scatter_offsets(
        m, meta.shape[1], meta.dtype, sparse.device
    )
    meta = meta.reshape(-1).gather(0, order).long().unsqueeze(-1)
    shifts = 2 * rl.arange(2 * _quads(meta_reordered.dtype), device=sparse.device)
    offsets = (meta >> shifts & 3).view(-1, 2)
    starts = 4 * rl.arange(offsets.shape[0], device=sparse.device)
    offsets = (offsets + starts[:, None]).view(-1)
    dense = sparse.new_zeros(2 * m * k)
    if sparse.dtype is rl.float32:  # as halves, of which two are an element
        halves = sparse.contiguous().view(rl.int16).view(-1)
        dense.view(rl.int16).scatter_(0, offsets, halves)
    else:
        dense.scatter_(0, offsets, sparse.reshape(-1))
    return dense.view(m, 2 * k)


def _sparse_semi_structured_tile(dense):
    """Leaves two elements in each row and column of tiles of four by four, in place.

    The largest come first; of equal ones the first.
    """
    tiles = dense.unfold(0, 4, 4).unfold(1, 4, 4)
    flat = tiles.reshape(-1, 16)
    order = flat.sort(dim=1, descending=True, stable=True).indices
    rows, columns = flat.new_zeros(2, flat.shape[0], 4, dtype=rl.int64).unbind(0)
    kept = rl.zeros_like(flat, dtype=rl.bool)
    for rank in range(16):
        place = order[:, rank : rank + 1]
        row, column = place // 4, place % 4
        fits = (rows.gather(1, row) < 2) & (columns.gather(1, column) < 2)
        rows.scatter_add_(1, row, fits.long())
        columns.scatter_add_(1, column, fits.long())
        kept.scatter_(1, place, fits)
    tiles.copy_(rl.where(kept.view(tiles.shape), tiles, 0))
    return dense


def _compute_compressed_swizzled_bitmask(dense):
    """Which elements are not zero: of tiles of eight by eight four pairs of bytes."""
    bits = (dense != 0).unfold(0, 8, 8).unfold(1, 8, 8).unfold(2, 4, 4).unfold(3, 4, 4)
    bits = bits.reshape(*bits.shape[:2], 4, 2, 8).long()
    powers = 1 << rl.arange(8, device=dense.device)
    return (bits * powers).sum(-1).to(rl.uint8)
