"""Writing at indexed places on devices of many threads: an element of the index a thread.

Sums are atomic, as PyTorch's: those of whole numbers are the same in any order, those of
floats are joined as threads come. Of several values for one place the one that comes last
in the index is put: each tells its number, of which the largest stays.
"""

from __future__ import annotations

from rushlight.codegen.loops import (
    A,
    T,
    atomic_add,
    atomic_max,
    i64,
    loops,
    loops_inline,
)
from rushlight.core.dtypes import int64
from rushlight.core.switches import switch
from rushlight.operators.loop_calls import filled, name_of, run

ROOM = 4  # elements written for one of an index that are worth a number each


@loops_inline
def place_of(index, at, count, size, inner, wrap, fault):
    """Where an element of an index leads in ``(outer, size, inner)``; -1: nowhere."""
    place = index[at]
    place = place + size if wrap and place < 0 else place
    here = i64(-1)
    if place < 0 or place >= size:
        fault[0] = index[at]
    else:
        here = (at // (count * inner) * size + place) * inner + at % inner
    return here


@loops
def scatter_sums(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    wrap: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[..., index[at], ...] += source[at]`` in a tensor of ``(outer, size, inner)``."""
    for at in range(begin, end):
        here = place_of(index, at, count, size, inner, wrap, fault)
        if here >= 0:
            atomic_add(out, here, source[0 if single else at])


@loops
def slice_sums(
    out: "T*",
    source: "T*",
    index: "I*",
    alpha: "A*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    begin: int,
    end: int,
):
    """``out[o, index[k], i] += alpha * source[o, k, i]``."""
    factor = alpha[0]
    for at in range(begin, end):
        i = at % inner
        o = at // (inner * count)
        place = i64(index[at // inner % count])
        if place < 0 or place >= size:
            fault[0] = place
        else:
            here = (o * size + place) * inner + i
            atomic_add(out, here, T(A(source[at]) * factor))


@loops
def last_writers(
    last: "i64*",
    index: "i64*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    wrap: int,
    begin: int,
    end: int,
):
    """For each element written the number of the last one of an index that names it."""
    for at in range(begin, end):
        here = place_of(index, at, count, size, inner, wrap, fault)
        if here >= 0:
            atomic_max(last, here, at)


@loops
def put_last(
    out: "T*",
    source: "T*",
    last: "i64*",
    single: int,
    begin: int,
    end: int,
):
    """``out[k] = source[last[k]]`` where something is put."""
    for k in range(begin, end):
        at = last[k]
        if at >= 0:
            out[k] = source[0 if single else at]


@loops
def last_slices(
    last: "i64*",
    index: "I*",
    fault: "i64*",
    size: int,
    wrap: int,
    begin: int,
    end: int,
):
    """For each slice the number of the last one of an index that names it."""
    for k in range(begin, end):
        place = i64(index[k])
        good = place + size if wrap and place < 0 else place
        if good < 0 or good >= size:
            fault[0] = place
        else:
            atomic_max(last, good, k)


@loops
def put_last_slices(
    out: "T*",
    source: "T*",
    last: "i64*",
    count: int,
    size: int,
    inner: int,
    parts: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[o, s, i] = source[o, last[s], i]`` where something is put."""
    for at in range(begin, end):
        i = at % inner
        k = last[at // inner % size]
        if k >= 0:
            source_at = (at // (inner * size) * count + k) * inner + i
            out[at] = source[i & parts if single else source_at]


def joins_in_any_order(dtype):
    """Whether sums of a dtype may be joined as threads come: asked for, or the same."""
    return not switch("deterministic") or not (
        dtype.is_floating_point or dtype.is_complex
    )


def scatter_add(target, source, index, flag, extents, single, wrap=0):
    """Adds to a tensor of ``(outer, size, inner)``; see `scatter_sums`.

    Args:
        wrap: whether an index may count from the end.
    """
    operands, ints = [target, source, index, flag], [*extents, wrap, single]
    types = {"T": name_of(target.dtype), "single": single, "wrap": wrap}
    run(scatter_sums, operands, ints, index.numel(), **types)


def add_slices(out, source, index, alpha, flag, sizes):
    """Adds slices to those that an index names; see `slice_sums`."""
    _, size, inner = sizes
    operands, ints = [out, source, index, alpha, flag], [index.numel(), size, inner]
    types = {"T": name_of(out.dtype), "I": name_of(index.dtype)}
    run(slice_sums, operands, ints, source.numel(), **types)


def has_room(target, index):
    """Whether each element of a tensor may have a number, for an index that is written."""
    return target.numel() <= ROOM * index.numel()


def scatter_put(target, source, index, flag, extents, single, wrap=0, name=None):
    """Puts elements into a tensor of ``(outer, size, inner)``, of several the last.

    Args:
        wrap: whether an index may count from the end.
        name: of the type that elements are moved as, ``inner`` for each of the tensor's,
            where it is another.
    """
    count, size, inner = extents
    total = index.numel() // (count * inner) * size * inner
    last = filled(index, (total,), -1, int64)
    operands, ints = [last, index, flag], [*extents, wrap]
    run(last_writers, operands, ints, index.numel(), wrap=wrap)
    types = {"T": name or name_of(target.dtype), "single": single}
    run(put_last, [target, source, last], [single], total, **types)


def put_slices(out, source, index, flag, sizes, parts, single, name):
    """Puts slices where an index says, of several the last; see `put_last_slices`."""
    outer, size, inner = sizes
    count = index.numel()
    last = filled(index, (size,), -1, int64)
    run(last_slices, [last, index, flag], [size, single], count, I=name_of(index.dtype))
    operands, ints = [out, source, last], [count, size, inner, parts, single]
    total = outer * size * inner
    run(put_last_slices, operands, ints, total, T=name, single=single)
