"""Sums and means of the rows that each bag of indices names."""

from __future__ import annotations

from rushlight.codegen.loops import A, T, i64, local, loops, loops_inline, vectorized
from rushlight.core.dtypes import int32, int64
from rushlight.core.tensor import Tensor
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators.indexing.index_errors import no_word
from rushlight.operators.indexing.indexing_kernels import checked
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    filled,
    fresh,
    name_of,
    refuse_fault,
    run,
)


@loops_inline
def start_of(index, k, rows, width, fault):
    """Where the row that an index names begins."""
    return checked(i64(index[k]), rows, fault) * width


@loops_inline
def add_eight(mass, table, index, k, rows, width, fault, start, count):
    """Adds parts of eight rows at once: sums go to memory and back once for all of them."""
    a = start_of(index, k, rows, width, fault) + start
    b = start_of(index, k + 1, rows, width, fault) + start
    c = start_of(index, k + 2, rows, width, fault) + start
    d = start_of(index, k + 3, rows, width, fault) + start
    e = start_of(index, k + 4, rows, width, fault) + start
    f = start_of(index, k + 5, rows, width, fault) + start
    g = start_of(index, k + 6, rows, width, fault) + start
    h = start_of(index, k + 7, rows, width, fault) + start
    for i in vectorized(count):
        two = mass[i] + A(table[a + i]) + A(table[b + i])
        four = two + A(table[c + i]) + A(table[d + i])
        six = four + A(table[e + i]) + A(table[f + i])
        mass[i] = six + A(table[g + i]) + A(table[h + i])


@loops
def sum_bags(
    out: "T*",
    table: "T*",
    index: "I*",
    bounds: "i64*",
    fault: "i64*",
    rows: int,
    width: int,
    padding: int,
    mean: int,
    padded: int,
    total: int,
    begin: int,
    end: int,
):
    """Each bag's rows added in their order; the padding's row is not one of them.

    Where none is passed over, eight rows are added at once: sums go to memory and back
    once for all of them.
    """
    mass = local("A", 256)
    for bag in range(begin, end):
        for start in range(0, width, 256):
            count = min(width - start, 256)
            for i in vectorized(count):
                mass[i] = A(0)
            first, last = max(bounds[bag], 0), min(bounds[bag + 1], total)
            named = max(last - first, 0)
            k = first + 0
            while k < last:
                if padded == 0 and k + 8 <= last:
                    add_eight(mass, table, index, k, rows, width, fault, start, count)
                    k = k + 8
                elif padded == 0 and k + 2 <= last:
                    a = start_of(index, k, rows, width, fault) + start
                    b = start_of(index, k + 1, rows, width, fault) + start
                    for i in vectorized(count):
                        mass[i] = mass[i] + A(table[a + i]) + A(table[b + i])
                    k = k + 2
                else:
                    a = start_of(index, k, rows, width, fault)
                    if padded and a == padding * width:
                        named = named - 1
                    else:
                        for i in vectorized(count):
                            mass[i] = mass[i] + A(table[a + start + i])
                    k = k + 1
            for i in vectorized(count):
                v = mass[i] / A(max(named, 1)) if mean else mass[i]
                out[bag * width + start + i] = T(v)


@loops
def sum_bags_by_blocks(
    out: "T*",
    table: "T*",
    index: "I*",
    bounds: "i64*",
    fault: "i64*",
    rows: int,
    width: int,
    mean: int,
    total: int,
    begin: int,
    end: int,
):
    """The same of rows of whole blocks: the sums of 64 columns stay in registers."""
    mass = local("A", 64)
    for bag in range(begin, end):
        first, last = max(bounds[bag], 0), min(bounds[bag + 1], total)
        for start in range(0, width, 64):
            for i in vectorized(64):
                mass[i] = A(0)
            k = first + 0
            while k + 8 <= last:
                add_eight(mass, table, index, k, rows, width, fault, start, 64)
                k = k + 8
            while k < last:
                a = start_of(index, k, rows, width, fault) + start
                for i in vectorized(64):
                    mass[i] = mass[i] + A(table[a + i])
                k = k + 1
            for i in vectorized(64):
                v = mass[i] / A(max(last - first, 1)) if mean else mass[i]
                out[bag * width + start + i] = T(v)


@loops
def sum_bag_elements(
    out: "T*",
    table: "T*",
    index: "I*",
    bounds: "i64*",
    fault: "i64*",
    rows: int,
    width: int,
    padding: int,
    mean: int,
    total: int,
    begin: int,
    end: int,
):
    """The same with an item an element of the result."""
    for place in range(begin, end):
        bag, column = place // width, place % width
        mass = A(0)
        named = 0
        for k in range(max(bounds[bag], 0), min(bounds[bag + 1], total)):
            at = checked(i64(index[k]), rows, fault)
            if at != padding:
                mass = mass + A(table[at * width + column])
                named = named + 1
        out[place] = T(mass / A(max(named, 1)) if mean else mass)


def check_bounds(weight, indices, bounds):
    """Refuses bounds of bags that are not among the indices."""
    fits = weight.ndim == 2 and indices.ndim == bounds.ndim == 1 and len(bounds)
    fits = fits and indices.dtype in (int32, int64)
    if not fits or bounds.dtype is not int64:
        raise RuntimeError(
            "_bag_sum: expected a table, a row of whole indices and bounds in int64\n"
            f"  weight: {brief(weight)}\n  indices: {brief(indices)}\n"
            f"  bounds: {brief(bounds)}"
        )


def bag_sum(weight, indices, bounds, mean, padding_idx, scale_grad_by_freq, sparse):
    """The sums, or means, of all bags: bag ``k`` has the indices from bound ``k`` to the next.

    Raises:
        IndexError: an index is negative or too large.
        RuntimeError: the bounds are no row of positions, each below the next.
    """
    check_bounds(weight, indices, bounds)
    rows, width = weight.shape
    bags = bounds.shape[0] - 1
    out, flag = fresh(weight, [bags, width]), fault_flag(weight)
    table, index = weight.contiguous(), indices.contiguous()
    if not rows:  # the kernel reads the first row where an index names none
        table = filled(weight, [1, width], 0)
    types = {"T": name_of(weight.dtype), "I": name_of(index.dtype)}
    operands = [out, table, index, bounds.contiguous(), flag]
    types["mean"] = int(mean)
    _sum(out, operands, rows, padding_idx, index.numel(), types)
    refuse_fault(flag, "embedding_bag", no_word, indices, rows, "rows")
    return out


def _sum_by_bags(out, operands, rows, padding_idx, total, types):
    bags, width = out.shape
    work, padded = width * max(1, total // max(1, bags)), int(padding_idx >= 0)
    if padded or width % 64:
        ints = [rows, width, padding_idx, types["mean"], padded, total]
        run(sum_bags, operands, ints, bags, work, padded=padded, **types)
    else:
        ints = [rows, width, types["mean"], total]
        run(sum_bags_by_blocks, operands, ints, bags, work, **types)


def _sum_by_elements(out, operands, rows, padding_idx, total, types):
    bags, width = out.shape
    ints = [rows, width, padding_idx, types["mean"], total]
    run(sum_bag_elements, operands, ints, bags * width, **types)


_sum = KernelTable(cpu=_sum_by_bags, cuda=_sum_by_elements, meta=_sum_by_bags)


@loops
def largest_rows(
    out: "i64*",
    table: "T*",
    index: "I*",
    bounds: "i64*",
    fault: "i64*",
    rows: int,
    width: int,
    padding: int,
    total: int,
    begin: int,
    end: int,
):
    """The row of each bag's largest number in a column, the first of several; or -1."""
    for place in range(begin, end):
        bag, column = place // width, place % width
        best = A(0)
        row = i64(-1)
        for k in range(max(bounds[bag], 0), min(bounds[bag + 1], total)):
            at = checked(i64(index[k]), rows, fault)
            if at != padding:
                v = A(table[at * width + column])
                if row < 0 or v > best:
                    best = v
                    row = at
        out[place] = row


def bag_rows(weight, indices, bounds, padding_idx):
    """The number of the row that the largest of a bag is from, for each column.

    Raises:
        IndexError: an index is negative or too large.
        RuntimeError: the bounds are no row of positions.
    """
    check_bounds(weight, indices, bounds)
    rows, width = weight.shape
    bags = bounds.shape[0] - 1
    out, flag = fresh(weight, [bags, width], int64), fault_flag(weight)
    index = indices.contiguous()
    run(
        largest_rows,
        [out, weight.contiguous(), index, bounds.contiguous(), flag],
        [rows, width, padding_idx, index.numel()],
        bags * width,
        max(1, index.numel() // max(1, bags)),
        T=name_of(weight.dtype),
        I=name_of(index.dtype),
    )
    refuse_fault(flag, "embedding_bag", no_word, indices, rows, "rows")
    return out


BEGINS, ENDS, FALLS = range(3)  # what is wrong with offsets, in the order it is told


@loops
def find_bad_offset(
    offsets: "i64*", fault: "i64*", count: int, length: int, begin: int, end: int
):
    """Reports a first offset that is not 0, a last one beyond the end, or one that falls."""
    for k in range(begin, end):
        last = offsets[count - 1]
        if offsets[0] != 0:
            fault[0] = offsets[0] * 3
        elif last > length:
            fault[0] = last * 3 + 1
        elif k + 1 < count and offsets[k + 1] < offsets[k]:
            fault[0] = k * 3 + 2


def check_bag_offsets(offsets, length):
    """Refuses offsets that do not rise from 0 to the indices' end at most.

    Raises:
        RuntimeError: they do not.
    """
    flag, count = fault_flag(offsets), offsets.numel()
    run(find_bad_offset, [offsets.contiguous(), flag], [count, length], count)
    refuse_fault(flag, "embedding_bag", _bad_offset, offsets, length)


def _bad_offset(fault, offsets, length):
    """What is wrong; of a device's offsets only the outline is known."""
    found, what = divmod(fault, 3)
    if what == BEGINS:
        return RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has "
            f"to start from position 0. However, got {found}"
        )
    if what == ENDS:
        return RuntimeError(
            "offsets[-1] can not be greater than input's length "
            f"{length} but got offsets[-1] of {found}"
        )
    given = offsets.tolist() if isinstance(offsets, Tensor) else f"a fall at {found}"
    return RuntimeError(
        "embedding_bag: expected offsets that do not fall, each between 0 and the "
        f"input's length {length}, but got {given}"
    )
