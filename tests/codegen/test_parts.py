"""Rows that are many blocks' in their meaning: results, races, barriers."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen.emit import reference_grid
from rushlight.codegen.emit.reference_grid import RaceError
from rushlight.codegen.frontend.front import Front
from rushlight.codegen.frontend.nest import Nest, arrange
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule import gpu_lowering
from rushlight.codegen.target import NVIDIA, using
from rushlight.operators.reduction import reduction
from tests.codegen import grid_kernels
from tests.codegen.test_scans import without_barrier

THREADS = 64
PLAIN = "float64", ("float64",), "float64"
PLACED = "float64", ("float64", "int64"), "float64"
PLACE = "float64", ("int64",), "float64"
PAIR = "float64", ("float64", "float64"), "float64"
CASES = {
    "sum": (reduction.sum, PLAIN, lambda x: [x.sum(1)]),
    "var": (reduction.var, PLAIN, lambda x: [x.var(1, ddof=1)]),
    "var_mean": (reduction.var_mean, PAIR, lambda x: [x.var(1, ddof=1), x.mean(1)]),
    "argmax": (reduction.argmax, PLACE, lambda x: [x.argmax(1)]),
    "min": (reduction.min_with_index, PLACED, lambda x: [x.min(1), x.argmin(1)]),
}


def reduced(source, kinds, x, parts, change=lambda function: function):
    """The results of a reduction of each row of an array, a row being many blocks'."""
    rows, size = x.shape
    span = -(-size // parts)
    parts = -(-size // span)
    outs = [np.zeros(rows, dtype) for dtype in kinds[1]]
    with using(NVIDIA):
        parted = source.parted(*kinds)
    # three loops along a row, their steps, three of rows, the steps of all
    ints = [1, 1, size, 0, 0, 8, 1, 1, rows, 0, 0, 8 * size, *[0, 0, 8] * 2]
    ints = np.array(
        [*ints, *[0] * (gpu_lowering.PARTS - len(ints)), parts, span], np.int64
    )
    number = np.array([size - 1.0])
    states = [np.zeros(rows * parts) for _ in range(parted.leaves)]
    operands = [a.ctypes.data for a in (*outs, x, number)][: parted.operands]
    operands += [a.ctypes.data for a in (*states, ints)]
    for way, total in ((gpu_lowering.FINDS, rows * parts), (gpu_lowering.JOINS, rows)):
        with using(NVIDIA):
            made = lower(source.parts(*kinds, way=way, cut=2))
        reference_grid.run(change(made), [*operands, total], 2, THREADS)
    return outs


@pytest.mark.parametrize("parts", [1, 2, 3, 70])
@pytest.mark.parametrize("size", [71, 500])
@pytest.mark.parametrize("name", CASES)
def test_parts_of_rows_are_joined_to_what_the_row_gives(name, size, parts):
    source, kinds, wanted = CASES[name]
    x = np.random.default_rng(0).integers(-9, 9, (3, size)).astype("d")
    for found, one in zip(reduced(source, kinds, x, parts), wanted(x), strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-12)


def test_the_first_of_equals_and_of_nan_is_found_across_parts():
    x = np.zeros((2, 200))
    x[0, [150, 60]], x[1, [199, 101]] = 5, np.nan
    (places,) = reduced(reduction.argmax, PLACE, x, 4)
    assert places.tolist() == [60, 101]


@pytest.mark.parametrize("name, barriers", [("argmax", 2), ("var_mean", 2)])
def test_every_barrier_between_parts_of_a_row_is_needed(name, barriers):
    source, kinds, _ = CASES[name]
    x = np.ones((4, 200))
    for number in range(barriers):
        with pytest.raises(RaceError, match="no barrier between"):
            reduced(source, kinds, x, 3, without_barrier(number, []))
    counted = []
    reduced(source, kinds, x, 3, without_barrier(None, counted))
    assert len(counted) == 2 * barriers  # of both functions


@pytest.mark.parametrize("function", list(grid_kernels.ROWS), ids=lambda f: f.__name__)
def test_rows_are_parts_where_they_become_one_state(function):
    before, after = grid_kernels.ROWS[function]
    strides = [grid_kernels.strides_of(k, 5, 100, 8, False) for k in after + before]
    found = arrange([5], [100], strides, [8] * len(strides), len(after), ordered=True)
    made: Front = Nest(function)
    kinds = [["int64" if k == "i" else "float64" for k in of] for of in (before, after)]
    with using(NVIDIA):
        parted = made.parted(*map(tuple, kinds), "float64", found.key)
    one = "x" not in after and function not in (grid_kernels.cross_entropy,)
    assert (parted is not None) == one
    if one:
        assert parted.loops == (0,) and parted.operands == len(strides)
