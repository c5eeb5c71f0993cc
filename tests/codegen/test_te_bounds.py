"""Tensor expressions read within their tensors, whatever their schedules."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen.language import exp, select
from tests.codegen import te_programs
from tests.codegen.test_te import noise


def run(s, arguments, *arrays, target="llvm"):
    """The output, the last argument, of a schedule's function over some arrays."""
    out = np.full(arguments[-1].shape, np.nan, arguments[-1].dtype)
    te.build(s, arguments, target=target)(*arrays, out)
    return out


def test_a_loop_of_which_something_was_said_is_not_split():
    x, a, _, y = shared_in_a_loop()
    s = te.create_schedule(y)
    s[y].parallel(y.axis[0])
    with pytest.raises(
        ValueError, match="i of y is parallel already\n  remedy: split it"
    ):
        s[y].split(y.axis[0], 4)
    s = te.create_schedule(y)
    s[a].compute_at(s[y], y.axis[0])
    with pytest.raises(ValueError, match="i of y is where A is computed already"):
        s[y].split(y.axis[0], 4)


def shared_in_a_loop():
    """The issue's three stages: y reads A and B, and B reads A."""
    x = te.placeholder((34,), name="x")
    a = te.compute((34,), lambda i: x[i] * 2.0, name="A")
    b = te.compute((32,), lambda i: a[i] + a[i + 2], name="B")
    y = te.compute((32,), lambda i: a[i + 1] + b[i], name="y")
    return x, a, b, y


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_what_two_stages_of_one_loop_read_is_there_for_both(target):
    values = noise(34)
    double = values * 2
    expected = double[1:-1] + double[:-2] + double[2:]
    for factor, first, second in itertools.product((1, 5, 8), (0, 1), (0, 1)):
        x, a, b, y = shared_in_a_loop()
        s = te.create_schedule(y)
        loops = s[y].split(y.axis[0], factor=factor)
        if first > second:
            continue
        s[a].compute_at(s[y], loops[first])
        s[b].compute_at(s[y], loops[second])
        np.testing.assert_allclose(
            run(s, [x, y], values, target=target), expected, rtol=1e-6
        )
    x, a, b, y = shared_in_a_loop()
    s = te.create_schedule(y)
    outer, _ = s[y].split(y.axis[0], factor=8)
    s[b].compute_at(s[y], outer)
    inside, _ = s[b].split(b.axis[0], factor=3)
    s[a].compute_at(s[b], inside)
    with pytest.raises(ValueError, match="y reads it outside of it"):
        te.lower(s, [x, y])


@pytest.mark.parametrize(("size", "guarded"), [(36, False), (34, True)])
def test_a_stage_is_computed_in_whole_steps_where_its_tensor_has_them(size, guarded):
    x = te.placeholder((40,), name="x")
    a = te.compute((size,), lambda i: x[i] * 2.0, name="A")
    y = te.compute((27,), lambda i: a[i + 3], name="y")
    s = te.create_schedule(y)
    s[a].compute_at(s[y], s[y].split(y.axis[0], nparts=1)[0])
    s[a].vectorize(s[a].split(a.axis[0], factor=16)[1])
    assert ("< 27" in str(te.lower(s, [x, y]))) == guarded
    values = noise(40)
    for target in ("llvm", "python"):
        found = run(s, [x, y], values, target=target)
        np.testing.assert_array_equal(found, values[3:30] * 2)


def test_a_stage_that_somebody_reads_elsewhere_is_not_placed_in_a_loop():
    x, a, b, y = shared_in_a_loop()
    s = te.create_schedule(y)
    s[a].compute_at(s[y], y.axis[0])
    with pytest.raises(ValueError, match="A is computed inside the loop i of y, but B"):
        te.lower(s, [x, y])
    s = te.create_schedule(y)
    s[b].compute_at(s[y], y.axis[0])
    with pytest.raises(ValueError, match="B is an argument or output"):
        te.lower(s, [x, b, y])


@pytest.mark.parametrize("choose", [te.if_then_else, select])
@pytest.mark.parametrize("target", ["llvm", "python"])
def test_a_padded_convolution_reads_nothing_outside(choose, target):
    channels, size, filters, k, pad = 3, 7, 4, 3, 1
    x = te.placeholder((channels, size, size), name="x")
    w = te.placeholder((filters, channels, k, k), name="w")
    c = te.reduce_axis((0, channels), name="c")
    r, q = te.reduce_axis((0, k), name="r"), te.reduce_axis((0, k), name="q")

    def padded(c, i, j):
        inside = (i >= pad) & (i < size + pad) & (j >= pad) & (j < size + pad)
        return choose(inside, x[c, i - pad, j - pad], 0.0)

    wide = size + 2 * pad
    p = te.compute((channels, wide, wide), padded, name="p")
    y = te.compute(
        (filters, size, size),
        lambda f, i, j: te.sum(p[c, i + r, j + q] * w[f, c, r, q], axis=(c, r, q)),
        name="y",
    )
    image, weight = noise(channels, size, size), noise(filters, channels, k, k)
    expected = rl.nn.functional.conv2d(
        rl.from_numpy(image)[None], rl.from_numpy(weight), padding=pad
    )[0].numpy()
    for place in (None, "inline", 0, 2, 4):
        s = te.create_schedule(y)
        if place == "inline":
            s[p].compute_inline()
        elif place is not None:
            s[p].compute_at(s[y], s[y].leaves[place])
        # Far beyond what is passed there is no memory to read: see `guarded` pages below.
        found = run(s, [x, w, y], on_the_edge(image), weight, target=target)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def on_the_edge(array):
    """A copy of an array that ends where a page ends, before one that nobody may read."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    whole = -(-array.nbytes // page) * page
    room = mmap.mmap(-1, whole + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for place in (start, start + page + whole):
        assert protect(place, page, 0) == 0
    offset = page + whole - array.nbytes
    found = np.frombuffer(room, array.dtype, array.size, offset).reshape(array.shape)
    found[...] = array
    return found


def test_an_index_that_is_known_to_lie_outside_is_refused_where_it_is_written():
    x = te.placeholder((8,), name="x")
    k = te.reduce_axis((0, 4), name="k")
    inside = te.compute((8,), lambda i: x[te.minimum(i + 3, 7)] + x[i // 2], name="y")
    te.compute((8,), lambda i: x[(i * 3) % 8] + x[7 - i], name="y")
    te.compute((5,), lambda i: te.sum(x[i + k], axis=k), name="y")
    te.compute((4,), lambda i: te.sum(select(2 * i + k < 8, x[2 * i + k], 0.0), k))
    assert inside.shape == (8,)
    for shape, function in {
        (9,): lambda i: x[i],
        (8,): lambda i: x[i - 1],
        (7,): lambda i: x[i + 2],
        (6,): lambda i: te.sum(x[i + k], axis=k),
        (5,): lambda i: select(i > 0, x[i - 2], 0.0),
        (4,): lambda i: x[(i - 1) // 2],
    }.items():
        with pytest.raises(IndexError, match="y reads x.*size 8.*\n  remedy: te.if_"):
            te.compute(shape, function, name="y")


def test_an_index_that_is_data_is_looked_at_while_the_kernel_runs():
    x = te.placeholder((8,), name="x")
    at = te.placeholder((5,), "int64", name="at")
    y = te.compute((5,), lambda i: x[at[i]] * 2.0, name="y")
    z = te.compute((5,), lambda i: select(at[i] < 8, x[at[i]], 0.0), name="z")
    values, places = noise(8), np.array([0, 7, 3, 3, 1])
    for mark in ("vectorize", "parallel", "unroll"):
        s = te.create_schedule(y)
        getattr(s[y], mark)(y.axis[0])
        np.testing.assert_array_equal(
            run(s, [x, at, y], on_the_edge(values), places), values[places] * 2
        )
        for wrong in (8, -1, 1 << 60, -(1 << 60)):
            with pytest.raises(IndexError, match="index out of range"):
                run(s, [x, at, y], values, np.array([0, 7, wrong, 3, 1]))
    s = te.create_schedule(z)
    found = run(s, [x, at, z], on_the_edge(values), np.array([0, 8, 1 << 60, 3, 1]))
    assert found.tolist() == [values[0], 0, 0, values[3], values[1]]
    with pytest.raises(IndexError, match="index out of range"):
        run(s, [x, at, z], values, np.array([0, 8, -1, 3, 1]))


@pytest.mark.parametrize("place", ["root", "inline", "copied"])
def test_what_is_read_at_what_it_has_itself_is_replaced_whole(place):
    # Where the inner read was replaced, the outer one was not: it was refused in the end.
    at = te.placeholder((6,), "int64", name="at")
    b = te.compute((6,), lambda i: 5 - at[i], name="B")
    y = te.compute((6,), lambda i: b[b[i]] + at[at[i]], name="y")
    s = te.create_schedule(y)
    if place == "inline":
        s[b].compute_inline()
    if place == "copied":
        s.cache_read(at, [y])
        s.cache_read(b, [y])
    places = np.array([3, 0, 5, 1, 1, 2])
    turned = 5 - places
    expected = turned[turned] + places[places]
    out = np.zeros(6, "int64")
    te.build(s, [at, y])(places, out)
    np.testing.assert_array_equal(out, expected)


def softmax(rows, columns):
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis((0, columns), name="k")
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((rows, columns), lambda i, j: exp(x[i, j] - top[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, k], axis=k), name="total")
    y = te.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="y")
    return x, (top, e, total), y


def test_a_softmax_of_one_loop_computes_each_part_once_a_row():
    x, parts, y = softmax(6, 40)
    s = te.create_schedule(y)
    for part in parts:
        s[part].compute_at(s[y], y.axis[0])
    text = str(te.lower(s, [x, y]))
    assert "top = local(f32, 1)" in text
    assert "e = local(f32, 40)" in text
    assert text.count("for ") == 5  # rows, and once along a row for each of four parts
    values = noise(6, 40)
    expected = rl.softmax(rl.from_numpy(values), 1).numpy()
    np.testing.assert_allclose(run(s, [x, y], values), expected, rtol=1e-5)


def test_an_expression_goes_on_with_its_reductions():
    x = te.placeholder((9, 20), name="x")
    k, m = te.reduce_axis((0, 20), name="k"), te.reduce_axis((0, 5), name="m")
    values = noise(9, 20)
    cases = {
        "scaled": (lambda i: te.sum(x[i, k], k) * 2.0, values.sum(1) * 2),
        "two": (
            lambda i: te.sum(x[i, k] * x[i, k], k) / te.max(x[i, k], k),
            (values**2).sum(1) / values.max(1),
        ),
        "different axes": (
            lambda i: te.sum(x[i, k], k) - te.prod(x[i, m], m),
            values.sum(1) - values[:, :5].prod(1),
        ),
    }
    for target, (name, (function, expected)) in itertools.product(
        ("llvm", "python"), cases.items()
    ):
        y = te.compute((9,), function, name="y")
        s = te.create_schedule(y)
        s[y].parallel(y.axis[0])
        found = run(s, [x, y], values, target=target)
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=name)
        # With data loops inside of the reductions'
        s = te.create_schedule(y)
        i_outer, i_inner = s[y].split(y.axis[0], factor=4)
        if name == "different axes":
            s[y].reorder(i_outer, k, i_inner)
            with pytest.raises(ValueError, match="different axes.*\n  remedy"):
                te.lower(s, [x, y])
            continue
        k_outer, k_inner = s[y].split(k, factor=3)
        s[y].reorder(i_outer, k_outer, k_inner, i_inner)
        found = run(s, [x, y], values, target=target)
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=name)


def test_reductions_of_reductions_are_refused_in_the_users_words():
    x = te.placeholder((3, 4, 5), name="x")
    j, k = te.reduce_axis((0, 4), name="j"), te.reduce_axis((0, 5), name="k")
    with pytest.raises(ValueError, match="reduced inside already\n  remedy"):
        te.compute((3,), lambda i: te.sum(te.max(x[i, j, k], k), j), name="y")
    with pytest.raises(ValueError, match="which is no te.reduce_axis"):
        te.compute((3,), lambda i: te.sum(x[i, 0, 0], i), name="y")


def test_what_is_read_after_a_reduction_is_not_computed_inside_it():
    x = te.placeholder((6, 8), name="x")
    k = te.reduce_axis((0, 8), name="k")
    b = te.compute((6,), lambda i: x[i, 0] + 1.0, name="b")
    y = te.compute((6,), lambda i: te.sum(x[i, k], k) * b[i], name="y")
    s = te.create_schedule(y)
    s[b].compute_at(s[y], k)
    with pytest.raises(ValueError, match="reads it when the reduction is done"):
        te.lower(s, [x, y])
    values = noise(6, 8)
    expected = values.sum(1) * (values[:, 0] + 1)
    for inside in (False, True):
        s = te.create_schedule(y)
        if inside:
            outer, inner = s[y].split(y.axis[0], factor=4)
            s[y].reorder(outer, k, inner)
            s[b].compute_at(s[y], inner)
        else:
            s[b].compute_at(s[y], y.axis[0])
        np.testing.assert_allclose(run(s, [x, y], values), expected, rtol=1e-5)


def summed(tensors, picked, padded):
    """The function of a stage that adds what earlier ones have at some distances."""

    def element(i):
        total = None
        for t, shift in picked:
            read = tensors[t][i + shift]
            if padded:
                before = tensors[t][i + shift - 4]
                read = read + te.if_then_else(i + shift >= 4, before, 1.0)
            total = read if total is None else total + read
        return total * 0.5

    return element


def added(values, picked, padded, extent):
    """What such a stage computes."""
    total = np.zeros(extent, "float32")
    for t, shift in picked:
        total += values[t][shift : shift + extent]
        if padded:
            places = np.arange(extent) + shift - 4
            total += np.where(places >= 0, values[t][places.clip(0)], 1)
    return total * np.float32(0.5)


def drawn_stages(draw):
    """Stages that read earlier ones at up to three places, and what they compute."""
    tensors, values = [te.placeholder((30,), name="x")], [noise(30)]
    for number in range(draw.randint(2, 4)):
        earlier = range(max(0, number - 1), len(tensors))
        count = draw.randint(1, 3)
        picked = [(draw.choice(earlier), draw.randint(0, 3)) for _ in range(count)]
        picked.append((number, 0))  # no stage is left out
        extent = min(tensors[t].shape[0] - shift for t, shift in picked)
        padded = draw.random() < 0.4
        function = summed(tensors, picked, padded)
        values.append(added(values, picked, padded, extent))
        tensors.append(te.compute((extent,), function, name=f"t{number}"))
    return tensors, values


@pytest.mark.parametrize("seed", range(4))
def test_drawn_stages_in_drawn_places_compute_the_same_or_are_refused(seed):
    draw, ran, refused = random.Random(seed), 0, 0
    for _ in range(15):
        tensors, values = drawn_stages(draw)
        y = tensors[-1]
        s = te.create_schedule(y)
        loops = s[y].split(y.axis[0], factor=draw.choice((1, 4, 7)))
        for stage in s.stages[:-1]:
            place = draw.choice(("root", "inline", *loops))
            if place == "inline":
                stage.compute_inline()
            elif place != "root":
                stage.compute_at(s[y], place)
        try:
            found = run(s, [tensors[0], y], values[0], target="python")
        except ValueError as error:
            assert str(error).startswith("compute_at: "), error
            refused += 1
            continue
        np.testing.assert_allclose(found, values[-1], rtol=1e-4, atol=1e-5)
        ran += 1
    assert ran >= 5 and refused


@pytest.mark.parametrize(("target", "count"), [("python", 12), ("llvm", 8)])
@pytest.mark.parametrize("seed", range(3))
def test_drawn_programs_in_drawn_schedules_compute_what_numpy_does(target, count, seed):
    draw, ran = random.Random(seed), 0
    for _ in range(count):
        stages = te_programs.Stages(draw)
        y, wanted = stages.output
        s = te_programs.schedule(draw, y, bound=False)
        tensors, arrays = zip(*stages.inputs)
        try:
            found = run(s, [*tensors, y], *arrays, target=target)
        except ValueError as error:
            assert "\n  remedy" in str(error), error
            continue
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
        ran += 1
    assert ran >= count // 3
