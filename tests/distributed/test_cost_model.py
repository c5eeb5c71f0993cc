"""Schedules of the cost model are all-reduces, and take the time that formulas give."""

from math import log2

import pytest

import rushlight as rl
from rushlight.distributed.cost_model import (
    SCHEDULES,
    Cluster,
    Link,
    compare,
    run,
    simulate,
)

NEAR, FAR = Link(2e-6, 1e-10), Link(3e-5, 4e-10)


def cluster(ranks, per_node=4, reduction=0.0):
    return Cluster(ranks, per_node, NEAR, FAR, reduction)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_rank_has_the_sum(name):
    for ranks, per_node in ((1, 1), (2, 1), (3, 1), (4, 2), (7, 1), (12, 4), (16, 4)):
        here = cluster(ranks, per_node)
        segments = 1
        for phase in SCHEDULES[name](here):
            segments = max(segments, phase.segments)
        values = rl.randint(0, 100, (ranks, 2 * segments))
        found = run(SCHEDULES[name](here), values)
        assert rl.equal(found, values.sum(0).expand_as(values)), (name, ranks)


def test_times_on_one_link_are_those_of_the_formulas():
    n_bytes, link = 1 << 20, Link(5e-6, 2e-10)
    for ranks in (2, 8, 16):
        here = Cluster(ranks, 1, link, link, reduction=1e-10)
        moved = n_bytes * (ranks - 1) / ranks
        halves = 2 * link.seconds_per_byte + here.reduction
        whole = link.latency * 2 + n_bytes * halves
        expected = {
            "ring": 2 * (ranks - 1) * link.latency + moved * halves,
            "direct": 2 * (ranks - 1) * link.latency + moved * halves,
            "halving-doubling": 2 * log2(ranks) * link.latency + moved * halves,
            "tree": log2(ranks) * whole,
        }
        found = compare(here, n_bytes, expected)
        for name, seconds in expected.items():
            assert found[name] == pytest.approx(seconds, rel=1e-9), (name, ranks)


def test_ranks_of_a_machine_share_its_network():
    alone, shared = Cluster(4, 1, NEAR, FAR), Cluster(8, 2, NEAR, FAR)
    size = 1 << 24  # ranks that halve and double with the other machine do so at once
    half = compare(alone, size, ["halving-doubling"])["halving-doubling"]
    assert compare(shared, size, ["halving-doubling"])["halving-doubling"] > 1.5 * half
    times = compare(shared, size)
    assert min(times, key=times.get) == "hierarchical"


def test_a_late_rank_delays_those_that_wait_for_it():
    here = Cluster(4, 1, FAR, FAR, 0.0)
    start = rl.tensor([0.0, 0.0, 0.0, 1.0], dtype=rl.float64)
    for name, schedule in SCHEDULES.items():
        late = simulate(schedule(here), here, 64, start)
        assert float(late.min()) > 1.0, name
        plain = simulate(schedule(here), here, 64)
        assert float((late - plain).max()) <= 1.0 + 1e-9, name


def test_steady_rounds_are_not_run_one_by_one_and_give_the_same():
    here = cluster(96, 8)
    (scatter, gather), clocks = SCHEDULES["ring"](here), rl.zeros(96, dtype=rl.float64)
    for phase in (scatter, gather):
        for _ in range(phase.rounds):
            clocks = simulate([phase._replace(rounds=1)], here, 1 << 22, clocks)
    quick = simulate([scatter, gather], here, 1 << 22)
    rl.testing.assert_close(quick, clocks, rtol=1e-9, atol=0.0)


def test_machines_that_are_not_full_have_no_hierarchy():
    with pytest.raises(ValueError, match="6 ranks do not fill machines of 4"):
        SCHEDULES["hierarchical"](cluster(6))
