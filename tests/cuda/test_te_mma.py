"""Tensor cores in users' schedules: products by `te.mma` from tiles in shared memory."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen.emit import device, reference_grid
from rushlight.codegen.lower import lower
from rushlight.codegen.target import NVIDIA, using
from rushlight.ir import expr as ir
from rushlight.kernels.matmul import mma
from tests.cuda.test_te_grids import bind, the_function


def product(
    sizes, dtype="float16", tile=(32, 32), warp=(16, 16), depth=16, turned=False
):
    """A product of halves by tensor cores: a tile a block, a part of it a warp.

    Args:
        turned: whether the right factor has its columns in rows.
    """
    rows, columns, deep = sizes
    a = te.placeholder((rows, deep), dtype, name="a")
    b = te.placeholder((columns, deep) if turned else (deep, columns), dtype, name="b")
    k = te.reduce_axis((0, deep), name="k")

    def element(i, j):
        right = b[j, k] if turned else b[k, j]
        return te.sum(te.cast(a[i, k], "float32") * te.cast(right, "float32"), axis=k)

    c = te.compute((rows, columns), element, name="c")
    s = te.create_schedule(c)
    sums = s.cache_write(c, scope="fragment")
    by, bx, row, column = s[c].tile(*c.axis, *tile)
    wy, wx, row, column = s[c].tile(row, column, *warp)
    bind(s[c], by=by, bx=bx, tz=wy, ty=wx)
    s[c].bind_lanes(row, column)

    s[sums].compute_at(s[c], wx)
    step, inner = s[sums].split(k, depth)
    piece, inner = s[sums].split(inner, 16)
    i, row = s[sums].split(sums.axis[0], 16)
    j, column = s[sums].split(sums.axis[1], 8)
    s[sums].reorder(step, piece, i, j, row, column, inner)
    for axis in (piece, i, j):
        s[sums].unroll(axis)
    s[sums].tensorize(row, te.mma(dtype))

    high, wide = (whole // part for whole, part in zip(tile, warp, strict=True))
    for tensor in (a, b):
        copy = s.cache_read(tensor, [sums], scope="shared")
        s[copy].compute_at(s[sums], step)
        s[copy].storage_align(copy.axis[0], 16, 8)
        _, left = s[copy].split(s[copy].fuse(*copy.axis), high * wide * 32)
        tz, left = s[copy].split(left, wide * 32)
        ty, tx = s[copy].split(left, 32)
        bind(s[copy], tx=tx, ty=ty, tz=tz)
    return s, [a, b, c]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_by_tensor_cores_is_that_of_the_host(dtype, turned, compiling):
    s, arguments = product((64, 32, 32), dtype, turned=turned)
    kind = getattr(rl, dtype)
    x, y = rl.randn(64, 32).to(kind), rl.randn(32, 32).to(kind)
    wanted = x.float() @ (y.t() if turned else y).float()
    here, there = rl.empty(64, 32), rl.empty(64, 32, device="cuda")
    te.build(s, arguments)(x, y, here)
    te.build(s, arguments, target="cuda")(x.to("cuda"), y.to("cuda"), there)
    assert rl.allclose(here, wanted, atol=1e-4)
    assert rl.allclose(there.cpu(), wanted, atol=1e-4)


def test_it_has_no_race_and_its_barriers_are_needed():
    s, arguments = product((32, 32, 32))
    function, blocks, threads = the_function(s, arguments)
    assert (blocks, threads) == (1, 128)
    x, y = (np.random.default_rng(n).standard_normal((32, 32)) for n in (0, 1))
    x, y = x.astype("float16"), y.astype("float16")
    out = np.full((32, 32), np.nan, "float32")
    places = [array.ctypes.data for array in (x, y, out)]
    reference_grid.run(function, [*places, 0, blocks], blocks, threads)
    np.testing.assert_allclose(out, x.astype("f4") @ y.astype("f4"), atol=1e-3)


def test_what_follows_a_product_is_computed_where_its_sums_are():
    a = te.placeholder((16, 16), "float16", name="a")
    b = te.placeholder((16, 16), "float16", name="b")
    bias = te.placeholder((16,), name="bias")
    k = te.reduce_axis((0, 16), name="k")
    sums = te.compute(
        (16, 16),
        lambda i, j: te.sum(
            te.cast(a[i, k], "float32") * te.cast(b[k, j], "float32"), k
        ),
        name="sums",
    )
    c = te.compute(
        (16, 16), lambda i, j: te.maximum(sums[i, j] * 0.5 + bias[j], 0.0), name="c"
    )
    s = te.create_schedule(c)
    bx, row = s[c].split(c.axis[0], 16)
    bind(s[c], bx=bx)
    s[c].bind_lanes(row, c.axis[1])
    s[sums].compute_at(s[c], bx)
    s[sums].set_scope("fragment")
    columns, column = s[sums].split(sums.axis[1], 8)
    s[sums].reorder(columns, sums.axis[0], column, k)
    s[sums].tensorize(sums.axis[0], te.mma("float16"))
    function, blocks, threads = the_function(s, [a, b, bias, c])
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((16, 16)).astype("float16") for _ in "xy")
    z, out = rng.standard_normal(16).astype("f4"), np.full((16, 16), np.nan, "f4")
    places = [array.ctypes.data for array in (x, y, z, out)]
    reference_grid.run(function, [*places, 0, blocks], blocks, threads)
    wanted = np.maximum(x.astype("f4") @ y.astype("f4") * 0.5 + z, 0)
    np.testing.assert_allclose(out, wanted, atol=1e-4)


def instructions(text, marker="mma.sync"):
    """How often instructions are in the innermost loop with one of a kind, in PTX."""
    lines = [line.strip() for line in text.split("\n")]
    labels = {
        line[:-1]: n for n, line in enumerate(lines) if re.match(r"\$\S+:$", line)
    }
    loops = []
    for end, line in enumerate(lines):
        found = re.search(r"bra(?:\.uni)?\s+(\$\S+);", line)
        begin = labels.get(found[1], end) if found else end
        body = lines[begin:end]
        if any(marker in inner for inner in body):
            loops.append(body)
    words = [re.sub(r"^@\S+\s+", "", line) for line in min(loops, key=len)]
    words = [word for word in words if re.match(r"[a-z]", word)]
    kinds = ("mma.sync", "ld.shared", "ldmatrix", "bar.sync")
    return {kind: sum(w.startswith(kind) for w in words) for kind in kinds}, len(words)


def test_its_loop_has_no_more_instructions_than_the_built_in_ones():
    tile = mma.LARGE
    s, arguments = product(
        (1024, 1024, 1024),
        tile=(tile.rows, tile.columns),
        warp=(32, 32),
        depth=tile.depth,
    )
    with using(NVIDIA):
        built_in = lower(mma.product("built_in", ir.f16, tile))
        ours = device.emit_grid(built_in, (), mma.threads_of(tile))
        function, _, threads = the_function(s, arguments)
        users = device.emit_grid(function, (), threads)
    (kinds, all_of_them), (wanted, most) = instructions(users), instructions(ours)
    same = {"mma.sync": 16, "bar.sync": 2}
    assert wanted == {**same, "ld.shared": 64, "ldmatrix": 0}
    assert kinds == {**same, "ld.shared": 0, "ldmatrix": 12}
    assert all_of_them <= most


def test_tensor_cores_are_refused_in_words_where_they_cannot_multiply():
    with pytest.raises(ValueError, match="no tensor cores multiply float32; there are"):
        te.mma("float32")
    s, arguments = product((40, 32, 32))
    with pytest.raises(ValueError, match="do not fill"):
        te.lower(s, arguments, target="cuda")
    assert "c_cache" in str(te.lower(s, arguments))  # the host's loops have tails
    s, arguments = product((32, 32, 32), warp=(16, 4))
    with pytest.raises(
        ValueError, match=r"needs \[16, 4\] elements of a warp.*\n  remedy"
    ):
        te.lower(s, arguments, target="cuda")


def scheduled_without(lanes, scope):
    """A product of one block whose reader, or whose memory, is not as it should be."""
    a = te.placeholder((16, 16), "bfloat16", name="a")
    k = te.reduce_axis((0, 16), name="k")

    def element(i, j):
        return te.sum(te.cast(a[i, k], "float32") * te.cast(a[k, j], "float32"), axis=k)

    c = te.compute((16, 8), element, name="c")
    s = te.create_schedule(c)
    sums = s.cache_write(c, scope=scope)
    bx, row = s[c].split(c.axis[0], 16)
    bind(s[c], bx=bx)
    s[sums].compute_at(s[c], bx)
    if lanes:
        s[c].bind_lanes(row, c.axis[1])
    else:
        bind(s[c], tx=s[c].fuse(row, c.axis[1]))
    s[sums].tensorize(sums.axis[0], te.mma("bfloat16"))
    return s, [a, c]


def test_sums_of_a_warp_are_read_by_the_lanes_that_have_them():
    te.lower(*scheduled_without(True, "fragment"), target="cuda")
    with pytest.raises(
        ValueError, match=r"threadIdx.x has 128 turns\n  remedy: bind_lan"
    ):
        te.lower(*scheduled_without(False, "fragment"), target="cuda")
    with pytest.raises(
        ValueError, match="add in registers of a warp\n  remedy: cache_wr"
    ):
        te.lower(*scheduled_without(True, "shared"), target="cuda")


@pytest.mark.parametrize("sides", [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("gap", [8, 4])
def test_units_read_factors_whose_rows_lie_in_runs_of_eight(sides, gap):
    left, right = sides  # whether a factor's depth lies outside
    a = te.placeholder((16, 16), "float16", name="a")
    b = te.placeholder((16, 16), "float16", name="b")
    k = te.reduce_axis((0, 16), name="k")

    def element(i, j):
        factors = a[k, i] if left else a[i, k], b[k, j] if right else b[j, k]
        first, second = (te.cast(factor, "float32") for factor in factors)
        return te.sum(first * second, axis=k)

    c = te.compute((16, 16), element, name="c")
    s = te.create_schedule(c)
    sums = s.cache_write(c, scope="fragment")
    bx, row = s[c].split(c.axis[0], 16)
    bind(s[c], bx=bx)
    s[c].bind_lanes(row, c.axis[1])
    s[sums].compute_at(s[c], bx)
    columns, column = s[sums].split(sums.axis[1], 8)
    s[sums].reorder(columns, sums.axis[0], column, k)
    s[sums].tensorize(sums.axis[0], te.mma("float16"))
    for tensor in (a, b):
        copy = s.cache_read(tensor, [sums], scope="shared")
        s[copy].compute_at(s[c], bx)
        s[copy].storage_align(copy.axis[0], 16, gap)
        bind(s[copy], tx=s[copy].split(copy.axis[1], 16)[1])
    function, blocks, threads = the_function(s, [a, b, c])
    assert ("unit_rows" in str(function)) == (gap == 8)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((16, 16)).astype("float16") for _ in "xy")
    out = np.full((16, 16), np.nan, "f4")
    places = [array.ctypes.data for array in (x, y, out)]
    reference_grid.run(function, [*places, 0, blocks], blocks, threads)
    wanted = (x.T if left else x).astype("f4") @ (y if right else y.T).astype("f4")
    np.testing.assert_allclose(out, wanted, atol=1e-3)
