"""Elements that a mask names, on devices of many threads: each finds its place by itself.

The host packs them one after the other. Here an item has a run of the mask: sums along the
runs' counts tell how many are set up to its end, and so where its elements go.
"""

from __future__ import annotations

from rushlight.codegen.loops import i64, loops, loops_inline
from rushlight.core.dtypes import int32, int64
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import fresh, name_of, run

RUN = 16  # elements
NARROW = 1 << 31  # elements that are counted in 32 bits


@loops
def count_runs(counts: "I*", mask: "boolean*", total: int, begin: int, end: int):
    """How many elements of each run are set."""
    for k in range(begin, end):
        found = i64(0)
        for at in range(k * RUN, min(k * RUN + RUN, total)):
            found = found + i64(mask[at])
        counts[k] = found


@loops_inline
def rank_before(ranks, k):
    """How many elements are set before a run."""
    rank = i64(0)
    if k > 0:
        rank = i64(ranks[k - 1])
    return rank


@loops
def select_by_rank(
    out: "T*",
    x: "T*",
    mask: "boolean*",
    ranks: "I*",
    total: int,
    parts: int,
    begin: int,
    end: int,
):
    """Packs the elements whose mask is set."""
    for k in range(begin, end):
        rank = rank_before(ranks, k)
        for at in range(k * RUN, min(k * RUN + RUN, total)):
            if mask[at]:
                for part in range(parts):
                    out[rank * parts + part] = x[at * parts + part]
                rank = rank + 1


@loops
def replace_by_rank(
    out: "T*",
    source: "T*",
    mask: "boolean*",
    ranks: "I*",
    fault: "i64*",
    total: int,
    parts: int,
    given: int,
    begin: int,
    end: int,
):
    """Puts the source's elements, in order, where the mask is set."""
    for k in range(begin, end):
        rank = rank_before(ranks, k)
        for at in range(k * RUN, min(k * RUN + RUN, total)):
            if mask[at] and rank >= given:
                fault[0] = at
            if mask[at] and rank < given:
                for part in range(parts):
                    out[at * parts + part] = source[rank * parts + part]
            rank = rank + i64(mask[at])


@loops
def place_by_rank(
    out: "i64*",
    mask: "boolean*",
    ranks: "I*",
    sizes: "i64*",
    total: int,
    ndim: int,
    chosen: int,
    begin: int,
    end: int,
):
    """A column of coordinates for each dimension."""
    for k in range(begin, end):
        rank = rank_before(ranks, k)
        for at in range(k * RUN, min(k * RUN + RUN, total)):
            if mask[at]:
                rest = at + 0
                for d in range(ndim - 1, -1, -1):
                    up = rest // sizes[d]
                    out[d * chosen + rank] = rest - up * sizes[d]
                    rest = up
                rank = rank + 1


def run_by_runs(kernel, mask, operands, ints, **types):
    """Runs a kernel whose items are the runs of a mask."""
    total = mask.numel()
    run(kernel, operands, [total, *ints], -(-total // RUN), **types)


def ranks_of(mask):
    """How many elements of a mask are set up to the end of each run."""
    kind = int32 if mask.numel() < NARROW else int64
    counts = fresh(mask, (-(-mask.numel() // RUN),), kind)
    run_by_runs(count_runs, mask, [counts, mask], [], I=name_of(kind))
    return ops.cumsum(counts, 0, dtype=kind)


def count_of(ranks):
    """How many elements are set in all, as a number: the device is waited for."""
    return ranks[-1].item() if ranks.numel() else 0


def select(x, mask, name, parts):
    """The elements whose mask is set, in one dimension."""
    ranks = ranks_of(mask)
    out = fresh(x, (count_of(ranks),), x.dtype)
    types = {"T": name, "I": name_of(ranks.dtype)}
    run_by_runs(select_by_rank, mask, [out, x, mask, ranks], [parts], **types)
    return out


def replace(out, source, mask, flag, name, parts):
    """Replaces elements by the source's in order; a flag tells where there are too few."""
    ranks, ints = ranks_of(mask), [parts, source.numel()]
    types = {"T": name, "I": name_of(ranks.dtype)}
    run_by_runs(replace_by_rank, mask, [out, source, mask, ranks, flag], ints, **types)


def coordinates(mask):
    """The coordinates of what is set, a row for each dimension."""
    ranks = ranks_of(mask)
    ndim, total = mask.dim(), count_of(ranks)
    out = fresh(mask, (ndim, total), int64)
    sizes = tensor(list(mask.shape), dtype=int64, device=mask.device)
    types = {"I": name_of(ranks.dtype)}
    operands, ints = [out, mask, ranks, sizes], [ndim, total]
    run_by_runs(place_by_rank, mask, operands, ints, **types)
    return out
