"""Sparse matrices compressed by rows or columns, of numbers or of blocks."""

import math

from rushlight.core import layout as layouts
from rushlight.core import sparse
from rushlight.core.dtypes import bool_, int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.tensor import Tensor
from rushlight.dispatch.keys import DispatchKey
from rushlight.operators import call as ops
from rushlight.operators.sparse import row_products
from rushlight.operators.sparse.sparse_access import (
    BY_ROWS,
    COMPRESSED,
    IN_BLOCKS,
    layout_name,
    to_sparse_coo,
)
from rushlight.operators.sparse.sparse_coo import coalesced_of, moved, numbered
from rushlight.operators.sparse.sparse_coo import empty as empty_coo


class Compressed:
    """What a compressed tensor is made of.

    Args:
        compressed: where each row, or column, begins among the values.
        plain: the column, or row, of each value.
        values: the elements or blocks.
    """

    __slots__ = ("compressed", "plain", "values")

    def __init__(self, compressed, plain, values):
        self.compressed = compressed
        self.plain = plain
        self.values = values


def made(compressed, plain, values, size, layout):
    """A compressed tensor of parts that go together."""
    return sparse.make(
        DispatchKey.SparseCsrCPU, list(size), values.dtype, values.device, layout,
        Compressed(compressed, plain, values),
    )  # fmt: skip


def parts(tensor):
    """The three parts."""
    found = sparse.parts_of(tensor)
    return found.compressed, found.plain, found.values


def like(tensor, values):
    """The same places, other values."""
    compressed, plain, _ = parts(tensor)
    return made(compressed, plain, values, tensor.shape, tensor.layout)


def of_parts(
    compressed_indices, plain_indices, values, size, dtype, layout, device, pin_memory
):
    """The parts are held as they are."""
    if dtype is not None and dtype is not values.dtype:
        values = values.to(dtype)
    return made(
        compressed_indices.detach(),
        plain_indices.detach(),
        values.detach(),
        size,
        layout,
    )


def raw_values(self):
    """The values, in the order of their places."""
    return parts(self)[2]


def with_values(self, values):
    """The places stay."""
    return like(self, values)


def lines_of(compressed, plain):
    """The row, or column, of each value."""
    return numbered(ops.diff(compressed), plain.shape[-1])


def block_of(tensor):
    """The sizes of a block; ones where there are no blocks."""
    _, plain, values = parts(tensor)
    if tensor.layout not in IN_BLOCKS:
        return 1, 1
    return tuple(values.shape[plain.ndim : plain.ndim + 2])


def _matrices(tensor):
    """The parts of each matrix of a batch, one after another."""
    compressed, plain, values = parts(tensor)
    if compressed.ndim == 1:
        return [(compressed, plain, values)]
    batch = compressed.ndim - 1
    return list(zip(*(_one_batch(part, batch) for part in parts(tensor))))


def _one_batch(part, batch):
    """The first dimensions as one, however many elements there are."""
    return part.reshape([math.prod(part.shape[:batch]), *part.shape[batch:]])


def dense_or_compressed(grad, self, masked_grad):
    """What reaches the values that are written down, or all of it if that is asked for."""
    return grad if masked_grad is False else compressed_like(grad, self)


def to_dense(self, masked_grad):
    """Each value at its place; values of one place are added, as no one has looked."""
    adds = self.dtype is not bool_
    batch = parts(self)[0].ndim - 1
    rows, columns = self.shape[batch : batch + 2]
    high, wide = block_of(self)
    found = []
    for compressed, plain, values in _matrices(self):
        lines, plain = lines_of(compressed, plain), plain.to(int64)
        down, across = (lines, plain) if self.layout in BY_ROWS else (plain, lines)
        rest = values.shape[3:] if self.layout in IN_BLOCKS else values.shape[1:]
        if self.layout not in IN_BLOCKS:
            out = ops.new_zeros(values, [rows, columns, *rest])
            found.append(ops.index_put_(out, [down, across], values, adds))
            continue
        blocks = ops.new_zeros(
            values, [rows // high, columns // wide, high, wide, *rest]
        )
        blocks = ops.index_put_(blocks, [down, across], values, adds)
        moved = blocks.transpose(1, 2).reshape([rows, columns, *rest])
        found.append(moved)
    if not batch:
        return found[0]
    return ops.stack(found).reshape(list(self.shape))


def from_dense(self, layout, blocksize, dense_dim):
    """Elements, or blocks with any, that are not zero.

    Raises:
        RuntimeError: there are no matrices, or they are not made of whole blocks.
    """
    batch = self.ndim - 2 - dense_dim
    if batch < 0:
        raise RuntimeError(
            f"to_sparse_{layout.name.removeprefix('sparse_')}: expected a tensor with "
            f"{2 + dense_dim} or more dimensions, but got {self.ndim}"
        )
    rows, columns = self.shape[batch : batch + 2]
    high, wide = (1, 1) if blocksize is None else blocksize
    if high <= 0 or wide <= 0 or rows % high or columns % wide:
        raise RuntimeError(
            f"dense_to_{layout.name}: tensor sparse size ({rows},{columns}) must be "
            f"divisible by given blocksize ({high},{wide})"
        )
    flat = _one_batch(self, batch) if batch else self.unsqueeze(0)
    found = [
        _compress(matrix, layout, blocksize, high, wide) for matrix in flat.unbind(0)
    ]
    counts = {plain.shape[0] for _, plain, _ in found}
    if len(counts) > 1:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    if not batch:
        return made(*found[0], self.shape, layout)
    lead = list(self.shape[:batch])
    joined = [ops.stack(list(each)) for each in zip(*found)]
    joined = [each.reshape([*lead, *each.shape[1:]]) for each in joined]
    return made(*joined, self.shape, layout)


def _compress(matrix, layout, blocksize, high, wide):
    rows, columns = matrix.shape[:2]
    rest = list(matrix.shape[2:])
    cells = matrix
    if blocksize is not None:
        cells = matrix.reshape([rows // high, high, columns // wide, wide, *rest])
        cells = cells.transpose(1, 2)
    kept = cells != 0
    if kept.ndim > 2:
        kept = ops.any(kept.flatten(2), -1)
    by_rows = layout in BY_ROWS
    lines, plain = ops.nonzero(kept if by_rows else kept.t()).unbind(1)
    pair = [lines, plain] if by_rows else [plain, lines]
    values = ops.index(cells, pair)
    extent = kept.shape[0 if by_rows else 1]
    return starts_of(lines, extent), plain.contiguous(), values


def starts_of(lines, extent):
    """Where each of ``extent`` rows begins, from the rows of sorted values."""
    counts = ops.bincount(lines, minlength=extent)
    return ops.cat([ops.new_zeros(counts, [1]), ops.cumsum(counts, 0)])


def sparse_mask(self, mask):
    """Elements where the mask has coordinates, whatever its values.

    Raises:
        RuntimeError: the mask is dense, or the sizes differ.
    """
    if list(self.shape) != list(mask.shape):
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(self.shape)} but mask has size {list(mask.shape)}"
        )
    if mask.layout in COMPRESSED:
        source = ops.to_dense(self)
        return compressed_like(source, mask)
    if mask.layout is not layouts.sparse_coo:
        raise RuntimeError(
            "sparse_mask() expected mask to be sparse, but it has a Strided layout"
        )
    if self.layout in COMPRESSED:
        self = to_sparse_coo(self)
    return ops._masked_by_coo(self, mask)


def compressed_like(self, mask):
    """A dense tensor's elements at a compressed one's places."""
    if mask.layout in IN_BLOCKS or parts(mask)[0].ndim > 1:
        return _blocks_like(self, mask)
    compressed, plain, _ = parts(mask)
    lines, plain = lines_of(compressed, plain), plain.to(int64)
    pair = [lines, plain] if mask.layout in BY_ROWS else [plain, lines]
    return like(mask, ops.index(self, pair))


def _blocks_like(self, mask):
    """Elements at the positions of a mask of blocks, or of a batch of masks."""
    compressed, plain, values = parts(mask)
    batch = compressed.ndim - 1
    high, wide = block_of(mask)
    rows, columns = mask.shape[batch : batch + 2]
    rest = list(mask.shape[batch + 2 :])
    split = [math.prod(self.shape[:batch]), rows // high, high, columns // wide, wide]
    cells = self.reshape([*split, *rest]).transpose(2, 3)
    found = []
    for matrix, starts, others in zip(
        cells.unbind(0),
        _one_batch(compressed, batch),
        _one_batch(plain, batch),
        strict=True,
    ):
        pair = [lines_of(starts, others), others.to(int64)]
        if mask.layout not in BY_ROWS:
            pair.reverse()
        found.append(ops.index(matrix, pair))
    taken = ops.stack(found) if found else values[:0]
    if mask.layout not in IN_BLOCKS:
        taken = taken.reshape([*taken.shape[:2], *rest])
    return like(
        mask, taken.reshape(list(values.shape[: values.ndim - len(rest)]) + rest)
    )


# ---- operators on them


def on_values(name):
    """An operator that leaves zeros alone, applied to the values."""
    function = getattr(ops, name)

    def apply(self, *args):
        return like(self, function(parts(self)[2], *args))

    apply.__name__ = name
    apply.__doc__ = f"``{name}`` of the values."
    return apply


def clone(self, memory_format):
    """All parts are copied."""
    compressed, plain, values = (part.clone() for part in parts(self))
    return made(compressed, plain, values, self.shape, self.layout)


def to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format):
    """The parts elsewhere, the values in another type."""
    kinds = None, None, dtype
    fresh = [
        moved(part, kind, device, non_blocking)
        for part, kind in zip(parts(self), kinds, strict=True)
    ]
    return made(*fresh, self.shape, self.layout)


def copy_(self, src, non_blocking):
    """The parts of another tensor of the same layout and sizes.

    Raises:
        RuntimeError: layout or sizes differ.
    """
    if self.layout is layouts.strided:
        return ops.copy_(self, ops.to_dense(src))
    if self.layout is not src.layout:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different layouts is "
            f"not supported. self layout is {layout_name(self.layout)} and src layout is "
            f"{layout_name(src.layout)}"
        )
    if list(self.shape) != list(src.shape):
        raise RuntimeError(
            "torch.copy_: expected shapes of self and src to match, but they are "
            f"{list(self.shape)} and {list(src.shape)}"
        )
    compressed, plain, values = parts(src)
    fresh = Compressed(
        *(moved(part, None, self.device, non_blocking) for part in (compressed, plain)),
        moved(values, self.dtype, self.device, non_blocking),
    )
    return sparse.put(self, list(self.shape), fresh)


def zeros_like(self, dtype, layout, device, pin_memory, memory_format):
    """The same sizes and no positions, or no coordinates where that is asked for.

    Raises:
        RuntimeError: another layout is asked for.
    """
    options = {"device": self.device if device is None else device}
    kind = self.dtype if dtype is None else dtype
    compressed, plain, values = parts(self)
    if layout is layouts.sparse_coo:
        return empty_coo(list(self.shape), kind, options["device"])
    layout = self.layout if layout is None else layout
    if (layout in IN_BLOCKS) != (self.layout in IN_BLOCKS) or layout not in COMPRESSED:
        raise RuntimeError(
            "empty_like with different sparse layout is not supported (self is "
            f"{layout_name(self.layout)} but you requested {layout_name(layout)})"
        )
    none = ops.new_empty(plain, [*plain.shape[:-1], 0], **options)
    size = [*plain.shape[:-1], 0, *values.shape[plain.ndim :]]
    empty = ops.new_empty(values, size, dtype=kind, **options)
    down = 0 if layout in BY_ROWS else 1
    lines = self.shape[compressed.ndim - 1 + down] // block_of(self)[down]
    starts = ops.new_zeros(compressed, [*compressed.shape[:-1], lines + 1], **options)
    return made(starts, none, empty, self.shape, layout)


def mul(self, other):
    """A factor for all values, or the elements that both have."""
    if not isinstance(other, Tensor):
        return like(self, parts(self)[2] * other)
    if self.layout not in COMPRESSED:
        self, other = other, self
    if other.layout not in COMPRESSED and other.ndim == 0:
        return like(self, parts(self)[2] * other)
    if other.layout is layouts.strided:
        return like(self, parts(self)[2] * parts(ops.sparse_mask(other, self))[2])
    product = ops.mul(ops.to_sparse_coo(self), ops.to_sparse_coo(other))
    blocks = {"blocksize": list(block_of(self))} if self.layout in IN_BLOCKS else {}
    return ops.to_sparse(product, layout=self.layout, **blocks)


def div(self, other):
    """A divisor for all values."""
    if isinstance(other, Tensor) and other.ndim:
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got "
            f"shape {list(other.shape)} for divisor)"
        )
    return like(self, parts(self)[2] / other)


def add(self, other, alpha):
    """Compressed and compressed: the places of both. With a dense one: dense.

    Raises:
        RuntimeError: the sizes differ, or one is a number or of blocks, or has
            coordinates.
    """
    if not isinstance(other, Tensor):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size [] "
            f"while other has size {list(self.shape)} (FYI: op2-sparse addition does not "
            "currently support broadcasting)"
        )
    if list(self.shape) != list(other.shape):
        raise RuntimeError(
            "torch.add: Expected input tensors to have the same shape, but got tensor "
            f"`self` with shape {list(self.shape)} and tensor `other` with shape "
            f"{list(other.shape)}"
        )
    if self.layout is layouts.strided:
        return self + ops.to_dense(other) * alpha
    if other.layout is layouts.strided and self.layout not in IN_BLOCKS:
        return ops.add(ops.to_dense(self), other, alpha=alpha)
    if self.layout not in COMPRESSED or other.layout not in COMPRESSED:
        raise RuntimeError(
            f"torch.add: tensors of layouts {self.layout} and {other.layout} are not "
            "added; convert one of them"
        )
    one, two = parts(self), parts(other)
    if self.layout is other.layout and all(
        a.shape == b.shape and bool(ops.equal(a, b)) for a, b in zip(one[:2], two[:2])
    ):
        return like(self, one[2] + (two[2] if alpha == 1 else two[2] * alpha))
    total = ops.add(ops.to_sparse_coo(self), ops.to_sparse_coo(other), alpha=alpha)
    blocks = {"blocksize": list(block_of(self))} if self.layout in IN_BLOCKS else {}
    return ops.to_sparse(total, layout=self.layout, **blocks)


def mm(self, mat2):
    """Compressed by dense: dense. Compressed by compressed: compressed."""
    if self.layout in COMPRESSED and mat2.layout in COMPRESSED:
        return ops._sparse_sparse_matmul(self, mat2)
    if self.layout is layouts.sparse_csr:
        compressed, plain, values = parts(self)
        fits = self.ndim == mat2.ndim == 2 and self.shape[1] == mat2.shape[0]
        if fits and row_products.serves(values, mat2):
            return row_products.weigh_rows(compressed, plain, values, mat2)
    left = ops.to_sparse_coo(self) if self.layout in COMPRESSED else self
    right = ops.to_sparse_coo(mat2) if mat2.layout in COMPRESSED else mat2
    return ops.mm(left, right).contiguous()


def addmm(self, mat1, mat2, beta, alpha):
    """A matrix plus a product with a compressed one."""
    product = mm(mat1, mat2)
    if product.layout is not layouts.strided and self.layout is layouts.strided:
        product = ops.to_dense(product)
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else ops.add(self * beta, product)


def mv(self, vec):
    """A compressed matrix by a vector.

    Raises:
        RuntimeError: they are of other dimensions.
    """
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got 1, {self.ndim}, {vec.ndim}"
        )
    return mm(self, vec.unsqueeze(1)).squeeze(1)


def total(self, dtype):
    """The sum of all values."""
    return ops.sum(parts(self)[2], dtype=dtype)


def transpose(self, dim0, dim1):
    """Rows become columns: the layout changes, the parts stay.

    Raises:
        RuntimeError: other dimensions are exchanged.
    """
    if self.ndim != 2:
        raise RuntimeError(
            "transpose(): only matrices can be transposed when compressed"
        )
    if wrap_dim(dim0, 2) == wrap_dim(dim1, 2):
        return clone(self, None)
    transposed = {
        layouts.sparse_csr: layouts.sparse_csc,
        layouts.sparse_csc: layouts.sparse_csr,
        layouts.sparse_bsr: layouts.sparse_bsc,
        layouts.sparse_bsc: layouts.sparse_bsr,
    }[self.layout]
    compressed, plain, values = parts(self)
    if self.layout in IN_BLOCKS:
        values = values.transpose(1, 2)
    return made(compressed, plain, values, [self.shape[1], self.shape[0]], transposed)


def t(self):
    """`transpose` of a matrix."""
    return transpose(self, 0, 1)


def select(self, dim, index):
    """One row or column, as a sparse vector.

    Raises:
        IndexError: there is none at the index.
        RuntimeError: it is cut out of blocks; columns of blocks by columns are not.
    """
    size = self.shape[wrap_dim(dim, self.ndim)]
    if not -size <= index < size:
        raise IndexError(
            f"index {index} is out of bounds for dimension {dim} with size {size}"
        )
    by_blocks = self.layout is layouts.sparse_bsr
    if by_blocks or self.layout is layouts.sparse_bsc and wrap_dim(dim, self.ndim) != 1:
        raise RuntimeError(
            "select(): no view exists for the given input, consider using "
            "torch.select_copy."
        )
    found = ops.select(ops.to_sparse_coo(self), dim, index)
    return coalesced_of(found) if found.layout is layouts.sparse_coo else found


def unbind(self, dim):
    """Every row or column, as sparse vectors."""
    return tuple(select(self, dim, at) for at in range(self.shape[wrap_dim(dim, 2)]))


def sampled_addmm(self, mat1, mat2, beta, alpha):
    """Only elements that the first operand has places for are computed.

    Raises:
        RuntimeError: layouts or sizes don't go together.
    """
    if self.layout is not layouts.sparse_csr:
        raise RuntimeError(
            "sampled_addmm: Expected self to be a CSR tensor, but got layout "
            f"{self.layout}"
        )
    if self.shape[-2] != mat1.shape[-2] or self.shape[-1] != mat2.shape[-1]:
        raise RuntimeError(
            "sampled_addmm: self.shape[-2:] must match the product's, but they are "
            f"{list(self.shape)} and [{mat1.shape[-2]}, {mat2.shape[-1]}]"
        )
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ("
            f"{mat1.shape[-2]}x{mat1.shape[-1]} and {mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    compressed, plain, values = parts(self)
    if compressed.ndim > 1:
        full = ops.matmul(mat1, mat2)
        batch = compressed.ndim - 1
        matrices = (_one_batch(part, batch) for part in (compressed, plain, full))
        lead = [_sampled(*each) for each in zip(*matrices)]
        products = ops.stack(lead).reshape(list(values.shape))
    else:
        lines, element_indices = lines_of(compressed, plain), plain.to(int64)
        rows = ops.index_select(mat1, 0, lines)
        products = ops.sum(rows * ops.index_select(mat2.t(), 0, element_indices), [1])
    return like(self, values * beta + products * alpha)


def _sampled(compressed, plain, full):
    return ops.index(full, [lines_of(compressed, plain), plain.to(int64)])
