"""Loops of tensor expressions that are bound to blocks and threads: values, waits, refusals."""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen.emit import ptx, python, reference_grid
from rushlight.codegen.language import exp
from rushlight.ir import expr as ir
from tests.codegen import te_programs
from tests.codegen.grid_kernels import without
from tests.codegen.test_te import noise

TILE, EACH, DEPTH = 16, 4, 8


def bind(stage, **axes):
    """Binds loops of a stage: ``bx`` is ``blockIdx.x``, ``ty`` ``threadIdx.y``."""
    for name, axis in axes.items():
        stage.bind(axis, f"{'block' if name[0] == 'b' else 'thread'}Idx.{name[1]}")


def product(rows, columns, depth):
    """A product whose tiles of operands its threads bring into shared memory."""
    a, b = (
        te.placeholder((rows, depth), name="a"),
        te.placeholder((depth, columns), name="b"),
    )
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c"
    )
    s = te.create_schedule(c)
    sums = s.cache_write(c, scope="local")
    copies = [s.cache_read(t, [sums], scope="shared") for t in (a, b)]
    by, bx, row, column = s[c].tile(*c.axis, TILE, TILE)
    ty, tx, row, column = s[c].tile(row, column, EACH, EACH)
    bind(s[c], by=by, bx=bx, ty=ty, tx=tx)
    s[sums].compute_at(s[c], tx)
    outer, inner = s[sums].split(k, DEPTH)
    s[sums].reorder(outer, inner, *sums.axis)
    for axis in sums.axis:
        s[sums].unroll(axis)
    for copy in copies:
        s[copy].compute_at(s[sums], outer)
        share_out(s[copy], TILE // EACH, TILE // EACH)
    return s, [a, b, c]


def share_out(stage, rows, columns):
    """Lets a block's threads, so many by so many, compute a stage of two dimensions."""
    _, left = stage.split(stage.fuse(*stage.axis), rows * columns)
    ty, tx = stage.split(left, columns)
    bind(stage, ty=ty, tx=tx)


def the_function(s, arguments):
    """A schedule's one kernel for a device, its blocks and its threads."""
    program = te.lower(s, arguments, target="cuda")
    ((function, blocks, _),) = program.functions
    return function, blocks, program.threads[function.name]


def run(function, blocks, threads, arguments, *arrays):
    """What a kernel makes of arrays in the meaning of its grid: races are refused."""
    out = np.full(arguments[-1].shape, np.nan, arguments[-1].dtype)
    places = [array.ctypes.data for array in (*arrays, out)]
    reference_grid.run(function, [*places, 0, blocks], blocks, threads)
    return out


def on_the_host(s, arguments, *arrays):
    out = np.full(arguments[-1].shape, np.nan, arguments[-1].dtype)
    te.build(s, arguments)(*arrays, out)
    return out


@pytest.mark.parametrize("sizes", [(32, 32, 16), (30, 29, 13)])
def test_a_product_with_tiles_in_shared_memory_is_that_of_the_host(sizes, compiling):
    rows, columns, depth = sizes
    s, arguments = product(*sizes)
    x, y = noise(rows, depth), noise(depth, columns)
    found = run(*the_function(s, arguments), arguments, x, y)
    np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(on_the_host(s, arguments, x, y), found)
    given = [rl.from_numpy(array).to("cuda") for array in (x, y)]
    out = rl.empty(rows, columns, device="cuda")
    te.build(s, arguments, target="cuda")(*given, out)
    assert len(compiling.launched()) == 1
    np.testing.assert_allclose(out.cpu().numpy(), found, rtol=1e-6)


def test_every_barrier_of_a_product_is_needed():
    s, arguments = product(32, 32, 16)
    function, *grid = the_function(s, arguments)
    x, y = noise(32, 16), noise(16, 32)
    for number in (1, 2):  # the first is for blocks that take another tile after one
        with pytest.raises(reference_grid.RaceError):
            run(without(function, ir.Barrier, number), *grid, arguments, x, y)
    with pytest.raises(IndexError):
        without(function, ir.Barrier, 3)


def test_kernels_of_bound_loops_assemble():
    s, arguments = product(64, 64, 32)
    text = te.build(s, arguments, target="ptx")
    assert text.launches == [("main", 16, 16)]
    assert text.text.count("bar.sync") == 3 and ".shared" in text.text
    assert ptx.emit(the_function(s, arguments)[0]) == text.text
    assert "vectorized" not in str(te.lower(s, arguments, target="cuda"))


def stencil(size):
    """Two stages: a block's threads compute what several of them read."""
    x = te.placeholder((size + 4,), name="x")
    e = te.compute((size + 4,), lambda i: exp(x[i]), name="e")
    y = te.compute((size,), lambda i: e[i] + e[i + 2] * e[i + 4], name="y")
    return x, e, y


@pytest.mark.parametrize("scope", [None, "shared", "local"])
@pytest.mark.parametrize("size", [64, 61])
def test_a_stage_is_its_blocks_or_its_threads_by_its_place(scope, size):
    values = noise(size + 4)
    wanted = np.exp(values)
    wanted = wanted[:size] + wanted[2:-2] * wanted[4:]
    for place, threads in itertools.product((0, 1), (1, 32, 64)):
        x, e, y = stencil(size)
        s = te.create_schedule(y)
        bx, tx = s[y].split(y.axis[0], 32)
        bind(s[y], bx=bx, tx=tx)
        s[e].compute_at(s[y], (bx, tx)[place])
        s[e].set_scope(scope)
        shared = scope == "shared" or scope is None and place == 0
        if threads > 1 and shared:
            bind(s[e], tx=s[e].split(e.axis[0], threads)[1])
        if threads == 64 and shared and place == 1:
            # 36 elements are computed by 36 threads, of which y's loop has 32
            with pytest.raises(ValueError, match="only some of them come"):
                the_function(s, [x, y])
            continue
        function, *grid = the_function(s, [x, y])
        assert ("grid.shared" in str(function)) == shared
        found = run(function, *grid, [x, y], values)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        np.testing.assert_allclose(on_the_host(s, [x, y], values), wanted, rtol=1e-5)


def test_what_nobody_bound_is_done_by_one_thread():
    x = te.placeholder((6, 40), name="x")
    k = te.reduce_axis((0, 40), name="k")
    total = te.compute((6,), lambda i: te.sum(x[i, k], k), name="total")
    y = te.compute((6, 40), lambda i, j: x[i, j] - total[i], name="y")
    s = te.create_schedule(y)
    tx = s[y].split(y.axis[1], 16)[1]
    bind(s[y], bx=y.axis[0], tx=tx)
    s[total].compute_at(s[y], y.axis[0])
    function, *grid = the_function(s, [x, y])
    assert "threadIdx_x < 1" in str(function)
    values = noise(6, 40)
    wanted = values - values.sum(1, keepdims=True)
    np.testing.assert_allclose(
        run(function, *grid, [x, y], values), wanted, rtol=1e-4, atol=1e-5
    )


def test_fused_loops_read_what_their_parts_do():
    x, e, y = stencil(8)
    z = te.compute((8, 8), lambda i, j: e[i + 1] * y[j], name="z")
    s = te.create_schedule(z)
    fused = s[z].fuse(*z.axis)
    bx, tx = s[z].split(fused, 16)
    bind(s[z], bx=bx, tx=tx)
    for stage in (e, y):
        s[stage].compute_at(s[z], tx)
    values = noise(12)
    exps = np.exp(values)
    wanted = np.outer(exps[1:9], exps[:8] + exps[2:10] * exps[4:])
    found = run(*the_function(s, [x, z]), [x, z], values)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(on_the_host(s, [x, z], values), wanted, rtol=1e-5)


def test_what_a_block_cannot_have_is_refused_in_words():
    x = te.placeholder((64, 64), name="x")
    k = te.reduce_axis((0, 64), name="k")
    y = te.compute((64, 64), lambda i, j: x[i, j] * 2.0, name="y")

    def schedule(computed=y):
        s = te.create_schedule(computed)
        return s, s[computed]

    s, stage = schedule()
    with pytest.raises(ValueError, match="no axis 'warp' of a grid; there are"):
        stage.bind(y.axis[0], "warp")
    bind(stage, ty=y.axis[0])
    with pytest.raises(ValueError, match="another loop of .* is threadIdx.y already"):
        bind(stage, ty=y.axis[1])
    bind(stage, tx=y.axis[1])
    with pytest.raises(
        ValueError, match="64 x 64 x 1 = 4096 threads.* 1024.*\n  remedy"
    ):
        te.lower(s, [x, y], target="cuda")
    summed = te.compute((64,), lambda i: te.sum(x[i, k], k), name="summed")
    with pytest.raises(ValueError, match="k sums into one place.*\n  remedy: rfactor"):
        bind(schedule(summed)[1], bx=k)
    s, stage = schedule()
    copy = s.cache_read(x, [y], scope="shared")
    bind(stage, tx=y.axis[1])
    s[copy].compute_at(stage, y.axis[0])
    bind(s[copy], bx=copy.axis[0])
    with pytest.raises(
        ValueError, match="x_cache is computed inside the loop i of y, so"
    ):
        te.lower(s, [x, y], target="cuda")
    s, stage = schedule()
    copy = s.cache_read(x, [y], scope="local")
    bind(stage, tx=y.axis[1])
    s[copy].compute_at(stage, y.axis[1])
    bind(s[copy], tx=copy.axis[0])
    with pytest.raises(
        ValueError, match="each thread's own memory\n  remedy: set_scope"
    ):
        te.lower(s, [x, y], target="cuda")
    with pytest.raises(ValueError, match="no memory 'warp'; there are"):
        s.cache_write(y, scope="warp")


def stage_of_rows(rows):
    """A block that turns rows around in its memory."""
    x = te.placeholder((1024, 128), name="x")
    y = te.compute((1024, 128), lambda i, j: x[i, j] + x[i, 127 - j], name="y")
    s = te.create_schedule(y)
    bx, row = s[y].split(y.axis[0], rows)
    bind(s[y], bx=bx, tx=y.axis[1])
    copy = s.cache_read(x, [y], scope="shared")
    s[copy].compute_at(s[y], bx)
    bind(s[copy], tx=copy.axis[1])
    return s, [x, y], row, copy


def test_too_much_shared_memory_is_refused_with_what_takes_it():
    s, (x, y), row, copy = stage_of_rows(512)
    with pytest.raises(
        ValueError, match=r"take 262144 bytes \(x_cache 262144\).*232448 at most\n"
    ):
        te.lower(s, [x, y], target="cuda")
    s[copy].compute_at(s[y], row)
    assert the_function(s, [x, y])[1:] == (2, 128)


def test_more_shared_memory_than_any_card_gives_is_asked_for(compiling, monkeypatch):
    s, arguments, *_ = stage_of_rows(128)  # 64 KiB
    assert te.build(s, arguments, target="ptx").shared == {"main": 65536}
    given, out = rl.randn(1024, 128), rl.empty(1024, 128, device="cuda")
    te.build(s, arguments, target="cuda")(given.to("cuda"), out)
    assert rl.equal(out.cpu(), given + given.flip(1))
    s, arguments, *_ = stage_of_rows(256)  # 128 KiB
    card = compiling.card()
    few = dataclasses.replace(card.properties, shared_memory_per_block_optin=101376)
    monkeypatch.setattr(card, "_properties", few)
    with pytest.raises(RuntimeError, match="131072 bytes of shared .* has 101376\n"):
        te.build(s, arguments, target="cuda")(given.to("cuda"), out)


def reduced(op, rows, size):
    """A reduction that goes on, over an axis that is yet to be divided among threads."""
    x = te.placeholder((rows, size), name="x")
    k = te.reduce_axis((0, size), name="k")
    y = te.compute((rows,), lambda i: op(x[i, k], k) * 2.0 + 1.0, name="y")
    s = te.create_schedule(y)
    bind(s[y], bx=y.axis[0])
    return s, x, y, k


def bound_directly(s, y, inner):
    bind(s[y], tx=inner)


def bound_with_partial_sums(s, y, inner):
    parts = s.rfactor(y, inner)
    s[parts].compute_at(s[y], inner)
    bind(s[y], tx=inner)


def bound_to_two_axes(s, y, inner):
    ty, tx = s[y].split(inner, 8)
    bind(s[y], ty=ty, tx=tx)


@pytest.mark.parametrize(
    "way", [bound_directly, bound_with_partial_sums, bound_to_two_axes]
)
@pytest.mark.parametrize(
    ("size", "threads"), [(100, 32), (77, 64), (20, 8), (513, 96), (5, 16)]
)
def test_threads_join_what_each_of_them_has_reduced(way, size, threads):
    values = noise(3, size)
    for op, by_numpy in ((te.sum, np.sum), (te.max, np.max)):
        s, x, y, k = reduced(op, 3, size)
        way(s, y, s[y].split(k, threads)[1])
        wanted = by_numpy(values, 1) * 2 + 1
        function, *grid = the_function(s, [x, y])
        assert grid[0] == 3 and grid[1] in (threads, size)
        for found in (
            run(function, *grid, [x, y], values),
            on_the_host(s, [x, y], values),
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [32, 64, 20])
def test_a_softmax_has_its_rows_reduced_by_threads(threads, compiling):
    x = te.placeholder((5, 90), name="x")
    k, q = te.reduce_axis((0, 90), name="k"), te.reduce_axis((0, 90), name="q")
    most = te.compute((5,), lambda i: te.max(x[i, k], k), name="most")
    e = te.compute((5, 90), lambda i, j: exp(x[i, j] - most[i]), name="e")
    total = te.compute((5,), lambda i: te.sum(e[i, q], q), name="total")
    y = te.compute((5, 90), lambda i, j: e[i, j] / total[i], name="y")
    values = rl.randn(5, 90)
    for scope in ("local", "shared"):
        s = te.create_schedule(y)
        bind(s[y], bx=y.axis[0], tx=s[y].split(y.axis[1], threads)[1])
        for stage, axis in ((most, k), (total, q)):
            s[stage].compute_at(s[y], y.axis[0])
            s[stage].set_scope(scope)
            bind(s[stage], tx=s[stage].split(axis, threads)[1])
        s[e].compute_inline()
        found = run(*the_function(s, [x, y]), [x, y], values.numpy())
        np.testing.assert_allclose(found, values.softmax(1).numpy(), rtol=1e-5)
        out = rl.empty(5, 90, device="cuda")
        te.build(s, [x, y], target="cuda")(values.to("cuda"), out)
        assert rl.allclose(out.cpu(), values.softmax(1), rtol=1e-5)


def test_sums_over_threads_are_refused_in_words():
    s, x, y, k = reduced(te.sum, 3, 40)
    outer, inner = s[y].split(k, 32)
    with pytest.raises(ValueError, match="no loop of its only reduction\n  remedy"):
        s.rfactor(y, y.axis[0])
    with pytest.raises(ValueError, match="rfactor: k is not a loop of"):
        s.rfactor(y, k)
    bind(s[y], tx=inner)
    with pytest.raises(ValueError, match="k_inner of y is threadIdx.x already\n  rem"):
        s.rfactor(y, inner)
    s[y].reorder(outer, inner, s[y].leaves[0])
    with pytest.raises(ValueError, match="has data loops inside of it\n  remedy: reo"):
        te.lower(s, [x, y], target="cuda")
    x = te.placeholder((4, 64), name="x")
    k = te.reduce_axis((0, 64), name="k")
    y = te.compute((4,), lambda i: te.sum(x[i, k], k), name="y")
    z = te.compute((8,), lambda i: y[i // 2] * 2.0, name="z")
    s = te.create_schedule(z)
    bind(s[z], ty=z.axis[0])
    s[y].compute_at(s[z], z.axis[0])
    bind(s[y], ty=s[y].split(k, 8)[1])
    with pytest.raises(ValueError, match="in each thread's own memory\n  remedy: set_"):
        te.lower(s, [x, z], target="cuda")  # each thread wants another sum
    s[y].set_scope("shared")
    values = noise(4, 64)
    found = run(*the_function(s, [x, z]), [x, z], values)
    np.testing.assert_allclose(found, values.sum(1).repeat(2) * 2, rtol=1e-4)


def test_a_barrier_is_refused_where_some_threads_do_not_come():
    x = te.placeholder((40,), name="x")
    y = te.compute((40,), lambda i: x[i] * 2.0, name="y")
    s = te.create_schedule(y)
    bx, tx = s[y].split(y.axis[0], 16)
    bind(s[y], bx=bx, tx=tx)
    copy = s.cache_read(x, [y], scope="shared")
    s[copy].compute_at(s[y], tx)
    bind(s[copy], tx=s[copy].split(copy.axis[0], 4)[0])
    function, *grid = the_function(s, [x, y])  # its tail is guarded where it is written
    values = noise(40)
    np.testing.assert_array_equal(run(function, *grid, [x, y], values), values * 2)
    s = te.create_schedule(y)
    bx, tx = s[y].split(y.axis[0], 16)
    bind(s[y], bx=bx, tx=tx)
    first = s.cache_read(x, [y], scope="shared")
    second = s.cache_read(x, [first], scope="shared")
    s[first].compute_at(s[y], bx)
    across = s[first].split(first.axis[0], 4)[0]
    bind(s[first], tx=across)
    s[second].compute_at(s[first], across)
    with pytest.raises(
        ValueError, match="only some of them come\n  in: if threadIdx_x"
    ):
        te.lower(s, [x, y], target="cuda")


def test_indices_that_are_data_are_not_read_by_bound_threads():
    table, at = te.placeholder((6,), name="table"), te.placeholder((4,), "int64", "at")
    y = te.compute((4,), lambda i: table[at[i]] * 2.0, name="y")
    s = te.create_schedule(y)
    bind(s[y], tx=y.axis[0])
    with pytest.raises(
        ValueError, match="y reads at indices that are data.*\n  remedy"
    ):
        te.lower(s, [table, at, y], target="cuda")


def test_open_sizes_are_told_to_a_device_by_its_arrays(compiling):
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="x")
    e = te.compute((n, m), lambda i, j: exp(x[i, j]), name="e")
    y = te.compute((n, m), lambda i, j: e[i, j] * 2.0, name="y")
    for bound in (True, False):
        s = te.create_schedule(y)
        if bound:
            row, ty = s[y].split(y.axis[0], 4)
            column, tx = s[y].split(y.axis[1], 8)
            s[y].reorder(row, column, ty, tx)
            bind(s[y], by=row, bx=column, ty=ty, tx=tx)
            s[e].compute_at(s[y], column)
            bind(s[e], tx=e.axis[1])
        function = te.build(s, [x, y], target="cuda")
        for size in ((5, 9), (8, 8), (1, 30), (0, 3)):
            given, out = rl.randn(size), rl.empty(size, device="cuda")
            function(given.to("cuda"), out)
            assert rl.allclose(out.cpu(), given.exp() * 2, rtol=1e-5)
    s = te.create_schedule(y)
    bind(s[y], tx=y.axis[1])
    with pytest.raises(ValueError, match="threadIdx.x would have m turns.*\n  remedy"):
        te.lower(s, [x, y], target="cuda")


def drawn(draw):
    """Three stages, each placed, split and bound as a draw says; and their value."""
    size, near = draw.choice((24, 37)), draw.randint(0, 2)
    x = te.placeholder((size + 4, 6), name="x")
    k = te.reduce_axis((0, 6), name="k")
    a = te.compute((size + 4, 6), lambda i, j: x[i, j] * 2.0 + 1.0, name="a")
    b = te.compute(
        (size + 2,), lambda i: te.sum(a[i, k] * a[i + near, k], k) + 1.0, name="b"
    )
    y = te.compute((size,), lambda i: b[i] - b[i + 2], name="y")
    s = te.create_schedule(y)
    threads = draw.choice((1, 4, 8))
    bx, tx = s[y].split(y.axis[0], threads)
    bind(s[y], tx=tx)
    if draw.random() < 0.7:
        bind(s[y], bx=bx)
    at_y = draw.choice((bx, tx))
    s[b].compute_at(s[y], at_y)
    s[a].compute_at(*draw.choice(((s[b], k), (s[b], b.axis[0]), (s[y], bx))))
    if draw.random() < 0.3 and s[a].place[0] is not s[y]:
        s[a].place, s[a].inlined = None, True
    for stage in (b, a):
        s[stage].set_scope(draw.choice((None, "shared", "local")))
        if draw.random() < 0.6 and not s[stage].inlined:
            bind(
                s[stage], tx=s[stage].split(stage.axis[0], draw.choice((2, threads)))[1]
            )

    def value(given):
        double = given * 2 + 1
        sums = (double[: size + 2] * double[near : near + size + 2]).sum(1) + 1
        return sums[:-2] - sums[2:]

    return s, [x, y], value


@pytest.mark.parametrize("seed", range(4))
def test_drawn_schedules_compute_the_same_without_a_race_or_are_refused(seed):
    draw, ran, refused = random.Random(seed), 0, 0
    for _ in range(12):
        try:
            s, arguments, value = drawn(draw)
        except ValueError as error:  # where one is computed is not split after
            assert "already\n  remedy" in str(error)
            continue
        given = noise(*arguments[0].shape)
        host = on_the_host(s, arguments, given)
        np.testing.assert_allclose(host, value(given), rtol=1e-3, atol=1e-4)
        try:
            function, *grid = the_function(s, arguments)
        except ValueError as error:
            assert "\n  remedy" in str(error)
            refused += 1
            continue
        found = run(function, *grid, arguments, given)
        np.testing.assert_allclose(found, value(given), rtol=1e-3, atol=1e-4)
        ran += 1
    assert ran >= 3 and refused


def run_all(program, arguments, arrays):
    """Runs a program's kernels one after another, those without a grid on the host."""
    held = dict(zip(map(id, arguments), arrays))
    for tensor in program.scratch:
        held[id(tensor)] = np.full(tensor.shape, np.nan, tensor.dtype)
    for function, turns, used in program.functions:
        places = [held[id(tensor)].ctypes.data for tensor in used]
        threads = program.threads.get(function.name)
        if threads is None:
            python.run(function, places, (), 0, turns)
        else:
            reference_grid.run(function, [*places, 0, turns], turns, threads)


@pytest.mark.parametrize("seed", range(3))
def test_drawn_programs_on_drawn_threads_compute_what_numpy_does(seed):
    draw, ran = random.Random(seed), 0
    for _ in range(10):
        stages = te_programs.Stages(draw)
        y, wanted = stages.output
        s = te_programs.schedule(draw, y, bound=True)
        tensors, arrays = zip(*stages.inputs)
        out = np.full(y.shape, np.nan, "float32")
        try:
            program = te.lower(s, [*tensors, y], target="cuda")
        except ValueError as error:
            assert "\n  remedy" in str(error), error
            continue
        run_all(program, [*tensors, y], [*arrays, out])
        np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-4)
        ran += 1
    assert ran >= 3
