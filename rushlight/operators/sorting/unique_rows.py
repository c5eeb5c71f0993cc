"""The different slices of a tensor along one dimension."""

from __future__ import annotations

from rushlight.codegen.loops import loops, loops_inline
from rushlight.core.dtypes import (
    bool_,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call
from rushlight.operators.loop_calls import (
    brief,
    filled,
    fresh,
    name_of,
    require,
    run_whole,
)
from rushlight.operators.type_groups import REAL

KNOWN = REAL | {11, 27, 28, 29}  # types whose slices are compared
SIGNED = {
    uint16: int16,
    uint32: int32,
    uint64: int64,
}


@loops_inline
def row_before(x, first, second, width):
    """Whether a row comes before another by the first elements that differ."""
    a = first * width
    b = second * width
    k = 0
    while k < width and not (x[a + k] < x[b + k] or x[a + k] > x[b + k]):
        k = k + 1
    before = False
    if k < width:
        before = x[a + k] < x[b + k]
    return before


@loops
def order_rows(index: "i64*", spare: "i64*", x: "T*", width: int, begin: int, end: int):
    """Sorts the numbers of rows by merging runs; equal rows stay in order."""
    for k in range(begin, end):
        index[k] = k
    run = 1
    while run < end:
        for start in range(0, end, 2 * run):
            middle = min(start + run, end)
            stop = min(start + 2 * run, end)
            i = start
            j = middle
            for k in range(start, stop):
                right = j < stop
                if i < middle and j < stop:
                    right = row_before(x, index[j], index[i], width)
                if right:
                    spare[k] = index[j]
                    j = j + 1
                else:
                    spare[k] = index[i]
                    i = i + 1
        for k in range(begin, end):
            index[k] = spare[k]
        run = run * 2


@loops
def group_rows(
    first: "i64*",
    inverse: "i64*",
    counts: "i64*",
    found: "i64*",
    index: "i64*",
    x: "T*",
    width: int,
    begin: int,
    end: int,
):
    """Numbers runs of equal rows: the first of each, where all went, how many."""
    last = -1
    for k in range(begin, end):
        new = True
        if k > begin:
            a = index[k] * width
            b = index[k - 1] * width
            new = False
            for i in range(width):
                new = new | (x[a + i] != x[b + i])
        if new:
            last = last + 1
            first[last] = index[k]
            counts[last] = 0
        counts[last] = counts[last] + 1
        inverse[index[k]] = last
    found[0] = last + 1


def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    """The different slices along ``dim`` in order, where they went and how often.

    Raises:
        IndexError: the dimension does not exist.
        RuntimeError: another dimension has no elements.
    """
    return _unique_slices("unique_dim", self, dim, True)


def unique_dim_consecutive(self, dim, return_inverse=False, return_counts=False):
    """The slices along ``dim`` without repetitions next to each other."""
    return _unique_slices("unique_dim_consecutive", self, dim, False)


def _unique_slices(operator, x, dim, ordered):
    require(operator, x.dtype, KNOWN, x)
    dim = _checked_dim(x, dim)
    count = x.shape[dim]
    empty = fresh(x, (0,), int64)
    if not x.numel():
        return fresh(x, x.shape), empty, empty
    moved = x.movedim(dim, 0)
    rows = moved.contiguous().view(count, -1)
    if x.dtype is bool_:
        rows = rows.view(uint8)
    first, inverse, counts = _grouped(rows, ordered)
    values = _chosen(moved, first).movedim(0, dim)
    return values, inverse, counts


def _chosen(x, index):
    """`index_select` of any type: those that it does not take are seen as others."""
    if x.dtype not in SIGNED:
        return x.index_select(0, index)
    return x.view(SIGNED[x.dtype]).index_select(0, index).view(x.dtype)


def _group_in_order(rows, ordered):
    """The first of each run of equal rows, where all went, and how many each has."""
    count, width = rows.shape
    index, first, inverse, counts = (fresh(rows, (count,), int64) for _ in range(4))
    kind = name_of(rows.dtype)
    if ordered:
        run_whole(order_rows, [index, first, rows], [width], count, T=kind)
    else:
        index.copy_(call.arange(count))
    found = filled(rows, (1,), 0, int64)
    operands = [first, inverse, counts, found, index, rows]
    run_whole(group_rows, operands, [width], count, T=kind)
    number = found.item()
    return first.narrow(0, 0, number), inverse, counts.narrow(0, 0, number).clone()


def _group_by_columns(rows, ordered):
    """The same by all threads: rows are sorted by each column, from the last."""
    count, width = rows.shape
    index = call.arange(count, device=rows.device)
    for column in range(width - 1, -1, -1) if ordered else ():
        keys = _chosen(rows.select(1, column), index)
        index = index.index_select(0, call.argsort(keys, stable=True))
    rows = _chosen(rows, index)
    rows = rows.view(SIGNED.get(rows.dtype, rows.dtype))
    new = filled(index, (count,), True, bool_)
    pairs = rows.narrow(0, 1, count - 1), rows.narrow(0, 0, count - 1)
    new.narrow(0, 1, count - 1).copy_((pairs[0] != pairs[1]).any(1))
    starts = new.nonzero().view(-1)
    end = filled(starts, (1,), count)
    inverse = index.scatter(0, index, new.cumsum(0) - 1)
    return index.index_select(0, starts), inverse, starts.diff(append=end)


_grouped = KernelTable(
    cpu=_group_in_order, cuda=_group_by_columns, meta=_group_in_order
)


def _checked_dim(x, dim):
    """The dimension counted from the front; no other may be empty."""
    if not x.dim():
        raise IndexError(
            f"Dimension specified as {dim} but tensor has no dimensions\n"
            f"  self: {brief(x)}"
        )
    if not -x.dim() <= dim < x.dim():
        raise IndexError(
            "Dimension out of range (expected to be in range of "
            f"[{-x.dim()}, {x.dim() - 1}], but got {dim})"
        )
    dim %= x.dim()
    if 0 in x.shape[:dim] + x.shape[dim + 1 :]:
        raise RuntimeError(
            "Number of zero sized dimensions is more than one, so unique cannot be "
            "applied"
            if x.shape[dim] == 0
            else "There are 0 sized dimensions, and they aren't selected, so unique "
            f"cannot be applied\n  self: {brief(x)}"
        )
    return dim
