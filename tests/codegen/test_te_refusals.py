"""What programs of tensor expressions get wrong is refused in the user's words."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight import te
from tests.codegen.test_te import noise


def doubled():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="B")
    return a, b, te.create_schedule(b)


def test_shapes_are_whole_numbers_of_elements():
    for shape, message in {
        (-4,): "A has a size of -4",
        (4.5,): "A has a size of 4.5, which is no whole number",
        (True,): "A has a size of True, which is no whole number",
    }.items():
        with pytest.raises((TypeError, ValueError), match=message):
            te.placeholder(shape, name="A")
        with pytest.raises((TypeError, ValueError), match=message):
            te.compute(shape, lambda i: i, name="A")
    with pytest.raises(ValueError, match="A has a dtype 'float33'; there are bool"):
        te.placeholder((4,), "float33", name="A")
    assert te.placeholder(8, name="A").shape == (8,)


def test_a_function_may_take_its_indices_at_once_and_call_tensors():
    x = te.placeholder((4, 5), name="x")
    y = te.compute(x.shape, lambda *i: x(*i) * 2.0, name="y")
    z = te.compute(
        x.shape, lambda i, *rest: y[(i, *rest)] + te.exp(x(i, *rest)), name="z"
    )
    values, out = noise(4, 5), np.zeros((4, 5), "float32")
    te.build(te.create_schedule(z), [x, z])(values, out)
    np.testing.assert_allclose(out, values * 2 + np.exp(values), rtol=1e-6)


def test_an_axis_that_nothing_turns_is_refused_where_it_is_written():
    # One that had the name of another was taken for that: wrong numbers, silently.
    x, kept = te.placeholder((4, 5), name="x"), []
    k, other = te.reduce_axis((0, 5), name="k"), te.reduce_axis((0, 5), name="k")
    for function in (
        lambda i: x[i, k] * 2.0,
        lambda i: te.sum(x[i, k], other),
        lambda i: te.sum(x[i, k], k) + x[i, k],
    ):
        with pytest.raises(
            ValueError, match="y goes by k, which is not reduced.*\n  reme"
        ):
            te.compute((4,), function, name="y")
    te.compute((4,), lambda i: kept.append(i) or x[i, 0], name="first")
    with pytest.raises(
        ValueError, match="y goes by i, which is another tensor's axis\n"
    ):
        te.compute((4,), lambda j: x[kept[0], 0] + x[j, 0], name="y")
    with pytest.raises(
        ValueError, match=r"starts at 2.*\n  remedy: an axis of 6 .* k \+ 2"
    ):
        te.reduce_axis((2, 8), name="k")


def test_splits_and_copies_say_what_they_need():
    a, b, s = doubled()
    for factor in (0, -3, 2.5):
        with pytest.raises(ValueError, match=f"split: {factor} is no number of turns"):
            s[b].split(b.axis[0], factor)
    with pytest.raises(
        TypeError, match=r"remedy: cache_read\(A, readers, scope='shared'"
    ):
        s.cache_read(a, "shared", [b])
    with pytest.raises(ValueError, match="cache_read: B does not read Z"):
        s.cache_read(te.placeholder((8,), name="Z"), [b])
    assert s.cache_read(a, b).name == "A_cache"


def test_an_output_that_nobody_is_given_is_refused():
    a, _, s = doubled()
    with pytest.raises(
        ValueError, match="B is an output.*no argument.*\n  remedy: pass it"
    ):
        te.build(s, [a])


def test_arrays_that_cannot_be_read_or_written_are_refused():
    a, b, s = doubled()
    function = te.build(s, [a, b])
    out = np.zeros(8, "float32")
    with pytest.raises(TypeError, match="A is a tensor or an array, not list"):
        function([1.0] * 8, out)
    # The address of a tensor without elements was read: the process ended.
    for tensors in (
        (rl.ones(8, device="meta"), out),
        (noise(8), rl.ones(8, device="meta")),
    ):
        with pytest.raises(RuntimeError, match="tensor is on meta.*\n  remedy"):
            function(*tensors)
    both = noise(9)
    for one, other in (
        (both[:8], both[1:]),
        (both[1:], both[:8]),
        (both[:8], both[:8]),
    ):
        with pytest.raises(ValueError, match="B is computed: its array cannot share"):
            function(one, other)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="B is computed, and its array is read-only"):
        function(noise(8), out)
    with pytest.raises(ValueError, match="requires grad, which this does not record"):
        function(rl.ones(8), rl.zeros(8, requires_grad=True))


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_names_of_users_become_names_of_programs(target):
    a = te.placeholder((4,), name="my tensor")
    b = te.placeholder((4,), name="2")
    c = te.compute((4,), lambda i: a[i] * 2.0 + b[i], name="class")
    values, more, out = noise(4), noise(4), np.zeros(4, "float32")
    te.build(te.create_schedule(c), [a, b, c], target=target)(values, more, out)
    np.testing.assert_allclose(out, values * 2 + more, rtol=1e-6)
