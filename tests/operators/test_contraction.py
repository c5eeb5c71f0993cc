"""The loops of matrix products, generated with small tiles and run by each emitter."""

import ctypes
import itertools

import numpy as np
import pytest

import rushlight
from rushlight.codegen.emit import llvm
from rushlight.codegen.emit.python import render
from rushlight.codegen.emit.reference import execute
from rushlight.codegen.language import maximum
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule.contraction import Tile, matrix_tile
from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.codegen.target import named, using
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.rewrite import bodies_of, expressions_of
from rushlight.kernels.conv.direct import WEIGHT_ROWS, weight_columns
from rushlight.kernels.epilogue import Epilogue
from rushlight.kernels.matmul import contraction, dot_tiles
from rushlight.kernels.matmul import gemv as vectors
from rushlight.runtime.cpu.launch import launch
from rushlight.tensor_expressions.build import native

SMALL = Tile(lanes=4, rows=3, vectors=2, depth=5, columns=16)


def run_native(function, arrays, ints, total):
    kernel = native(function)
    launch(kernel, [a.ctypes.data for a in arrays], ints, total, 1)


def run_reference(function, arrays, ints, total):
    pointers = [a.ctypes.data for a in arrays]
    execute(render(function), function.name, pointers, ints, 0, total)


def product_ints(a, b, out, added, row_block, column_block, mode):
    """The integers of one product; ``added`` may be None."""
    step = [s // x.itemsize for x in (a, b) for s in x.strides]
    row = out.strides[0] // out.itemsize
    more = 0 if added is None else added.strides[0] // added.itemsize
    return (
        *(a.shape[0], b.shape[1], a.shape[1], *step),
        *(row, more, out.shape[1], *[0] * 5, int(added is not None)),
        *(row_block, column_block, mode),
    )


def multiplied(run, function, a, b, out, added=None, others=(), more=(), mode=1):
    """Runs a product in blocks of 3 rows and 16 columns."""
    sums = np.empty(out.shape, np.float32)
    data = (out, a, b, out if added is None else added, sums, *others)
    ints = product_ints(a, b, out, added, 3, 16, mode)
    chunks = -(-out.shape[0] // 3) * -(-out.shape[1] // 16)
    run(function, data, (*ints, *more), chunks)
    return out


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
        multiplied(run, function, a, b, out, d, mode=mode)
        np.testing.assert_allclose(out, a @ b + d, rtol=1e-5, atol=1e-5)
        multiplied(run, function, a, b, out, mode=mode)
        np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_left_operands_with_adjacent_rows_are_copied_in_strips(run):
    """Strips of 24 rows here: a block has several, a part of one, and less than a tile."""
    rng = np.random.default_rng(3)
    tile = Tile(lanes=4, rows=3, vectors=1, depth=5, columns=16)
    function = contraction.product("product_strips", ir.f32, ir.f32, ir.f32, tile)
    for rows, block in ((2, 3), (7, 9), (30, 30), (53, 51), (53, 24)):
        for columns, depth in ((3, 4), (9, 12)):
            left = rng.standard_normal((depth, rows + 4), np.float32)
            a, b = (
                left[:, 2 : rows + 2].T,
                rng.standard_normal((depth, columns), np.float32),
            )
            out = np.full((rows, columns), 7, np.float32)
            ints = product_ints(a, b, out, None, block, 16, 1)
            data = out, a, b, out, np.empty(out.shape, np.float32)
            run(function, data, ints, -(-rows // block))
            np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4", "neoverse-n1"])
def test_a_strip_of_rows_is_whole_cache_lines_and_whole_tiles(name):
    for dtype in "float32", "float64":
        tile = matrix_tile(dtype, named(name))
        assert tile.strips % tile.rows == 0 == tile.strips % tile.lanes
        assert tile.strips * np.dtype(dtype).itemsize % 64 == 0


HALVED = Epilogue(
    lambda x, scale: maximum(x, 0) * scale, (("float32", False),), "float64"
)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_dots_add_one_scalar_a_row(run):
    rng = np.random.default_rng(1)
    plain = vectors.dots("dots_4", ir.f32, ir.f32, ir.f32, 4)
    behind = vectors.dots("dots_behind_4", ir.f32, ir.f32, ir.f32, 4, HALVED)
    for rows, depth in ((1, 1), (6, 13), (9, 8)):
        a = rng.standard_normal((rows, depth), np.float32)
        v, d, scale = (rng.standard_normal(k).astype("f") for k in (depth, rows, rows))
        out, wide = np.empty(rows, np.float32), np.empty(rows)
        ints = (rows, depth, depth, 1, 1, 0, 0, 0, 0, 1, 4)
        run(plain, (out, a, v, d), ints, -(-rows // 4))
        np.testing.assert_allclose(out, a @ v + d, rtol=1e-5, atol=1e-5)
        run(behind, (wide, a, v, d, scale), (*ints, 1, 0), -(-rows // 4))
        expected = np.maximum(a @ v + d, 0) * scale
        np.testing.assert_allclose(wide, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_combine_adds_up_rows(run):
    rng = np.random.default_rng(1)
    plain = vectors.combine("combine_4", ir.f32, ir.f32, ir.f32, 4)
    behind = vectors.combine("combine_behind_4", ir.f32, ir.f32, ir.f32, 4, HALVED)
    for rows, columns, depth in ((1, 1, 1), (1, 6, 13), (1, 9, 400), (3, 9, 400)):
        v, d = (rng.standard_normal((rows, k)).astype("f") for k in (depth, columns))
        b = rng.standard_normal((depth, columns), np.float32)
        scale = np.array([3], np.float32)
        out, wide = np.empty_like(d), np.empty(d.shape)
        steps = depth, 1, columns, columns, columns, 1
        ints = (rows, columns, depth, *steps, 0, 0, 0, 0, 1, 4)
        run(plain, (out, v, b, d), ints, -(-columns // 4))
        np.testing.assert_allclose(out, v @ b + d, rtol=1e-4, atol=1e-4)
        if rows > 1:
            continue
        run(behind, (wide, v, b, d, scale), (*ints, 0, 0), -(-columns // 4))
        expected = np.maximum(v @ b + d, 0) * 3
        np.testing.assert_allclose(wide, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_turned_sum_adds_parts_and_turns_them(run):
    rng = np.random.default_rng(2)
    function = vectors.transposed_sum("turned_sum_4", ir.f32, 4)
    for rows, columns, parts in ((4, 4, 1), (7, 5, 3), (1, 9, 2), (5, 133, 2)):
        source = rng.standard_normal((parts, rows, columns), np.float32)
        out = np.empty((columns, rows), np.float32)
        ints = (rows, columns, columns, rows, parts, rows * columns, 0, 0)
        chunks = -(-rows // 4) * -(-columns // vectors.FLIPPED_ROWS)
        run(function, (out, source), ints, chunks)
        np.testing.assert_allclose(out, source.sum(0).T, rtol=1e-5)


def test_transpose_turns_a_square_of_lanes():
    b = Builder()
    source = ir.argument(1, ir.f32)
    lines = [b.let("line", ir.load(source, 4 * i, 4)) for i in range(4)]
    for i, vector in enumerate(transpose(b, lines)):
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


def test_tiles_of_fewer_vectors_end_with_one_alone():
    """What is left of a row of tiles is cut by a mask, of one vector."""
    for name in ("x86-64-v4", "x86-64-v3", "neoverse-n1"):
        tile = matrix_tile("float32", named(name))
        assert (tile.widths[0], tile.widths[-1]) == (tile.vectors, 1)
        assert (tile.heights[0], tile.heights[-1]) == (tile.rows, 2)


def test_a_block_never_outgrows_its_array():
    tile = matrix_tile("float64", named("x86-64-v4"))
    assert tile.depth * tile.columns * ctypes.sizeof(ctypes.c_double) <= 512 * 1024


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_results_go_through_what_is_traced_behind_the_product(run):
    """Once, after the last block of the depth and after what is added."""
    rng = np.random.default_rng(3)
    after = Epilogue(lambda x: maximum(x, 0) * 2, (), "float16")
    name = f"product_and_relu_{SMALL.lanes}"
    function = contraction.product(name, *[ir.f32] * 3, SMALL, epilogue=after)
    for rows, columns, depth in itertools.product((1, 7), (3, 19), (4, 13)):
        a = rng.standard_normal((rows, depth), np.float32)
        b = rng.standard_normal((depth, columns), np.float32)
        d = rng.standard_normal((rows, columns), np.float32)
        for added in (None, d):
            out = np.full((rows, columns), 7, np.float16)
            multiplied(run, function, a, b, out, added)
            expected = np.maximum(a @ b + (0 if added is None else d), 0) * 2
            np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_operands_of_any_layout_stand_behind_the_product(run):
    """A residual, a bias of the columns in float16 and a scale for each row."""
    rng = np.random.default_rng(4)
    after = Epilogue(
        lambda x, left, bias, scale: maximum((x + bias) * scale, 0) - left,
        (("float32", True), ("float16", True), ("float32", False)),
        "float32",
    )
    name = "product_and_more"
    function = contraction.product(name, *[ir.f32] * 3, SMALL, epilogue=after)
    for rows, columns, depth in itertools.product((1, 7), (3, 19), (4, 13)):
        a = rng.standard_normal((rows, depth), np.float32)
        b = rng.standard_normal((depth, columns), np.float32)
        left = rng.standard_normal((rows, 2 * columns), np.float32)[:, :columns]
        bias = rng.standard_normal(columns, np.float32).astype(np.float16)
        scale = rng.standard_normal(rows, np.float32)
        out = np.full((rows, columns), 7, "f")
        more = (2 * columns, 0, 0, 0, 1, 0)
        multiplied(run, function, a, b, out, None, (left, bias, scale), more)
        expected = np.maximum((a @ b + bias) * scale[:, None], 0) - left
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_a_row_has_the_same_bits_in_a_tile_of_any_height():
    """Wherever it stands: whole tiles and what is left add up in one order."""
    rng = np.random.default_rng(5)
    function = contraction.product("product_of_rows", *[ir.f32] * 3, SMALL)
    a = np.repeat(rng.standard_normal((1, 13), np.float32), 8, 0)
    b = np.repeat(rng.standard_normal((13, 1), np.float32), 19, 1)
    d = np.full((8, 19), 3, np.float32)
    for rows in (1, 2, 4, 8):
        out = np.empty((rows, 19), np.float32)
        multiplied(run_native, function, a[:rows], b, out, d[:rows])
        assert len(np.unique(out)) == 1


def test_eight_rows_are_two_tiles_of_four():
    """Two rows beside six would be half as fast: their few sums hide no latency."""
    tile = Tile(lanes=4, rows=6, vectors=2, depth=5, columns=16)
    text = render(contraction.product("product_eight", *[ir.f32] * 3, tile))
    function = contraction.product("product_eight", *[ir.f32] * 3, tile)
    assert "== 7" in text and "== 8" in text
    rng = np.random.default_rng(4)
    for rows in (6, 7, 8, 9, 14, 20):
        a = rng.standard_normal((rows, 7), np.float32)
        b = rng.standard_normal((7, 11), np.float32)
        out = np.full((rows, 11), 7, np.float32)
        ints = product_ints(a, b, out, None, 24, 16, 1)
        data = out, a, b, out, np.empty(out.shape, np.float32)
        run_native(function, data, ints, 1)
        np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


def test_a_product_is_little_code():
    """Compiling it takes 60 ms: its few tiles share all that is around them."""
    tile = matrix_tile("float32", named("x86-64-v4"))
    with using(named("x86-64-v4")):
        function = lower(contraction.product("product_size", *[ir.f32] * 3, tile))
        text = llvm.emit(function)
    assert text.startswith(llvm.AS_WRITTEN)
    assert len(text) < 125_000


def test_register_tiles_of_gradients_of_weights_fit_the_registers():
    for name in "x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1":
        with using(named(name)) as target:
            across = weight_columns()
            assert (WEIGHT_ROWS + 1) * across < target.registers, name


def test_right_operands_with_rows_of_more_than_1_kb_or_2_kb_are_copied():
    """Where a tile reads one line of the cache of each row, and where it reads four."""
    for name, bytes in ("x86-64-v3", 1024), ("x86-64-v4", 2048):
        assert matrix_tile("float32", named(name)).short == bytes // 4
        assert matrix_tile("float64", named(name)).short == bytes // 8


def test_rows_have_the_same_bits_whether_the_right_operand_is_copied_or_not():
    """One of some megabytes is copied for 16 rows, and its rows added up for a few."""
    rng = np.random.default_rng(5)
    a = rushlight.tensor(rng.standard_normal((16, 1000), np.float32))
    b = rushlight.tensor(rng.standard_normal((1000, 1000), np.float32))
    found, exact = a @ b, a.double() @ b.double()
    assert float((found - exact).abs().max()) < 1e-3
    for first, end in (0, 3), (3, 5), (5, 16), (2, 10), (7, 8), (0, 4):
        assert rushlight.equal(a[first:end] @ b, found[first:end])


def innermost(statements):
    """The bodies of the loops that have no loop inside."""
    for statement in statements:
        inside = [body for part in bodies_of(statement) for body in innermost(part)]
        yield from inside
        if isinstance(statement, ir.For) and not inside:
            yield statement.body


def masked_halves(e):
    """Whether an expression reads elements of two bytes by a mask."""
    masked = isinstance(e, ir.Load) and len(e.args) == 3 and e.type.itemsize == 2
    return masked or any(map(masked_halves, e.args))


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_loops_over_halves_read_whole_vectors(half):
    """AVX2 has no mask for two bytes: each lane is a branch, and products took twice as long.

    The columns behind the last whole panel are read by masks alone.
    """
    kinds = ir.Type(half), ir.Type(half), ir.f32
    with using(named("x86-64-v3")) as target:
        tile = matrix_tile("float32", target)
        for most, function in (
            (1, contraction.product("halves", *kinds, tile)),
            (0, vectors.combine("halves", *kinds, tile.lanes)),
            (0, dot_tiles.dot_tiles("halves", *kinds, tile.lanes)),
        ):
            bodies = list(innermost(function.body))
            masked = [
                body
                for body in bodies
                if any(masked_halves(e) for s in body for e in expressions_of(s))
            ]
            assert bodies
            assert len(masked) <= most, function.name


def test_whole_tiles_ask_the_caches_for_results_and_for_rows_of_the_next_strip():
    tile = Tile(lanes=8, rows=6, vectors=2, depth=8, columns=16)
    function = contraction.product("asks", *[ir.f32] * 3, tile)

    def asked(statements):
        for s in statements:
            yield isinstance(s, ir.Prefetch)
            for body in bodies_of(s):
                yield from asked(body)

    assert (
        sum(asked(function.body)) == 6 + 1
    )  # a line of each row of results, and one of each turn
