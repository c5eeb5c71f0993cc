"""Products by warpgroups' units in their meaning: results, waits, memory that is shown."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rushlight.codegen.emit import ptx, reference_grid
from rushlight.codegen.emit.reference_grid import DivergenceError, RaceError
from rushlight.codegen.emit.reference_groups import UnitsError
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule import gpu_lowering
from rushlight.codegen.target import gpu
from rushlight.ir import expr as ir
from rushlight.ir import spec
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Barrier, Var
from rushlight.ir.rewrite import map_statement
from rushlight.kernels.matmul import device_tiles, wgmma
from rushlight.kernels.matmul.wgmma import WarpgroupTile

TILE = WarpgroupTile(64, 64)
PLAIN = False, False


@pytest.fixture(scope="module")
def plain():
    return lower(wgmma.product("p", ir.f16, TILE, PLAIN, ir.f32))


def lying(values, turned):
    """Halves as a matrix whose rows begin at multiples of 16 bytes, or whose columns do."""
    rows, depth = values.shape
    sizes = (depth, -(-rows // 8) * 8) if turned else (rows, -(-depth // 8) * 8)
    room = np.full(sizes, np.nan, np.float16)
    matrix = room[:, :rows].T if turned else room[:, :depth]
    matrix[...] = values
    return matrix


def multiply(function, sides, rows, columns, depth, tile=TILE):
    """Runs a product of whole numbers, scaled and added to; whether it is right."""
    rng = np.random.default_rng(0)
    a, b = (
        lying(rng.integers(-8, 8, (count, depth)), side)
        for count, side in zip((rows, columns), sides, strict=True)
    )
    c, out = np.ones((rows, columns), "f"), np.zeros((rows, columns), "f")
    left, right = ([step // 2 for step in x.strides] for x in (a, b))
    steps = (columns, 1, 0), (*left, 0), (*right[::-1], 0), (columns, 1, 0)
    ints, count = device_tiles.integers(rows, columns, depth, True, steps, tile)
    integers, scales = np.array(ints, np.int64), np.array([0.5, 2.0], "f")
    operands = [t.ctypes.data for t in (out, a, b, c, scales, scales[1:], integers)]
    reference_grid.run(function, [*operands, count], 1, tile.threads)
    return np.array_equal(out, 0.5 * (a.astype("f") @ b.astype("f").T) + 2 * c)


@pytest.mark.parametrize(
    "sides", [*itertools.product((False, True), repeat=2)], ids=str
)
def test_groups_multiply_slices_of_factors_that_lie_either_way(sides):
    function = lower(wgmma.product("p", ir.f16, TILE, sides, ir.f32))
    assert multiply(function, sides, 70, 33, 330)


def test_two_groups_share_the_columns_of_a_tile():
    tile = WarpgroupTile(128, 64, 3)
    function = lower(wgmma.product("p", ir.f16, tile, PLAIN, ir.f32))
    assert multiply(function, PLAIN, 130, 64, 200, tile)


def changed(function, kind, number=0, other=None):
    """The function with a statement of a kind left out, or made another."""
    count = itertools.count()

    def kept(body):
        result = []
        for statement in body:
            value = getattr(statement, "value", None)
            if isinstance(statement, kind) or isinstance(value, kind):
                if next(count) == number:
                    result += [other(statement)] if other else []
                    continue
            result.append(map_statement(statement, lambda e: e, kept))
        return tuple(result)

    new = function.with_body(kept(function.body))
    assert next(count) > number
    return new


@pytest.mark.parametrize(
    "kind, number", [(Barrier, 0), (Barrier, 1), (ir.ShowUnits, 0)]
)
def test_barriers_and_what_shows_copies_to_units_are_needed(plain, kind, number):
    with pytest.raises(RaceError):
        multiply(changed(plain, kind, number), PLAIN, 64, 70, 330)


def test_copies_must_be_waited_for(plain):
    with pytest.raises(RaceError):
        multiply(changed(plain, ir.AwaitCopies), PLAIN, 64, 64, 330)
    late = changed(plain, ir.AwaitCopies, 0, lambda s: ir.AwaitCopies(s.pending + 1))
    with pytest.raises(RaceError):
        multiply(late, PLAIN, 64, 64, 330)


def test_products_must_be_waited_for(plain):
    def late(s):
        return ir.Assign(s.var, ir.AwaitProducts(2, s.value.args[0]))

    with pytest.raises(RaceError, match="thread -1 of block 0 reads"):
        multiply(changed(plain, ir.AwaitProducts, 0, late), PLAIN, 64, 64, 330)
    assert not multiply(changed(plain, ir.AwaitProducts, 1), PLAIN, 64, 64, 330)


def grid_function(write, kind=ir.f16):
    """A function over one array, written by ``write(builder, array, shared, sums)``."""
    b, out, shared = Builder(), *(Var(n, ir.Pointer(kind)) for n in ("out", "shared"))
    b.add(ir.Array(shared, 8192, alignment=1024, shared=True))
    sums = b.declare("sums", ir.Broadcast(4, ir.Const(ir.f32, 0)))
    write(b, out, shared, sums)
    return ir.Function("example", (out,), b.statements, grid=True)


def begun(shared, sums, at=0, turned=PLAIN):
    """A product of two factors in shared memory, begun."""
    zero = ir.Const(ir.i64, 0)
    place = at if isinstance(at, ir.Expr) else ir.Const(ir.i64, at)
    return ir.Assign(sums, ir.GroupProduct(turned, sums, shared, place, shared, zero))


def run(function, threads=128):
    out = np.zeros(8192, np.float16)
    reference_grid.run(function, [out.ctypes.data], 1, threads)


def test_groups_are_of_threads_that_ask_for_the_same():
    thread = ir.Place("thread")
    apart = thread // 64 * 512

    def some(b, out, shared, sums):
        with b.when(thread < 64):
            b.add(begun(shared, sums))

    with pytest.raises(DivergenceError):
        run(grid_function(some))
    with pytest.raises(DivergenceError):
        run(grid_function(lambda b, o, shared, s: b.add(begun(shared, s, apart))))
    with pytest.raises(DivergenceError):
        run(grid_function(lambda b, o, shared, s: b.add(begun(shared, s))), 64)
    with pytest.raises(UnitsError, match="begins at element 8"):
        run(grid_function(lambda b, o, shared, s: b.add(begun(shared, s, 8))))


def test_sums_stay_the_units_until_they_were_waited_for():
    def touched(b, out, shared, sums):
        b.add(begun(shared, sums))
        b.assign(sums, ir.Broadcast(4, ir.Const(ir.f32, 0)))
        b.add(begun(shared, sums))

    with pytest.raises(UnitsError, match="still added to"):
        run(grid_function(touched))


def test_groups_multiply_halves_of_one_type_with_sums_by_fours():
    def broken(lanes, turned=PLAIN, other=ir.f16):
        sums = Var("sums", ir.f32.vector(lanes))
        left, right = Var("x", ir.Pointer(ir.f16)), Var("y", ir.Pointer(other))
        zero = ir.Const(ir.i64, 0)
        product = ir.GroupProduct(turned, sums, left, zero, right, zero)
        body = (ir.Let(Var("z", sums.type), product),)
        return ir.Function("example", (sums, left, right), body, grid=True)

    for function, fact in (
        (broken(6), "by fours"),
        (broken(132), "by fours"),
        (broken(16, (False, True)), "come by 64"),
        (broken(16, other=ir.bf16), "multiplies halves"),
    ):
        with pytest.raises(spec.SpecError, match=fact):
            spec.verify(function)
    spec.verify(broken(16))


@pytest.mark.parametrize("tile", wgmma.TILES, ids=str)
def test_shared_memory_beyond_what_any_card_gives_is_the_launch_s(tile):
    function = lower(wgmma.product("p", ir.f16, tile, PLAIN))
    places, bytes = gpu_lowering.positions_of(function.body)
    assert bytes == tile.shared > gpu_lowering.SHARED_BYTES
    assert bytes <= 227 << 10, "what a block of this generation may have"
    assert all(place % 1024 == 0 for place in places.values())
    text = ptx.emit(function, target=gpu("sm_90a"))
    assert ".extern .shared .align 1024 .b8 p_room[]" in text
    assert text.count(".shared") == text.count(".extern .shared") + text.count(
        "cp.async.cg.shared"
    ) + text.count("fence.proxy.async.shared")


def test_tiles_that_copies_do_not_fill_evenly_are_refused():
    with pytest.raises(ValueError, match="lines"):
        wgmma.product("p", ir.f16, WarpgroupTile(128, 16), PLAIN)
