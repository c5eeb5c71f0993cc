"""Scans on an imagined card: rows that are a block's, many blocks', and a thread's."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels.scan.device_scan import EACH, THREADS

TILE = EACH * THREADS
SCANS = "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"
TYPES = "float32", "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool"
PAIRS = "complex64", "complex128"


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(cards=1, memory=1 << 28)


def values(shape, kind):
    """Some numbers near one."""
    rl.manual_seed(0)
    x = 1 + rl.randn(shape) / 64
    if kind.startswith("complex"):
        x = rl.complex(rl.cos(x), rl.sin(x))
    return (x if kind[0] in "fbc" and kind != "bool" else x * 3).to(getattr(rl, kind))


def same(found, wanted):
    """Tensors, or pairs, that are alike but for rounding; whole numbers exactly."""
    if not isinstance(wanted, rl.Tensor):
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
        return
    assert found.is_cuda and found.dtype is wanted.dtype
    if not wanted.is_floating_point() and not wanted.is_complex():
        assert rl.equal(found.cpu(), wanted)
        return
    digits = {2: 2e-2, 4: 1e-5, 8: 1e-5 if wanted.is_complex() else 1e-12, 16: 1e-12}
    near = digits[wanted.dtype.itemsize]
    assert rl.allclose(found.cpu(), wanted, rtol=near, atol=near)


KINDS = {
    "cumsum": (*TYPES[:7], *PAIRS),
    "cumprod": (*TYPES[:7], *PAIRS),
    "logcumsumexp": ("float32", "bfloat16"),
    "cummax": TYPES,
    "cummin": TYPES,
}


@pytest.mark.parametrize("name", SCANS)
def test_a_block_scans_a_row_of_every_type(machine, name):
    scan = getattr(rl, name)
    for kind in KINDS[name]:
        x = values((2, 257, 2), kind)
        there = x.cuda()
        machine.fake.calls.clear()
        same(scan(there, 1), scan(x, 1))
        assert any(entry.startswith("scan_") for entry in machine.launched())


@pytest.mark.parametrize(
    "size", [63, 64, 256, 257, TILE - 1, TILE, TILE + 1, 4 * TILE - 1, 4 * TILE + 1]
)
def test_rows_of_all_sizes_are_scanned(size):
    x = values((2, size), "float32")
    for name in ("cumsum", "cummin"):
        scan = getattr(rl, name)
        same(scan(x.cuda(), 1), scan(x, 1))


@pytest.mark.parametrize("name", ["cumsum", "cummax"])
def test_one_long_row_is_many_blocks(machine, name):
    x, scan = values((100_003,), "float32"), getattr(rl, name)
    x = 1 + (x - 1) / 64
    there = x.cuda()
    machine.fake.calls.clear()
    same(scan(there, 0), scan(x, 0))
    entries = machine.launched()
    assert [("_totals_" in e, "_joined_" in e) for e in entries] == [
        (True, False),
        (False, True),
    ]


def test_short_rows_and_many_side_by_side_are_a_threads_each(machine):
    for shape, dim in (((5, 63), 1), ((70, 1024), 0)):
        x = values(shape, "float32")
        there = x.cuda()
        machine.fake.calls.clear()
        same(rl.cumsum(there, dim), rl.cumsum(x, dim))
        assert not any(entry.startswith("scan_") for entry in machine.launched())


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("size", [300, 5 * TILE + 3])
def test_complex_logarithms_are_a_blocks_but_for_whole_turns(machine, kind, size):
    rl.manual_seed(0)
    x = rl.complex(rl.randn(2, size), 3 * rl.randn(2, size)).to(getattr(rl, kind))
    there = x.cuda()
    machine.fake.calls.clear()
    found, wanted = rl.logcumsumexp(there, 1), rl.logcumsumexp(x, 1)
    assert all(entry.startswith("scan_") for entry in machine.launched())
    digits = 1e-3 if kind == "complex64" else 1e-10
    gap = found.cpu() - wanted
    turns = gap.imag / (2 * rl.pi)
    assert gap.real.abs().max() < digits
    assert (turns - turns.round()).abs().max() < digits


def test_complex_logarithms_of_infinite_and_unknown_numbers():
    x = rl.complex(rl.randn(6, 300), rl.randn(6, 300))
    for row, odd in enumerate((float("nan"), float("inf"), -float("inf"))):
        x.real[row, 100] = odd
        x.imag[row + 3, 40] = odd
    found, wanted = rl.logcumsumexp(x.cuda(), 1).cpu(), rl.logcumsumexp(x, 1)
    assert rl.allclose(found.real, wanted.real, 1e-4, 1e-4, equal_nan=True)
    assert rl.equal(found.imag.isfinite(), wanted.imag.isfinite())
    first = rl.full((1, 200), -float("inf"), dtype=rl.complex64)
    found = rl.logcumsumexp(first.cuda(), 1).cpu()
    assert (found.real == -float("inf")).all()


def test_nan_and_infinities_go_on_to_the_end():
    odd = float("nan"), float("inf"), -float("inf")
    places = [0, 31, 700, TILE, 3 * TILE]
    x = values((len(odd) * len(places), 4 * TILE), "float64")
    for row in range(x.shape[0]):
        x[row, places[row // len(odd)]] = odd[row % len(odd)]
    for name in ("cumsum", "logcumsumexp", "cummax"):
        found, wanted = getattr(rl, name)(x.cuda(), 1), getattr(rl, name)(x, 1)
        pairs = zip(found, wanted) if name == "cummax" else [(found, wanted)]
        for a, b in pairs:
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-12)


def test_of_equals_the_last_place_counts_across_tiles_and_blocks():
    x = rl.zeros(5 * TILE, dtype=rl.int32)
    x[3], x[2 * TILE + 1] = 7, 7
    best, place = rl.cummax(x.cuda(), 0)
    wanted = rl.cummax(x, 0)
    assert rl.equal(best.cpu(), wanted.values) and rl.equal(place.cpu(), wanted.indices)


def test_scans_have_the_same_bits_in_any_order_of_threads_and_blocks():
    x = rl.randn(3, 6 * TILE + 7, dtype=rl.float64).cuda()
    first = rl.cumsum(x, 1)
    for _ in range(2):
        assert rl.equal(rl.cumsum(x, 1), first)


def test_gradients_of_scans_are_the_hosts():
    x = values((2, 300), "float64")
    for name in ("cumsum", "cumprod"):
        grads = []
        for device in ("cpu", "cuda"):
            leaf = x.to(device, copy=True).requires_grad_()
            getattr(rl, name)(leaf, 1).square().sum().backward()
            grads.append(leaf.grad.cpu())
        assert rl.allclose(grads[0], grads[1], rtol=1e-9)


def test_nothing_is_scanned_as_nothing():
    assert rl.cumsum(rl.zeros(0, 100).cuda(), 1).shape == (0, 100)
    assert rl.cumsum(rl.zeros(100, 0).cuda(), 0).shape == (100, 0)
