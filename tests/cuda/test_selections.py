"""Selections on an imagined card: rows that are blocks', and of equals the first."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.operators.sorting.device_select_rows import LONG
from tests.cuda.test_sorting import TYPES, same

NUMBERS = [kind for kind in TYPES if kind not in ("uint16", "uint32", "uint64", "bool")]


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(cards=1, memory=1 << 28)


def values(shape, kind):
    """Some numbers with many equals, and NaN where there is one."""
    rl.manual_seed(0)
    x = rl.randint(0, 40, shape).to(getattr(rl, kind))
    if x.is_floating_point():
        x[..., ::9] = float("nan")
        x[..., 1::9], x[..., 2::9] = -float("inf"), -0.0
    return x


def first_of(x, k, largest):
    """The first elements of rows in a stable order, as the host has it."""
    found = rl.sort(x, dim=-1, descending=largest, stable=True)
    return type(found)((found.values[..., :k], found.indices[..., :k]))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("kind", NUMBERS)
def test_the_first_of_rows_of_every_type_are_a_blocks(machine, kind, largest):
    x = values((3, 500), kind)
    there = x.cuda()
    for k in (1, 7, 100, 500):
        machine.fake.calls.clear()
        same(rl.topk(there, k, 1, largest), first_of(x, k, largest))
        entries = machine.launched()
        assert entries[0].startswith("select_first"), entries
        assert not any("first_by" in e or "top_rows" in e for e in entries)


@pytest.mark.parametrize("size", [1, 2, 16, 17, 33, 257, 1000])
def test_rows_of_all_sizes_either_way_and_out_of_order(size):
    x = values((4, size), "float32")
    k = (size + 1) // 2
    same(rl.topk(x.cuda(), k), first_of(x, k, True))
    found = rl.topk(x.t().cuda(), k, 0)
    same([t.t() for t in found], first_of(x, k, True))
    found = rl.topk(x.cuda(), k, sorted=False)
    wanted = first_of(x, k, True)
    assert rl.equal(found.indices.cpu().sort(1).values, wanted.indices.sort(1).values)
    taken = x.gather(1, found.indices.cpu())
    assert rl.allclose(found.values.cpu(), taken, rtol=0, atol=0, equal_nan=True)


def test_a_long_row_is_selected_from_in_parts(machine):
    x = rl.randint(0, 3000, (2, LONG + 77)).float()
    there = x.cuda()
    machine.fake.calls.clear()
    same(rl.topk(there, 20), first_of(x, 20, True))
    assert sum(e.startswith("select_first") for e in machine.launched()) == 2
    same(rl.topk(there[:1], 20, largest=False), first_of(x[:1], 20, False))


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_element_of_a_rank_is_where_a_stable_order_has_it(machine, kind):
    x = values((3, 300), kind)
    there = x.cuda()
    for k in (1, 150, 300):
        machine.fake.calls.clear()
        found, order = rl.kthvalue(there, k, 1), rl.sort(x, dim=1, stable=True)
        same(found, type(order)((order.values[:, k - 1], order.indices[:, k - 1])))
        assert [e.startswith("select_ranked") for e in machine.launched()] == [True]
    held = rl.kthvalue(there.t(), 5, 0, keepdim=True)
    assert held.values.shape == (1, 3)


def test_a_middle_is_found_without_sorting(machine):
    x = values((2, 700), "float32")
    there = x.cuda()
    machine.fake.calls.clear()
    same(rl.nanmedian(there, 1), rl.nanmedian(x, 1))
    assert [e.startswith("select_middle") for e in machine.launched()] == [True]


@pytest.mark.parametrize("size", [1, 17, 300])
@pytest.mark.parametrize("kind", [*NUMBERS, "bool"])
def test_the_most_frequent_element_is_the_smallest_of_several(machine, kind, size):
    rl.manual_seed(1)
    x = rl.randint(0, 12, (5, size)).to(getattr(rl, kind))
    there = x.cuda()
    machine.fake.calls.clear()
    found, place = rl.mode(there, 1)
    assert not any("mode_rows" in e for e in machine.launched())
    for row, one, at in zip(x.tolist(), found.tolist(), place.tolist(), strict=True):
        wanted = min(row, key=lambda v, row=row: (-row.count(v), v))
        assert one == wanted and at == max(k for k, v in enumerate(row) if v == one)


def test_what_equals_nothing_is_a_run_of_one():
    x = rl.full((2, 40), float("nan"))
    x[1, 5], x[1, 30] = 3, 3
    found, place = rl.mode(x.cuda(), 1)
    assert found[1].item() == 3 and place[1].item() == 30
    assert found[0].isnan().item()


def test_gradients_of_selections_go_where_the_elements_were():
    x = rl.randn(3, 100, dtype=rl.float64)
    for function in (
        lambda t: rl.topk(t, 5, 1).values,
        lambda t: rl.kthvalue(t, 30, 1).values,
        lambda t: rl.median(t, 1).values,
    ):
        grads = []
        for device in ("cpu", "cuda"):
            leaf = x.to(device, copy=True).requires_grad_()
            function(leaf).square().sum().backward()
            grads.append(leaf.grad.cpu())
        assert rl.equal(*grads)
