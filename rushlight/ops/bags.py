"""Sums and means of the rows that each bag of indices names."""

from __future__ import annotations

import rushlight
from rushlight.codegen.loops import A, T, i64, local, loops, vectorized
from rushlight.ops.indexing_kernels import checked
from rushlight.ops.native import brief, fault_flag, fault_in, fresh, name_of, run


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
    total: int,
    begin: int,
    end: int,
):
    """Each bag's rows added in their order; the padding's row is not one of them.

    Eight rows are added at once: sums go to memory and back once for all of them.
    """
    mass = local("A", 256)
    places = local("i64", 8)
    for bag in range(begin, end):
        for start in range(0, width, 256):
            count = min(width - start, 256)
            for i in vectorized(count):
                mass[i] = A(0)
            named = 0
            held = 0
            for k in range(max(bounds[bag], 0), min(bounds[bag + 1], total)):
                row = checked(i64(index[k]), rows, fault)
                if row != padding:
                    named = named + 1
                    places[held] = row * width + start
                    held = held + 1
                if held == 8:
                    held = 0
                    a, b, c, d = places[0], places[1], places[2], places[3]
                    e, f, g, h = places[4], places[5], places[6], places[7]
                    for i in vectorized(count):
                        m = mass[i] + A(table[a + i]) + A(table[b + i])
                        m = m + A(table[c + i]) + A(table[d + i])
                        m = m + A(table[e + i]) + A(table[f + i])
                        mass[i] = m + A(table[g + i]) + A(table[h + i])
            for k in range(held):
                a = places[k]
                for i in vectorized(count):
                    mass[i] = mass[i] + A(table[a + i])
            for i in vectorized(count):
                v = mass[i] / A(max(named, 1)) if mean else mass[i]
                out[bag * width + start + i] = T(v)


def check_bounds(weight, indices, bounds):
    """Refuses bounds of bags that are not among the indices."""
    fits = weight.ndim == 2 and indices.ndim == bounds.ndim == 1 and len(bounds)
    if not fits or bounds.dtype is not rushlight.int64:
        raise RuntimeError(
            "_bag_sum: expected a table, a row of indices and bounds in int64\n"
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
    types = {"T": name_of(weight.dtype), "I": name_of(index.dtype)}
    operands = [out, table, index, bounds.contiguous(), flag]
    grain = width * max(1, index.numel() // max(1, bags))
    types["mean"] = int(mean)
    ints = [rows, width, padding_idx, types["mean"], index.numel()]
    run(sum_bags, operands, ints, bags, grain, **types)
    fault = fault_in(flag)
    if fault is not None:
        raise IndexError(
            f"index out of range in self: {fault} for {rows} rows\n"
            f"  indices: {brief(indices)}"
        )
    return out
