"""The host's kernels as a card runs them: every thread of every entry, in any order."""

from __future__ import annotations

import ctypes
import math
import random
import re

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.language import exp, maximum, pointwise, select
from rushlight.codegen.loops import T, loops
from rushlight.codegen.target import NVIDIA, using
from rushlight.runtime.cuda import device_kernel, launch


@pointwise
def scaled_sum(x, y, a):
    return x + a * y


@pointwise
def swish(x):
    return x / (1.0 + exp(-x))


@pointwise
def both(x, y):
    return maximum(x, y), select(x > y, x - y, y - x)


@loops
def row_sums(out: "T*", x: "T*", width: int, begin: int, end: int):
    """The sum of each row."""
    for row in range(begin, end):
        total = T(0)
        for j in range(width):
            total = total + x[row * width + j]
        out[row] = total


def kernel(front, dtype, arity, outputs=1):
    with using(NVIDIA):
        return front.specialize((dtype,) * arity, (dtype,) * outputs, dtype)


def put(card, array):
    """An array in the card's memory: its address."""
    address = card.allocator.allocate(array.nbytes)
    source = array.ctypes.data
    card.call("cuMemcpyAsync", address, source, array.nbytes, 0)
    return address


def get(card, address, like):
    """What lies at an address, with the sizes and type of an array."""
    found = np.empty_like(like)
    card.call("cuMemcpyAsync", found.ctypes.data, address, like.nbytes, 0)
    return found


@pytest.mark.parametrize("size", [1, 31, 32, 255, 256, 257, 5000])
def test_every_element_is_computed_once_whatever_the_grid(machine, size):
    card = machine.card()
    x = np.linspace(-8, 8, size, dtype="float32")
    source, target = put(card, x), put(card, np.full_like(x, math.nan))
    kernel(swish, "float32", 1).run_elements(
        card, (target, source), (size,), ((4,), (4,)), b"", size
    )
    np.testing.assert_allclose(get(card, target, x), x / (1 + np.exp(-x)), rtol=3e-7)


@pytest.mark.parametrize("seed", range(12))
def test_elements_are_found_by_any_steps(machine, seed):
    card, draw = machine.card(), random.Random(seed)
    ndim = draw.randint(1, 5)
    sizes = [draw.randint(1, 5) for _ in range(ndim)]
    x = np.arange(math.prod(sizes), dtype="float64").reshape(sizes)
    order = draw.sample(range(ndim), ndim)
    y = np.ascontiguousarray(x.transpose(order)) * 10
    seen = y.transpose(np.argsort(order))  # x's sizes, other steps
    number = np.array([0.5, 0.0]).tobytes()
    target = put(card, np.zeros_like(x))
    strides = [tuple(a.strides[::-1]) for a in (x, x, seen)]
    kernel(scaled_sum, "float64", 3).run_elements(
        card,
        (target, put(card, x), put(card, y), None),
        tuple(sizes[::-1]),
        (*strides, None),
        number,
        x.size,
    )
    np.testing.assert_array_equal(get(card, target, x), x + 0.5 * seen)


def test_values_that_are_the_same_everywhere_have_steps_of_zero(machine):
    card = machine.card()
    x, y = np.arange(12, dtype="int64"), np.array([5], dtype="int64")
    low, high = put(card, np.zeros_like(x)), put(card, np.zeros_like(x))
    kernel(both, "int64", 2, 2).run_elements(
        card,
        (high, low, put(card, x), put(card, y)),
        (12,),
        ((8,), (8,), (8,), (0,)),
        b"",
        12,
    )
    np.testing.assert_array_equal(get(card, high, x), np.maximum(x, 5))
    np.testing.assert_array_equal(get(card, low, x), abs(x - 5))


@pointwise
def flagged(x, y):
    return x > y, x + y


def padded(x, moved):
    """An array behind so many elements, and before a few."""
    return np.concatenate([np.zeros(moved, x.dtype), x, np.zeros(4, x.dtype)])


def wide_entries(machine):
    """The entries that were loaded whose threads take several elements."""
    calls = machine.fake.calls
    names = [args[1] for name, args in calls if name == "cuModuleGetFunction"]
    return [name for name in names if re.search(rb"_by\d", name)]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_neighbours_are_read_at_once_and_none_is_left(machine, monkeypatch, dtype):
    monkeypatch.setattr(device_kernel, "WIDE_FROM", 1)
    card = machine.card()
    with using(NVIDIA):
        made = flagged.specialize((dtype,) * 2, ("bool", dtype), dtype)
    for size in (1, 3, 4, 7, 8, 9, 1023, 1024, 1025, 4099):
        x = (np.arange(size) % 100).astype(dtype)
        y = (np.arange(size)[::-1] % 100).astype(dtype)
        step = x.itemsize
        more = put(card, np.full(size + 16, 7, "uint8"))
        target = put(card, np.zeros_like(x))
        rows = ((1,), (step,), (step,), (step,))
        places = (more, target, put(card, x), put(card, y))
        made.run_elements(card, places, (size,), rows, b"", size)
        np.testing.assert_array_equal(get(card, target, x), x + y)
        found = get(card, more, np.empty(size + 16, "uint8"))
        np.testing.assert_array_equal(found[:size], x > y)
        np.testing.assert_array_equal(found[size:], 7)  # nothing beyond is written
    assert len(wide_entries(machine)) == 1


@pytest.mark.parametrize("inner", [4, 6, 8])
@pytest.mark.parametrize("moved", [0, 1, 4])
def test_rows_of_neighbours_are_read_at_once_where_loads_are_aligned(
    machine, monkeypatch, inner, moved
):
    monkeypatch.setattr(device_kernel, "WIDE_FROM", 1)
    card = machine.card()
    x = np.arange(40 * 24 + 8, dtype="float32")
    seen = x[moved : moved + 40 * 24].reshape(40, 24)[:, :inner]
    column = np.arange(40, dtype="float32")
    target = put(card, np.zeros((40, inner), "float32"))
    kernel(scaled_sum, "float32", 3).run_elements(
        card,
        (target, put(card, x) + 4 * moved, put(card, column), None),
        (inner, 40),
        ((4, 4 * inner), (4, 96), (0, 4), None),
        np.array([0.5, 0, 0, 0], "float32").tobytes(),
        40 * inner,
    )
    expected = seen + np.float32(0.5) * column[:, None]
    np.testing.assert_array_equal(get(card, target, expected.copy()), expected)
    assert bool(wide_entries(machine)) == (inner % 4 == 0 and moved % 4 == 0)


def test_what_is_read_at_once_may_be_written_where_it_was(machine, monkeypatch):
    monkeypatch.setattr(device_kernel, "WIDE_FROM", 1)
    card = machine.card()
    x = np.linspace(-3, 3, 1001, dtype="float32")
    place = put(card, x)
    kernel(swish, "float32", 1).run_elements(
        card, (place, place), (1001,), ((4,), (4,)), b"", 1001
    )
    np.testing.assert_allclose(get(card, place, x), x / (1 + np.exp(-x)), rtol=3e-7)
    assert wide_entries(machine)


@pytest.mark.parametrize("moved", [0, 1])
def test_lists_of_tensors_are_read_neighbours_at_once(machine, monkeypatch, moved):
    monkeypatch.setattr(device_kernel, "WIDE_FROM", 1)
    card = machine.card()
    counts = (5, 4096, 0, 4099, 1, 9000)
    xs = [np.arange(count, dtype="float32") for count in counts]
    rates = [np.array([k], "float32") for k in range(len(counts))]
    targets = [put(card, np.zeros(count + 4, "float32")) for count in counts]
    sources = [put(card, padded(x, moved)) for x in xs]
    lists = (
        tuple(targets),
        tuple(source + 4 * moved for source in sources),
        tuple(put(card, rate) for rate in rates),
    )
    made = kernel(scaled_sum, "float32", 3)
    half = np.array([0.5, 0, 0, 0], "float32").tobytes()
    made.run_lists(card, ((0, 4), (1, 4), (2, 0), None), lists, counts, half)
    for x, rate, target in zip(xs, rates, targets):
        found = get(card, target, np.empty(x.size + 4, "float32"))
        np.testing.assert_array_equal(found[: x.size], x + np.float32(0.5) * rate)
        np.testing.assert_array_equal(found[x.size :], 0)
    assert bool(wide_entries(machine)) == (moved == 0)


def test_elements_that_are_no_neighbours_are_read_one_by_one(machine, monkeypatch):
    monkeypatch.setattr(device_kernel, "WIDE_FROM", 1)
    card = machine.card()
    x = np.arange(2048, dtype="float32")
    target = put(card, np.zeros(1024, "float32"))
    kernel(scaled_sum, "float32", 3).run_elements(
        card,
        (target, put(card, x), put(card, x), None),
        (1024,),
        ((4,), (8,), (4,), None),
        np.array([1, 0, 0, 0], "float32").tobytes(),
        1024,
    )
    found = get(card, target, np.empty(1024, "float32"))
    np.testing.assert_array_equal(found, x[::2] + x[:1024])
    assert not wide_entries(machine)


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_kernels_of_spans_run_with_the_hosts_integers(machine, chunk):
    card = machine.card()
    x = np.arange(70 * 9, dtype="float32").reshape(70, 9)
    out = np.zeros(70, "float32")
    target = put(card, out)
    with using(NVIDIA):
        made = row_sums.specialize(T="float32")
    made.run_spans(card, (target, put(card, x)), (9,), 70, chunk)
    np.testing.assert_array_equal(get(card, target, out), x.sum(1))


def test_entries_are_made_once_for_a_layout(machine):
    card = machine.card()
    made = kernel(swish, "float32", 1)
    assert made is kernel(swish, "float32", 1)
    x = np.ones(8, "float32")
    source, target = put(card, x), put(card, x)
    for _ in range(3):
        made.run_elements(card, (target, source), (8,), ((4,), (4,)), b"", 8)
    made.run_elements(card, (target, source), (4, 2), ((4, 16), (4, 16)), b"", 8)
    assert machine.fake.names("cuModuleLoadData") == ["cuModuleLoadData"] * 2


def test_the_host_keeps_its_own_kernels(machine):
    ours = swish.specialize(("float32",), ("float32",), "float32")
    assert ours is swish.specialize(("float32",), ("float32",), "float32")
    assert ours is not kernel(swish, "float32", 1)
    assert hasattr(ours, "address")


def test_a_refused_launch_is_told_with_the_kernels_name(machine):
    card = machine.card()
    made = kernel(swish, "float32", 1)
    x = np.ones(8, "float32")
    address = put(card, x)
    machine.fake.fail("cuLaunchKernel", 719)
    with pytest.raises(RuntimeError, match=r"unspecified launch failure\n.*swish"):
        made.run_elements(card, (address, address), (8,), ((4,), (4,)), b"", 8)


def test_more_operands_than_an_entry_takes_are_refused():
    with pytest.raises(ValueError, match="takes 24 and 64"):
        launch.LaunchPlan(launch.DeviceContext(0), None, 0, 25, (1, 1, 0), (), 1)


def test_nothing_is_launched_for_no_elements(machine):
    kernel(swish, "float32", 1).run_elements(
        machine.card(), (0, 0), (0,), ((4,), (4,)), b"", 0
    )
    assert "cuLaunchKernel" not in machine.fake.names()


def test_a_copy_waits_for_the_kernel_before_it(machine):
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    for seed in range(4):
        machine.start(seed=seed)
        card = machine.card()
        x = np.ones(300, "float32")
        source, target = put(card, x), put(card, x)
        made = kernel(swish, "float32", 1)
        made.run_elements(card, (target, source), (300,), ((4,), (4,)), b"", 300)
        assert get(card, target, x)[0] == pytest.approx(0.7310586)


def test_kernels_of_cards_compile_silently(machine, capfd):
    machine.start(memory=1 << 26)
    x = rl.randn(1, 2, 9, 11, device="cuda", requires_grad=True)
    rl.nn.functional.max_pool2d(x, 2).sum().backward()
    rl.nn.functional.avg_pool2d(x, 3, 2).sum().backward()
    assert capfd.readouterr().err == ""
