"""Running sums, products and extremes along one axis.

A kernel sees ``(outer, size, inner)``. Lanes, the pairs of outer and inner index, are
independent and are what the thread pool divides.
"""

from __future__ import annotations

from math import inf

from rushlight.codegen.frontend.storage import accumulated
from rushlight.codegen.language import (
    atan2,
    cos,
    exp,
    log,
    log1p,
    log_add_exp,
    make_complex,
    maximum,
    reduction,
    select,
    sin,
)
from rushlight.codegen.loops import A, T, i64, local, loops, loops_inline, vectorized


@loops(error_name="cumsum_out_cpu")
def cumsum_kernel(out: "T*", x: "T*", size: int, inner: int, begin: int, end: int):
    """Sums so far."""
    for lane in range(begin, end):
        mass = A(0)
        base = lane // inner * size * inner + lane % inner
        for k in range(size):
            mass = mass + A(x[base + k * inner])
            out[base + k * inner] = T(mass)


@loops
def cumulate_columns(
    out: "T*",
    x: "T*",
    outer: int,
    size: int,
    inner: int,
    across: int,
    multiply: int,
    begin: int,
    end: int,
):
    """Sums (or products) so far of whole rows, in stripes of columns."""
    mass = local("A", 256)
    last = end if across else inner
    for o in range(0 if across else begin, outer if across else end):
        for stripe in range(begin if across else 0, last, 256):
            width = min(last - stripe, 256)
            base = o * size * inner + stripe
            for i in range(width):
                mass[i] = A(x[base + i])
                out[base + i] = x[base + i]
            for k in range(1, size):
                row = base + k * inner
                for i in vectorized(width):
                    if multiply:
                        mass[i] = mass[i] * A(x[row + i])
                    else:
                        mass[i] = mass[i] + A(x[row + i])
                    out[row + i] = T(mass[i])


@loops(error_name="cumprod_out_cpu")
def cumprod_kernel(out: "T*", x: "T*", size: int, inner: int, begin: int, end: int):
    """Products so far."""
    for lane in range(begin, end):
        mass = A(1)
        base = lane // inner * size * inner + lane % inner
        for k in range(size):
            mass = mass * A(x[base + k * inner])
            out[base + k * inner] = T(mass)


@loops
def cumulative_extreme(
    out: "T*",
    index: "i64*",
    x: "T*",
    size: int,
    inner: int,
    largest: int,
    begin: int,
    end: int,
):
    """The largest (or smallest) value so far and its last place; NaN wins and stays."""
    for lane in range(begin, end):
        base = lane // inner * size * inner + lane % inner
        best = x[base]
        place = 0
        for start in range(0, size, 16):
            stop = min(start + 16, size)
            any_taken = False
            for k in range(start, stop):
                v = x[base + k * inner]
                better = v >= best if largest else v <= best  # nothing is above NaN
                any_taken = any_taken | better | (v != v)
            for k in range(start, stop):
                if any_taken:
                    v = x[base + k * inner]
                    better = v >= best if largest else v <= best
                    taken = better | (v != v)
                    best = v if taken else best
                    place = k if taken else place
                out[base + k * inner] = best
                index[base + k * inner] = place


@loops
def cumulative_extreme_columns(
    out: "T*",
    index: "i64*",
    x: "T*",
    outer: int,
    size: int,
    inner: int,
    across: int,
    largest: int,
    begin: int,
    end: int,
):
    """The same of whole rows, in stripes of columns."""
    best = local("T", 256)
    place = local("i64", 256)
    last = end if across else inner
    for o in range(0 if across else begin, outer if across else end):
        for stripe in range(begin if across else 0, last, 256):
            width = min(last - stripe, 256)
            base = o * size * inner + stripe
            for i in range(width):
                best[i] = x[base + i]
                place[i] = i64(0)
            for k in range(size):
                row = base + k * inner
                for i in range(width):
                    v = x[row + i]
                    w = best[i]
                    better = v >= w if largest else v <= w
                    taken = better | (v != v)
                    best[i] = v if taken else w
                    place[i] = k if taken else place[i]
                    out[row + i] = best[i]
                    index[row + i] = place[i]


@loops_inline
def log_add(x, y):
    """The logarithm of ``exp(x) + exp(y)``, kept below overflow."""
    x_is_high = (x > y) | (x != x)
    high = select(x_is_high, x, y)
    low = select(x_is_high, y, x)
    total = high + log1p(exp(low - high))
    return select((low == high) & (abs(high) == inf), high, total)


@loops
def logcumsumexp_kernel(
    out: "T*", x: "T*", size: int, inner: int, begin: int, end: int
):
    """Logarithms of the sums of exponentials so far, of up to 64 lanes side by side."""
    mass = local("A", 64)
    value = local("A", 64)
    place = local("i64", 64)
    for first in range(begin, end, 64):
        count = min(end - first, 64)
        for i in range(count):
            lane = first + i
            place[i] = lane // inner * size * inner + lane % inner
            mass[i] = A(x[place[i]]) + A(0)  # the logarithm of one is no -0
            out[place[i]] = T(mass[i])
        for k in range(1, size):
            for i in range(count):
                value[i] = A(x[place[i] + k * inner])
            for i in vectorized(count):
                mass[i] = log_add(mass[i], value[i])
            for i in range(count):
                out[place[i] + k * inner] = T(mass[i])


@loops
def logcumsumexp_of_complex(
    out: "T*", x: "T*", size: int, inner: int, begin: int, end: int
):
    """The same of complex numbers, one lane after another."""
    for lane in range(begin, end):
        base = lane // inner * size * inner + lane % inner
        mass = A(x[base])
        out[base] = T(mass)
        for k in range(1, size):
            mass = log_add_exp(mass, A(x[base + k * inner]))
            out[base + k * inner] = T(mass)


# ---- the same as states that join, for devices whose threads share a row


@reduction(identity=0)
def sums(left, right):
    """Sums."""
    return left + right


@reduction(identity=1)
def products(left, right):
    """Products."""
    return left * right


@reduction(identity=-inf)
def log_sums(left, right):
    """Logarithms of sums of exponentials."""
    x_is_high = (left > right) | (left != left)
    high, low = select(x_is_high, left, right), select(x_is_high, right, left)
    total = high + log1p(exp(low - high))
    return select((low == high) & (abs(high) == inf), high, total)


def _relative(x):
    """A logarithm as the real part, and the number without it, of length one."""
    return x.real, make_complex(cos(x.imag), sin(x.imag))


def _logarithm(state):
    """The logarithm of a number that has been divided by the exponential of another."""
    high, mass = state
    return make_complex(log(abs(mass)) + high, atan2(mass.imag, mass.real))


@reduction(identity=(-inf, 0), prepare=_relative, finish=_logarithm)
def log_sums_of_complex(left, right):
    """The same of complex numbers: the angle is that of the sum, between half turns.

    How many whole turns the sequence of sums has made depends on what came first, so
    no states know it; on PyTorch's cards it depends on how threads join theirs.
    """
    (x, mass), (y, more) = left, right
    top = maximum(x, y)
    x, y = (exp(select(high == top, 0, high - top)) for high in (x, y))
    real = mass.real * x + more.real * y
    return top, make_complex(real, mass.imag * x + more.imag * y)


def _extreme(name, identity, reaches):
    """The extreme so far and its last place; NaN wins and stays."""

    def combine(left, right):
        (x, i), (y, j) = left, right
        takes = (j >= 0) & (reaches(y, x) | (y != y))
        return select(takes, y, x), select(takes, j, i)

    combine.__name__ = name
    return reduction(identity=(identity, -1), prepare=lambda x, index: (x, index))(
        combine
    )


largest_so_far = _extreme("largest_so_far", -inf, lambda y, x: y >= x)
smallest_so_far = _extreme("smallest_so_far", inf, lambda y, x: y <= x)
STATES = {
    "cumsum_kernel": sums,
    "cumprod_kernel": products,
    "logcumsumexp_kernel": log_sums,
    "logcumsumexp_of_complex": log_sums_of_complex,
}


def states_of(name, dtype, flag):
    """The reduction whose states a kernel's results are, and the types of both.

    Returns:
        The reduction, and the names of the input's dtype, the results' and of the one
        that states are made in; None where there are no such states.
    """
    if dtype == "complex32":
        return None
    if name == "cumulative_extreme":
        dtype = "uint8" if dtype == "bool" else dtype  # 0 and 1 are in the same order
        source = largest_so_far if flag else smallest_so_far
        return source, (dtype, (dtype, "int64"), dtype)
    kind = "float64" if dtype == "float32" else accumulated(dtype)
    return STATES[name], (dtype, (dtype,), kind)
