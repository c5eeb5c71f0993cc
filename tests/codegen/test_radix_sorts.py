"""Sorts by a block's threads in their meaning: orders, races, barriers."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen.emit import reference_grid
from rushlight.codegen.emit.reference_grid import RaceError
from rushlight.codegen.lower import lower
from rushlight.ir import expr as ir
from rushlight.ir import threads
from rushlight.ir.rewrite import map_statement
from rushlight.kernels.sort import radix_sort
from tests.codegen.test_selections import in_order, rows_of

KINDS = ("uint8", "int8", "int16", "int32", "uint32", "float16", "float32")
WIDE = ("int64", "uint64", "float64")


def sorted_rows(x, threads=32, each=2, descending=False, bits=None, change=None):
    """What the blocks of a launch make of the rows of an array, each alone."""
    out, index = np.zeros_like(x), np.full(x.shape, -1)
    ints = np.array([x.shape[1]], np.int64)
    kinds = x.dtype.name, descending, threads, each, bits
    made = lower(radix_sort.row("sorted", *kinds))
    operands = [a.ctypes.data for a in (out, index, x, ints)]
    made = change(made) if change else made
    reference_grid.run(made, [*operands, x.shape[0]], 2, threads)
    return out, index


def sorted_in_parts(x, parts, threads=64, each=2, descending=False, change=None):
    """What launches over parts of rows make of an array."""
    rows, size = x.shape
    tile = threads * each
    span = (size + parts * tile - 1) // (parts * tile) * tile
    width = 8 * x.dtype.itemsize
    place = np.zeros(x.shape, np.int32)
    for shift in range(0, width, 8):
        first, last = shift == 0, shift + 8 == width
        counts = np.zeros((rows, 256, parts), np.int64)
        ints = np.array([size, parts, span, shift], np.int64)
        made = lower(radix_sort.count("counted", x.dtype.name, descending, threads))
        operands = [a.ctypes.data for a in (counts, x, ints)]
        reference_grid.run(made, [*operands, rows * parts], 2, threads)
        sums = counts.reshape(rows, -1).cumsum(1)
        out, moved = np.zeros_like(x), np.zeros(x.shape, np.int64 if last else np.int32)
        given = x.dtype.name, descending, threads, each, "int32", first, last
        made = lower(radix_sort.place("placed", *given))
        made = change(made) if change else made
        operands = [a.ctypes.data for a in (out, moved, x, place, sums, ints)]
        reference_grid.run(made, [*operands, rows * parts], 2, threads)
        x, place = out, moved
    return x, place


def same(x, found, descending):
    """Values and places in the order that comparing elements gives."""
    for row, values, places in zip(x, *found, strict=True):
        wanted = in_order(row, descending)
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(values, row[wanted])


@pytest.mark.parametrize("kind", [*KINDS, *WIDE])
def test_rows_that_fit_a_tile_are_sorted_stably(kind):
    size = 24 if kind in WIDE else 60
    for descending in (False, True):
        x = rows_of(kind, size)
        same(x, sorted_rows(x, descending=descending), descending)


@pytest.mark.parametrize("kind", ["uint8", "float16", "int32"])
def test_parts_of_rows_are_sorted_together(kind):
    x = rows_of(kind, 160)
    same(x, sorted_in_parts(x, 2, 32, descending=kind == "int32"), kind == "int32")


def test_bits_beyond_those_that_differ_are_not_read():
    x = np.random.default_rng(0).integers(0, 256, (2, 60))
    same(x, sorted_rows(x, bits=8), False)


def without(kind, number, counted):
    """Changes a function: one of its statements of a kind is left out."""

    def change(function):
        def kept(body):
            result = []
            for statement in body:
                if isinstance(statement, kind):
                    counted.append(statement)
                    if len(counted) - 1 == number:
                        continue
                result.append(map_statement(statement, lambda e: e, kept))
            return tuple(result)

        return function.with_body(kept(function.body))

    return change


@pytest.mark.parametrize(
    "kind, statements", [(ir.Barrier, 4), (threads.WarpBarrier, 3)]
)
def test_every_barrier_of_a_sorted_row_is_needed(kind, statements):
    x = rows_of("int8", 60)
    counted = []
    sorted_rows(x, 64, change=without(kind, None, counted))
    assert len(counted) == (statements if kind is ir.Barrier else 1 + 2 * 2)
    for number in range(statements):
        with pytest.raises(RaceError, match="no barrier between"):
            sorted_rows(x, 64, change=without(kind, number, []))


def test_every_barrier_of_placed_parts_is_needed():
    x = rows_of("uint8", 260).repeat(2, 0)
    counted = []
    sorted_in_parts(x, 2, change=without(ir.Barrier, None, counted))
    assert len(counted) == 4
    for number in range(4):
        with pytest.raises(RaceError, match="no barrier between"):
            sorted_in_parts(x, 2, change=without(ir.Barrier, number, []))
