"""Where several index tensors and masks point: the compiled part of that."""

from __future__ import annotations

from math import prod

import cython
from cython.cimports.rushlight.core.dtype import (
    CODE_BOOL,
    CODE_INT32,
    CODE_INT64,
    CODE_UINT8,
    dtype_of,
)
from cython.cimports.rushlight.core.tensor import Tensor

from rushlight.core.warning import warn
from rushlight.operators.indexing.index_errors import outside_dimension
from rushlight.operators.indexing.indexing_kernels import combine_indices
from rushlight.operators.indexing.masks import nonzero
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    filled,
    refuse_fault,
    run,
    scalar_name,
)


@cython.cfunc
def sizes_of(x: Tensor) -> list:
    return [x.sizes[d] for d in range(x.ndim_)]


class IndexOffsets:
    """Where an advanced index points: flat places within the indexed dimensions.

    The indexed dimensions of the tensor are moved together: to where they are if they
    are neighbours, else to the front. ``order`` is that permutation, and the result has
    the sizes ``before``, ``shape``, ``after``. Values to be put there are looked at before
    any index is.
    """

    def __init__(self, x: Tensor, indices, values=None):
        tensors: dict = dict(expanded(x, indices))
        dims: list = list(tensors)
        if not dims:
            raise RuntimeError(
                "an index is a truth value without dimensions, which stands for none of "
                f"the tensor's\n  self: {brief(x)}"
            )
        sizes: list = sizes_of(x)
        self.indices = list(tensors.values())
        self.shape = broadcast([sizes_of(tensors[d]) for d in dims])
        rest = [d for d in range(x.ndim_) if d not in tensors]
        together = dims[len(dims) - 1] - dims[0] + 1 == len(dims)
        lead = rest[: dims[0]] if together else []
        tail = [d for d in rest if d not in lead]
        self.order = lead + dims + tail
        self.before = [sizes[d] for d in lead]
        self.after = [sizes[d] for d in tail]
        self.outer, self.inner = prod(self.before), prod(self.after)
        self.count = prod(self.shape)
        self.size = prod([sizes[d] for d in dims])
        if self.count and 0 in [sizes[d] for d in dims]:
            raise IndexError("index is out of bounds for dimension with size 0")
        if values is not None:
            check_values_type(x, values)
            check_values(values, self.result_shape())
        self.place = filled(x, (self.count,), 0, dtype_of(4))
        if self.outer * self.inner == 0:
            return  # as nothing is read, no index is looked at
        stride = self.size
        for d in dims:
            stride = stride // sizes[d] if sizes[d] else 0
            self.combine(tensors[d], d, sizes[d], stride)

    def combine(self, index: Tensor, dim, size, stride):
        """Adds one index tensor's share to the places."""
        flag = fault_flag(index)
        flat = index
        if not index.row_major or sizes_of(index) != self.shape:
            flat = index.expand(self.shape).contiguous()
        operands = [self.place, flat, flag]
        types = {"I": index.dtype_.name}
        run(combine_indices, operands, [size, stride], self.count, **types)
        given = IndexError, dim, size
        refuse_fault(flag, "index", outside_dimension, *given)

    def result_shape(self):
        """The sizes of what the index selects."""
        return self.before + self.shape + self.after

    def together(self, x):
        """The tensor with its indexed dimensions moved together, row-major."""
        if self.order == sorted(self.order):
            return x.contiguous()
        return x.permute(self.order).contiguous()

    def unflatten(self, x):
        """The inverse of `together`, as a view."""
        inverse = [self.order.index(d) for d in range(len(self.order))]
        return x.permute(inverse)


def check_values_type(x: Tensor, values: Tensor):
    """Refuses values of another type than the tensor that they are put into."""
    if values.dtype_ is not x.dtype_:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got"
            f" {scalar_name(x.dtype_)} for the destination and"
            f" {scalar_name(values.dtype_)}"
            f" for the source.\n  self: {brief(x)}\n  values: {brief(values)}"
        )


def check_values(values: Tensor, shape):
    """Refuses values that do not broadcast to what an index selects."""
    lead: cython.int = len(shape) - values.ndim_
    fits: cython.bint = lead >= 0
    for d in range(values.ndim_):
        if fits and values.sizes[d] != 1 and values.sizes[d] != shape[lead + d]:
            fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {sizes_of(values)} cannot be"
            f" broadcast to indexing result of shape {list(shape)}"
        )


def expanded(x: Tensor, indices):
    """Pairs of dimension and integer index tensor; masks become their coordinates."""
    dim: cython.int = 0
    position: cython.int = 0
    index: Tensor
    found: list = []
    for item in indices:
        if item is None:
            dim += 1
            position += 1
            continue
        index = item
        if index.dtype_.code == CODE_BOOL or index.dtype_.code == CODE_UINT8:
            if index.dtype_.code == CODE_UINT8:
                warn(
                    "indexing with dtype torch.uint8 is now deprecated, please use a dtype "
                    "torch.bool instead."
                )
            check_mask(x, index, position, dim)
            rows = nonzero(index)
            for column in range(index.ndim_):
                found.append((dim + column, rows.select(1, column)))
            dim += index.ndim_
        elif index.dtype_.code == CODE_INT64 or index.dtype_.code == CODE_INT32:
            check_room(x, dim)
            found.append((dim, index))
            dim += 1
        else:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors\n"
                f"  index {position}: {brief(index)}"
            )
        position += 1
    return found


def check_room(x, dim):
    """Refuses more indices than dimensions."""
    if dim >= x.dim():
        raise IndexError(
            f"too many indices for tensor of dimension {x.dim()}\n  self: {brief(x)}"
        )


def check_mask(x, mask, position, dim):
    """Refuses masks whose sizes differ from the dimensions that they stand for."""
    for k, size in enumerate(mask.shape):
        check_room(x, dim + k)
        if size != x.shape[dim + k]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {position} does not"
                f" match the shape of the indexed tensor {list(x.shape)} at index"
                f" {dim + k}"
            )


def broadcast(shapes):
    """The common shape of index tensors.

    Raises:
        IndexError: two sizes differ and neither is one.
    """
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        shift = ndim - len(shape)
        for d, size in enumerate(shape):
            if size != 1 and result[shift + d] not in (1, size):
                listed = ", ".join(map(str, shapes))
                raise IndexError(
                    "shape mismatch: indexing tensors could not be broadcast together"
                    f" with shapes {listed}"
                )
            if size != 1:
                result[shift + d] = size
    return result


def order_of_result(x, positions):
    """The dimensions of what an index selects, outermost first; None for row-major.

    Where the source lies otherwise than row-major, so does the result: dimensions with
    longer steps lie further out. Steps of zero, as the index's dimensions have in the
    source, say nothing: then the next operand is asked. Operands without elements, all of
    one shape, lie row by row whatever their steps are.
    """
    sizes = positions.result_shape()
    before, kept = len(positions.before), len(positions.shape)
    if 0 in sizes and all(size == 1 for size in positions.before + positions.after):
        return None
    steps = x.stride()
    indexed = len(positions.order) - before - len(positions.after)
    source = [steps[d] for d in positions.order]
    operands = [source[:before] + [0] * kept + source[before + indexed :]]
    for index in positions.indices:
        flat = index.expand(positions.shape)
        shape = [1] * before + list(positions.shape) + [1] * len(positions.after)
        own = flat.reshape(shape).stride()
        operands.append(
            [
                0 if shape[d] == 1 and sizes[d] != 1 else own[d]
                for d in range(len(sizes))
            ]
        )
    order = list(range(len(sizes)))[::-1]  # innermost first
    for at in range(1, len(order)):
        moved = at
        for other in range(at - 1, -1, -1):
            relation = lies_within(operands, sizes, order[other], order[moved])
            if relation > 0:
                order[other], order[moved] = order[moved], order[other]
                moved = other
            elif relation < 0:
                break
    order.reverse()
    return None if order == sorted(order) else order


def lies_within(operands, sizes, inner, outer):
    """1 where two dimensions lie the other way round, -1 where they lie so, 0 else."""
    for steps in operands:
        if steps[inner] == 0 or steps[outer] == 0:
            continue
        if steps[inner] != steps[outer]:
            return 1 if steps[inner] > steps[outer] else -1
        if sizes[inner] > sizes[outer]:
            return 1
    return 0
