"""Elements that a mask names, on devices of many threads: each finds its place by itself.

The host packs them one after the other. Here a sum along the mask tells how many are set
up to each element, and so where it goes.
"""

from __future__ import annotations

from rushlight.codegen.loops import loops
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import fresh, run


@loops
def select_by_rank(
    out: "T*",
    x: "T*",
    mask: "boolean*",
    ranks: "i64*",
    parts: int,
    begin: int,
    end: int,
):
    """Packs the elements whose mask is set."""
    for at in range(begin, end):
        if mask[at]:
            for part in range(parts):
                out[(ranks[at] - 1) * parts + part] = x[at * parts + part]


@loops
def replace_by_rank(
    out: "T*",
    source: "T*",
    mask: "boolean*",
    ranks: "i64*",
    fault: "i64*",
    parts: int,
    given: int,
    begin: int,
    end: int,
):
    """Puts the source's elements, in order, where the mask is set."""
    for at in range(begin, end):
        if mask[at]:
            if ranks[at] > given:
                fault[0] = at
            else:
                for part in range(parts):
                    out[at * parts + part] = source[(ranks[at] - 1) * parts + part]


@loops
def place_by_rank(
    out: "i64*",
    mask: "boolean*",
    ranks: "i64*",
    sizes: "i64*",
    ndim: int,
    total: int,
    begin: int,
    end: int,
):
    """A column of coordinates for each dimension."""
    for at in range(begin, end):
        if mask[at]:
            rest = at
            for d in range(ndim - 1, -1, -1):
                up = rest // sizes[d]
                out[d * total + ranks[at] - 1] = rest - up * sizes[d]
                rest = up


def ranks_of(mask):
    """How many elements of a mask are set up to each, itself included."""
    return ops.cumsum(mask.reshape(-1), 0)


def count_of(ranks):
    """How many elements are set in all, as a number: the device is waited for."""
    return ranks[-1].item() if ranks.numel() else 0


def select(x, mask, name, parts):
    """The elements whose mask is set, in one dimension."""
    ranks = ranks_of(mask)
    out = fresh(x, (count_of(ranks),), x.dtype)
    run(select_by_rank, [out, x, mask, ranks], [parts], mask.numel(), T=name)
    return out


def replace(out, source, mask, flag, name, parts):
    """Replaces elements by the source's in order; a flag tells where there are too few."""
    operands, ints = [out, source, mask, ranks_of(mask), flag], [parts, source.numel()]
    run(replace_by_rank, operands, ints, mask.numel(), T=name)


def coordinates(mask):
    """The coordinates of what is set, a row for each dimension."""
    ranks = ranks_of(mask)
    ndim, total = mask.dim(), count_of(ranks)
    out = fresh(mask, (ndim, total), ranks.dtype)
    sizes = tensor(list(mask.shape), dtype=ranks.dtype, device=mask.device)
    operands, ints = [out, mask, ranks, sizes], [ndim, total]
    run(place_by_rank, operands, ints, mask.numel())
    return out
