"""Running sums, products and extremes along one axis.

What is joined is said once, as a `ScanKind`. Of it are made the host's loops, one lane after
another or several side by side, and the states that join for devices whose threads share a
row (`device_scan`). A kernel sees ``(outer, size, inner)``; lanes, the pairs of outer and
inner index, are independent and are what the thread pool divides.

Follows Blelloch, "Prefix Sums and Their Applications" (1990): an operator that joins, and
what is before the first element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class ScanKind:
    """What a scan joins.

    Attributes:
        name: of the scan, which begins the names of its kernels.
        combine: joins two states.
        identity: what is before the first element.
    """

    name: str
    combine: Callable
    identity: float

    @cached_property
    def join(self):
        """The same for loops."""
        return loops_inline(self.combine)

    @cached_property
    def states(self):
        """The same as states that join, for devices whose threads share a row."""
        return reduction(identity=self.identity)(self.combine)

    def kernel(self, make, name, **how):
        """The kernel that ``make`` defines for this kind."""
        function = make(self)
        function.__name__, function.__doc__ = name, make.__doc__
        return loops(**how)(function)


def add(left, right):
    """Sums."""
    return left + right


def multiply(left, right):
    """Products."""
    return left * right


def log_add(left, right):
    """Logarithms of sums of exponentials, kept below overflow."""
    left_is_high = (left > right) | (left != left)
    high = select(left_is_high, left, right)
    low = select(left_is_high, right, left)
    total = high + log1p(exp(low - high))
    return select((low == high) & (abs(high) == inf), high, total)


def scan(kind):
    """What elements so far make, one lane after another."""
    join, identity = kind.join, kind.identity

    def kernel(out: "T*", x: "T*", size: int, inner: int, begin: int, end: int):
        for lane in range(begin, end):
            mass = A(identity)
            base = lane // inner * size * inner + lane % inner
            for k in range(size):
                mass = join(mass, A(x[base + k * inner]))
                out[base + k * inner] = T(mass)

    return kernel


def scan_lanes(kind):
    """The same of up to 64 lanes side by side."""
    join, identity = kind.join, kind.identity

    def kernel(out: "T*", x: "T*", size: int, inner: int, begin: int, end: int):
        mass = local("A", 64)
        value = local("A", 64)
        place = local("i64", 64)
        for first in range(begin, end, 64):
            count = min(end - first, 64)
            for i in range(count):
                lane = first + i
                place[i] = lane // inner * size * inner + lane % inner
                mass[i] = A(identity)
            for k in range(size):
                for i in range(count):
                    value[i] = A(x[place[i] + k * inner])
                for i in vectorized(count):
                    mass[i] = join(mass[i], value[i])
                for i in range(count):
                    out[place[i] + k * inner] = T(mass[i])

    return kernel


def scan_columns(kind):
    """The same of whole rows, in stripes of columns."""
    join, identity = kind.join, kind.identity

    def kernel(
        out: "T*",
        x: "T*",
        outer: int,
        size: int,
        inner: int,
        across: int,
        begin: int,
        end: int,
    ):
        mass = local("A", 256)
        last = end if across else inner
        for o in range(0 if across else begin, outer if across else end):
            for stripe in range(begin if across else 0, last, 256):
                width = min(last - stripe, 256)
                base = o * size * inner + stripe
                for i in range(width):
                    mass[i] = A(identity)
                for k in range(size):
                    row = base + k * inner
                    for i in vectorized(width):
                        mass[i] = join(mass[i], A(x[row + i]))
                        out[row + i] = T(mass[i])

    return kernel


SUMS = ScanKind("cumsum", add, 0)
PRODUCTS = ScanKind("cumprod", multiply, 1)
LOG_SUMS = ScanKind("logcumsumexp", log_add, -inf)

cumsum_kernel = SUMS.kernel(scan, "cumsum_kernel", error_name="cumsum_out_cpu")
cumprod_kernel = PRODUCTS.kernel(scan, "cumprod_kernel", error_name="cumprod_out_cpu")
logcumsumexp_kernel = LOG_SUMS.kernel(scan_lanes, "logcumsumexp_kernel")
cumsum_columns = SUMS.kernel(scan_columns, "cumsum_columns")
cumprod_columns = PRODUCTS.kernel(scan_columns, "cumprod_columns")
sums, products, log_sums = (kind.states for kind in (SUMS, PRODUCTS, LOG_SUMS))


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


# ---- extremes, with their last places


@loops_inline
def at_least(value, best):
    """Whether a value is the largest so far; NaN stays."""
    return (value >= best) | (value != value)


@loops_inline
def at_most(value, best):
    """Whether a value is the smallest so far; NaN stays."""
    return (value <= best) | (value != value)


def extreme(takes):
    """The extreme so far and its last place; NaN wins and stays."""

    def kernel(
        out: "T*", index: "i64*", x: "T*", size: int, inner: int, begin: int, end: int
    ):
        for lane in range(begin, end):
            base = lane // inner * size * inner + lane % inner
            best = x[base]
            place = 0
            for start in range(0, size, 16):
                stop = min(start + 16, size)
                any_taken = False
                for k in range(start, stop):
                    any_taken = any_taken | takes(x[base + k * inner], best)
                for k in range(start, stop):
                    if any_taken:
                        v = x[base + k * inner]
                        taken = takes(v, best)
                        best = v if taken else best
                        place = k if taken else place
                    out[base + k * inner] = best
                    index[base + k * inner] = place

    return kernel


def extreme_columns(takes):
    """The same of whole rows, in stripes of columns."""

    def kernel(
        out: "T*",
        index: "i64*",
        x: "T*",
        outer: int,
        size: int,
        inner: int,
        across: int,
        begin: int,
        end: int,
    ):
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
                        taken = takes(v, best[i])
                        best[i] = v if taken else best[i]
                        place[i] = k if taken else place[i]
                        out[row + i] = best[i]
                        index[row + i] = place[i]

    return kernel


def extremes(name, identity, takes):
    """The kernels of an extreme, and its states, of which the earlier one may be nothing."""

    def combine(left, right):
        (x, i), (y, j) = left, right
        later = (j >= 0) & takes(y, x)
        return select(later, y, x), select(later, j, i)

    combine.__name__ = f"{name}_so_far"
    kernels = []
    for make in (extreme, extreme_columns):
        function = make(takes)
        words = "columns" if make is extreme_columns else "kernel"
        function.__name__, function.__doc__ = f"{name}_{words}", make.__doc__
        kernels.append(loops(function))
    prepare = lambda x, index: (x, index)  # noqa: E731
    return *kernels, reduction(identity=(identity, -1), prepare=prepare)(combine)


cummax_kernel, cummax_columns, largest_so_far = extremes("cummax", -inf, at_least)
cummin_kernel, cummin_columns, smallest_so_far = extremes("cummin", inf, at_most)


# ---- states of complex logarithms


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
    no states know it; on PyTorch's devices it depends on how threads join theirs.
    """
    (x, mass), (y, more) = left, right
    top = maximum(x, y)
    x, y = (exp(select(high == top, 0, high - top)) for high in (x, y))
    real = mass.real * x + more.real * y
    return top, make_complex(real, mass.imag * x + more.imag * y)


STATES = {
    "cumsum_kernel": sums,
    "cumprod_kernel": products,
    "logcumsumexp_kernel": log_sums,
    "logcumsumexp_of_complex": log_sums_of_complex,
    "cummax_kernel": largest_so_far,
    "cummin_kernel": smallest_so_far,
}


def states_of(name, dtype):
    """The reduction whose states a kernel's results are, and the types of both.

    Returns:
        The reduction, and the names of the input's dtype, the results' and of the one
        that states are made in; None where there are no such states.
    """
    if dtype == "complex32":
        return None
    if STATES[name] in (largest_so_far, smallest_so_far):
        dtype = "uint8" if dtype == "bool" else dtype  # 0 and 1 are in the same order
        return STATES[name], (dtype, (dtype, "int64"), dtype)
    return STATES[name], (dtype, (dtype,), accumulated(dtype))
