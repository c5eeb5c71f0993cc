"""Sorting on an imagined card, where each element of two runs finds its own place."""

from __future__ import annotations

import pytest

import rushlight as rl

TYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8",
    "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(cards=1, memory=1 << 28)


def same(found, wanted):
    """Values and places, NaN where there is one."""
    values, places = (t.cpu() for t in found)
    assert rl.equal(places, wanted.indices)
    if not values.is_floating_point():
        assert rl.equal(values, wanted.values)
        return
    assert rl.allclose(values, wanted.values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", TYPES)
def test_rows_of_every_type_are_sorted_stably_both_ways(kind):
    rl.manual_seed(0)
    x = rl.randint(0, 40, (3, 100)).to(getattr(rl, kind))  # many are equal
    for descending in (False, True):
        found = rl.sort(x.cuda(), dim=1, descending=descending, stable=True)
        same(found, rl.sort(x, dim=1, descending=descending, stable=True))


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000])
def test_rows_of_all_sizes_are_sorted(size):
    x = rl.randn(3, size)
    same(rl.sort(x.cuda(), 1), rl.sort(x, 1))
    same(rl.sort(x.t().cuda(), 0), rl.sort(x.t(), 0))
    assert rl.equal(rl.argsort(x.cuda(), 1).cpu(), rl.argsort(x, 1))


@pytest.mark.parametrize("descending", [False, True])
def test_nan_is_the_largest_and_zeros_of_both_signs_are_equal(descending):
    x = rl.randint(-3, 4, (2, 300)).to(rl.float32)
    x[0, ::7], x[1, ::5], x[1, 1::5] = float("nan"), -0.0, float("-inf")
    found = rl.sort(x.cuda(), 1, descending=descending)
    same(found, rl.sort(x, 1, descending=descending))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "bool"])
def test_a_long_row_is_many_blocks(machine, kind):
    x = rl.randint(-99, 99, (2, 4099)).to(getattr(rl, kind))
    x[0, :1000] = x[1, 0]
    for part in (x[:1],) if kind == "float32" else (x,):
        there = part.cuda()
        machine.fake.calls.clear()
        same(rl.sort(there, 1, descending=True), rl.sort(part, 1, descending=True))
        entries = machine.launched()
        passes = x.dtype.itemsize
        for way in ("count", "place"):
            assert sum(f"sort_{way}" in entry for entry in entries) == passes
        assert not any("radix_rows" in e or "sort_rows" in e for e in entries)


def test_a_row_that_fits_is_a_blocks_in_one_launch(machine):
    there = rl.randn(3, 700).cuda()
    machine.fake.calls.clear()
    rl.sort(there)
    assert [e.startswith("radix_sort_row_") for e in machine.launched()] == [True]


@pytest.mark.parametrize("size", [1, 16, 17, 64, 201])
def test_medians_are_the_hosts_with_their_places(size):
    rl.manual_seed(0)
    x = rl.randint(0, 9, (6, size)).to(rl.float32)
    x[1, size // 2], x[2], x[3, -1] = float("nan"), float("nan"), float("nan")
    for name in ("median", "nanmedian"):
        for dim in (1, 0):
            same(getattr(rl, name)(x.cuda(), dim), getattr(rl, name)(x, dim))
        found, wanted = getattr(rl, name)(x.cuda()), getattr(rl, name)(x)
        assert rl.allclose(found.cpu(), wanted, rtol=0, atol=0, equal_nan=True)
    same(rl.median(x.long().cuda(), 1), rl.median(x.long(), 1))


@pytest.mark.parametrize("size", [0, 1, 17, 700])
def test_unique_elements_of_a_card_are_the_hosts(size):
    x = rl.randint(0, 50, (size,)).to(rl.float32)
    x[::9] = float("nan")  # equal to nothing
    choices = {"return_inverse": True, "return_counts": True}
    for name in ("unique", "unique_consecutive"):
        for part in (x, x.sort().values):
            found = getattr(rl, name)(part.cuda(), **choices)
            wanted = getattr(rl, name)(part, **choices)
            for a, b in zip(found, wanted, strict=True):
                assert a.is_cuda and a.dtype is b.dtype
                assert rl.allclose(a.cpu(), b, rtol=0, atol=0, equal_nan=True)


def test_runs_of_equals_are_not_one_threads(machine):
    x = rl.randint(0, 50, (700,)).cuda()
    machine.fake.calls.clear()
    rl.unique(x, return_inverse=True, return_counts=True)
    assert not any("unique_runs" in entry for entry in machine.launched())
