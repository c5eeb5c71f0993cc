"""Counts and sums by number on an imagined card: the host's, and no single thread's."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.kernels.select import tally


@pytest.fixture(autouse=True)
def _machine(machine):
    rl.manual_seed(0)


def near(found, wanted):
    return rl.allclose(found.cpu().double(), wanted.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 300, 9000])
def test_numbers_are_counted_and_their_weights_added(size):
    x = rl.randint(0, 17, (size,))
    assert rl.equal(rl.bincount(x.cuda()).cpu(), rl.bincount(x))
    found = rl.bincount(x.cuda().to(rl.int32), minlength=40)
    assert rl.equal(found.cpu(), rl.bincount(x, minlength=40))
    weights = rl.randn(size)
    wanted = rl.bincount(x, weights)
    assert near(rl.bincount(x.cuda(), weights.cuda()), wanted)
    rl.use_deterministic_algorithms(True)
    try:
        found = rl.bincount(x.cuda(), weights.cuda())
    finally:
        rl.use_deterministic_algorithms(False)
    assert rl.equal(found.cpu(), wanted), "in the order of the numbers"


def test_counts_of_more_numbers_than_a_block_holds():
    x = rl.randint(0, 2 * tally.MOST, (3000,))
    assert rl.equal(rl.bincount(x.cuda()).cpu(), rl.bincount(x))
    with pytest.raises(RuntimeError, match="non-negative"):
        rl.bincount((x - 5).cuda())


@pytest.mark.parametrize("bins, limits", [(10, (0, 0)), (7, (-1, 2)), (5000, (-3, 3))])
def test_histograms_are_the_hosts(bins, limits):
    x = rl.randn(3000)
    x[::50], x[7] = 2, float("nan")
    if limits == (0, 0):
        x[7] = 0
    found = rl.histc(x.cuda(), bins, *limits)
    assert rl.equal(found.cpu(), rl.histc(x, bins, *limits))


def test_points_in_cells_are_the_hosts():
    points, weight = rl.randn(400, 2), rl.rand(400)
    for given in ({}, {"weight": weight}):
        there = {k: v.cuda() for k, v in given.items()}
        found = rl.histogramdd(points.cuda(), [4, 5], **there)
        wanted = rl.histogramdd(points, [4, 5], **given)
        assert near(found.hist, wanted.hist)


@pytest.mark.parametrize("kind", ["float32", "int64", "complex64", "complex128"])
def test_elements_are_put_at_flat_places_in_the_order_of_the_index(kind):
    into, source = (rl.randn(30) * 9 for _ in range(2))
    into, source = into.to(getattr(rl, kind)), source.to(getattr(rl, kind))
    index = rl.randint(-30, 30, (30,))
    found = into.cuda().put_(index.cuda(), source.cuda())
    assert rl.equal(found.cpu(), into.clone().put_(index, source))
    found = into.cuda().put_(index.cuda(), source.cuda(), accumulate=True)
    wanted = into.clone().put_(index, source, accumulate=True)
    assert rl.allclose(found.cpu(), wanted)
    rl.use_deterministic_algorithms(True)
    try:
        found = into.cuda().put_(index.cuda(), source.cuda(), accumulate=True)
    finally:
        rl.use_deterministic_algorithms(False)
    assert rl.equal(found.cpu(), wanted)
    with pytest.raises(IndexError, match="access index 30 on a tensor of 30"):
        into.cuda().put_(index.cuda().fill_(30), source.cuda()).cpu()


def test_counting_is_no_single_threads(machine):
    x = rl.randint(0, 9, (5000,)).cuda()
    machine.fake.calls.clear()
    rl.bincount(x)
    rl.histc(x.float(), 20)
    x.clone().put_(x, x), rl.bincount(x, x.double())
    alone = ("count_values", "lowest_and_highest", "loops_histogram", "put_kernel")
    assert not any(word in e for e in machine.launched() for word in alone)
    assert sum(e.startswith("tally_tally") for e in machine.launched()) == 2
