"""Products by matrix units, launched on an imagined card where cuBLASLt is not there."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.runtime.cuda import libraries
from tests.cuda import executor

SIZES = [(64, 64, 32), (16, 16, 8), (70, 33, 40), (17, 130, 9), (65, 65, 100)]
KINDS = (rl.float16, rl.bfloat16, rl.float32)


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    # a generation whose warps have units, and whose groups have none
    machine.start(cards=1, memory=1 << 27, architecture=(8, 0))
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    libraries.CUBLAS_LT.found, libraries.CUBLAS_LT.missing = None, "not installed"
    rl.set_float32_matmul_precision("high")
    yield
    rl.set_float32_matmul_precision("highest")


def whole(*sizes, kind, seed=0):
    """Whole numbers: their products and sums are exact, in TF32 too."""
    rl.manual_seed(seed)
    return rl.randint(-8, 8, sizes).to(kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_units_multiply_what_fills_them(machine, sizes, kind):
    rows, columns, depth = sizes
    a = whole(rows, depth, kind=kind)
    b = whole(columns, depth, kind=kind, seed=1)
    c = whole(rows, columns, kind=kind, seed=2)
    there = [t.cuda() for t in (a, b, c)]
    near = 0 if kind is rl.float32 else 1e-2  # of sums that halves do not hold
    for call in (
        lambda a, b, c: a @ b.t(),
        lambda a, b, c: rl.addmm(c, a, b.t(), beta=2, alpha=0.5),
        lambda a, b, c: b @ a.t(),
        lambda a, b, c: rl.bmm(rl.stack([a, -a]), rl.stack([b, b]).mT),
    ):
        machine.fake.calls.clear()
        found = call(*there)
        assert any(name.startswith("units_") for name in machine.launched())
        wanted = call(*(t.double() for t in (a, b, c)))
        assert rl.allclose(found.cpu().double(), wanted, rtol=near, atol=0)


def test_large_products_are_divided_into_large_tiles(machine):
    a = whole(512, 33, kind=rl.float16)
    b = whole(33, 520, kind=rl.float16, seed=1)
    found = a.cuda() @ b.cuda()
    assert rl.equal(found.cpu(), (a.float() @ b.float()).half())
    assert any("128_128" in name for name in machine.launched())


def test_float32_is_multiplied_by_units_only_where_it_may_be_rounded(machine):
    a, b = (rl.randn(64, 64) for _ in range(2))
    rough = (a.cuda() @ b.cuda()).cpu()
    rl.set_float32_matmul_precision("highest")
    machine.fake.calls.clear()
    exact = (a.cuda() @ b.cuda()).cpu()
    assert not any(name.startswith("units_") for name in machine.launched())
    gap = (rough - a @ b).abs().max()
    assert 1e-4 < gap < 5e-2 and rl.allclose(exact, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(15, 64, 64), (64, 7, 64), (64, 64, 7), (1, 64, 64)])
def test_what_does_not_fill_a_unit_s_product_is_multiplied_by_lanes(machine, sizes):
    rows, columns, depth = sizes
    a, b = whole(rows, depth, kind=rl.float16), whole(depth, columns, kind=rl.float16)
    found = a.cuda() @ b.cuda()
    assert rl.equal(found.cpu().float(), (a.float() @ b.float()).half().float())
    assert not any(name.startswith("units_") for name in machine.launched())


def test_older_cards_have_no_such_units(machine, monkeypatch):
    from rushlight.runtime.cuda import matmul

    monkeypatch.setattr(matmul, "UNITS_SINCE", 10)
    a = whole(64, 64, kind=rl.float16)
    assert rl.equal((a.cuda() @ a.cuda()).cpu(), (a.float() @ a.float()).half())
    assert not any(name.startswith("units_") for name in machine.launched())


@pytest.mark.parametrize("number", range(2))
def test_a_product_without_one_of_its_barriers_is_wrong(machine, number, monkeypatch):
    places = []

    def without(text):
        if "@units_" in text:
            places[:] = [match.span() for match in executor.BARRIER.finditer(text)]
            text = text[: places[number][0]] + text[places[number][1] :]
        remember(text)

    remember = machine.executor.remember
    monkeypatch.setattr(machine.executor, "remember", without)
    a = whole(64, 64, kind=rl.float16)
    found = a.cuda() @ a.cuda()
    assert len(places) == 2
    assert not rl.equal(found.cpu(), (a.float() @ a.float()).half())


def test_lanes_that_do_not_all_multiply_are_found(machine):
    team = executor.Team(0, np.zeros(executor.FIELDS, np.int64), 32, 64)
    team.asked[:31] = executor.PRODUCTS
    assert not team.meet().size
    with pytest.raises(
        executor.DivergenceError, match="31 exchange values or multiply"
    ):
        team.refuse(0, {31})


def test_learning_by_units_is_the_host_s(machine):
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(24, 32), rl.nn.ReLU(), rl.nn.Linear(32, 8))
    x, y = rl.randn(64, 24), rl.randn(64, 8)
    losses = {}
    for device in ("cpu", "cuda"):
        rl.manual_seed(0)
        net = rl.nn.Sequential(rl.nn.Linear(24, 32), rl.nn.ReLU(), rl.nn.Linear(32, 8))
        net.load_state_dict(model.state_dict())
        net.to(device)
        optimizer = rl.optim.SGD(net.parameters(), 0.1)
        losses[device] = []
        for _ in range(3):
            loss = (net(x.to(device)) - y.to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=5e-3)
    assert any(name.startswith("units_") for name in machine.launched())
