"""Tensor expressions: no schedule changes what is computed."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen.emit import llvm
from rushlight.codegen.language import exp, maximum
from rushlight.codegen.target import current, named, using
from rushlight.ir import expr as ir
from rushlight.tensor_expressions import cpu, cuda
from rushlight.tensor_expressions.lower import lower as lower_loops

N, M, K = 33, 40, 24


def product():
    """A product of matrices whose first operand is computed too."""
    a = te.placeholder((N, K), name="a")
    b = te.placeholder((K, M), name="b")
    k = te.reduce_axis((0, K), name="k")
    scaled = te.compute((N, K), lambda i, j: a[i, j] * 2.0 + 1.0, name="scaled")
    c = te.compute(
        (N, M), lambda i, j: te.sum(scaled[i, k] * b[k, j], axis=k), name="c"
    )
    return a, b, k, scaled, c


def plain(s, t):
    """Leaves every loop as it is."""


def tiled(s, t):
    _, _, k, _, c = t
    i, j = c.axis
    i_outer, j_outer, i_inner, j_inner = s[c].tile(i, j, 8, 16)
    s[c].reorder(i_outer, j_outer, k, i_inner, j_inner)
    s[c].vectorize(j_inner)
    s[c].unroll(i_inner)
    s[c].parallel(i_outer)


def computed_at_the_reader(s, t):
    tiled(s, t)
    scaled, c = t[3], t[4]
    s[scaled].compute_at(s[c], s[c].leaves[1])


def computed_at_one_row(s, t):
    scaled, c = t[3], t[4]
    s[scaled].compute_at(s[c], c.axis[0])


def inlined(s, t):
    s[t[3]].compute_inline()


def reduction_split_and_outermost(s, t):
    k, c = t[2], t[4]
    outer, inner = s[c].split(k, factor=7)
    s[c].reorder(outer, c.axis[0], inner, c.axis[1])


def split_in_parts_and_fused(s, t):
    c = t[4]
    i, j = c.axis
    outer, inner = s[c].split(i, nparts=4)
    s[c].fuse(inner, j)
    s[c].parallel(outer)


def cached(s, t):
    b, k, c = t[1], t[2], t[4]
    cache = s.cache_write(c)
    near = s.cache_read(b, [cache])
    i, j = c.axis
    i_outer, j_outer, i_inner, j_inner = s[c].tile(i, j, 8, 16)
    s[cache].compute_at(s[c], j_outer)
    s[cache].reorder(k, *cache.axis)
    s[cache].vectorize(cache.axis[1])
    s[near].compute_at(s[cache], k)


def the_hosts_default(s, t):
    cpu.schedule(s)


def the_devices_default(s, t):
    cuda.schedule(s)


SCHEDULES = [
    the_hosts_default,
    the_devices_default,
    plain,
    tiled,
    computed_at_the_reader,
    computed_at_one_row,
    inlined,
    reduction_split_and_outermost,
    split_in_parts_and_fused,
    cached,
]


def noise(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("target", ["llvm", "python"])
@pytest.mark.parametrize("rearrange", SCHEDULES, ids=lambda f: f.__name__)
def test_schedules_do_not_change_results(rearrange, target):
    tensors = product()
    a, b, _, _, c = tensors
    s = te.create_schedule(c)
    rearrange(s, tensors)
    function = te.build(s, [a, b, c], target=target)
    x, y, out = noise(N, K), noise(K, M), np.full((N, M), np.nan, "float32")
    function(x, y, out)
    np.testing.assert_allclose(out, (x * 2 + 1) @ y, rtol=1e-4, atol=1e-4)


def test_a_stencil_computes_only_what_its_reader_needs():
    x = te.placeholder((70,), name="x")
    soft = te.compute((70,), lambda i: exp(x[i]), name="soft")
    y = te.compute((68,), lambda i: soft[i] + soft[i + 2], name="y")
    s = te.create_schedule(y)
    outer, inner = s[y].split(y.axis[0], factor=16)
    s[y].vectorize(inner)
    s[soft].compute_at(s[y], outer)
    assert "soft = local(f32, 18)" in str(te.lower(s, [x, y]))
    out, values = np.zeros(68, "float32"), noise(70)
    te.build(s, [x, y])(values, out)
    np.testing.assert_allclose(out, np.exp(values[:-2]) + np.exp(values[2:]), rtol=1e-6)


@pytest.mark.parametrize(
    ("combine", "expected"), [(te.max, np.max), (te.min, np.min), (te.prod, np.prod)]
)
def test_other_reductions(combine, expected):
    x = te.placeholder((5, 9), name="x")
    k = te.reduce_axis((0, 9), name="k")
    y = te.compute((5,), lambda i: combine(x[i, k], axis=k), name="y")
    values, out = noise(5, 9), np.zeros(5, "float32")
    te.build(te.create_schedule(y), [x, y])(values, out)
    np.testing.assert_allclose(out, expected(values, 1), rtol=1e-6)


def row_times_matrix():
    """An intrinsic: one vector of 16 gains one product of a scalar and a vector."""
    a = te.placeholder((4,), name="a")
    b = te.placeholder((4, 16), name="b")
    k = te.reduce_axis((0, 4), name="k")
    pattern = te.compute((16,), lambda j: te.sum(a[k] * b[k, j], axis=k), name="p")

    def emit(out, left, right):
        total = out.load(0, lanes=16)
        for step in range(4):
            total = total + ir.Broadcast(16, left.load(step)) * right.load(
                step, 0, lanes=16
            )
        return [out.store(total, 0)]

    return te.intrinsic(pattern, emit)


def matrices(columns):
    a = te.placeholder((8, 24), name="a")
    b = te.placeholder((24, columns), name="b")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute(
        (8, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c"
    )
    return a, b, k, c


def test_an_intrinsic_may_do_all_loops_of_a_reduction():
    b = te.placeholder((4, 16), name="b")
    a = te.placeholder((4,), name="a")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((16,), lambda j: te.sum(a[k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c)
    s[c].tensorize(c.axis[0], row_times_matrix())
    x, y, out = noise(4), noise(4, 16), np.full(16, np.nan, "float32")
    te.build(s, [a, b, c])(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5)


def test_a_registered_intrinsic_replaces_inner_loops():
    a, b, k, c = matrices(48)
    s = te.create_schedule(c)
    j_outer, j_inner = s[c].split(c.axis[1], factor=16)
    k_outer, k_inner = s[c].split(k, factor=4)
    s[c].reorder(c.axis[0], j_outer, k_outer, j_inner, k_inner)
    s[c].tensorize(j_inner, row_times_matrix())
    x, y, out = noise(8, 24), noise(24, 48), np.zeros((8, 48), "float32")
    te.build(s, [a, b, c])(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-5)


def test_tensorize_refuses_other_sizes_and_other_maths():
    a, b, k, c = matrices(48)
    s = te.create_schedule(c)
    with pytest.raises(ValueError, match=r"have sizes \[48, 24\], the intrinsic has"):
        s[c].tensorize(c.axis[1], row_times_matrix())
    d = te.compute((16,), lambda j: te.sum(a[0, k] + b[k, j], axis=k), name="d")
    s = te.create_schedule(d)
    outer, inner = s[d].split(k, factor=4)
    s[d].reorder(outer, d.axis[0], inner)
    with pytest.raises(ValueError, match="d computes sum"):
        s[d].tensorize(d.axis[0], row_times_matrix())


def test_lowered_loops_read_as_python():
    x = te.placeholder((32,), name="x")
    y = te.compute((32,), lambda i: maximum(x[i], 0.0), name="y")
    s = te.create_schedule(y)
    outer, inner = s[y].split(y.axis[0], factor=8)
    s[y].vectorize(inner)
    text = str(te.lower(s, [x, y]))
    assert "for i_outer in range(0, 4):" in text
    assert "for i_inner in vectorized(0, 8):" in text
    assert "y[i_outer * 8 + i_inner] = maximum(x[i_outer * 8 + i_inner], 0.0)" in text


def test_bad_schedules_are_refused():
    a, b, k, c = matrices(48)
    s = te.create_schedule(c)
    with pytest.raises(ValueError, match="vectorise a data axis"):
        s[c].vectorize(k)
    with pytest.raises(ValueError, match="not the outermost data loop"):
        s[c].parallel(c.axis[1])
    s[c].split(c.axis[0], factor=4)
    with pytest.raises(ValueError, match="split: i is not a loop of <stage c"):
        s[c].split(c.axis[0], factor=4)
    with pytest.raises(ValueError, match="c is a reduction; use compute_at"):
        s[c].compute_inline()


def test_arrays_of_another_shape_or_dtype_are_refused():
    a, b, _, c = matrices(48)
    function = te.build(te.create_schedule(c), [a, b, c])
    x, y, out = noise(8, 24), noise(24, 48), np.zeros((8, 48), "float32")
    with pytest.raises(
        ValueError, match=r"b is float32\[24, 48\], not float32\[48, 24\]"
    ):
        function(x, y.reshape(48, 24), out)
    with pytest.raises(ValueError, match=r"c is float32\[8, 48\], not float64"):
        function(x, y, out.astype("float64"))
    with pytest.raises(ValueError, match="a: the array is not row-major"):
        function(np.asfortranarray(x), y, out)
    with pytest.raises(ValueError, match="c is computed: its array cannot share"):
        t = te.placeholder((4,), name="t")
        c = te.compute((4,), lambda i: t[i] + 1.0, name="c")
        te.build(te.create_schedule(c), [t, c])(out[0, :4], out[0, :4])
    with pytest.raises(TypeError, match="takes 3 arrays, not 2"):
        function(x, y)


def test_tensors_of_the_package_are_accepted():
    x = te.placeholder((6,), name="x")
    y = te.compute((6,), lambda i: x[i] * 2.0, name="y")
    values, out = rl.arange(6, dtype=rl.float32), rl.empty(6)
    te.build(te.create_schedule(y), [x, y])(values, out)
    assert out.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_products_are_added_in_one_rounding_where_the_target_has_it():
    a, b, k, c = matrices(48)
    for target, found in (("x86-64-v3", True), ("x86-64", False)):
        with using(named(target)):
            assert ("fma(" in str(te.lower(te.create_schedule(c), [a, b, c]))) == found
    # (2**13 + 1)**2 - (2**26 + 2**14) is 1, which a product rounded to float32 loses
    x = te.placeholder((2,), name="x")
    y = te.placeholder((2,), name="y")
    k = te.reduce_axis((0, 2), name="k")
    z = te.compute((1,), lambda i: te.sum(x[k] * y[k], k), name="z")
    left = np.array([-(2.0**26 + 2**14), 2.0**13 + 1], "float32")
    right, out = np.array([1, 2.0**13 + 1], "float32"), np.zeros(1, "float32")
    te.build(te.create_schedule(z), [x, y, z], target="python")(left, right, out)
    assert out[0] == (1 if current().has("fma") else 0)


def test_sums_beside_a_large_copy_stay_where_they_become_registers():
    # All arrays lay in the thread's memory where one was large: sums were stored in each
    # step, and a product whose columns are copied took 2.4 times as long.
    a, b = (te.placeholder((64, 4096), name="a"), te.placeholder((4096, 32), name="b"))
    k = te.reduce_axis((0, 4096), name="k")
    c = te.compute((64, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c)
    sums = s.cache_write(c)
    rows, columns, *inner = s[c].tile(*c.axis, 8, 16)
    s[c].reorder(columns, rows, *inner)
    copy = s.cache_read(b, [sums])
    s[copy].compute_at(s[c], columns)
    s[sums].compute_at(s[c], rows)
    (function, _, _), *_ = lower_loops(s, [a, b, c], "tall").functions
    text = llvm.emit(function)
    assert "call noalias align 64 ptr @rushlight_scratch(i64 262144)" in text
    assert "alloca [128 x float]" in text


def test_tiles_ask_for_their_tails_in_no_whole_tile():
    a, b = te.placeholder((41, 7), name="a"), te.placeholder((7, 38), name="b")
    k = te.reduce_axis((0, 7), name="k")
    c = te.compute((41, 38), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="c")
    s = te.create_schedule(c)
    sums = s.cache_write(c)
    down, across, row, column = s[c].tile(*c.axis, 6, 16)
    s[sums].compute_at(s[c], across)
    s[sums].reorder(k, *sums.axis)
    for stage, rows, columns in ((sums, *sums.axis), (c, row, column)):
        s[stage].unroll(rows)
        s[stage].vectorize(columns)
    loops = str(te.lower(s, [a, b, c]))
    whole = loops[loops.index("for i_outer in range(0, 6)") :]
    whole = whole[whole.index("for j_outer in range(0, 2)") :]
    assert " if " not in whole[: whole.index("for j_outer in range(2, 3)")]
    x, y, out = noise(41, 7), noise(7, 38), np.full((41, 38), np.nan, "float32")
    te.build(s, [a, b, c])(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-5)
