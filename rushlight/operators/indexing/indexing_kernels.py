"""Reading and writing along one dimension at the places an index tensor names.

A tensor is seen as ``(outer, size, inner)`` around the indexed dimension. Where two
indices may name the same place, the work is divided along another axis, so that no two
threads write one element and the order of additions is fixed.
"""

from __future__ import annotations

from rushlight.codegen.loops import A, T, i64, loops, loops_inline, vectorized
from rushlight.core.dtypes import int32, int64
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators.indexing import place_runs
from rushlight.operators.indexing.bounds import (
    NAMES,
    SLICES,
    any_outside,
    checked,
    indexed_offset,
    joined,
    wrapped,
)
from rushlight.operators.indexing.index_errors import no_word
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    filled,
    name_of,
    refuse_fault,
    run,
    run_whole,
    scalar_name,
)

COLUMNS = 128  # of a row divided among threads: whole cache lines, and enough of them


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


@loops_inline
def run_in_block(r, count, end):
    """The outer block of row ``r``, and the rows of it that a chunk goes over from there.

    That is a division for each block, not for each row.
    """
    block = r // count
    first = r - block * count
    return block, first, min(first + end - r, count)


@loops
def copy_rows(
    out: "T*",
    x: "T*",
    index: "I*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    wrap: int,
    begin: int,
    end: int,
):
    """Row ``index[k]`` of ``x`` becomes row ``k``, within each outer block."""
    r = begin + 0
    while r < end:
        block, first, last = run_in_block(r, count, end)
        for k in range(first, last):
            place = i64(index[k])
            place = wrapped(place, size, fault) if wrap else checked(place, size, fault)
            source = (block * size + place) * inner
            for i in range(inner):
                out[(block * count + k) * inner + i] = x[source + i]
        r = r + last - first


@loops
def read_elements(
    out: "T*",
    x: "T*",
    index: "I*",
    fault: "i64*",
    names: NAMES,
    step: int,
    each: int,
    begin: int,
    end: int,
):
    """What an index names, ``each`` elements at a time, ``step`` from each other: 1, or 4.

    Where a thread has one, the next has the next; it reads all before it writes.
    """
    for at in range(begin, end):
        first = x[indexed_offset(index, at, names, fault)]
        if each == 4:
            b, c, d = at + step, at + 2 * step, at + 3 * step
            second = x[indexed_offset(index, b, names, fault)]
            third = x[indexed_offset(index, c, names, fault)]
            fourth = x[indexed_offset(index, d, names, fault)]
            out[b] = second
            out[c] = third
            out[d] = fourth
        out[at] = first


@loops
def copy_lines(
    out: "T*",
    x: "T*",
    index: "I*",
    fault: "i64*",
    count: int,
    size: int,
    wrap: int,
    begin: int,
    end: int,
):
    """The same for rows of one element: line by line of the source.

    The places are tested before the first line, so that what is left only moves.
    """
    wrong = False
    lowest_place = -size if wrap else 0
    for k in range(count):
        place = i64(index[k])
        wrong = wrong | (place < lowest_place) | (place >= size)
        if wrong:
            fault[0] = place
            break
    if not wrong:
        for o in range(begin, end):
            for k in range(count):
                place = i64(index[k])
                if wrap:
                    place = place + size if place < 0 else place
                out[o * count + k] = x[o * size + place]


@loops_inline
def any_slice_outside(index, count, size, fault):
    """The same of indices of any type that name whole slices."""
    wrong = False
    for k in range(count):
        wrong = wrong | (checked(i64(index[k]), size, fault) != i64(index[k]))
    return wrong


@loops
def gather_kernel(
    out: "T*",
    x: "T*",
    index: "i64*",
    fault: "i64*",
    outer: int,
    count: int,
    size: int,
    inner: int,
    across: int,
    line: int,
    begin: int,
    end: int,
):
    """``out[o, k, i] = x[o, index[o, k, i], i]``; ``across`` divides the inner axis.

    Indices are tested before the reads, which vectorise: those of a row, or of all
    rows of a ``line``, which have one element each.
    """
    first_i = begin if across else 0
    last_i = end if across else count if line else inner
    for o in range(0 if across else begin, outer if across else end):
        for k in range(1 if line else count):
            row = o * count if line else (o * count + k) * inner
            if not any_outside(index, row + first_i, row + last_i, size, fault):
                for i in range(first_i, last_i):
                    place = o * size + index[row + i]
                    out[row + i] = x[place if line else place * inner + i]


@loops
def scatter_kernel(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    outer: int,
    count: int,
    size: int,
    inner: int,
    across: int,
    mode: int,
    single: int,
    begin: int,
    end: int,
):
    """``out[o, index[o, k, i], i]`` takes or adds ``source[o, k, i]``, in order."""
    first_i = begin if across else 0
    last_i = end if across else inner
    for o in range(0 if across else begin, outer if across else end):
        for k in range(count):
            for i in range(first_i, last_i):
                here = (o * count + k) * inner + i
                place = (o * size + checked(index[here], size, fault)) * inner + i
                v = source[0 if single else here]
                out[place] = joined(out[place], v, mode, A(1))


@loops
def scatter_lines(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    mode: int,
    single: int,
    begin: int,
    end: int,
):
    """`scatter_kernel` with an item for each ``(o, i)``."""
    for line in range(begin, end):
        o, i = line // inner, line % inner
        for k in range(count):
            here = (o * count + k) * inner + i
            place = (o * size + checked(index[here], size, fault)) * inner + i
            v = source[0 if single else here]
            out[place] = joined(out[place], v, mode, A(1))


@loops
def scatter_products(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    count: int,
    size: int,
    inner: int,
    begin: int,
    end: int,
):
    """``out[o, index[o, k, i], i] *= source[o, k, i]`` for pairs: complex numbers."""
    for line in range(begin, end):
        o, i = line // inner, line % inner
        for k in range(count):
            here = (o * count + k) * inner + i
            place = (o * size + checked(index[here], size, fault)) * inner + i
            a = A(out[2 * place])
            b = A(out[2 * place + 1])
            c = A(source[2 * here])
            d = A(source[2 * here + 1])
            out[2 * place] = T(a * c - b * d)
            out[2 * place + 1] = T(a * d + b * c)


@loops
def join_slices(
    out: "T*",
    source: "T*",
    index: "I*",
    factor: "A*",
    first: "T*",
    fault: "i64*",
    view: SLICES,
    across: int,
    mode: int,
    scaled: int,
    own: int,
    begin: int,
    end: int,
):
    """``out[o, index[k], i]`` joined with ``source[o, k, i]``; no index may be outside.

    Args:
        factor: of the source in sums, where ``scaled``.
        first: the number that such slices begin with, unless their ``own`` count.
    """
    first_o = 0 if across else begin
    last_o = view.outer if across else end
    first_i = begin if across else 0
    last_i = end if across else view.inner
    if any_slice_outside(index, view.count, view.size, fault):
        last_o = first_o
    share = factor[0] if scaled else A(1)
    for o in range(first_o, last_o):
        if not own:
            for k in range(view.count):
                place = (o * view.size + i64(index[k])) * view.inner
                for i in vectorized(first_i, last_i):
                    out[place + i] = first[0]
        if view.inner == 1:
            for k in range(view.count):
                place = o * view.size + i64(index[k])
                out[place] = joined(out[place], source[o * view.count + k], mode, share)
        else:
            for k in range(view.count):
                place = (o * view.size + i64(index[k])) * view.inner
                here = (o * view.count + k) * view.inner
                for i in vectorized(first_i, last_i):
                    both = joined(out[place + i], source[here + i], mode, share)
                    out[place + i] = both


@loops
def put_slices(
    out: "T*",
    source: "T*",
    index: "i64*",
    fault: "i64*",
    outer: int,
    count: int,
    size: int,
    inner: int,
    across: int,
    single: int,
    last: int,
    wrap: int,
    begin: int,
    end: int,
):
    """``out[o, index[k], i] = source[o, k, i]``, or one element of ``last + 1`` parts."""
    first_i = begin if across else 0
    last_i = end if across else inner
    for o in range(0 if across else begin, outer if across else end):
        for k in range(count):
            place = index[k]
            place = wrapped(place, size, fault) if wrap else checked(place, size, fault)
            place = (o * size + place) * inner
            here = (o * count + k) * inner
            for i in range(first_i, last_i):
                out[place + i] = source[i & last] if single else source[here + i]


@loops
def embedding_backward(
    grad_weight: "T*",
    grad: "T*",
    index: "I*",
    counts: "i64*",
    fault: "i64*",
    count: int,
    width: int,
    words: int,
    padding: int,
    scaled: int,
    begin: int,
    end: int,
):
    """Adds each row's gradient to its word, for a range of columns."""
    for k in range(count):
        word = i64(index[k])
        if word != padding:
            word = checked(word, words, fault)
            if scaled:
                for c in range(begin, end):
                    share = A(grad[k * width + c]) / A(counts[word])
                    here = word * width + c
                    grad_weight[here] = T(A(grad_weight[here]) + share)
            else:
                for c in range(begin, end):
                    here = word * width + c
                    total = A(grad_weight[here]) + A(grad[k * width + c])
                    grad_weight[here] = T(total)


@loops
def count_words(
    counts: "i64*", index: "I*", fault: "i64*", words: int, begin: int, end: int
):
    """How often each index occurs."""
    for k in range(begin, end):
        word = checked(i64(index[k]), words, fault)
        counts[word] = counts[word] + 1


def _add_words_in_order(grad_weight, grad, index, flag, words, padding, scaled):
    """Adds rows' gradients to their words, some columns a thread."""
    width, total, counts = grad_weight.shape[1], index.numel(), None
    types = {"T": name_of(grad.dtype), "I": name_of(index.dtype)}
    if scaled:
        counts = filled(grad, [words], 0, int64)
        run_whole(count_words, [counts, index, flag], [words], total, I=types["I"])
    ints = [total, width, words, padding, scaled]
    operands, types["scaled"] = [grad_weight, grad, index, counts, flag], scaled
    run(embedding_backward, operands, ints, width, total, COLUMNS, **types)


_add_words = KernelTable(cpu=_add_words_in_order, cuda=place_runs.add_words)


def embedding_dense_backward(
    grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
):
    """The gradient of ``embedding`` for its weight, as a dense tensor.

    Raises:
        IndexError: an index is negative or too large.
        RuntimeError: the indices are no integers, or don't fit the gradient.
    """
    _check_words(grad_output, indices, num_weights)
    width = grad_output.shape[-1]
    grad_weight = filled(grad_output, [num_weights, width], 0)
    grad, index = grad_output.contiguous(), indices.contiguous()
    flag = fault_flag(grad)
    if not num_weights:
        return grad_weight
    scaled = int(bool(scale_grad_by_freq))
    _add_words(grad_weight, grad, index, flag, num_weights, padding_idx, scaled)
    given = indices, num_weights, "words"
    refuse_fault(flag, "embedding_dense_backward", no_word, *given)
    return grad_weight


def _check_words(grad, indices, num_weights):
    """Refuses indices that cannot have made this gradient."""
    if indices.dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #2 'indices' to have one of the following"
            f" scalar types: Long, Int; but got {scalar_name(indices.dtype)} instead"
            f" (while checking arguments for embedding_backward)"
        )
    if (
        num_weights < 0
        or not grad.dim()
        or list(grad.shape[:-1]) != list(indices.shape)
    ):
        raise RuntimeError(
            "embedding_dense_backward(): expected a row of grad_output for each index"
            f" and no negative number of words, got {num_weights}\n"
            f"  grad_output: {brief(grad)}\n  indices: {brief(indices)}"
        )
    if indices.numel() and not num_weights:
        raise IndexError(
            f"index out of range in self: there are no words\n  indices: {brief(indices)}"
        )
