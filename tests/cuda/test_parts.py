"""Rows that are many blocks' on an imagined card: parts are found, then joined."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.runtime.cuda.device_kernel import LONG
from rushlight.runtime.cuda.launch_sizes import MOST_PARTS, plan_parts

SIZE = 3 * LONG + 5
PLACED = {
    "argmax": lambda x, *d: rl.argmax(x, *d),
    "argmin": lambda x, *d: rl.argmin(x, *d),
}
SPREADS = {
    "var": lambda x, *d: rl.var(x, *d),
    "std": lambda x, *d: rl.std(x, *d),
    "norm": lambda x, *d: rl.linalg.vector_norm(x, 2, *d),
    "norm of 3": lambda x, *d: rl.linalg.vector_norm(x, 3, *d),
    "sum": lambda x, *d: rl.sum(x, *d),
    "mean": lambda x, *d: rl.mean(x, *d),
    "logsumexp": lambda x, *d: rl.logsumexp(x, *(d or (0,))),
}


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(cards=1, memory=1 << 28)


def in_two(machine, function, x):
    """What a call gives on a card, where it is two launches: parts, then all."""
    there = x.cuda()
    machine.fake.calls.clear()
    found = function(there)
    entries = machine.launched()
    sums = [e for e in entries if e.startswith(("reduce_", "nest_"))]
    kinds = ["_finds_" in e and "finds" or "_joins_" in e and "joins" for e in sums]
    assert kinds == ["finds", "joins"] * (len(sums) // 2) and sums, entries
    return found


def near(found, wanted, digits=1e-5):
    assert found.is_cuda and found.shape == wanted.shape
    assert rl.allclose(found.cpu(), wanted, rtol=digits, atol=digits)


@pytest.mark.parametrize("name", PLACED)
def test_a_place_in_a_long_row_is_found_by_many_blocks(machine, name):
    rl.manual_seed(0)
    for kind in (rl.float32, rl.bfloat16, rl.int64, rl.uint8):
        x = (rl.randn(SIZE) * 40).to(kind)  # of equals the first counts
        found = in_two(machine, PLACED[name], x)
        assert rl.equal(found.cpu(), PLACED[name](x)), kind
    x = rl.zeros(SIZE)
    x[[LONG + 1, 2 * LONG]] = float("nan")
    assert in_two(machine, PLACED[name], x).item() == LONG + 1


def test_an_extreme_and_its_place_of_a_few_long_rows(machine):
    x = rl.randn(3, SIZE)
    for name in ("max", "min"):
        for part, dim in ((x, 1), (x.t(), 0)):
            function = getattr(rl, name)
            found = in_two(machine, lambda t, f=function, d=dim: f(t, d), part)
            wanted = function(part, dim)
            assert rl.equal(found.values.cpu(), wanted.values)
            assert rl.equal(found.indices.cpu(), wanted.indices)


@pytest.mark.parametrize("name", SPREADS)
def test_a_spread_of_a_long_row_is_joined_from_parts(machine, name):
    for kind, digits in ((rl.float32, 1e-4), (rl.float64, 1e-10), (rl.bfloat16, 2e-2)):
        x = (1 + rl.randn(SIZE) / 8).to(kind)
        near(in_two(machine, SPREADS[name], x), SPREADS[name](x), digits)


def test_pairs_of_a_spread_and_a_mean(machine):
    x = 5 + rl.randn(2, SIZE, dtype=rl.float64)
    for function in (rl.var_mean, rl.std_mean):
        found = in_two(machine, lambda t, f=function: f(t, 1), x)
        for one, other in zip(found, function(x, 1), strict=True):
            near(one, other, 1e-10)


@pytest.mark.parametrize("sizes", [(5, 7, LONG), (5, LONG, 7), (LONG, 5, 7)])
def test_the_longest_of_several_loops_along_a_row_is_cut(machine, sizes):
    whole = rl.randn([n + 1 for n in sizes])
    there = whole.cuda()
    parts = [t[: sizes[0], : sizes[1], : sizes[2]] for t in (there, whole)]
    machine.fake.calls.clear()
    found, wanted = (rl.var(part) for part in parts)
    near(found, wanted, 1e-4)
    assert "_finds_" in machine.launched()[0]


def test_an_outer_loop_is_cut_where_it_has_enough_steps(machine):
    x = rl.randn(8, 3, 64, 256)
    there = x.cuda()
    machine.fake.calls.clear()
    found = there.sum((0, 2, 3)), there.var((0, 2, 3))
    assert [name for name in machine.launched() if name.endswith("_finds_1")]
    near(found[0], x.sum((0, 2, 3)), 1e-4)
    near(found[1], x.var((0, 2, 3)), 1e-4)


def test_rows_that_are_short_are_a_blocks_each(machine):
    for x in (rl.randn(LONG - 1), rl.randn(3, LONG - 1)):
        there = x.cuda()
        machine.fake.calls.clear()
        assert rl.equal(rl.argmax(there, -1).cpu(), rl.argmax(x, -1))
        (entry,) = machine.launched()
        assert entry.endswith("_blocks_long")


def test_rows_enough_for_all_blocks_are_not_cut():
    assert plan_parts(MOST_PARTS // 2, LONG, LONG)[0] == 2
    assert plan_parts(MOST_PARTS // 2 + 1, LONG, LONG)[0] == 1


def test_parts_are_joined_to_the_same_bits_in_any_order_of_blocks():
    x = rl.randn(2, SIZE).cuda()
    first = rl.var(x, 1), rl.sum(x, 1)
    for _ in range(2):
        assert all(map(rl.equal, first, (rl.var(x, 1), rl.sum(x, 1))))
