"""Selections by a block's threads in their meaning: results, races, barriers."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen.emit import reference_grid
from rushlight.codegen.emit.reference_grid import RaceError
from rushlight.codegen.lower import lower
from rushlight.kernels.select import device_select
from tests.codegen.test_scans import without_barrier

THREADS = 64
TYPES = (
    "uint8",
    "int8",
    "int16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
)


def selected(way, x, rank, parts=1, descending=False, skip=0, change=lambda f: f):
    """Values and places that are selected from each part of the rows of an array."""
    rows, size = x.shape
    count = rank + 1 if way == device_select.FIRST else 1
    out = np.zeros((rows, parts, count), x.dtype)
    place = np.full(out.shape, -1)
    ints = np.array([size, parts, rank, skip], np.int64)
    kinds = x.dtype.name, way, descending, THREADS
    made = lower(device_select.function("chosen", *kinds))
    operands = [a.ctypes.data for a in (out, place, x, ints)]
    reference_grid.run(change(made), [*operands, rows * parts], 2, THREADS)
    return out, place


def in_order(row, descending):
    """The places of a row's elements in their order, equal ones in that of the row."""
    key = row.astype("f8") if row.dtype.kind == "f" else row.astype("O")
    nan = [v != v for v in key]
    turned = [
        0 if n else (-v if descending else v) for v, n in zip(key, nan, strict=True)
    ]
    sides = [n != descending for n in nan]
    return sorted(range(len(row)), key=lambda k: (sides[k], turned[k], k))


def rows_of(kind, size):
    """Rows with equals in them, extremes, and NaN where there is one."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (3, size)).astype(kind)
    if x.dtype.kind == "f":
        x -= 4
        x[1, ::7], x[1, 1::7], x[2, 3], x[0, ::5] = np.nan, -np.inf, np.inf, -0.0
    else:
        x[1, ::5], x[1, 1::5] = np.iinfo(kind).max, np.iinfo(kind).min
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_the_first_of_rows_are_selected_and_of_equals_the_first(kind, descending):
    x = rows_of(kind, 75)
    for rank in (0, 4, 74):
        out, place = selected(device_select.FIRST, x, rank, descending=descending)
        for row, (values, places) in enumerate(
            zip(out[:, 0], place[:, 0], strict=True)
        ):
            wanted = in_order(x[row], descending)[: rank + 1]
            assert sorted(places) == sorted(wanted)
            np.testing.assert_array_equal(values, x[row][places])
            # those before the last come first, each kind in the order of the row
            last = x[row][wanted[-1]]
            equal = [v == last or (v != v and last != last) for v in values]
            assert equal == sorted(equal)
            for side in (False, True):
                mine = [p for p, e in zip(places, equal, strict=True) if e == side]
                assert mine == sorted(mine)


@pytest.mark.parametrize("size", [1, 31, 33, 64, 65, 200])
@pytest.mark.parametrize("descending", [False, True])
def test_the_element_of_a_rank_is_found_where_a_stable_order_has_it(size, descending):
    x = rows_of("float32", max(size, 4))[:, :size].copy()
    for rank in {0, size // 2, size - 1}:
        out, place = selected(device_select.RANKED, x, rank, descending=descending)
        for row in range(3):
            wanted = in_order(x[row], descending)[rank]
            assert place[row, 0, 0] == wanted
            np.testing.assert_array_equal(out[row, 0, 0], x[row, wanted])


@pytest.mark.parametrize("skip", [0, 1])
def test_the_lower_middle_is_that_of_numbers_or_the_first_nan(skip):
    x = rows_of("float64", 80)
    x[2] = np.nan
    out, place = selected(device_select.MIDDLE, x, 0, skip=skip)
    for row in range(3):
        good = int((x[row] == x[row]).sum())
        rank = good if good < 80 and (not skip or not good) else (good - 1) // 2
        assert place[row, 0, 0] == in_order(x[row], False)[rank]


def test_parts_of_a_row_are_selected_from_apart():
    x = rows_of("int32", 101)
    out, place = selected(device_select.FIRST, x, 2, parts=3, descending=True)
    for row in range(3):
        for part in range(3):
            start, stop = part * 101 // 3, (part + 1) * 101 // 3
            wanted = in_order(x[row, start:stop], True)[:3]
            assert sorted(place[row, part]) == sorted(start + k for k in wanted)
            np.testing.assert_array_equal(out[row, part], x[row][place[row, part]])


@pytest.mark.parametrize("way, barriers", [("first", 4), ("middle", 6)])
def test_every_barrier_of_a_selection_is_needed(way, barriers):
    x = rows_of("uint8", 100).repeat(2, 0)
    for number in range(barriers):
        with pytest.raises(RaceError, match="no barrier between"):
            selected(way, x, 3, change=without_barrier(number, []))
    counted = []
    selected(way, x, 3, change=without_barrier(None, counted))
    assert len(counted) == barriers
