"""Writing at indexed places on devices of many threads: a run of equal ones is a thread's.

The host's kernels go over an index in its order, a thread for each line, of which a vector
has one. Here places are sorted, equal ones in the index's order, and the thread of a run's
first place goes over the run: no two threads write one element, and every element has the
bits that the lines' order gives it.
"""

from __future__ import annotations

from rushlight.codegen.loops import A, T, i64, loops
from rushlight.core.dtypes import int64
from rushlight.operators.indexing.bounds import NAMES, SLICES, indexed_offset, joined
from rushlight.operators.loop_calls import fresh, name_of, run
from rushlight.operators.sorting import device_sort_rows

MANY_LINES = 8192  # that are threads enough
FEW = 8  # places of a line, that one thread goes over


@loops
def element_positions(
    keys: "i64*", index: "I*", fault: "i64*", names: NAMES, begin: int, end: int
):
    """Where in a tensor of ``(outer, size, inner)`` each element of an index leads."""
    for at in range(begin, end):
        keys[at] = indexed_offset(index, at, names, fault)


@loops
def join_runs(
    out: "T*",
    source: "T*",
    keys: "i64*",
    order: "i64*",
    factor: "A*",
    view: SLICES,
    mode: int,
    scaled: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[o, keys[k], i]`` joined with ``source[o, order[k], i]``, run by run."""
    share = factor[0] if scaled else A(1)
    for at in range(begin, end):
        i = at % view.inner
        o = 0 if view.outer == 1 else at // (view.inner * view.count)
        first = at // view.inner - o * view.count
        place = keys[first]
        if first == 0 or keys[first - 1] != place:
            here = (o * view.size + place) * view.inner + i
            k = first
            while k < view.count and keys[k] == place:
                v = source[
                    0 if single else (o * view.count + order[k]) * view.inner + i
                ]
                out[here] = joined(out[here], v, mode, share)
                k = k + 1


@loops
def put_slice_runs(
    out: "T*",
    source: "T*",
    keys: "i64*",
    order: "i64*",
    count: int,
    size: int,
    inner: int,
    last: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[o, keys[k], i] = source[o, order[k], i]`` of each run's last place."""
    for at in range(begin, end):
        i = at % inner
        k = at // inner % count
        o = at // (inner * count)
        if k == count - 1 or keys[k + 1] != keys[k]:
            source_at = (o * count + order[k]) * inner + i
            here = (o * size + keys[k]) * inner + i
            out[here] = source[i & last if single else source_at]


@loops
def add_word_runs(
    grad_weight: "T*",
    grad: "T*",
    keys: "i64*",
    order: "i64*",
    count: int,
    width: int,
    padding: int,
    scaled: int,
    begin: int,
    end: int,
):
    """Adds the gradients of each word's rows, in their order; a mean where ``scaled``."""
    for at in range(begin, end):
        c = at % width
        first = at // width
        word = keys[first]
        if word != padding and (first == 0 or keys[first - 1] != word):
            last = first
            while last < count and keys[last] == word:
                last = last + 1
            here = word * width + c
            for k in range(first, last):
                share = A(grad[order[k] * width + c])
                share = share / A(last - first) if scaled else share
                grad_weight[here] = T(A(grad_weight[here]) + share)


def worth_sorting(lines, count):
    """Whether lines are too few to be a thread's each.

    >>> worth_sorting(1, 10**6), worth_sorting(10**6, 100), worth_sorting(3, 2)
    (True, False, False)
    """
    return lines < MANY_LINES and count > FEW


def sorted_slices(index, size, flag, wrap=0):
    """The slices that an index names, in order, and which element named each."""
    return in_order(_offsets(index, flag, [index.numel(), size, 1], wrap), size)


def _offsets(index, flag, extents, wrap):
    keys = fresh(index, (index.numel(),), int64)
    types = {"I": name_of(index.dtype), "names_slices": 0, "names_wrap": wrap}
    ints = [*extents, 0, wrap]
    run(element_positions, [keys, index, flag], ints, index.numel(), **types)
    return keys


def in_order(keys, bound):
    """Numbers from zero to a bound in order, and which element had each, stably."""
    values, order = fresh(keys, keys.shape), fresh(keys, keys.shape, int64)
    bits = max(1, (bound - 1).bit_length())
    device_sort_rows.sort_rows(values, order, keys, keys.numel(), False, bits)
    return values, order


def scatter(target, source, index, flag, extents, mode, single, wrap=0):
    """Scatters into a tensor of ``(outer, size, inner)``; see `join_runs`."""
    total = index.numel()
    keys, order = in_order(_offsets(index, flag, extents, wrap), target.numel())
    operands, sizes = [target, source, keys, order, None], [1, total, target.numel(), 1]
    types = {
        "T": name_of(target.dtype),
        "single": single,
        "view_outer": 1,
        "view_inner": 1,
    }
    ints = [*sizes, mode, 0, single]
    run(join_runs, operands, ints, total, mode=mode, scaled=0, **types)


def add_slices(out, source, index, alpha, flag, sizes):
    """Adds slices to those that an index names; see `join_runs`."""
    outer, size, inner = sizes
    count = index.numel()
    keys, order = sorted_slices(index, size, flag)
    scaled = int(alpha is not None)
    operands = [out, source, keys, order, alpha]
    ints = [outer, count, size, inner, 1, scaled, 0]
    types = {"T": name_of(out.dtype), "mode": 1, "scaled": scaled, "single": 0}
    run(join_runs, operands, ints, outer * count * inner, **types)


def put_slices(out, source, index, flag, sizes, last, single, name):
    """Puts slices where an index says; see `put_slice_runs`."""
    outer, size, inner = sizes
    count = index.numel()
    keys, order = sorted_slices(index, size, flag, single)
    ints = [count, size, inner, last, single]
    operands, types = [out, source, keys, order], {"T": name, "single": single}
    run(put_slice_runs, operands, ints, outer * count * inner, **types)


def add_words(grad_weight, grad, index, flag, words, padding, scaled):
    """Adds rows' gradients to their words; see `add_word_runs`."""
    count, width = index.numel(), grad_weight.shape[1]
    keys, order = sorted_slices(index, words, flag)
    operands, ints = [grad_weight, grad, keys, order], [count, width, padding, scaled]
    types = {"T": name_of(grad_weight.dtype), "scaled": scaled}
    run(add_word_runs, operands, ints, count * width, **types)
