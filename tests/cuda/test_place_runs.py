"""Writes at indexed places on an imagined card: the bits of the host's order, or atomics."""

from __future__ import annotations

import contextlib

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.operators.indexing import place_runs


@pytest.fixture(autouse=True)
def _machine(machine):
    rl.manual_seed(0)


def same(function, *tensors, near=False):
    """Whether a card gives the host's bits; or, where that is so, what is near them."""
    here = function(*[t.clone() for t in tensors])
    there = function(*[t.cuda() for t in tensors]).cpu()
    if not near or not (here.is_floating_point() or here.is_complex()):
        return rl.equal(here, there)
    few = 1e-5 if here.dtype.itemsize >= 4 else 0.1
    return rl.allclose(here, there, rtol=few, atol=few)


@contextlib.contextmanager
def deterministic(asked):
    """Programs that ask for sums in one order, or not."""
    rl.use_deterministic_algorithms(asked)
    try:
        yield
    finally:
        rl.use_deterministic_algorithms(False)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("shape, dim", [((40,), 0), ((30, 3), 0), ((2, 25, 2), 1)])
def test_scattered_elements_meet_in_the_order_of_their_index(shape, dim, asked):
    """Sums of floats do where that is asked for; else they are atomic, as PyTorch's."""
    index, sums = rl.randint(0, 5, shape), {"near": not asked}
    for dtype in (rl.float32, rl.bfloat16, rl.int64, rl.complex64):
        source, into = (rl.randn(shape, dtype=rl.float64) * 3 for _ in range(2))
        source, into = source.to(dtype), into.to(dtype)
        assert same(lambda a, i, s: a.scatter(dim, i, s), into, index, source)
        with deterministic(asked):
            add = lambda a, i, s: a.scatter_add(dim, i, s)  # noqa: E731
            assert same(add, into, index, source, **sums)
        if dtype.is_complex:
            continue
        for how in ("prod", "amin", "amax", "mean"):

            def reduced(into, index, source, how=how):
                return into.scatter_reduce(dim, index, source, how)

            with deterministic(asked):
                assert same(reduced, into, index, source, **sums)
    assert same(lambda a, i: a.scatter(dim, i, 2.5), rl.randn(shape), index)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("shape, dim", [((20,), 0), ((9, 4), 0), ((3, 8, 2), 1)])
def test_slices_meet_in_the_order_of_their_index(shape, dim, asked):
    index = rl.randint(0, shape[dim], (30,))
    given = list(shape)
    given[dim] = 30
    for dtype in (rl.float32, rl.float16, rl.int32, rl.complex64):
        source = (rl.randn(given) * 3).to(dtype)
        into = (rl.randn(shape) * 3).to(dtype)
        with deterministic(asked):
            add = lambda a, i, s: a.index_add(dim, i, s)  # noqa: E731
            assert same(add, into, index, source, near=not asked)
        assert same(lambda a, i, s: a.index_copy(dim, i, s), into, index, source)
        assert same(lambda a, i: a.index_fill(dim, i, 3), into, index)


def test_gradients_of_words_meet_in_the_order_of_the_text():
    index, weight = rl.randint(0, 7, (4, 9)), rl.randn(7, 5)
    for given in ({}, {"padding_idx": 3}, {"scale_grad_by_freq": True}):

        def gradient(i, w, given=given):
            leaf = w.detach().requires_grad_()
            (F.embedding(i, leaf, **given) ** 3).sum().backward()
            return leaf.grad

        assert same(gradient, index, weight)


def test_elements_are_gathered_one_by_one():
    x, index = rl.randn(3, 7, 4), rl.randint(0, 7, (3, 11, 4))
    assert same(lambda a, i: a.gather(1, i), x, index)
    assert same(lambda a, i: a.gather(0, i), rl.randn(50), rl.randint(0, 50, (70,)))
    assert same(lambda a, i: a[i], rl.randn(50), rl.randint(-50, 50, (70,)))


def test_places_outside_are_refused_and_nothing_is_written():
    index = rl.full((12,), 9, device="cuda")
    into = rl.zeros(9, device="cuda")
    with pytest.raises(RuntimeError, match="index 9 is out of bounds for dimension 0"):
        into.scatter_add(0, index, rl.ones(12, device="cuda")).cpu()
    with pytest.raises(IndexError, match="out of range in self"):
        into.index_add(0, index, rl.ones(12, device="cuda")).cpu()
    assert into.sum().item() == 0


def test_many_lines_have_a_thread_each():
    assert not place_runs.worth_sorting(place_runs.MANY_LINES, 100)
    assert place_runs.worth_sorting(1, 100)


def test_few_of_many_places_are_written_without_a_number_for_each():
    index, source = rl.randint(0, 900, (30,)), rl.randn(30)
    into = rl.randn(900)
    assert same(lambda a, i, s: a.scatter(0, i, s), into, index, source)
    assert same(lambda a, i, s: a.index_copy(0, i, s), into, index, source)


def test_sums_and_writes_launch_no_sort_unless_one_order_is_asked_for(machine):
    index, ones = rl.randint(0, 9, (200,)).cuda(), rl.ones(200, device="cuda")
    into = rl.zeros(9, device="cuda")
    for asked in (False, True):
        machine.fake.calls.clear()
        with deterministic(asked):
            into.scatter_add(0, index, ones)
            into.index_add(0, index, ones)
        found = any(entry.startswith("radix_sort") for entry in machine.launched())
        assert found == asked
    machine.fake.calls.clear()
    into.scatter(0, index, ones), into.index_copy(0, index, ones)
    into.long().scatter_add(0, index, index)
    assert not any(entry.startswith("radix_sort") for entry in machine.launched())
