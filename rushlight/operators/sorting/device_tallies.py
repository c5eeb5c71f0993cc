"""Counts of numbers, and sums by number, where there are as many threads as elements."""

from __future__ import annotations

from rushlight.codegen.loops import atomic_add, f64, i64, loops
from rushlight.core.device import backend_for
from rushlight.core.dtypes import int64
from rushlight.kernels.select import tally
from rushlight.operators.indexing import place_joins, place_runs
from rushlight.operators.loop_calls import fault_flag, filled, fresh, name_of, run

THREADS = 256  # of a block
PARTS = 1024  # of all elements: a block's each
LEAST = 4096  # elements of a part


@loops
def count_numbers(counts: "i64*", x: "i64*", bound: int, begin: int, end: int):
    """The same with one addition for each number, where they are many."""
    for k in range(begin, end):
        if x[k] >= 0 and x[k] < bound:
            atomic_add(counts, x[k], i64(1))


@loops
def bins_of(out: "i64*", x: "T*", limits: "f64*", bins: int, begin: int, end: int):
    """The bin of each element, of equally wide ones of which the last is closed; or -1."""
    for k in range(begin, end):
        v = f64(x[k])
        place = i64(-1)
        if v >= limits[0] and v <= limits[1]:
            place = i64((v - limits[0]) * f64(bins) / (limits[1] - limits[0]))
            place = min(place, bins - 1)
        out[k] = place


def counts_of(x, bound):
    """How often each number from zero to a bound occurs among int64; others do not count.

    Args:
        x: dense.
    """
    counts, size = filled(x, (bound,), 0, int64), x.numel()
    if bound > tally.MOST:
        run(count_numbers, [counts, x], [bound], size)
    elif size:
        span = max(LEAST, -(-size // PARTS))
        given = [counts, x], (size, bound, span), -(-size // span), THREADS
        libraries = backend_for(x.device.type).libraries
        libraries.run_blocks(tally.tally, (THREADS,), *given)
    return counts


def sums_of(x, weights, bound):
    """The sums of the weights of each number from zero to a bound.

    In one order where programs ask for that, else as threads come.
    """
    out = filled(weights, (bound,), 0, weights.dtype)
    if not x.numel():
        return out
    given = out, weights, x, fault_flag(x), (x.numel(), bound, 1)
    if place_joins.joins_in_any_order(weights.dtype):
        place_joins.scatter_add(*given, 0)
    else:
        place_runs.scatter(*given, 1, 0)
    return out


def histogram(x, limits, bins):
    """How many elements of a dense tensor fall into each of equally wide bins."""
    found = fresh(x, (x.numel(),), int64)
    run(bins_of, [found, x, limits], [bins], x.numel(), T=name_of(x.dtype))
    return counts_of(found, bins).to(x.dtype)
