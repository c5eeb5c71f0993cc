"""Operands of two cards are refused: a kernel of one has no business with the other's memory."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from tests.cuda.test_faults import CALLS

JOINS = {
    "cat": lambda a, b: rl.cat([a, b]),
    "stack": lambda a, b: rl.stack([a, b]),
    "hstack": lambda a, b: rl.hstack([a, b]),
    "add": lambda a, b: a + b,
    "where": lambda a, b: rl.where(a > 0, a, b),
    "mm": lambda a, b: a[None] @ b[:, None],
    "addmm": lambda a, b: rl.addmm(b, a[None], rl.ones(5, 5, device=a.device)),
    "bias": lambda a, b: F.linear(a[None], rl.ones(5, 5, device=a.device), b),
    "linear": lambda a, b: F.linear(a[None], b[None]),
    "searchsorted": lambda a, b: rl.searchsorted(a, b),
    "cdist": lambda a, b: rl.cdist(a[None], b[None]),
    "kl_div": lambda a, b: F.kl_div(a, b, reduction="sum"),
    "bincount": lambda a, b: rl.bincount(a.long(), b),
    "copysign": lambda a, b: rl.copysign(a, b),
    "conv1d": lambda a, b: F.conv1d(a[None, None], b[None, None, :2]),
    "isin": lambda a, b: rl.isin(a, b),
    "masked_select": lambda a, b: a.masked_select(b > 2),
    "layer_norm": lambda a, b: F.layer_norm(a[None], (5,), b),
    "bucketize": lambda a, b: rl.bucketize(a, b),
}
WORDS = r"two devices, cuda:\d and cuda:\d|not on the expected device|the same device"


@pytest.mark.parametrize("name", [*CALLS, *JOINS])
def test_operands_of_two_cards_are_refused(name, machine):
    machine.start(cards=2, memory=1 << 26)
    x = rl.arange(5.0, device="cuda:0")
    other = rl.tensor([3], device="cuda:1") if name in CALLS else x.to("cuda:1")
    with pytest.raises(RuntimeError, match=WORDS):
        (CALLS.get(name) or JOINS[name])(x, other)
