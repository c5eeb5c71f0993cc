"""Functions of a grid in their meaning: results, races, threads that never meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rushlight.codegen.emit import reference_grid
from rushlight.codegen.emit.reference_grid import DivergenceError, RaceError
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule import gpu_lowering
from rushlight.ir import expr as ir
from rushlight.ir import spec
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Barrier, Exchange, Place, Var
from rushlight.kernels.matmul import device_tiles, mma
from tests.codegen import grid_kernels
from tests.codegen.grid_kernels import ROWS, without

SHAPE = 5, 100


def run_rows(function, beside, threads):
    """The outputs of a kernel over rows, and its inputs in double precision."""
    made, found = grid_kernels.over_rows(function, beside=beside)
    before, after = ROWS[function]
    rng = np.random.default_rng(0)
    order = "F" if beside else "C"
    sizes = {"x": SHAPE, "w": SHAPE[1:], "r": SHAPE[:1], "i": SHAPE[:1]}

    def array(kind):
        dtype = np.int64 if kind == "i" else np.float32
        return np.zeros(sizes[kind], dtype, order=order)

    inputs = []
    for kind in before:
        given = array(kind)
        given[...] = rng.standard_normal(given.shape)
        if kind == "r":  # labels
            given[...] = rng.integers(0, SHAPE[1], given.shape)
        inputs.append(given)
    outputs = [array(kind) for kind in after]
    integers = np.array(found.integers, np.int64)
    operands = [a.ctypes.data for a in (*outputs, *inputs, integers)]
    reference_grid.run(made, [*operands, found.rows], 2, threads)
    return outputs, [given.astype(np.float64) for given in inputs]


def softmax(x):
    mass = np.exp(x - x.max(1, keepdims=True))
    return mass / mass.sum(1, keepdims=True)


def layer_norm(x, weight, bias):
    center, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-5)
    gap = (x - center[:, None]) * rstd[:, None]
    return gap * weight + bias, center, rstd


EXPECTED = {
    grid_kernels.row_sum: lambda x: x.sum(1),
    grid_kernels.row_mean: lambda x: x.mean(1),
    grid_kernels.row_amax: lambda x: x.max(1),
    grid_kernels.row_norm: lambda x: np.sqrt((x * x).sum(1)),
    grid_kernels.softmax: softmax,
    grid_kernels.log_softmax: lambda x: np.log(softmax(x)),
    grid_kernels.logsumexp: lambda x: np.log(np.exp(x).sum(1)),
    grid_kernels.layer_norm: layer_norm,
    grid_kernels.rms_norm: lambda x, w: (
        x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w
    ),
    grid_kernels.cross_entropy: lambda x, label: (
        -np.log(softmax(x))[np.arange(len(x)), label.astype(int)]
    ),
    grid_kernels.moments: lambda x: (x.var(1, ddof=1), x.mean(1)),
    grid_kernels.first_largest: lambda x: x.argmax(1),
}


@pytest.mark.parametrize("beside", [False, True], ids=["along", "beside"])
@pytest.mark.parametrize("function", list(ROWS), ids=lambda f: f.__name__)
def test_rows_are_computed_by_the_threads_of_a_grid(function, beside):
    outputs, inputs = run_rows(function, beside, 64)
    expected = EXPECTED[function](*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [32, 96])
def test_any_number_of_warps_joins_their_states(threads):
    outputs, inputs = run_rows(grid_kernels.softmax, False, threads)
    np.testing.assert_allclose(outputs[0], softmax(*inputs), rtol=1e-4)


@pytest.mark.parametrize("blocks, threads", [(1, 1), (2, 7), (3, 32)])
def test_elements_are_divided_among_all_threads(blocks, threads):
    function = gpu_lowering.spread(grid_kernels.elementwise("addcmul"))
    x, y, z = (np.arange(50, dtype="f") + k for k in range(3))
    out, strides = np.zeros(50, "f"), np.ones(4, np.int64)
    operands = [a.ctypes.data for a in (out, x, y, z, strides)]
    reference_grid.run(function, [*operands, 50], blocks, threads)
    np.testing.assert_allclose(out, x + y * z)


@pytest.mark.parametrize("number", range(4))
def test_every_barrier_of_a_softmax_is_needed(number):
    made, found = grid_kernels.over_rows(grid_kernels.softmax)
    x, out = np.ones(SHAPE, "f"), np.zeros(SHAPE, "f")
    integers = np.array(found.integers, np.int64)
    operands = [*(a.ctypes.data for a in (out, x, integers)), found.rows]
    with pytest.raises(RaceError, match="no barrier between"):
        reference_grid.run(without(made, Barrier, number), operands, 1, 64)


def run_product(function, rows, columns, depth, tile):
    """A product of two matrices, the second turned, plus another one's double."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((columns, depth))
    c, out = rng.standard_normal((rows, columns)), np.zeros((rows, columns))
    steps = [(columns, 1, 0), (depth, 1, 0), (1, depth, 0), (columns, 1, 0)]
    ints, count = device_tiles.integers(rows, columns, depth, True, steps, tile)
    integers, scales = np.array(ints, np.int64), np.array([0.5, 2.0])
    operands = [t.ctypes.data for t in (out, a, b, c, scales, scales[1:], integers)]
    reference_grid.run(function, [*operands, count], 2, tile.threads)
    np.testing.assert_allclose(out, 0.5 * a @ b.T + 2 * c, rtol=1e-10)


TILE = device_tiles.BlockTile(16, 16, 8, 2)


@pytest.mark.parametrize("sizes", [(16, 16, 8), (5, 19, 11), (33, 3, 1)])
def test_tiles_of_products_are_computed_by_blocks(sizes):
    run_product(lower(device_tiles.product("p", ir.f64, ir.f64, TILE)), *sizes, TILE)


@pytest.mark.parametrize("number", range(2))
def test_every_barrier_of_a_product_is_needed(number):
    function = lower(device_tiles.product("p", ir.f64, ir.f64, TILE))
    with pytest.raises(RaceError, match="no barrier between"):
        run_product(without(function, Barrier, number), 16, 16, 24, TILE)


def grid_function(write):
    """A function over one array, written by ``write(builder, array)``."""
    b, out = Builder(), Var("out", ir.Pointer(ir.f32))
    write(b, out)
    return ir.Function("example", (out,), b.statements, grid=True)


def run(function, threads=64, blocks=1):
    out = np.zeros(256, np.float32)
    reference_grid.run(function, [out.ctypes.data], blocks, threads)
    return out


def test_two_threads_that_write_one_element_are_found():
    def write(b, out):
        b.store(out, Place("thread") // 2, 1.0)

    with pytest.raises(RaceError, match="thread 1 of block 0 writes an element that"):
        run(grid_function(write))


def test_two_blocks_are_ordered_by_nothing():
    def write(b, out):
        b.add(Barrier())
        b.store(out, Place("thread"), 1.0)

    with pytest.raises(RaceError, match="of block 1 writes"):
        run(grid_function(write), blocks=2)


def test_a_barrier_orders_what_threads_write_and_read():
    def write(b, out):
        shared = Var("shared", ir.Pointer(ir.f32))
        b.add(ir.Array(shared, 64, shared=True))
        b.store(shared, Place("thread"), ir.cast(ir.f32, Place("thread")))
        b.add(Barrier())
        b.store(out, Place("thread"), ir.load(shared, 63 - Place("thread")))

    np.testing.assert_array_equal(run(grid_function(write))[:64], np.arange(63, -1, -1))


def test_lanes_exchange_values_within_their_warp():
    def write(b, out):
        own = ir.cast(ir.f32, Place("thread"))
        b.store(out, Place("thread"), b.let("other", Exchange(4, own)))

    np.testing.assert_array_equal(run(grid_function(write))[:64], np.arange(64) ^ 4)


def test_threads_that_never_meet_are_found():
    def some(b, out):
        with b.when(Place("thread") < 40):
            b.add(Barrier())

    def lanes(b, out):
        with b.when(Place("thread") < 40):
            b.store(out, Place("thread"), Exchange(1, ir.cast(ir.f32, Place("thread"))))

    with pytest.raises(DivergenceError, match="40 of 64 threads of block 0 wait"):
        run(grid_function(some))
    with pytest.raises(DivergenceError):
        run(grid_function(lanes))


def test_only_functions_of_a_grid_have_threads():
    def write(b, out):
        b.add(Barrier())

    host = replace(grid_function(write), grid=False)
    with pytest.raises(spec.SpecError, match="only the threads of a grid wait"):
        spec.verify(host)
    for value in (Place("thread"), Exchange(1, ir.cast(ir.i64, ir.Const(ir.i32, 1)))):
        b = Builder()
        b.let("x", value)
        with pytest.raises(spec.SpecError, match="is for functions of a grid"):
            spec.verify(ir.Function("host", (), b.statements))
    with pytest.raises(ValueError, match="no place"):
        Place("warp")
    b = Builder()
    b.let("x", Exchange(3, Place("thread")))
    with pytest.raises(spec.SpecError, match="1, 2, 4, 8 or 16 apart"):
        spec.verify(ir.Function("odd", (), b.statements, grid=True))


@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("sizes", [(64, 64, 16), (5, 19, 11), (70, 33, 40)])
def test_matrix_units_multiply_tiles(sizes, kind):
    rows, columns, depth = sizes
    tile = mma.TILE
    function = lower(mma.product("p", ir.Type(kind), tile))
    rng = np.random.default_rng(0)
    a = rng.integers(-8, 8, (rows, depth)).astype(kind)
    b = rng.integers(-8, 8, (columns, depth)).astype(kind)
    c, out = np.ones((rows, columns), "f"), np.zeros((rows, columns), "f")
    steps = [(columns, 1, 0), (depth, 1, 0), (1, depth, 0), (columns, 1, 0)]
    ints, count = device_tiles.integers(rows, columns, depth, True, steps, tile)
    integers, scales = np.array(ints, np.int64), np.array([0.5, 2.0], "f")
    operands = [t.ctypes.data for t in (out, a, b, c, scales, scales[1:], integers)]
    reference_grid.run(function, [*operands, count], 1, mma.threads_of(tile))
    np.testing.assert_array_equal(out, 0.5 * (a.astype("f") @ b.astype("f").T) + 2 * c)


@pytest.mark.parametrize("number", range(2))
def test_every_barrier_of_a_product_by_units_is_needed(number):
    function = without(lower(mma.product("p", ir.f16)), Barrier, number)
    a, out = np.ones((64, 32), "e"), np.zeros((64, 64), "f")
    steps = [(64, 1, 0), (32, 1, 0), (1, 32, 0), (64, 1, 0)]
    ints, count = device_tiles.integers(64, 64, 32, False, steps, mma.TILE)
    integers, scales = np.array(ints, np.int64), np.ones(2, "f")
    operands = [t.ctypes.data for t in (out, a, a, out, scales, scales, integers)]
    with pytest.raises(RaceError, match="no barrier between"):
        reference_grid.run(function, [*operands, count], 1, 128)


def test_units_round_floats_to_ten_digits():
    values = [[1 + 2.0**-12] * 4 + [1.0] * 2 + [0.0] * 4] * 32
    assert reference_grid.multiplied(values)[0] == [8.0] * 4
    values = [[1 + 2.0**-10] * 4 + [1.0] * 2 + [0.0] * 4] * 32
    assert reference_grid.multiplied(values)[5] == [8 + 2.0**-7] * 4
