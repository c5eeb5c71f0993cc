"""What a real card is asked of orders and sums, asked of an imagined one."""

from __future__ import annotations

import rushlight as rl
from tools.first_hour import orders


def test_orders_and_sums_are_the_hosts(machine, monkeypatch):
    monkeypatch.setattr(orders, "TURNS", 1)
    machine.start(cards=1, memory=1 << 28)
    assert orders.sorts(rl, "int16", 40) == ""
    assert orders.sums(rl, "int64", 40) == ""


def test_a_difference_is_told(machine, monkeypatch):
    monkeypatch.setattr(orders, "alike", lambda *_: False)
    assert orders.sorts(rl, "float32", 20).startswith("sort float32 20 spread 2")
