"""Running sums, products and extremes along one axis.

A kernel sees ``(outer, size, inner)``. Lanes, the pairs of outer and inner index, are
independent and are what the thread pool divides.
"""

from __future__ import annotations

from math import inf

import rushlight
from rushlight.compiler.language import exp, log1p
from rushlight.compiler.loops import A, T, loops, loops_inline
from rushlight.ops.native import around, fresh, name_of, run, wrap_dim

COLUMNS = 64  # rows this wide are added whole, in vectors
EXACT = ("float32", "float64", "int64")  # types that are accumulated as themselves


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
    """Sums (or products) so far of whole rows: each from the row before it."""
    first_o = 0 if across else begin
    last_o = outer if across else end
    first_i = begin if across else 0
    last_i = end if across else inner
    for o in range(first_o, last_o):
        base = o * size * inner
        for i in range(first_i, last_i):
            out[base + i] = x[base + i]
        for k in range(1, size):
            row = base + k * inner
            for i in range(first_i, last_i):
                if multiply:
                    out[row + i] = out[row - inner + i] * x[row + i]
                else:
                    out[row + i] = out[row - inner + i] + x[row + i]


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
            mass = log_add(mass, A(x[base + k * inner]))
            out[base + k * inner] = T(mass)


def _scan(kernel, x, dim, dtype=None):
    dim = wrap_dim(dim, x.dim())
    if dtype is None:
        whole = not (x.dtype.is_floating_point or x.dtype.is_complex)
        dtype = rushlight.int64 if whole else x.dtype
    x = (x if x.dtype is dtype else x.to(dtype)).contiguous()
    shape = tuple(x.shape)
    out = fresh(x, shape)
    outer, size, inner = around(shape, dim)
    if not size:
        return out
    name = name_of(dtype)
    if inner >= COLUMNS and kernel is not logcumsumexp_kernel and name in EXACT:
        types = {"across": int(outer == 1), "multiply": int(kernel is cumprod_kernel)}
        ints = [outer, size, inner, types["across"], types["multiply"]]
        total, least = (inner, COLUMNS) if outer == 1 else (outer, 1)
        work = 2 * size * (1 if outer == 1 else inner)
        run(cumulate_columns, [out, x], ints, total, work, least, T=name, **types)
    else:
        types = {"T": name, **({"inner": 1} if inner == 1 else {})}
        run(kernel, [out, x], [size, inner], outer * inner, 2 * size, **types)
    return out


def cumsum(self, dim, dtype=None):
    """Sums of the elements so far along ``dim``; integers and bool become int64."""
    return _scan(cumsum_kernel, self, dim, dtype)


def cumprod(self, dim, dtype=None):
    """Products of the elements so far along ``dim``; integers and bool become int64."""
    return _scan(cumprod_kernel, self, dim, dtype)


def logcumsumexp(self, dim):
    """Logarithms of the sums of exponentials so far along ``dim``."""
    return _scan(logcumsumexp_kernel, self, dim, self.dtype)


def _cumulative(x, dim, largest):
    dim = wrap_dim(dim, x.dim())
    x = x.contiguous()
    out, index = fresh(x, x.shape), fresh(x, x.shape, rushlight.int64)
    outer, size, inner = around(list(x.shape), dim)
    if size:
        types = {"T": name_of(x.dtype), "largest": largest}
        ints = [size, inner, largest]
        run(cumulative_extreme, [out, index, x], ints, outer * inner, 2 * size, **types)
    return out, index


def cummax(self, dim):
    """The largest value so far along ``dim``, and where it was last."""
    return _cumulative(self, dim, 1)


def cummin(self, dim):
    """The smallest value so far along ``dim``, and where it was last."""
    return _cumulative(self, dim, 0)
