"""What a real card is asked in its first hour, asked of an imagined one."""

from __future__ import annotations

import pytest

import rushlight as rl
from tools.first_hour import networks, orders, suspects, training


def test_orders_and_sums_are_the_hosts(machine, monkeypatch):
    monkeypatch.setattr(orders, "TURNS", 1)
    machine.start(cards=1, memory=1 << 28)
    assert orders.sorts(rl, "int16", 40) == ""
    assert orders.sums(rl, "int64", 40) == ""


def test_a_difference_is_told(machine, monkeypatch):
    monkeypatch.setattr(orders, "alike", lambda *_: False)
    assert orders.sorts(rl, "float32", 20).startswith("sort float32 20 spread 2")


def test_a_network_learns_as_on_the_host(compiling):
    def make(parameters):
        return rl.optim.SGD(parameters, 0.05, momentum=0.9)

    rl.manual_seed(0)
    batches = [(rl.randn(2, 1, 28, 28), rl.randint(0, 10, (2,)))]
    model = networks.models(rl)[0]()
    here, there = (
        training.run(model, batches, device, make, 2) for device in ("cpu", "cuda")
    )
    assert there == pytest.approx(here, rel=1e-4)


def test_an_index_that_is_none_is_told_and_the_card_stays_usable(compiling):
    told = suspects.suspect_bad_index(rl)
    assert told.startswith("IndexError: ") and told.endswith("then 6.0")
