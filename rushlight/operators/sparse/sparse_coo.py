"""Sparse tensors of coordinates and values: making, reading and writing them."""

from rushlight.core import layout as layouts
from rushlight.core import sparse
from rushlight.core.dtypes import bool_, int64, uint8
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.keys import DispatchKey
from rushlight.operators import call as ops


class Coo:
    """What a sparse tensor is made of.

    Args:
        indices: a row of coordinates for each sparse dimension.
        values: the elements; further dimensions are dense.
        coalesced: whether each coordinate is there once, in order.
    """

    __slots__ = ("coalesced", "indices", "values")

    def __init__(self, indices, values, coalesced):
        self.indices = indices
        self.values = values
        self.coalesced = coalesced


def is_coo(tensor):
    """Whether a tensor has coordinates and values."""
    return tensor.layout is layouts.sparse_coo


def made(indices, values, size, coalesced=False):
    """A sparse tensor of parts that go together; one element alone is in order."""
    parts = Coo(indices, values, bool(coalesced) or indices.shape[1] < 2)
    return sparse.make(
        DispatchKey.SparseCPU, list(size), values.dtype, values.device,
        layouts.sparse_coo, parts,
    )  # fmt: skip


def empty(size, dtype, device, sparse_dim=None):
    """A sparse tensor without values."""
    sparse_dim = len(size) if sparse_dim is None else sparse_dim
    indices = ops.empty([sparse_dim, 0], dtype=int64, device=device)
    values = ops.empty([0, *size[sparse_dim:]], dtype=dtype, device=device)
    return made(indices, values, size, coalesced=True)


def parts(tensor):
    """Coordinates, values, and whether they are in order."""
    found = sparse.parts_of(tensor)
    return found.indices, found.values, found.coalesced


def rows_at(indices, dims):
    """Rows of coordinates, in the order of ``dims``."""
    rows = [indices.select(0, dim) for dim in dims]
    return ops.stack(rows) if rows else indices[:0]


def up_to(count, other):
    """The numbers from 0 to ``count``, where a tensor is."""
    return ops.arange(count, device=other.device)


def numbered(counts, total=None):
    """Each number from 0, as often as its count says.

    Args:
        counts: how often.
        total: their sum where it is known: then nobody waits for the counts.
    """
    numbers = up_to(counts.shape[-1], counts)
    return ops.repeat_interleave(numbers, counts, output_size=total)


def like(self, values):
    """A sparse tensor with the same coordinates and other values."""
    indices, _, coalesced = parts(self)
    size = [*self.shape[: indices.shape[0]], *values.shape[1:]]
    return made(indices, values, size, coalesced)


# ---- making


def coo_of_parts(
    indices, values, size, dtype, layout, device, pin_memory, is_coalesced
):
    """The parts are held as they are."""
    if dtype is not None and dtype is not values.dtype:
        values = values.to(dtype)
    result = made(indices.detach(), values.detach(), size, bool(is_coalesced))
    if is_coalesced is False:
        sparse.parts_of(result).coalesced = False
    return result


def values_at(grad, indices, shape):
    """The gradient's elements at the coordinates."""
    if is_coo(grad):
        size = list(grad.shape)
        ones = ops.new_ones(parts(grad)[1], [indices.shape[1], *shape[1:]])
        mask = made(indices, ones, size)
        return ops._values(ops._masked_by_coo(grad, mask))
    return ops.index(grad, list(indices.unbind(0)))


def from_dense(self, sparse_dim):
    """The elements that are not zero; with dense dimensions, the rows that are not."""
    if sparse_dim == 0:
        stored = bool(ops.any(self != 0))  # a number that is zero is not written down
        indices = ops.new_empty(self, [0, int(stored)], dtype=int64)
        return made(indices, self.unsqueeze(0)[: int(stored)].clone(), self.shape, True)
    rows = self != 0
    if sparse_dim < self.ndim:
        rows = ops.any(rows.flatten(sparse_dim), -1)
        cells = ops.nonzero(rows)  # row by row, the steps of one row included
        cells = cells.clone(memory_format=contiguous_format)
    else:
        cells = ops.nonzero(rows)
    indices = cells.t().contiguous()
    values = ops.index(self, list(indices.unbind(0)))
    return made(indices, values, self.shape, True)


# ---- reading


def raw_indices(self):
    """The coordinates, whatever their order."""
    return parts(self)[0]


def raw_values(self):
    """The values, in the order of the coordinates."""
    return parts(self)[1]


def to_dense(self, masked_grad):
    """Values of one coordinate are added."""
    indices, values, _ = parts(self)
    result = ops.zeros(list(self.shape), dtype=self.dtype, device=self.device)
    if not values.numel():
        return result
    if not indices.shape[0]:
        return values.sum([0]).to(self.dtype) if values.shape[0] else result
    if self.dtype is bool_:
        return ops.index_put_(result, list(indices.unbind(0)), values)
    return ops.index_put_(result, list(indices.unbind(0)), values, True)


def dense_gradient(grad, self, masked_grad):
    """What reaches the values that are there, or all of it where that is asked for."""
    return grad if masked_grad is False else ops.sparse_mask(grad, coalesced_of(self))


def coalesced_of(tensor):
    """The tensor in order."""
    if is_coo(tensor) and not parts(tensor)[2]:
        return ops._coalesce(tensor)
    return tensor


def flat_positions(indices, sizes):
    """One number for each coordinate, in the order of the elements."""
    place = ops.new_zeros(indices, [indices.shape[1]])
    for row, size in zip(indices.unbind(0), sizes):
        place = place * size + row
    return place


def coordinates(cells, sizes):
    """The inverse of `flat_positions`."""
    rows = []
    for size in reversed(list(sizes)):
        rows.append(ops.remainder(cells, max(size, 1)))
        cells = ops.floor_divide(cells, max(size, 1))
    if not rows:
        return ops.new_empty(cells, [0, cells.shape[0]])
    return ops.stack(rows[::-1])


def _none_counted(indices, values, done):
    """On `meta` nobody knows how many coordinates are left: none are, as on PyTorch."""
    return indices[:, :0], values[:0], True


_counted = KernelTable(cpu=lambda *given: given, meta=_none_counted)


def coalesced(self):
    """Coordinates are sorted, and the values of each are added."""
    indices, values, done = _counted(*parts(self))
    if done:
        return made(indices, values, self.shape, True)
    sizes = self.shape[: indices.shape[0]]
    if values.shape[0] < 2:
        return made(indices.clone(), values.clone(), self.shape, True)
    cells, order = ops.sort(flat_positions(indices, sizes))
    values = ops.index_select(values, 0, order)
    fresh = ops.cat([ops.ones_like(cells[:1], dtype=bool_), ops.diff(cells) != 0])
    group = ops.cumsum(fresh.to(int64), 0) - 1
    distinct = ops.masked_select(cells, fresh)
    count = distinct.shape[0]
    if count < values.shape[0]:
        values = _sum_groups(values, group, count)
    return made(coordinates(distinct, sizes), values, self.shape, True)


def _sum_groups(values, group, count):
    shape = [count, *values.shape[1:]]
    if values.dtype is bool_:
        total = ops.new_zeros(values, shape, dtype=uint8)
        return total.index_add(0, group, values.to(uint8)) != 0
    return ops.new_zeros(values, shape).index_add(0, group, values)


def masked(self, mask):
    """Elements that a sparse tensor lacks are zero."""
    indices, values, done = parts(mask)
    if not is_coo(self):
        if not indices.shape[0]:
            taken = self.unsqueeze(0).expand([values.shape[0], *self.shape]).clone()
        else:
            taken = ops.index(self, list(indices.unbind(0)))
        return made(indices, taken, mask.shape, done)
    own_indices, own_values, _ = parts(coalesced(self))
    sizes = mask.shape[: indices.shape[0]]
    wanted = flat_positions(indices, sizes)
    present = flat_positions(own_indices, sizes)
    shape = [wanted.shape[0], *own_values.shape[1:]]
    if not present.shape[0]:
        return made(indices, ops.new_zeros(own_values, shape), mask.shape, done)
    at = ops.clamp(ops.searchsorted(present, wanted), 0, present.shape[0] - 1)
    found = ops.index_select(present, 0, at) == wanted
    taken = ops.index_select(own_values, 0, at)
    found = found.reshape([-1, *[1] * (taken.ndim - 1)])
    return made(indices, ops.where(found, taken, 0).to(taken.dtype), mask.shape, done)


def strided_layout():
    """The layout of dense tensors."""
    return layouts.strided


# ---- copies


def copy_(self, src, non_blocking):
    """Takes the coordinates and values of another sparse tensor.

    Raises:
        RuntimeError: one of the two is dense, or the sizes differ.
    """
    if not is_coo(self) or not is_coo(src):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self "
            f"type = {self.type()} and src type = {src.type()}"
        )
    if list(self.shape) != list(src.shape):
        raise RuntimeError(
            f"copy_() of sparse tensors needs equal sizes, but got {list(self.shape)} "
            f"and {list(src.shape)}"
        )
    indices, values, done = parts(src)
    fresh = Coo(
        moved(indices, None, self.device, non_blocking),
        moved(values, self.dtype, self.device, non_blocking),
        done,
    )
    return sparse.put(self, list(self.shape), fresh)


def to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format):
    """The parts elsewhere, the values in another type."""
    indices, values, done = parts(self)
    values = moved(values, dtype, device, non_blocking)
    *found, done = _counted(moved(indices, None, device, non_blocking), values, done)
    return made(*found, self.shape, done)


def moved(part, dtype, device, non_blocking=False):
    """A copy of a part, in another type and elsewhere where those are told."""
    kind = part.dtype if dtype is None else dtype
    target = part.device if device is None else device
    return part.to(target, kind, non_blocking=non_blocking, copy=True)


def empty_like(self, dtype, layout, device, pin_memory, memory_format):
    """No values, the same sizes; dense where that is asked for."""
    kind = self.dtype if dtype is None else dtype
    target = self.device if device is None else device
    if layout is None or layout is self.layout:
        return empty(list(self.shape), kind, target, parts(self)[0].shape[0])
    return ops.empty(list(self.shape), dtype=kind, layout=layout, device=target)


def zeros_like(self, *options):
    """No values, the same sizes; zeros where a dense tensor is asked for."""
    made = empty_like(self, *options)
    return made.zero_() if made.layout is layouts.strided else made


def new_empty(self, size, dtype, layout, device, pin_memory):
    """No values, other sizes."""
    target = self.device if device is None else device
    return empty(list(size), self.dtype if dtype is None else dtype, target)


def zero_(self):
    """All values go."""
    indices, values, _ = parts(self)
    fresh = parts(empty(list(self.shape), self.dtype, self.device, indices.shape[0]))
    return sparse.put(self, list(self.shape), Coo(*fresh))


# ---- sizes


def resize_(self, size, sparse_dim, dense_dim):
    """Values stay where they are; a tensor that has any is not made smaller.

    Raises:
        RuntimeError: the dimensions don't add up, or values would be lost.
    """
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    indices, values, done = parts(self)
    if values.shape[0]:
        for name, mine, new in (
            ("sparse", indices.shape[0], sparse_dim),
            ("dense", values.ndim - 1, dense_dim),
        ):
            if mine != new:
                raise RuntimeError(
                    f"changing the number of {name} dimensions (from {mine} to {new}) on "
                    "a non-empty sparse tensor is not supported."
                )
        for name, mine, new in (
            ("sparse", self.shape[:sparse_dim], size[:sparse_dim]),
            ("dense", self.shape[sparse_dim:], size[sparse_dim:]),
        ):
            if any(b < a for a, b in zip(mine, new)):
                raise RuntimeError(
                    f"shrinking the size of {name} dimensions (from {list(mine)} to "
                    f"{list(new)}) on a non-empty sparse tensor is not supported."
                )
    else:
        return resize_and_clear_(self, size, sparse_dim, dense_dim)
    if list(values.shape[1:]) != list(size[sparse_dim:]):
        grown = ops.new_zeros(values, [values.shape[0], *size[sparse_dim:]])
        inside = tuple(slice(0, extent) for extent in values.shape)
        grown[inside] = values
        values = grown
    return sparse.put(self, list(size), Coo(indices, values, done))


def resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Other sizes, and no values.

    Raises:
        RuntimeError: the dimensions don't add up.
    """
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    fresh = parts(empty(list(size), self.dtype, self.device, sparse_dim))
    return sparse.put(self, list(size), Coo(*fresh))


def resize_as_(self, the_template):
    """The sizes of another sparse tensor."""
    if not is_coo(self) or not is_coo(the_template):
        raise RuntimeError(
            f"resize_as_sparse_: expected sparse tensors, but they are {self.layout} and "
            f"{the_template.layout}"
        )
    indices, values, _ = parts(the_template)
    return resize_(self, list(the_template.shape), indices.shape[0], values.ndim - 1)


def set_coalesced(self, coalesced):
    """Taken on trust."""
    sparse.parts_of(self).coalesced = bool(coalesced)
    return self


# ---- rearranging


def transpose(self, dim0, dim1):
    """Rows of coordinates, or dense dimensions, change places.

    Raises:
        RuntimeError: a sparse dimension would become a dense one.
    """
    ndim = self.ndim
    dim0, dim1 = wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)
    order = list(range(ndim))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(self, order)


def t(self):
    """The two dimensions change places.

    Raises:
        RuntimeError: there are more.
    """
    if self.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is "
            f"{self.ndim}D"
        )
    return transpose(self, 0, 1) if self.ndim == 2 else ops.clone(self)


def permute(self, dims):
    """Sparse and dense dimensions each in another order.

    Raises:
        RuntimeError: a sparse dimension would become a dense one.
    """
    indices, values, done = parts(self)
    count = indices.shape[0]
    order = [wrap_dim(dim, self.ndim) for dim in dims]
    if len(set(order)) < len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if len(order) != self.ndim:
        raise RuntimeError(
            "permute(sparse): number of dimensions in the tensor input does not match "
            "the length of the desired ordering of dimensions i.e. input.dim() = "
            f"{self.ndim} is not equal to len(dims) = {len(dims)}"
        )
    if any(dim >= count for dim in order[:count]):
        raise RuntimeError(
            "transpose(): can't transpose sparse and dense dimensions of a sparse tensor"
        )
    if order == list(range(self.ndim)):
        return made(indices, values, self.shape, done)
    rows = rows_at(indices, order[:count])
    moved = values.permute([0, *(dim - count + 1 for dim in order[count:])])
    in_order = done and order[:count] == list(range(count))
    return made(rows, moved, [self.shape[dim] for dim in order], in_order)


def unsqueeze(self, dim):
    """A dimension of size one, sparse among the sparse ones."""
    indices, values, done = parts(self)
    dim = wrap_dim(dim, self.ndim + 1)
    size = [*self.shape[:dim], 1, *self.shape[dim:]]
    if dim <= indices.shape[0]:
        zeros = ops.new_zeros(indices, [1, indices.shape[1]])
        indices = ops.cat([indices[:dim], zeros, indices[dim:]])
    else:
        values = values.unsqueeze(dim - indices.shape[0] + 1)
    return made(indices, values, size)


def select(self, dim, index):
    """One position along a dimension; of a vector, its element."""
    indices, values, done = parts(self)
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size "
            f"{list(self.shape)} at dimension {dim}"
        )
    index %= size
    rest = [*self.shape[:dim], *self.shape[dim + 1 :]]
    count = indices.shape[0]
    if dim >= count:
        return made(indices, values.select(dim - count + 1, index), rest, done)
    hit = ops.nonzero(indices[dim] == index).reshape([-1])
    values = ops.index_select(values, 0, hit)
    if count == 1:
        return values.sum([0]).to(values.dtype)
    kept = [row for row in range(count) if row != dim]
    rows = rows_at(indices, kept)
    return made(ops.index_select(rows, 1, hit), values, rest)


def unbind(self, dim):
    """Every position along a dimension."""
    return tuple(
        select(self, dim, at) for at in range(self.shape[wrap_dim(dim, self.ndim)])
    )


def index_select(self, dim, index):
    """Positions along a dimension, in the order of an index."""
    indices, values, _ = parts(self)
    dim = wrap_dim(dim, self.ndim)
    if (
        index.ndim != 1
        or index.layout is not layouts.strided
        or index.dtype is not int64
    ):
        raise IndexError(
            "index_select() argument index must be 1-D strided (non-sparse) long-tensor."
        )
    size = [*self.shape]
    extent, size[dim] = size[dim], index.shape[0]
    if (
        index.numel()
        and not -extent <= index.min().item() <= index.max().item() < extent
    ):
        raise IndexError("index_select(): index contains an index that is out of range")
    index = ops.where(index < 0, index + extent, index)
    count = indices.shape[0]
    if dim >= count:
        picked = ops.index_select(values, dim - count + 1, index)
        return made(indices, picked, size, parts(self)[2])
    pairs = ops.nonzero(indices[dim].unsqueeze(0) == index.unsqueeze(1))
    to, source = pairs[:, 0], pairs[:, 1]
    rows = ops.index_select(indices, 1, source)
    rows = ops.cat([rows[:dim], to.unsqueeze(0), rows[dim + 1 :]])
    return made(rows, ops.index_select(values, 0, source), size)


def narrow_copy(self, dim, start, length):
    """A stretch along a dimension.

    Raises:
        RuntimeError: there is no such dimension or stretch.
    """
    if not -self.ndim <= dim < self.ndim:
        wanted = f"Expecting 0 <= dim < {self.ndim}."
        raise RuntimeError(f"Dimension {dim} out of range. {wanted}")
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim]
    start = start + size if start < 0 else start
    if start < 0 or start + length > size or length < 0:
        raise RuntimeError(
            "Invalid range to narrow. range(start, start+length) must be a subset of "
            f"range(0, {size}).\n  start: {start}, length: {length}"
        )
    wanted = up_to(length, parts(self)[0]) + start
    result = index_select(self, dim, wanted)
    sparse.parts_of(result).coalesced = parts(self)[2]
    return result


def cat(tensors, dim):
    """The tensors' coordinates one after another, moved along a sparse dimension.

    Raises:
        RuntimeError: a tensor is dense, or sizes or dimensions differ.
    """
    first = tensors[0]
    dim = wrap_dim(dim, first.ndim)
    for place, tensor in enumerate(tensors):
        if not is_coo(tensor):
            raise RuntimeError(
                "Concatenating sparse tensors, but a dense tensor was found at position "
                f"{place}."
            )
    count = parts(first)[0].shape[0]
    for place, tensor in enumerate(tensors):
        own = parts(tensor)
        if own[0].shape[0] != count:
            raise RuntimeError(
                "All tensors must have the same number of sparse dimensions, but the one "
                f"at position {place} has {own[0].shape[0]}, not {count}"
            )
        for d in range(first.ndim):
            if d != dim and tensor.shape[d] != first.shape[d]:
                raise RuntimeError(
                    f"Concatenating tensors of sizes {list(first.shape)} and "
                    f"{list(tensor.shape)} along dimension {dim}: they differ in "
                    f"dimension {d}"
                )
    size = [*first.shape]
    size[dim] = sum(tensor.shape[dim] for tensor in tensors)
    before, all_indices, all_values = 0, [], []
    for tensor in tensors:
        indices, values, _ = parts(tensor)
        if dim < count:
            moved = [row + before if d == dim else row for d, row in enumerate(indices)]
            indices = ops.stack(moved) if moved else indices
        else:
            gap = [*values.shape[:1], *size[count:]]
            wide = ops.new_zeros(values, gap)
            ops.narrow(wide, dim - count + 1, before, tensor.shape[dim]).copy_(values)
            values = wide
        all_indices.append(indices)
        all_values.append(values)
        before += tensor.shape[dim]
    return made(ops.cat(all_indices, 1), ops.cat(all_values), size)
