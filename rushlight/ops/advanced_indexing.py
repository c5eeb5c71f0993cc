"""Indexing by several tensors at once, by masks, and by places in a flat tensor."""

from __future__ import annotations

from math import prod

import rushlight
from rushlight.compiler.loops import A, T, i64, loops
from rushlight.ops.indexing_kernels import wrapped
from rushlight.ops.native import (
    MOVERS,
    around,
    brief,
    fault_flag,
    fault_in,
    filled,
    fresh,
    mover,
    name_of,
    run,
    run_whole,
)
from rushlight.ops.picking import shares_storage
from rushlight.ops.places import Places, broadcast


@loops
def combine_indices(
    place: "i64*",
    index: "I*",
    fault: "i64*",
    size: int,
    stride: int,
    begin: int,
    end: int,
):
    """Adds one index tensor's share, ``wrapped(index) * stride``, to flat places."""
    for k in range(begin, end):
        here = i64(index[k])
        if here < 0:
            here = here + size
        if here < 0 or here >= size:
            fault[0] = i64(index[k])
            here = i64(0)
        place[k] = place[k] + here * stride


@loops
def read_places(
    out: "T*",
    x: "T*",
    place: "i64*",
    count: int,
    size: int,
    inner: int,
    begin: int,
    end: int,
):
    """``out[o, k, :] = x[o, place[k], :]`` for places that are known to be good."""
    for r in range(begin, end):
        source = (r // count * size + place[r % count]) * inner
        for i in range(inner):
            out[r * inner + i] = x[source + i]


@loops
def write_places(
    out: "T*",
    source: "T*",
    place: "i64*",
    count: int,
    size: int,
    inner: int,
    add: int,
    begin: int,
    end: int,
):
    """``out[o, place[k], :]`` takes or adds ``source[o, k, :]``, in order of k."""
    for o in range(begin, end):
        for k in range(count):
            here = (o * size + place[k]) * inner
            there = (o * count + k) * inner
            for i in range(inner):
                if add:
                    out[here + i] = T(A(out[here + i]) + A(source[there + i]))
                else:
                    out[here + i] = source[there + i]


@loops
def count_true(count: "i64*", mask: "boolean*", begin: int, end: int):
    """How many mask elements are set."""
    total = 0
    for i in range(begin, end):
        total = total + i64(mask[i])
    count[0] = total


@loops
def select_true(out: "T*", x: "T*", mask: "boolean*", total: int, begin: int, end: int):
    """Packs the elements whose mask is set: each is written, and kept if it is."""
    filled_to = 0
    i = begin
    while filled_to < total:
        out[filled_to] = x[i]
        filled_to = filled_to + i64(mask[i])
        i = i + 1


@loops
def replace_true(out: "T*", source: "T*", mask: "boolean*", begin: int, end: int):
    """Puts the source's elements, in order, where the mask is set."""
    taken = 0
    for i in range(begin, end):
        if mask[i]:
            out[i] = source[taken]
            taken = taken + 1


@loops
def places_true(
    out: "i64*",
    mask: "boolean*",
    sizes: "i64*",
    ndim: int,
    width: int,
    begin: int,
    end: int,
):
    """The coordinates of every set element; a row is one line along the last axis."""
    found = 0
    for r in range(begin, end):
        for c in range(width):
            if mask[r * width + c]:
                out[found + ndim - 1] = c
                rest = r
                for d in range(ndim - 2, 0, -1):
                    next_up = rest // sizes[d]
                    out[found + d] = rest - next_up * sizes[d]
                    rest = next_up
                if ndim > 1:
                    out[found] = rest
                found = found + ndim


@loops
def pairs_true(
    out: "i64*", mask: "boolean*", total: int, width: int, begin: int, end: int
):
    """The same for two dimensions: each pair is written, and kept if it is set."""
    found = 0
    for r in range(begin, end):
        c = 0
        while c < width and found < total:
            out[2 * found] = r
            out[2 * found + 1] = c
            found = found + i64(mask[r * width + c])
            c = c + 1


@loops
def numbers_true(out: "i64*", mask: "boolean*", total: int, begin: int, end: int):
    """The same for one dimension."""
    found = 0
    i = begin
    while found < total:
        out[found] = i
        found = found + i64(mask[i])
        i = i + 1


@loops
def take_kernel(
    out: "T*", x: "T*", index: "i64*", fault: "i64*", size: int, begin: int, end: int
):
    """``out[k] = x[index[k]]`` over flat tensors."""
    for k in range(begin, end):
        out[k] = x[wrapped(index[k], size, fault)]


@loops
def put_kernel(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    add: int,
    begin: int,
    end: int,
):
    """``out[index[k]]`` takes or adds ``source[k]`` over flat tensors."""
    for k in range(begin, end):
        place = wrapped(index[k], size, fault)
        if add:
            out[place] = T(A(out[place]) + A(source[k]))
        else:
            out[place] = source[k]


def index(self, indices):
    """The elements at the places that broadcast index tensors and masks name.

    Args:
        indices: for each leading dimension an int64, int32 or bool tensor, or None.

    Raises:
        IndexError: an index is too large, or the shapes don't fit.
    """
    given = [item for item in indices if item is not None]
    if not given:
        return self.clone()
    if len(indices) == 1 and _covers(given[0], self):
        return masked_select(self, given[0])
    places = Places(self, indices)
    out = fresh(self, places.result_shape())
    name, parts = mover(self.dtype)
    wide = places.inner * parts
    types = {"T": name, **({"inner": 1} if wide == 1 else {})}
    ints = [places.count, places.size, wide]
    operands = [out, places.together(self), places.place]
    run(read_places, operands, ints, places.outer * places.count, wide, **types)
    return out


def _covers(mask, x):
    """Whether an index is a mask with one value for each element."""
    small = x.dtype.itemsize <= 8
    return small and mask.dtype is rushlight.bool and mask.shape == x.shape


def index_put(self, indices, values, accumulate=False):
    """A copy of ``self`` with values put (or added) at the places the indices name."""
    if all(item is None for item in indices):
        return self + values if accumulate else values.expand(self.shape).clone()
    if values.dtype is not self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got"
            f" {name_of(self.dtype)} for the destination and {name_of(values.dtype)}"
            f" for the source.\n  self: {brief(self)}\n  values: {brief(values)}"
        )
    places = Places(self, indices)
    out = places.together(self)
    if out.data_ptr() == self.data_ptr():
        out = out.clone()
    _write(places, out, values, accumulate)
    return places.apart(out).contiguous()


def index_put_(self, indices, values, accumulate=False):
    """Puts (or adds) values at the places the indices name; a copy only if need be."""
    given = [item for item in indices if item is not None]
    apart = not (shares_storage(self, values) or values.dtype is not self.dtype)
    if len(given) == len(indices) == 1 and _covers(given[0], self):
        if values.numel() == 1 and values.dim() <= 1 and apart and not accumulate:
            return self.masked_fill_(given[0], values.reshape(()))
    if given and apart and self.is_contiguous():
        places = Places(self, indices)
        if places.order == sorted(places.order):
            return _write(places, self, values, accumulate)
    return self.copy_(index_put(self, indices, values, accumulate))


def _write(places, out, values, accumulate):
    """Puts (or adds) values into a row-major tensor with its dimensions together."""
    source = _spread_values(values, places.result_shape())
    name, parts = (name_of(out.dtype), 1) if accumulate else mover(out.dtype)
    types = {"T": name, "add": int(bool(accumulate))}
    ints = [places.count, places.size, places.inner * parts, types["add"]]
    work = 2 * places.count * places.inner
    run(write_places, [out, source, places.place], ints, places.outer, work, **types)
    return out


def _spread_values(values, shape):
    """The values as a row-major tensor of the shape that an index selects."""
    lead = len(shape) - values.dim()
    fits = lead >= 0 and all(
        size in (1, shape[lead + d]) for d, size in enumerate(values.shape)
    )
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be"
            f" broadcast to indexing result of shape {list(shape)}"
        )
    return values.expand(shape).contiguous()


def _mask_of(operator, mask):
    if mask.dtype is not rushlight.bool:
        raise RuntimeError(
            f"{operator}: expected BoolTensor for mask\n  mask: {brief(mask)}"
        )


def _count(mask):
    if not mask.numel():
        return 0
    total = fresh(mask, (1,), rushlight.int64)
    run_whole(count_true, [total, mask], [], mask.numel())
    return total.item()


def masked_select(self, mask):
    """The elements of ``self`` where ``mask`` holds, in one dimension."""
    _mask_of("masked_select", mask)
    x = self
    if self.shape != mask.shape:
        shape = broadcast([list(self.shape), list(mask.shape)])
        x, mask = self.expand(shape), mask.expand(shape)
    x, mask = x.contiguous(), mask.contiguous()
    total = _count(mask)
    out = fresh(self, (total,))
    types = {"T": MOVERS[x.dtype.itemsize]}
    run_whole(select_true, [out, x, mask], [total], mask.numel(), **types)
    return out


def masked_scatter(self, mask, source):
    """A copy of ``self`` with ``source``'s elements, in order, where ``mask`` holds.

    Raises:
        RuntimeError: the source has too few elements.
    """
    _mask_of("masked_scatter", mask)
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f" {name_of(self.dtype)} and {name_of(source.dtype)}"
        )
    shape = broadcast([list(self.shape), list(mask.shape)])
    out, mask = self.expand(shape).clone().contiguous(), mask.expand(shape).contiguous()
    if _count(mask) > source.numel():
        raise RuntimeError(
            "masked_scatter: Number of elements of source < number of ones in mask\n"
            f"  mask: {brief(mask)}\n  source: {brief(source)}"
        )
    operands = [out, source.contiguous(), mask]
    run_whole(replace_true, operands, [], mask.numel(), T=MOVERS[out.dtype.itemsize])
    return out


def nonzero(self):
    """The coordinates of the elements that aren't zero, one row each."""
    mask = self if self.dtype is rushlight.bool else self != 0
    mask, ndim = mask.contiguous(), self.dim()
    total = _count(mask)
    out = fresh(self, (total, ndim), rushlight.int64)
    if ndim == 1:
        run_whole(numbers_true, [out, mask], [total], mask.numel())
    elif ndim == 2 and total:
        rows, width = mask.shape
        run_whole(pairs_true, [out, mask], [total, width], rows)
    elif out.numel():
        sizes = rushlight.tensor(list(self.shape), dtype=rushlight.int64)
        width = self.shape[-1]
        rows = mask.numel() // width
        run_whole(places_true, [out, mask, sizes], [ndim, width], rows)
    return out


def take(self, index):
    """The elements of ``self``, seen as one dimension, that ``index`` names.

    Raises:
        IndexError: an index is too large.
        RuntimeError: the index is not of dtype int64.
    """
    _check_flat("take", self, index)
    x, flag = self.contiguous(), fault_flag(self)
    out = fresh(self, index.shape)
    operands = [out, x, index.contiguous(), flag]
    types = {"T": MOVERS[x.dtype.itemsize]}
    run(take_kernel, operands, [x.numel()], index.numel(), **types)
    _raise_fault(flag, x)
    return out


def put(self, index, source, accumulate=False):
    """A copy of ``self`` with ``source`` put (or added) at flat places.

    Raises:
        IndexError: an index is too large, or there is not one value for each.
        RuntimeError: the index is not of dtype int64, or the values' dtype differs.
    """
    _check_flat("put_", self, index)
    if source.numel() != index.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, "
            f"but got source.numel() = {source.numel()}, index.numel() = "
            f"{index.numel()}\n  source: {brief(source)}\n  index: {brief(index)}"
        )
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype\n"
            f"  self: {brief(self)}\n  source: {brief(source)}"
        )
    out, flag = self.contiguous().clone(), fault_flag(self)
    operands = [out, source.contiguous(), index.contiguous(), flag]
    types = {"T": name_of(self.dtype), "add": int(bool(accumulate))}
    ints = [self.numel(), types["add"]]
    run_whole(put_kernel, operands, ints, index.numel(), **types)
    _raise_fault(flag, self)
    return out


def _check_flat(operator, x, index):
    """Refuses what cannot name places in a flat tensor."""
    if index.dtype is not rushlight.int64:
        raise RuntimeError(
            f"{operator}(): Expected a long tensor for index\n"
            f"  self: {brief(x)}\n  index: {brief(index)}"
        )
    if index.numel() and not x.numel():
        raise IndexError(f"{operator}(): the tensor is empty\n  self: {brief(x)}")


def _raise_fault(flag, x):
    fault = fault_in(flag)
    if fault is not None:
        raise IndexError(
            f"out of range: tried to access index {fault} on a tensor of {x.numel()}"
            f" elements.\n  self: {brief(x)}"
        )
