"""Writing at indexed places on devices of many threads: an element of the index a thread.

Sums are atomic, as PyTorch's: those of whole numbers are the same in any order, those of
floats are joined as threads come. Of several values for one place the one that comes last
in the index is put: each tells its number, of which the largest stays.
"""

from __future__ import annotations

from rushlight.codegen.loops import A, T, atomic_add, atomic_max, loops
from rushlight.core.dtypes import int64
from rushlight.core.switches import switch
from rushlight.operators.indexing.bounds import NAMES, SLICES, indexed_offset
from rushlight.operators.loop_calls import filled, name_of, run

ROOM = 4  # elements written for one of an index that are worth a number each


@loops
def add_indexed(
    out: "T*",
    source: "T*",
    index: "I*",
    alpha: "A*",
    fault: "i64*",
    names: NAMES,
    scaled: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[..., index[at], ...] += alpha * source[at]`` in ``(outer, size, inner)``."""
    for at in range(begin, end):
        here = indexed_offset(index, at, names, fault)
        v = source[0 if single else at]
        atomic_add(out, here, T(A(v) * alpha[0]) if scaled else v)


@loops
def last_writers(
    last: "i64*", index: "I*", fault: "i64*", names: NAMES, begin: int, end: int
):
    """For each place written the number of the last one of an index that names it."""
    for at in range(begin, end):
        here = indexed_offset(index, at, names, fault)
        atomic_max(last, here, at)


@loops
def put_last(
    out: "T*",
    source: "T*",
    last: "i64*",
    view: SLICES,
    parts: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[o, s, i] = source[o, last[s], i]`` where something is put."""
    for at in range(begin, end):
        i = at % view.inner
        row = at // view.inner
        o = 0 if view.outer == 1 else row // view.size
        k = last[row - o * view.size]
        if k >= 0:
            out[at] = source[
                i & parts if single else (o * view.count + k) * view.inner + i
            ]


def joins_in_any_order(dtype):
    """Whether sums of a dtype may be joined as threads come: asked for, or the same."""
    return not switch("deterministic") or not (
        dtype.is_floating_point or dtype.is_complex
    )


def scatter_add(target, source, index, flag, extents, single, wrap=0):
    """Adds to a tensor of ``(outer, size, inner)``; see `add_indexed`.

    Args:
        wrap: whether an index may count from the end.
    """
    operands, kinds = [target, source, index, None, flag], [0, wrap, 0, single]
    _add(operands, [*extents, *kinds], index.numel())


def add_slices(out, source, index, alpha, flag, sizes):
    """Adds slices to those that an index names; see `add_indexed`.

    Args:
        alpha: a tensor of one number that they are multiplied by, or None.
        flag: where bad indices are noted, or None where there are none.
    """
    _, size, inner = sizes
    operands, ints = [out, source, index, alpha, flag], [index.numel(), size, inner]
    _add(operands, [*ints, 1, 0, int(alpha is not None), 0], source.numel())


def _add(operands, ints, count):
    types = {"T": name_of(operands[0].dtype), "I": name_of(operands[2].dtype)}
    kinds = dict(zip(("names_slices", "names_wrap", "scaled", "single"), ints[3:]))
    run(add_indexed, operands, ints, count, **types, **kinds)


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
    _find_last(last, index, flag, extents, wrap)
    types = {"T": name or name_of(target.dtype), "single": single}
    types |= {"view_outer": 1, "view_inner": 1}
    ints = [1, 0, total, 1, 0, single]
    run(put_last, [target, source, last], ints, total, **types)


def put_slices(out, source, index, flag, sizes, parts, single, name):
    """Puts slices where an index says, of several the last; see `put_last`."""
    outer, size, inner = sizes
    count = index.numel()
    last = filled(index, (size,), -1, int64)
    _find_last(last, index, flag, [count, size, 1], single)
    operands, ints = [out, source, last], [outer, count, size, inner, parts, single]
    run(put_last, operands, ints, outer * size * inner, T=name, single=single)


def _find_last(last, index, flag, extents, wrap):
    types = {"I": name_of(index.dtype), "names_slices": 0, "names_wrap": wrap}
    ints = [*extents, 0, wrap]
    run(last_writers, [last, index, flag], ints, index.numel(), **types)
