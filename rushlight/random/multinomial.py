"""Draws of categories by weight, with and without replacement."""

import cython
from cython.cimports.libc.math import isfinite
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.rushlight.core.dtype import (
    CODE_FLOAT16,
    CODE_FLOAT32,
    CODE_FLOAT64,
)
from cython.cimports.rushlight.core.elements import (
    bfloat16_to_float,
    float_to_bfloat16,
    float_to_half,
    half_to_float,
)
from cython.cimports.rushlight.random.distributions import (
    BLOCK,
    left_of,
    load,
    uniform_doubles,
)
from cython.cimports.rushlight.random.generator import Generator, generator_or_default


def draw_with_replacement(
    generator,
    out: uintptr_t,
    draws: int64_t,
    weights: uintptr_t,
    code: cython.int,
    rows: int64_t,
    categories: int64_t,
):
    """Indices drawn from each row of ``weights``, by bisecting the running sums.

    Raises:
        RuntimeError: a weight is negative, infinite or NaN, or a row sums to zero.
    """
    source: Generator = generator_or_default(generator)
    sums: cython.p_double = cython.cast(cython.p_double, malloc(8 * max(categories, 1)))
    if sums == cython.NULL:
        raise MemoryError(f"multinomial: no memory for {categories} sums")
    indices: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), out)
    row: int64_t
    draw: int64_t
    try:
        for row in range(rows):
            running_sums(weights, code, row * categories, categories, sums)
            for draw in range(draws):
                indices[row * draws + draw] = bisect(source, sums, categories)
    finally:
        free(sums)


@cython.cfunc
@cython.exceptval(-1, check=False)
def read_row(
    code: cython.int,
    numbers: uintptr_t,
    start: int64_t,
    count: int64_t,
    into: cython.p_double,
) -> cython.int:
    """Reads so many numbers of a type from a place on, a block at a time."""
    i: int64_t
    for i in range(0, count, BLOCK):
        load(
            code,
            cython.cast(cython.p_char, numbers),
            start + i,
            into + i,
            left_of(count, i),
        )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def running_sums(
    weights: uintptr_t,
    code: cython.int,
    start: int64_t,
    count: int64_t,
    sums: cython.p_double,
) -> cython.int:
    """Sums in float64 or float32 as the weights are, divided by the last."""
    i: int64_t
    total: cython.double = 0
    read_row(code, weights, start, count, sums)
    check_weights(sums, count, True)
    for i in range(count):
        total = (
            total + sums[i]
            if code == CODE_FLOAT64
            else cython.cast(cython.float, total + sums[i])
        )
        sums[i] = total
    if not total > 0:
        raise RuntimeError(
            "invalid multinomial distribution (sum of probabilities <= 0)"
        )
    for i in range(count):
        sums[i] = (
            sums[i] / total
            if code == CODE_FLOAT64
            else cython.cast(cython.float, sums[i] / total)
        )
    sums[count - 1] = 1
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def rounded(code: cython.int, value: cython.double) -> cython.double:
    """A double rounded to a floating dtype."""
    if code == CODE_FLOAT64:
        return value
    if code == CODE_FLOAT32:
        return cython.cast(cython.float, value)
    if code == CODE_FLOAT16:
        return half_to_float(float_to_half(cython.cast(cython.float, value)))
    return bfloat16_to_float(float_to_bfloat16(cython.cast(cython.float, value)))


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_weights(
    weights: cython.p_double, count: int64_t, summed: cython.bint
) -> cython.int:
    """Refuses weights that are no shares; in other words where they are summed up."""
    i: int64_t
    for i in range(count):
        if not (isfinite(weights[i]) and weights[i] >= 0):
            if summed:
                kind = "= infinity or NaN" if weights[i] > 0 else "< 0"
                raise RuntimeError(
                    "invalid multinomial distribution (encountering probability entry "
                    f"{kind}): {weights[i]} at category {i}"
                )
            raise RuntimeError(
                "probability tensor contains either `inf`, `nan` or element < 0: "
                f"{weights[i]} at category {i}"
            )
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def bisect(source: Generator, sums: cython.p_double, count: int64_t) -> int64_t:
    """The first category whose running sum reaches a 53-bit uniform number."""
    uniform: cython.double
    low: int64_t = 0
    high: int64_t = count
    middle: int64_t
    uniform_doubles(source, cython.address(uniform), 1)
    while low < high:
        middle = low + (high - low) // 2
        if sums[middle] < uniform:
            low = middle + 1
        else:
            high = middle
    return low


def draw_without_replacement(
    out: uintptr_t,
    draws: int64_t,
    weights: uintptr_t,
    noise: uintptr_t,
    code: cython.int,
    rows: int64_t,
    categories: int64_t,
):
    """The ``draws`` largest of ``weight / noise`` in each row, largest first.

    With exponential noise that is a draw without replacement.

    Raises:
        RuntimeError: a weight is negative, infinite or NaN, or too few are positive.
    """
    scores: cython.p_double = cython.cast(
        cython.p_double, malloc(16 * max(categories, 1))
    )
    if scores == cython.NULL:
        raise MemoryError(f"multinomial: no memory for {categories} scores")
    indices: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), out)
    row: int64_t
    try:
        for row in range(rows):
            score(scores, weights, noise, code, row * categories, categories)
            largest(scores, categories, indices + row * draws, draws)
    finally:
        free(scores)


@cython.cfunc
@cython.exceptval(-1, check=False)
def score(
    scores: cython.p_double,
    weights: uintptr_t,
    noise: uintptr_t,
    code: cython.int,
    start: int64_t,
    count: int64_t,
) -> cython.int:
    other: cython.p_double = scores + count
    i: int64_t
    total: cython.double = 0
    read_row(code, weights, start, count, scores)
    read_row(code, noise, start, count, other)
    check_weights(scores, count, False)
    for i in range(count):
        total += scores[i]
        scores[i] = rounded(code, scores[i] / other[i])
    if not total > 0:
        raise RuntimeError(
            "invalid multinomial distribution (sum of probabilities <= 0)"
        )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def largest(
    scores: cython.p_double,
    count: int64_t,
    out: cython.pointer(int64_t),
    draws: int64_t,
) -> cython.int:
    """Indices of the largest scores, largest first; equal ones in order."""
    if draws == 1:
        out[0] = 0
        i: int64_t
        for i in range(1, count):
            if scores[i] > scores[out[0]]:
                out[0] = i
        return 0
    # a heap of the best so far, the worst of them on top
    at: int64_t
    for at in range(draws):
        out[at] = at
    for at in range(draws // 2 - 1, -1, -1):
        sift_down(scores, out, at, draws)
    for at in range(draws, count):
        if scores[at] > scores[out[0]]:
            out[0] = at
            sift_down(scores, out, 0, draws)
    for at in range(draws - 1, 0, -1):
        out[0], out[at] = out[at], out[0]
        sift_down(scores, out, 0, at)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def worse(scores: cython.p_double, a: int64_t, b: int64_t) -> cython.bint:
    """Whether ``a`` comes after ``b``: a smaller score, or an equal one further on."""
    return scores[a] < scores[b] or (scores[a] == scores[b] and a > b)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sift_down(
    scores: cython.p_double, heap: cython.pointer(int64_t), at: int64_t, count: int64_t
) -> cython.void:
    """Moves one index down until none below it is worse."""
    moved: int64_t = heap[at]
    below: int64_t
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and worse(scores, heap[below + 1], heap[below]):
            below += 1
        if not worse(scores, heap[below], moved):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = moved
