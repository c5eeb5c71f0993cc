"""Counts of points in the cells of a grid."""

import math

from rushlight.codegen.loops import f64, i64, loops
from rushlight.core.dtypes import float64, int64
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import require, run, run_whole
from rushlight.operators.return_types import return_type
from rushlight.operators.sorting import device_tallies
from rushlight.operators.type_groups import FLOATS


@loops
def find_cells(
    cell: "i64*", x: "T*", edges: "T*", count: int, outside: int, begin: int, end: int
):
    """Brings each cell one dimension further; what lies outside is put in no cell.

    Most edges are evenly spaced, so the place that they would then have is tried first.
    """
    low = edges[0]
    high = edges[count - 1]
    pace = f64(count - 1) / (f64(high) - f64(low)) if high > low else f64(0)
    for i in range(begin, end):
        v = x[i]
        if v >= low and v <= high and cell[i] != outside:
            guess = (f64(v) - f64(low)) * pace
            found = i64(guess) if guess >= f64(0) and guess < f64(count) else 0
            found = min(found, max(count - 2, 0))
            if count > 1 and (v < edges[found] or v >= edges[found + 1]):
                first = 0  # the last of the edges that are not above it
                last = count
                while first < last:
                    middle = (first + last) >> 1
                    if v >= edges[middle]:
                        first = middle + 1
                    else:
                        last = middle
                found = min(first - 1, count - 2)
            cell[i] = cell[i] * (count - 1) + found
        else:
            cell[i] = outside


@loops
def add_masses(
    out: "f64*", cell: "i64*", mass: "f64*", weighed: int, begin: int, end: int
):
    """Adds what each point weighs to its cell, in the points' order."""
    for i in range(begin, end):
        out[cell[i]] = out[cell[i]] + (mass[i] if weighed else f64(1))


def _masses_in_order(cell, mass, cells):
    """What the points of each cell weigh; one each where no mass is given."""
    flat = ops.new_zeros(cell, [cells], dtype=float64)
    weighed = int(mass is not None)
    operands = [flat, cell, mass if weighed else flat]
    run_whole(add_masses, operands, [weighed], cell.numel(), weighed=weighed)
    return flat


def _masses_by_threads(cell, mass, cells):
    if mass is None:
        return device_tallies.counts_of(cell, cells).to(float64)
    return device_tallies.sums_of(cell, mass, cells)


_masses = KernelTable(cpu=_masses_in_order, cuda=_masses_by_threads)
_SINGLE_AND_DOUBLE = FLOATS - {5, 15}


def histogram(self, bins, range, weight, density):
    """Equal intervals from the least element to the greatest, or over ``range``."""
    points, weight = self.reshape([-1, 1]), _flat(weight)
    check_counts([bins], 1)
    edges = bin_edges(points, [bins], range, weight, density)
    return points_in_cells(points, edges, weight, density), edges[0]


def histogram_between(self, bins, weight, density):
    """Intervals between neighbouring edges; the last one is closed."""
    points, weight = self.reshape([-1, 1]), _flat(weight)
    return points_in_cells(points, [bins], weight, density), bins.clone()


def _flat(weight):
    return None if weight is None else weight.reshape([-1])


def histogramdd(self, bins, range, weight, density):
    """The counts, and the edges along each dimension."""
    check_points(self)
    if len(bins) != self.shape[-1]:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of "
            "the input."
        )
    options = {"weight": weight, "density": density}
    edges = ops._histogramdd_bin_edges(self, bins, range=range, **options)
    hist = ops._histogramdd_from_bin_cts(self, bins, range=range, **options)
    return return_type("histogramdd", ("hist", "bin_edges"))((hist, tuple(edges)))


def histogramdd_of_one_count(self, bins, range, weight, density):
    """The same number of intervals along each dimension."""
    check_points(self)
    return histogramdd(self, [bins] * self.shape[-1], range, weight, density)


def histogramdd_between(self, bins, range, weight, density):
    """The counts between given edges, and the edges."""
    hist = ops._histogramdd_from_bin_tensors(self, bins, weight=weight, density=density)
    return return_type("histogramdd", ("hist", "bin_edges"))((hist, tuple(bins)))


def check_points(self):
    """Refuses what has no dimension of coordinates.

    Raises:
        RuntimeError: the tensor has fewer than two dimensions.
    """
    if self.ndim < 2:
        raise RuntimeError(
            "torch.histogramdd: input tensor should have at least 2 dimensions"
        )


def check_counts(bins, dims):
    """Refuses numbers of intervals that are none.

    Raises:
        RuntimeError: there are too few numbers, or one is not above zero.
    """
    if len(bins) != dims:
        raise RuntimeError(
            f"torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-"
            f"dimensional histogram but got {len(bins)}"
        )
    for dim, count in enumerate(bins):
        if count <= 0:
            raise RuntimeError(
                f"torch.histogram(): bins must be > 0, but got {count} for dimension "
                f"{dim}"
            )
        if count >= (1 << 63) - 1:  # one edge more is not to be counted
            raise RuntimeError("number of steps must be non-negative")


def bin_edges(self, bins, range, weight, density):
    """Evenly spaced edges over ``range``, or around all points.

    Raises:
        RuntimeError: the range has no length that is known.
    """
    check_points(self)
    dims = self.shape[-1]
    check_counts(bins, dims)
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have "
            f"{2 * dims} elements, but got {len(range)}"
        )
    require("histogramdd", self.dtype, _SINGLE_AND_DOUBLE, self)
    if range is not None:
        limits = [(range[2 * d], range[2 * d + 1]) for d in _counted(dims)]
    elif self.numel():
        points = self.reshape([-1, dims])
        low, high = ops.amin(points, [0]).tolist(), ops.amax(points, [0]).tolist()
        limits = list(zip(low, high))
    else:
        limits = [(0.0, 1.0)] * dims
    edges = []
    for dim, (low, high) in enumerate(limits):
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histogramdd: dimension {dim}'s range [{low:g}, {high:g}] is not "
                "finite"
            )
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max "
                f"{high:g} for dimension {dim}"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(
            ops.linspace(low, high, bins[dim] + 1, dtype=self.dtype, device=self.device)
        )
    return tuple(edges)


_counted = range  # the operators' arguments are called so, too


def points_in_equal_cells(self, bins, range, weight, density):
    """The grid's edges first, then the counts between them."""
    edges = bin_edges(self, bins, range, weight, density)
    return points_in_cells(self, edges, weight, density)


def points_in_cells(self, bins, weight, density):
    """Each point's cell by a search along every dimension; points outside are left out."""
    check_points(self)
    dims = self.shape[-1]
    check_edges(self, bins, weight)
    require("histogramdd", self.dtype, _SINGLE_AND_DOUBLE, self)
    points = self.reshape([-1, dims])
    shape = [edges.shape[0] - 1 for edges in bins]
    check_counts(shape, dims)
    count = points.shape[0]
    cell = ops.new_zeros(points, [count], dtype=int64)
    for dim, edges in enumerate(bins):
        place, edges = points[:, dim].contiguous(), edges.contiguous()
        ints = [edges.shape[0], math.prod(shape)]
        run(find_cells, [cell, place, edges], ints, count, 4, T=self.dtype.name)
    mass = None if weight is None else weight.reshape([-1]).to(float64).contiguous()
    hist = _masses(cell, mass, math.prod(shape) + 1)[:-1].reshape(shape)
    if density:
        hist = hist / hist.sum()
        for dim, edges in enumerate(bins):
            across = [1] * dims
            across[dim] = -1
            hist = hist / ops.diff(edges).to(hist.dtype).reshape(across)
    return hist.to(self.dtype)


def check_edges(self, bins, weight):
    """Refuses edges and weights that don't go with the points.

    Raises:
        RuntimeError: their number, type or shape isn't right.
    """
    dims = self.shape[-1]
    if len(bins) != dims:
        raise RuntimeError(
            f"torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-"
            f"dimensional histogram but got {len(bins)}"
        )
    own = TYPE_NAMES[self.dtype.name]
    for dim, edges in enumerate(bins):
        if edges.dtype is not self.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same "
                f"dtype, but got input with dtype {own} and bins for dimension {dim} "
                f"with dtype {TYPE_NAMES[edges.dtype.name]}"
            )
        if edges.ndim != 1:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have one dimension, but got "
                f"{edges.ndim} dimensions in the bins tensor for dimension {dim}"
            )
        if edges.numel() == 0:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got "
                f"0 elements in the bins tensor for dimension {dim}"
            )
    if weight is None:
        return
    if weight.dtype is not self.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight "
            f"tensor should have the same dtype, but got input({own}), and weight("
            f"{TYPE_NAMES[weight.dtype.name]})"
        )
    if list(weight.shape) != list(self.shape[:-1]):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same "
            "shape as the input tensor excluding its innermost dimension, but got input "
            f"with shape {list(self.shape)} and weight with shape {list(weight.shape)}"
        )
