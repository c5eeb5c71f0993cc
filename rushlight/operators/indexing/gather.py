"""Reading at the places an index tensor names: the compiled part of indexing."""

from __future__ import annotations

import importlib

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.dtype import (
    CODE_INT32,
    CODE_INT64,
    CODE_UINT16,
    CODE_UINT64,
    COMPLEX,
    dtype_of,
)
from cython.cimports.rushlight.core.geometry import wrap_dim
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.operators.indexing.indexed_reads import (
    LATER,
    NO_FAULT,
    IndexedReads,
    reads_of,
)

from rushlight.operators.indexing.index_errors import (
    outside,
    outside_dimension,
    outside_rows,
)
from rushlight.operators.indexing.indexed_reads import read_forms
from rushlight.operators.loop_calls import as_pairs, brief, from_pairs, require
from rushlight.operators.type_groups import USUAL

_INDEX = cython.declare(object, None)


@cython.cfunc
@cython.exceptval(0, check=True)
def pick(
    out: Tensor,
    x: Tensor,
    index: Tensor,
    outer: int64_t,
    size: int64_t,
    inner: int64_t,
    wrap: cython.int,
) -> int64_t:
    """Copies slices of ``(outer, size, inner)`` by index; what is bad, NO_FAULT, or LATER."""
    return reads_of(out).pick(out, x, index, outer, size, inner, wrap)


@cython.cfunc
def picked(x: Tensor, dim: cython.int, index: Tensor, lead: cython.int) -> tuple:
    """An uninitialised result of indexing ``dim``, and sizes around it.

    The index contributes all its dimensions, or one where ``lead`` is 1.
    """
    sizes: int64_t[64]
    n: cython.int = 0
    i: cython.int
    outer: int64_t = 1
    inner: int64_t = 1
    for i in range(dim):
        sizes[n] = x.sizes[i]
        outer *= x.sizes[i]
        n += 1
    if lead == 1:
        if x.ndim_:
            sizes[n] = index.numel_
            n += 1
    else:
        if x.ndim_ + index.ndim_ > 64:
            raise RuntimeError("a tensor has at most 64 dimensions")
        for i in range(index.ndim_):
            sizes[n] = index.sizes[i]
            n += 1
    for i in range(dim + 1, x.ndim_):
        sizes[n] = x.sizes[i]
        inner *= x.sizes[i]
        n += 1
    out = new_empty(n, sizes, cython.NULL, x.dtype_, x.storage.device)
    return out, outer, x.sizes[dim] if x.ndim_ else 1, inner


@cython.cfunc
def row_major(t: Tensor) -> Tensor:
    return t if t.row_major else t.contiguous()


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_type(operator: str, index: Tensor, kinds: str) -> cython.int:
    """Indices are int32 or int64."""
    if index.dtype_.code != CODE_INT64 and index.dtype_.code != CODE_INT32:
        raise RuntimeError(
            f"{operator}(): Expected dtype {kinds} for index\n  index: {brief(index)}"
        )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse(
    fault: int64_t, out: Tensor, operator: str, make: object, args: tuple
) -> cython.int:
    """Raises what the index is worth that was met in reading for ``out``."""
    if fault == LATER:
        reads_of(out).refuse_later(operator, make, args)
        return 0
    raise make(fault, *args)


def shares_storage(a: Tensor, b: Tensor):
    """Whether two tensors may lie in the same memory."""
    return a.storage is b.storage or a.storage.data == b.storage.data


def index_select(self: Tensor, dim, index: Tensor):
    """The slices of ``self`` along ``dim`` that ``index`` names, in its order.

    Raises:
        IndexError: an index is negative or too large.
    """
    if index.ndim_ > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    axis: cython.int = wrap_dim(dim, self.ndim_)
    check_type("index_select", index, "int32 or int64")
    if self.ndim_ == 0 and index.numel_ != 1:
        raise RuntimeError(
            "index_select(): Index to scalar can have only 1 value, got "
            f"{index.numel_} value(s)"
        )
    if (
        self.ndim_ <= 1
        and self.dtype_.code >= CODE_UINT16
        and self.dtype_.code <= CODE_UINT64
    ):
        require("index_select", self.dtype_, (), self)
    out, outer, size, inner = picked(self, axis, index, 1)
    x: Tensor = row_major(self)
    positions: Tensor = row_major(index)
    fault: int64_t = pick(out, x, positions, outer, size, inner, 0)
    if fault != NO_FAULT:
        make = outside_rows if axis == 1 else outside
        refuse(fault, out, "index_select", make, (self, index, size))
    return out


def index_one(self: Tensor, dim: cython.int, place: Tensor):
    """The slices along one dimension that an integer tensor of any shape names."""
    if dim >= self.ndim_:
        raise IndexError(
            f"too many indices for tensor of dimension {self.ndim_}\n"
            f"  self: {brief(self)}"
        )
    out, outer, size, inner = picked(self, dim, place, 0)
    x: Tensor = row_major(self)
    positions: Tensor = row_major(place)
    if size == 0 and place.numel_:
        raise IndexError("index is out of bounds for dimension with size 0")
    if out.numel() == 0:  # as nothing is read, no index is looked at
        return out
    fault: int64_t = pick(out, x, positions, outer, size, inner, 1)
    if fault != NO_FAULT:
        refuse(fault, out, "index", outside_dimension, (IndexError, dim, size))
    return out


@cython.ccall
@cython.exceptval(check=False)
def has_plain_steps(x: Tensor) -> cython.bint:
    """Whether the strides are those of a new tensor, even where a size is one."""
    d: cython.int
    step: int64_t = 1
    if not x.row_major:
        return False
    for d in range(x.ndim_ - 1, -1, -1):
        if x.strides[d] != step:
            return False
        step *= x.sizes[d]
    return True


def indices_on_device(self: Tensor, indices):
    """Indices where the tensor is: those of the host's may go anywhere.

    Raises:
        RuntimeError: one is on another device.
    """
    reads: IndexedReads = reads_of(self)
    other: IndexedReads
    moves: cython.bint = False
    for item in indices:
        if item is None:
            continue
        other = reads_of(item)
        if other is not reads:
            other.bring(self, item)
            moves = True
    return reads.take(self, list(indices)) if moves else indices


def index(self: Tensor, indices):
    """The elements at the places that broadcast index tensors and masks name.

    One tensor of integers is read here; other cases, and results without elements, whose
    steps follow rules of their own, in `rushlight.operators.indexing.advanced_indexing`.

    Args:
        indices: for each leading dimension an int64, int32 or bool tensor, or None.

    Raises:
        IndexError: an index is too large, or the shapes don't fit.
    """
    global _INDEX
    place: Tensor = None
    at: cython.int = -1
    d: cython.int = 0
    indices = indices_on_device(self, indices)
    for item in indices:
        if item is not None:
            if at >= 0:
                at = -1
                break
            place = item
            at = d
        d += 1
    if (
        at >= 0
        and (place.dtype_.code == CODE_INT64 or place.dtype_.code == CODE_INT32)
        and has_plain_steps(self)
        and has_plain_steps(place)
        and self.numel_
        and place.numel_
    ):
        return index_one(self, at, place)
    if _INDEX is None:
        _INDEX = importlib.import_module(
            "rushlight.operators.indexing.advanced_indexing"
        ).index
    return _INDEX(self, indices)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx=-1,
    scale_grad_by_freq=False,
    sparse=False,
):
    """The rows of ``weight`` that ``indices`` names: its shape and the row's."""
    if weight.ndim_ != 2:
        raise RuntimeError(f"'weight' must be 2-D\n  weight: {brief(weight)}")
    if indices.dtype_.code != CODE_INT64 and indices.dtype_.code != CODE_INT32:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following"
            f" scalar types: Long, Int; but got {indices.dtype_.name} instead (while"
            " checking arguments for embedding)"
        )
    out, outer, size, inner = picked(weight, 0, indices, 0)
    x: Tensor = row_major(weight)
    index: Tensor = row_major(indices)
    fault: int64_t = pick(out, x, index, outer, size, inner, 0)
    if fault != NO_FAULT:
        refuse(fault, out, "embedding", outside, (weight, indices, size))
    return out


@cython.cfunc
def reached(self: Tensor, axis: cython.int, index: Tensor) -> Tensor:
    """The row-major part of ``self`` that an index tensor of its rank goes over."""
    d: cython.int
    part: object = self
    for d in range(index.ndim_):
        if d == axis or self.ndim_ == 0 or index.sizes[d] == self.sizes[d]:
            continue
        if index.sizes[d] > self.sizes[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index"
                f" {list(index.shape)} to be no larger than self {list(self.shape)}"
                f" apart from dimension {axis}"
            )
        part = part.narrow(d, 0, index.sizes[d])
    return row_major(part)


@cython.cfunc
def gather_pairs(self: Tensor, axis: cython.int, positions: Tensor):
    """``gather`` of complex numbers: both parts by the same index."""
    flat = self if self.ndim_ else self.reshape(1)
    sizes = list(positions.shape) if positions.ndim_ else [1]
    wide = positions.reshape(sizes).unsqueeze(-1).expand([*sizes, 2])
    found = from_pairs(gather(as_pairs(flat), axis, wide), self.dtype_)
    return found.reshape(positions.shape)


def gather(self: Tensor, dim, index: Tensor, sparse_grad=False):
    """``out[i][j] = self[index[i][j]][j]`` for ``dim`` 0, and so on.

    Raises:
        RuntimeError: an index is negative or too large, or the shapes don't fit.
    """
    extents: int64_t[4]
    d: cython.int
    axis: cython.int = wrap_dim(dim, self.ndim_)
    out: Tensor = new_empty(
        index.ndim_, index.sizes, cython.NULL, self.dtype_, self.storage.device
    )
    if index.numel_ == 0:
        return out
    check_type("gather", index, "int32/int64")
    if self.dtype_.code not in USUAL:
        require("scatter_gather_tensor_cpu", self.dtype_, USUAL, self)
    if max(index.ndim_, 1) != max(self.ndim_, 1):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as input tensor\n"
            f"  self: {brief(self)}\n  index: {brief(index)}"
        )
    positions: Tensor = row_major(
        index if index.dtype_.code == CODE_INT64 else index.to(dtype_of(4))
    )
    if self.dtype_.category == COMPLEX:
        return gather_pairs(self, axis, positions)
    x: Tensor = reached(self, axis, index)
    extents[0] = extents[3] = 1
    for d in range(index.ndim_):
        if d < axis:
            extents[0] *= index.sizes[d]
        elif d > axis:
            extents[3] *= index.sizes[d]
    extents[1] = index.sizes[axis] if index.ndim_ else 1
    extents[2] = self.sizes[axis] if self.ndim_ else 1
    fault: int64_t = reads_of(out).gather(out, x, positions, extents)
    if fault != NO_FAULT:
        args = (RuntimeError, axis, extents[2])
        refuse(fault, out, "gather", outside_dimension, args)
    return out
