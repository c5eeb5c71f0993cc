"""Running sums, products and extremes along one axis.

A kernel sees ``(outer, size, inner)``. Lanes, the pairs of outer and inner index, are
independent and are what the thread pool divides.
"""

from __future__ import annotations

from math import inf

from rushlight.codegen.language import exp, is_complex, log1p, log_add_exp
from rushlight.codegen.loops import A, T, local, loops, loops_inline, vectorized


@loops
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
    first_o = 0 if across else begin
    last_o = outer if across else end
    first_i = begin if across else 0
    last_i = end if across else inner
    for o in range(first_o, last_o):
        for stripe in range(first_i, last_i, 256):
            width = min(last_i - stripe, 256)
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


@loops
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
        for k in range(size):
            v = x[base + k * inner]
            better = v >= best if largest else v <= best
            if v != v or (better and best == best):
                best = v
                place = k
            out[base + k * inner] = best
            index[base + k * inner] = place


@loops_inline
def log_add(x, y):
    """The logarithm of ``exp(x) + exp(y)``, kept below overflow."""
    x_is_high = x > y or x != x
    high = x if x_is_high else y
    low = y if x_is_high else x
    total = high + log1p(exp(low - high))
    if low == high and abs(high) == inf:
        total = high
    return total


@loops
def logcumsumexp_kernel(
    out: "T*", x: "T*", size: int, inner: int, begin: int, end: int
):
    """Logarithms of the sums of exponentials so far."""
    for lane in range(begin, end):
        base = lane // inner * size * inner + lane % inner
        mass = A(x[base])
        out[base] = T(mass)
        for k in range(1, size):
            if is_complex(mass):
                mass = log_add_exp(mass, A(x[base + k * inner]))
            else:
                mass = log_add(mass, A(x[base + k * inner]))
            out[base + k * inner] = T(mass)
