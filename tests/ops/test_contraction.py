"""The loops of matrix products, generated with small tiles and run by each emitter."""

import ctypes
import itertools

import numpy as np
import pytest

from rushlight.backends.cpu.launch import launch
from rushlight.codegen import expr as ir
from rushlight.codegen.build import native
from rushlight.codegen.builder import Builder
from rushlight.codegen.emit import llvm
from rushlight.codegen.emit.python import render
from rushlight.codegen.emit.reference import execute
from rushlight.codegen.language import maximum
from rushlight.codegen.lower import lower
from rushlight.codegen.schedules.contraction import Tile, matrix_tile
from rushlight.codegen.target import named, using
from rushlight.ops import contraction
from rushlight.ops import contraction_vectors as vectors

SMALL = Tile(lanes=4, rows=3, vectors=2, depth=5, columns=16)


def run_native(function, arrays, ints, total):
    kernel = native(function)
    launch(kernel, [a.ctypes.data for a in arrays], ints, total, 1)


def run_reference(function, arrays, ints, total):
    pointers = [a.ctypes.data for a in arrays]
    execute(render(function), function.name, pointers, ints, 0, total)


def product_ints(a, b, out, d, d_mode, row_block, column_block, mode):
    step = [s // x.itemsize for x in (a, b) for s in x.strides]
    rows = [x.strides[0] // x.itemsize for x in (out, d)]
    return (
        a.shape[0],
        b.shape[1],
        a.shape[1],
        *step,
        *rows,
        d_mode,
        0,
        0,
        0,
        0,
        row_block,
        column_block,
        mode,
    )


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize(
    "mode, turned", [(0, False), (1, False), (2, True), (3, False), (3, True)]
)
def test_every_way_to_read_the_right_operand_gives_the_product(run, mode, turned):
    rng = np.random.default_rng(0)
    function = contraction.product(
        f"product_{SMALL.lanes}", ir.f32, ir.f32, ir.f32, SMALL
    )
    for rows, columns, depth in itertools.product((1, 5, 7), (3, 8, 19), (1, 7)):
        a = rng.standard_normal((rows, depth), np.float32)
        b = rng.standard_normal((depth, columns), np.float32)
        b = np.asfortranarray(b) if turned else b
        if mode == 2 and b.strides[0] != 4:
            continue
        d = rng.standard_normal((rows, columns), np.float32)
        out = np.full((rows, columns), 7, np.float32)
        scalars = np.array([2, 0.5], np.float32)
        ints = product_ints(a, b, out, d, contraction.VECTOR, 3, 16, mode)
        chunks = -(-rows // 3) * -(-columns // 16)
        run(function, (out, a, b, d, scalars), ints, chunks)
        np.testing.assert_allclose(out, 2 * (a @ b) + 0.5 * d, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_dots_add_one_scalar_a_row(run):
    rng = np.random.default_rng(1)
    function = vectors.dots("dots_4", ir.f32, ir.f32, ir.f32, 4)
    for rows, depth in ((1, 1), (6, 13), (9, 8)):
        a = rng.standard_normal((rows, depth), np.float32)
        v = rng.standard_normal(depth, np.float32)
        d = rng.standard_normal(rows, np.float32)
        out = np.empty(rows, np.float32)
        ints = (rows, depth, depth, 1, 1, contraction.SCALAR, 0, 0, 0, 0, 4)
        scalars = np.array([1, 3], np.float32)
        run(function, (out, a, v, d, scalars), ints, -(-rows // 4))
        np.testing.assert_allclose(out, a @ v + 3 * d, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_combine_adds_up_rows(run):
    rng = np.random.default_rng(1)
    function = vectors.combine("combine_4", ir.f32, ir.f32, ir.f32, 4)
    for columns, depth in ((1, 1), (6, 13), (9, 8)):
        v = rng.standard_normal(depth, np.float32)
        b = rng.standard_normal((depth, columns), np.float32)
        d = rng.standard_normal(columns, np.float32)
        out = np.empty(columns, np.float32)
        ints = (columns, depth, 1, columns, 1, contraction.VECTOR, 0, 0, 0, 0, 4)
        scalars = np.array([2, 3], np.float32)
        run(function, (out, v, b, d, scalars), ints, -(-columns // 4))
        np.testing.assert_allclose(out, 2 * (v @ b) + 3 * d, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_turned_sum_adds_parts_and_turns_them(run):
    rng = np.random.default_rng(2)
    function = vectors.turned_sum("turned_sum_4", ir.f32, 4)
    for rows, columns, parts in ((4, 4, 1), (7, 5, 3), (1, 9, 2)):
        source = rng.standard_normal((parts, rows, columns), np.float32)
        out = np.empty((columns, rows), np.float32)
        ints = (rows, columns, columns, rows, parts, rows * columns, 0, 0)
        run(function, (out, source), ints, -(-rows // 4))
        np.testing.assert_allclose(out, source.sum(0).T, rtol=1e-5)


def test_transpose_turns_a_square_of_lanes():
    b = Builder()
    source = ir.argument(1, ir.f32)
    lines = [b.let("line", ir.load(source, 4 * i, 4)) for i in range(4)]
    for i, vector in enumerate(contraction.transpose(b, lines)):
        b.store(ir.argument(0, ir.f32), 4 * i, vector)
    square = np.arange(16, dtype=np.float32)
    out = np.empty(16, np.float32)
    run_native(ir.kernel("turn_four", b.statements), (out, square), (), 1)
    assert (out.reshape(4, 4) == square.reshape(4, 4).T).all()


def test_tiles_fit_the_registers_of_each_machine():
    wide, narrow, arm = (
        matrix_tile("float32", named(name))
        for name in ("x86-64-v4", "x86-64-v3", "neoverse-n1")
    )
    assert (wide.lanes, wide.vectors) == (16, 4)
    assert (narrow.lanes, narrow.vectors) == (8, 2)
    assert (arm.lanes, arm.vectors) == (4, 4)
    for tile, registers in ((wide, 32), (narrow, 16), (arm, 32)):
        assert tile.rows * tile.vectors + tile.vectors + 1 <= registers
        assert tile.columns % tile.width == 0


def test_row_tails_add_up_to_every_remainder():
    heights = matrix_tile("float32", named("x86-64-v4")).row_tails
    sums = {
        sum(pick)
        for count in range(len(heights) + 1)
        for pick in itertools.combinations(heights, count)
    }
    assert set(range(6)) <= sums


def test_a_block_never_outgrows_its_array():
    tile = matrix_tile("float64", named("x86-64-v4"))
    assert tile.depth * tile.columns * ctypes.sizeof(ctypes.c_double) <= 512 * 1024


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_results_go_through_what_is_traced_behind_the_product(run):
    """Once, after the last block of the depth and after what is added."""
    rng = np.random.default_rng(3)
    name = f"product_and_relu_{SMALL.lanes}"
    function = contraction.product(
        name, *[ir.f32] * 3, SMALL, after=lambda x: maximum(x, 0) * 2
    )
    for rows, columns, depth in itertools.product((1, 7), (3, 19), (4, 13)):
        a = rng.standard_normal((rows, depth), np.float32)
        b = rng.standard_normal((depth, columns), np.float32)
        d = rng.standard_normal((rows, columns), np.float32)
        for mode in (contraction.NOTHING, contraction.VECTOR):
            out = np.full((rows, columns), 7, np.float32)
            scalars = np.array([1, 1], np.float32)
            ints = product_ints(a, b, out, d, mode, 3, 16, 1)
            chunks = -(-rows // 3) * -(-columns // 16)
            run(function, (out, a, b, d, scalars), ints, chunks)
            summed = a @ b + (d if mode else 0)
            expected = np.maximum(summed, 0) * 2
            np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_operands_of_any_layout_stand_behind_the_product(run):
    """A residual, a bias of the columns in float16 and a scale for each row."""
    rng = np.random.default_rng(4)
    function = contraction.product(
        "product_and_more",
        *[ir.f32] * 3,
        SMALL,
        after=lambda x, left, bias, scale: maximum((x + bias) * scale, 0) - left,
        others=[(ir.f32, True), (ir.f16, True), (ir.f32, False)],
    )
    for rows, columns, depth in itertools.product((1, 7), (3, 19), (4, 13)):
        a = rng.standard_normal((rows, depth), np.float32)
        b = rng.standard_normal((depth, columns), np.float32)
        left = rng.standard_normal((rows, 2 * columns), np.float32)[:, :columns]
        bias = rng.standard_normal(columns, np.float32).astype(np.float16)
        scale = rng.standard_normal(rows, np.float32)
        out, scalars = np.full((rows, columns), 7, "f"), np.array([1, 1], "f")
        ints = product_ints(a, b, out, out, contraction.NOTHING, 3, 16, 1)
        more = (2 * columns, 0, 0, 0, 1, 0)
        chunks = -(-rows // 3) * -(-columns // 16)
        arrays = (out, a, b, out, scalars, left, bias, scale)
        run(function, arrays, (*ints, *more), chunks)
        expected = np.maximum((a @ b + bias) * scale[:, None], 0) - left
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "mode", [contraction.NOTHING, contraction.VECTOR, contraction.SCALAR]
)
def test_a_negative_zero_stays_one_where_nothing_is_added(mode):
    """Whatever the size of the tile, and whichever way its sums take."""
    function = contraction.product("product_of_zeros", *[ir.f32] * 3, SMALL)
    for rows, columns in itertools.product((1, 2, 3), (3, 8)):
        a, b = np.full((rows, 1), -1, np.float32), np.zeros((1, columns), np.float32)
        d = np.full((rows, columns), -0.0, np.float32)
        results = []
        for alpha in (1, 2):
            out = np.full((rows, columns), 7, np.float32)
            scalars = np.array([alpha, 1], np.float32)
            run_native(
                function,
                (out, a, b, d, scalars),
                product_ints(a, b, out, d, mode, 3, 16, 1),
                1,
            )
            results.append(np.signbit(out))
        assert (results[0] == results[1]).all()


def test_a_product_is_little_code():
    """Compiling it takes a fifth of a second: its tiles share what follows them."""
    tile = matrix_tile("float32", named("x86-64-v4"))
    with using(named("x86-64-v4")):
        function = lower(contraction.product("product_size", *[ir.f32] * 3, tile))
        text = llvm.emit(function)
    assert text.startswith(llvm.AS_WRITTEN)
    assert len(text) < 200_000
