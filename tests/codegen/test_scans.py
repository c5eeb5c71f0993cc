"""Running states by a grid's threads: results, races, and that every barrier is needed."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen.emit import reference_grid
from rushlight.codegen.emit.reference_grid import RaceError
from rushlight.codegen.lower import lower
from rushlight.ir.expr import Barrier
from rushlight.ir.rewrite import map_statement
from rushlight.kernels.scan import device_scan, scan_kernels
from rushlight.kernels.scan.scan_kernels import largest_so_far, products, sums
from rushlight.kernels.scan.scan_kernels import log_sums_of_complex as log

PLAIN = "float32", ("float32",), "float64"
PAIRS = "complex128", ("complex128",), "complex128"
PLACED = "float64", ("float64", "int64"), "float64"
THREADS, TILE = 64, 64 * device_scan.EACH


def scanned(source, kinds, x, parts, change=lambda function: function):
    """The results of a scan along the middle dimension of an array, and its launches."""
    outer, size, inner = x.shape
    rows, tiles = outer * inner, -(-size // TILE)
    span = -(-tiles // parts) * TILE
    parts = -(-size // span)
    outs = [np.zeros(x.shape, dtype) for dtype in kinds[1]]
    leaves = len(device_scan.monoid_of(source, kinds[2]).types)
    states = [np.zeros(rows * parts) for _ in range(leaves)]
    ints = np.array([size, inner, parts, span], np.int64)
    operands = [a.ctypes.data for a in (*outs, x, *states, ints)]
    for way in (
        (device_scan.TOTALS, device_scan.JOINED) if parts > 1 else (device_scan.ALONE,)
    ):
        function = lower(device_scan.function("scan", source, *kinds, THREADS, way))
        reference_grid.run(change(function), [*operands, rows * parts], 2, THREADS)
    return outs


@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", [1, 33, TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
def test_sums_so_far_are_those_of_each_row(size, parts, inner):
    x = np.random.default_rng(0).standard_normal((2, size, inner)).astype("f")
    (found,) = scanned(sums, PLAIN, x, parts)
    np.testing.assert_array_equal(found, x.cumsum(1, dtype="d").astype("f"))


def test_parts_of_complex_numbers_are_joined():
    rng = np.random.default_rng(0)
    x = np.exp(1j * rng.standard_normal((1, 2 * TILE + 3, 1)))
    logs = np.log(np.exp(x).cumsum(1))
    for source, wanted in ((sums, x.cumsum(1)), (products, x.cumprod(1)), (log, logs)):
        (found,) = scanned(source, PAIRS, x, 3)
        if source is log:
            found, wanted = np.exp(found), np.exp(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_extremes_are_at_their_last_places_and_nan_stays():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (3, 2 * TILE + 9, 1)).astype("d")
    x[1, 700], x[1, 701], x[2, 0] = np.nan, 5, -np.inf
    best, place = scanned(largest_so_far, PLACED, x, 2)
    np.testing.assert_array_equal(best, np.maximum.accumulate(x, 1))
    for row, values in enumerate(x[:, :, 0]):
        last = 0
        for k, value in enumerate(values):
            last = k if value >= values[last] or value != value else last
            assert place[row, k, 0] == last


def without_barrier(number, counted):
    """Changes a function: one of its barriers is left out."""

    def change(function):
        def kept(body):
            result = []
            for statement in body:
                if isinstance(statement, Barrier):
                    counted.append(statement)
                    if len(counted) - 1 == number:
                        continue
                result.append(map_statement(statement, lambda e: e, kept))
            return tuple(result)

        return function.with_body(kept(function.body))

    return change


@pytest.mark.parametrize(
    "source, kinds, barriers", [(sums, PLAIN, 3), (largest_so_far, PLACED, 4)]
)
def test_every_barrier_of_a_scan_is_needed(source, kinds, barriers):
    x = np.ones((2, TILE + 5, 1), kinds[0])
    for number in range(barriers):
        with pytest.raises(RaceError, match="no barrier between"):
            scanned(source, kinds, x, 1, without_barrier(number, []))
    counted = []
    scanned(source, kinds, x, 1, without_barrier(None, counted))
    assert len(counted) == barriers


def test_every_kernel_that_joins_has_its_states():
    for name in scan_kernels.STATES:
        dtype = "complex64" if name.endswith("complex") else "bfloat16"
        source, kinds = scan_kernels.states_of(name, dtype)
        assert kinds[0] == dtype and device_scan.monoid_of(source, kinds[2]).types
    assert scan_kernels.states_of("cumsum_kernel", "complex32") is None
