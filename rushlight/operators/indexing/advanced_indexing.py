"""Indexing by several tensors at once, by masks, and by places in a flat tensor."""

from __future__ import annotations

from math import prod

from rushlight.codegen.loops import A, T, i64, loops
from rushlight.core.device import backend_for
from rushlight.core.dtypes import bool_, int64, uint8
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.overlap import refuse_overlap
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.outputs import warn_of_expanded
from rushlight.operators import call
from rushlight.operators.functions import tensor
from rushlight.operators.indexing import place_joins, place_runs
from rushlight.operators.indexing.gather import (
    has_plain_steps,
    indices_on_device,
    shares_storage,
)
from rushlight.operators.indexing.index_offsets import (
    IndexOffsets,
    broadcast,
    check_values_type,
    order_of_result,
)
from rushlight.operators.indexing.indexed_reads import copy_words
from rushlight.operators.indexing.indexing_kernels import run_in_block, wrapped
from rushlight.operators.indexing.masks import masked_select
from rushlight.operators.loop_calls import (
    as_pairs,
    brief,
    copy_to_write,
    fault_flag,
    filled,
    fresh,
    laid_as,
    mover,
    name_of,
    refuse_fault,
    require,
    run,
    run_whole,
    scalar_name,
)
from rushlight.operators.overlapping_writes import (
    add_to_overlapping,
    write_to_overlapping,
)
from rushlight.operators.shared import alert_not_deterministic
from rushlight.operators.type_groups import USUAL

PUT = USUAL | {8, 23, 24, 25, 26}  # types that can be put at indexed places


@loops
def read_positions(
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
    r = begin + 0
    while r < end:
        block, first, last = run_in_block(r, count, end)
        for k in range(first, last):
            source = (block * size + place[k]) * inner
            for i in range(inner):
                out[(block * count + k) * inner + i] = x[source + i]
        r = r + last - first


@loops
def write_positions(
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
            source_at = (o * count + k) * inner
            for i in range(inner):
                if add:
                    out[here + i] = T(A(out[here + i]) + A(source[source_at + i]))
                else:
                    out[here + i] = source[source_at + i]


@loops
def take_kernel(
    out: "T*",
    x: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    parts: int,
    begin: int,
    end: int,
):
    """``out[k] = x[index[k]]`` over flat tensors."""
    for k in range(begin, end):
        place = wrapped(index[k], size, fault)
        for part in range(parts):
            out[k * parts + part] = x[place * parts + part]


@loops
def put_kernel(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    add: int,
    parts: int,
    begin: int,
    end: int,
):
    """``out[index[k]]`` takes or adds ``source[k]`` over flat tensors."""
    for k in range(begin, end):
        place = wrapped(index[k], size, fault) * parts
        for part in range(parts):
            value = source[k * parts + part]
            if add:
                out[place + part] = T(A(out[place + part]) + A(value))
            else:
                out[place + part] = value


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
    positions = IndexOffsets(self, indices)
    empty = positions.count * positions.outer * positions.inner == 0
    if empty or not all(map(has_plain_steps, (self, *given))):
        order = order_of_result(self, positions)
        if order is not None:
            return _in_order(self, positions, order)
    out = fresh(self, positions.result_shape())
    return _read(
        out, positions.together(self), positions, positions.outer, positions.inner
    )


def _in_order(x, positions, order):
    """The elements, laid out with the dimensions in another order than row-major.

    If the dimensions of the index stay together, the source is turned and no element
    moves twice.
    """
    before, kept = len(positions.before), len(positions.shape)
    sizes = positions.result_shape()
    first = order.index(before) if kept else before
    if order[first : first + kept] == list(range(before, before + kept)):
        indexed = len(positions.order) - before - len(positions.after)
        lead, tail = order[:first], order[first + kept :]
        rest = [
            [positions.order[d if d < before else d - kept + indexed] for d in part]
            for part in (lead, tail)
        ]
        among = positions.order[before : before + indexed]
        source = x.permute(rest[0] + among + rest[1]).contiguous()
        outer, inner = (prod([sizes[d] for d in part]) for part in (lead, tail))
        return _read(_laid(x, sizes, order), source, positions, outer, inner)
    out = fresh(x, sizes)
    _read(out, positions.together(x), positions, positions.outer, positions.inner)
    return _laid(x, sizes, order).copy_(out)


def _laid(x, sizes, order):
    """An uninitialised tensor whose dimensions lie in an order, the last in steps of one.

    Around a dimension without elements steps are zero, as on PyTorch.
    """
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= sizes[d]
    return call.empty_strided(sizes, strides, dtype=x.dtype, device=x.device)


def _read(out, source, positions, outer, inner):
    return _READ(out.device, out, source, positions, outer, inner)


def _read_by_elements(_, out, source, positions, outer, inner):
    width = inner * max(1, out.dtype.itemsize // 8)
    if out.numel():
        copy_words(out, source, positions.place, None, outer, positions.size, width, 0)
    return out


def _read_by_rows(_, out, source, positions, outer, inner):
    name, parts = mover(out.dtype)
    wide = inner * parts
    types = {"T": name, **({"inner": 1} if wide == 1 else {})}
    ints = [positions.count, positions.size, wide]
    operands = [out, source, positions.place]
    run(read_positions, operands, ints, outer * positions.count, wide, **types)
    return out


_READ = KernelTable(cpu=_read_by_rows, cuda=_read_by_elements, meta=_read_by_rows)


def _covers(mask, x):
    """Whether an index is a mask with one value for each element."""
    small = x.dtype.itemsize <= 8
    return small and mask.dtype is bool_ and mask.shape == x.shape


def index_put(self, indices, values, accumulate=False):
    """A copy of ``self`` with values put (or added) at the places the indices name."""
    if all(item is None for item in indices):
        check_values_type(self, values)
        return self + values if accumulate else values.expand(self.shape).clone()
    require("index_put", self.dtype, PUT, self)
    return _index_put(self.device, self, indices, values, accumulate)


def _index_put_meta(device, self, indices, values, accumulate):
    """A copy without elements: how many places masks name, nobody knows."""
    if any(one is not None and one.dtype.itemsize == 1 for one in indices):
        return self.clone()
    return _index_put_elements(device, self, indices, values, accumulate)


def _index_put_elements(_, self, indices, values, accumulate):
    _check_count(self, indices)
    indices, values = indices_on_device(self, indices), _value_on_device(self, values)
    mask = None if accumulate else _filling(self, indices, values)
    if mask is not None:
        return self.clone().masked_fill_(mask, values.item())
    positions = IndexOffsets(self, indices, values)
    out = positions.together(self)
    if shares_storage(out, self):
        out = out.clone()
    _write(positions, out, values, accumulate)
    return laid_as(self, positions.unflatten(out))


_index_put = KernelTable(cpu=_index_put_elements, meta=_index_put_meta)


def index_put_(self, indices, values, accumulate=False):
    """Puts (or adds) values at the places the indices name; a copy only if need be."""
    _check_count(self, indices)
    indices, values = indices_on_device(self, indices), _value_on_device(self, values)
    repeats = any(n > 1 and not step for n, step in zip(self.shape, self.stride()))
    if repeats:
        warn_of_expanded("index_put_")
    given = [item for item in indices if item is not None]
    mask = None if accumulate else _filling(self, indices, values)
    if mask is not None and not shares_storage(self, values):
        return self.masked_fill_(mask, values.item())
    _refuse_sharing(self, [*given, values])
    if repeats:
        if accumulate:
            zeros = filled(self, self.shape, 0)
            return add_to_overlapping(self, index_put(zeros, indices, values, True))
        return write_to_overlapping(self, index_put(self, indices, values), True)
    disjoint = not (shares_storage(self, values) or values.dtype is not self.dtype)
    if given and disjoint and self.is_contiguous():
        positions = IndexOffsets(self, indices, values)
        if positions.order == sorted(positions.order):
            return _write(positions, self, values, accumulate)
    return self.copy_(index_put(self, indices, values, accumulate))


def _value_on_device(x, values):
    """Values where the tensor is; one number of the host's may go anywhere."""
    if backend_for(values.device) is backend_for(x.device):
        return values
    return _value_from(values.device, values, x)


def _refuse_values(_, values, x):
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two "
        f"devices, {x.device} and {values.device}!\n"
        f"  self: {brief(x)}\n  values: {brief(values)}"
    )


def _value_from_host(device, values, x):
    return _refuse_values(device, values, x) if values.ndim else values.to(x.device)


_value_from = KernelTable(
    cpu=_value_from_host, cuda=_refuse_values, meta=_refuse_values
)


def _filling(x, indices, values):
    """The index as a mask that broadcasts to the tensor, or None if it is no mask.

    It is one where a single value is put where a single mask says.
    """
    given = [item for item in indices if item is not None]
    if len(given) != 1 or values.numel() != 1:
        return None
    mask = given[0]
    if mask.dtype not in (bool_, uint8) or mask.device != x.device:
        return None
    lead = sum(item is None for item in indices[: _position(indices)])
    for d, size in enumerate(mask.shape):
        if lead + d >= x.dim() or x.shape[lead + d] != size:
            return None
    rest = x.dim() - lead - mask.dim()
    return mask.reshape([*mask.shape, *[1] * rest])


def _position(indices):
    return next(k for k, item in enumerate(indices) if item is not None)


def _refuse_sharing(x, others):
    """Refuses to write where the values or the indices are read from."""
    for other in others:
        refuse_overlap(x, other)


def _write(positions, out, values, accumulate):
    """Puts (or adds) values into a row-major tensor with its dimensions together."""
    source = values.expand(positions.result_shape()).contiguous()
    name, parts = mover(out.dtype)
    operands = [out, source, positions.place]
    if accumulate and out.dtype.is_complex:
        parts, name = 2, name_of(out.dtype.to_real())
        operands = [as_pairs(out), as_pairs(source), positions.place]
    elif accumulate:
        parts, name = 1, name_of(out.dtype)
    sizes = positions.outer, positions.size, positions.inner * parts
    if out.numel() and source.numel():
        _WRITE(out.device, *operands, sizes, bool(accumulate), name)
    return out


def _write_in_order(_, out, source, place, sizes, add, name):
    (outer, *rest), count = sizes, place.numel()
    work, types = 2 * count * rest[1], {"T": name, "add": int(add)}
    run(
        write_positions,
        [out, source, place],
        [count, *rest, int(add)],
        outer,
        work,
        **types,
    )


def _write_by_threads(_, out, source, place, sizes, add, name):
    """The same where each element is a thread's: in the index's order, as PyTorch's sums."""
    if add:
        by = place_runs if out.dtype.is_floating_point else place_joins
        return by.add_slices(out, source, place, None, None, sizes)
    by = place_joins if sizes[1] <= place_joins.ROOM * place.numel() else place_runs
    return by.put_slices(out, source, place, None, sizes, 0, 0, name)


_WRITE = KernelTable(cpu=_write_in_order, cuda=_write_by_threads, meta=_write_in_order)


def _check_count(x, indices):
    """Refuses more indices than dimensions."""
    if len(indices) > x.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {x.ndim} (got {len(indices)})\n"
            f"  self: {brief(x)}"
        )


def take(self, index):
    """The elements of ``self``, seen as one dimension, that ``index`` names.

    Raises:
        IndexError: an index is too large.
        RuntimeError: the index is not of dtype int64.
    """
    _check_flat("take", self, index, "tried to take from an empty tensor")
    require("take_cpu", self.dtype, USUAL, self)
    x, flag = self.contiguous(), fault_flag(self)
    out = fresh(self, index.shape)
    operands = [out, x, index.contiguous(), flag]
    name, parts = mover(x.dtype)
    ints = [x.numel(), parts]
    run(take_kernel, operands, ints, index.numel(), T=name, parts=parts)
    refuse_fault(flag, "take", _outside, x)
    return out


def put(self, index, source, accumulate=False):
    """A copy of ``self`` with ``source`` put (or added) at flat places.

    Raises:
        IndexError: an index is too large, or there is not one value for each.
        RuntimeError: the index is not of dtype int64, or the values' dtype differs.
    """
    if source.numel() != index.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, "
            f"but got source.numel() = {source.numel()}, index.numel() = "
            f"{index.numel()}\n  source: {brief(source)}\n  index: {brief(index)}"
        )
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype"
            f" = {scalar_name(self.dtype)} and source.dtype ="
            f" {scalar_name(source.dtype)}\n"
            f"  self: {brief(self)}\n  source: {brief(source)}"
        )
    if not accumulate:
        alert_not_deterministic("put_")
    _check_flat("put_", self, index, "Tried to put elements into an empty tensor")
    require("take_put_cpu", self.dtype, USUAL, self)
    out, flag = copy_to_write(self, (index, source)), fault_flag(self)
    operands = [out, source.contiguous(), index.contiguous(), flag]
    name, parts = mover(self.dtype)
    if accumulate:
        parts = 2 if self.dtype.is_complex else 1
        name = name_of(self.dtype.to_real())
        if parts == 2:
            operands[:2] = as_pairs(out), as_pairs(source)
    _put(*operands, int(bool(accumulate)), name, parts)
    refuse_fault(flag, "put_", _outside, self)
    return out if out is self else laid_as(self, out)


def _put_in_order(out, source, index, flag, add, name, parts):
    types = {"T": name, "add": add, "parts": parts}
    ints = [out.numel() // parts if add else out.numel(), add, parts]
    run_whole(put_kernel, [out, source, index, flag], ints, index.numel(), **types)


def _put_by_threads(out, source, index, flag, add, name, parts):
    """The same where each element of the index is a thread's."""
    size = out.numel() // (parts if add else 1)
    if parts > 1:
        index = index.reshape(-1, 1).expand(-1, parts).contiguous()
    extents = index.numel() // parts, size, parts
    given = out, source, index, flag, extents
    if add and not place_joins.joins_in_any_order(out.dtype):
        place_runs.scatter(*given, 1, 0, 1)
    elif add:
        place_joins.scatter_add(*given, 0, 1)
    else:
        place_joins.scatter_put(*given, 0, 1, name)


_put = KernelTable(cpu=_put_in_order, cuda=_put_by_threads)


def _check_flat(operator, x, index, nothing):
    """Refuses what cannot name places in a flat tensor."""
    if index.dtype is not int64:
        raise RuntimeError(
            f"{operator}(): Expected a long tensor for index, but got"
            f" {scalar_name(index.dtype)}\n"
            f"  self: {brief(x)}\n  index: {brief(index)}"
        )
    if index.numel() and not x.numel():
        raise IndexError(f"{operator}(): {nothing}\n  self: {brief(x)}")


def _outside(fault, x):
    """The error for a place outside of a flat tensor."""
    return IndexError(
        f"out of range: tried to access index {fault} on a tensor of {x.numel()}"
        f" elements.\n  self: {brief(x)}"
    )
