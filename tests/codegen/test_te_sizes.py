"""Open sizes and strides of tensor expressions: one function for the arrays of any call."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen.language import exp
from tests.codegen.test_te import noise

SIZES = [(3, 5), (7, 16), (1, 1), (0, 4), (4, 0), (33, 40)]


def doubled():
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="x")
    y = te.compute((n, m), lambda i, j: x[i, j] * 2.0, name="y")
    return x, y, te.create_schedule(y)


def plain(s, y):
    """Leaves every loop as it is."""


def vectors(s, y):
    i, j = y.axis
    s[y].vectorize(s[y].split(j, 8)[1])
    s[y].parallel(i)


def fused(s, y):
    s[y].parallel(s[y].split(s[y].fuse(*y.axis), 16)[0])


def parts(s, y):
    s[y].reorder(*s[y].split(y.axis[1], nparts=3), y.axis[0])


@pytest.mark.parametrize("target", ["llvm", "python"])
@pytest.mark.parametrize("rearrange", [plain, vectors, fused, parts])
def test_one_function_takes_arrays_of_all_sizes(rearrange, target):
    x, y, s = doubled()
    rearrange(s, y)
    function = te.build(s, [x, y], target=target)
    for size in SIZES:
        values, out = noise(*size), np.full(size, np.nan, "float32")
        function(values, out)
        np.testing.assert_array_equal(out, values * 2)


def test_stages_between_have_room_for_the_sizes_of_a_call():
    n, m, d = te.var("n"), te.var("m"), te.var("d")
    a, b = te.placeholder((n, d), name="a"), te.placeholder((d, m), name="b")
    k = te.reduce_axis((0, d), name="k")
    half = te.compute((n, d), lambda i, j: a[i, j] * 0.5, name="half")
    c = te.compute((n, m), lambda i, j: te.sum(half[i, k] * b[k, j], k), name="c")
    for place in ("root", "inline", "sum", "tile"):
        s = te.create_schedule(c)
        i, _, _, j = s[c].tile(*c.axis, 4, 8)
        s[c].reorder(k, j)
        if place == "inline":
            s[half].compute_inline()
        if place == "sum":
            s[half].compute_at(s[c], k)
        if place == "tile":
            outer, _ = s[c].split(k, 5)
            s[half].compute_at(s[c], outer)
        s[c].parallel(i)
        function = te.build(s, [a, b, c])
        for rows, columns, depth in ((3, 5, 7), (16, 8, 10), (2, 3, 0)):
            x, y = noise(rows, depth), noise(depth, columns)
            out = np.full((rows, columns), np.nan, "float32")
            function(x, y, out)
            np.testing.assert_allclose(out, x @ y / 2, rtol=1e-4, atol=1e-5)


def test_what_is_known_to_be_within_open_sizes_is_not_looked_at():
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    e = te.compute((n,), lambda i: exp(x[i]), name="e")
    y = te.compute((n,), lambda i: e[i] * 2.0, name="y")
    s = te.create_schedule(y)
    s[e].compute_at(s[y], y.axis[0])
    assert "if " not in str(te.lower(s, [x, y]))
    te.compute((n - 1,), lambda i: x[i + 1], name="next")
    for shape, function in (((n,), lambda i: x[i + 1]), ((n + 1,), lambda i: x[i])):
        with pytest.raises(IndexError, match="y reads x.*dimension 0 has size n"):
            te.compute(shape, function, name="y")


def test_sizes_that_do_not_agree_are_refused_with_what_they_are():
    x, y, s = doubled()
    function = te.build(s, [x, y])
    with pytest.raises(
        ValueError, match=r"y is float32\[n, m\], not float32\[3, 4\], where"
    ):
        function(noise(3, 5), np.zeros((3, 4), "float32"))
    with pytest.raises(ValueError, match=r"x is float32\[n, m\], not float32\[3\]"):
        function(noise(3), np.zeros((3, 4), "float32"))
    n = te.var("n")
    z = te.placeholder((n * 2,), name="z")
    w = te.compute((4,), lambda i: te.if_then_else(i < n * 2, z[i], 0.0), name="w")
    with pytest.raises(
        ValueError, match="no argument has n elements along a dimension"
    ):
        te.lower(te.create_schedule(w), [z, w])


def test_room_inside_of_a_loop_is_of_a_known_size():
    x, y, _ = doubled()
    k = te.reduce_axis((0, x.shape[1]), name="k")
    total = te.compute((x.shape[0],), lambda i: te.sum(y[i, k], k), name="total")
    s = te.create_schedule(total)
    s[y].compute_at(s[total], total.axis[0])
    with pytest.raises(
        ValueError, match=r"y needs \[1, m\] elements inside.*\n  remedy"
    ):
        te.lower(s, [x, total])


def test_strides_are_those_that_were_said():
    x = te.placeholder((6, 8), name="x", strides=(1, 6))
    y = te.compute((6, 8), lambda i, j: x[i, j] * 2.0, name="y")
    function = te.build(te.create_schedule(y), [x, y])
    turned, out = rl.randn(8, 6).t(), rl.empty(6, 8)
    function(turned, out)
    assert rl.equal(out, turned * 2)
    with pytest.raises(ValueError, match=r"x has strides \(1, 6\), not \(8, 1\)"):
        function(turned.contiguous(), out)
    with pytest.raises(ValueError, match="x has 2 dimensions and 1 strides"):
        te.placeholder((6, 8), name="x", strides=(1,))


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_open_strides_are_those_of_the_call(target):
    n, row, step = te.var("n"), te.var("row"), te.var("step")
    x = te.placeholder((n, 4), name="x", strides=(row, step))
    y = te.compute((n, 4), lambda i, j: x[i, j] * 2.0, name="y")
    function = te.build(te.create_schedule(y), [x, y], target=target)
    base = noise(12, 20)
    for rows, columns in itertools.product((slice(2, 9), slice(9, 2, -2)), (1, 5)):
        part = base[rows, ::columns][:, :4]
        out = np.full(part.shape, np.nan, "float32")
        function(part, out)
        np.testing.assert_array_equal(out, part * 2)
