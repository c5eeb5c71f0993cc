"""Adaptive pools of any sizes choose the elements that PyTorch's choose, NaNs among them."""

from __future__ import annotations

import random

import pytest

import rushlight as rl
from tests.operators.oracle import to_rushlight, torch

LINES = 1, 2, 5, 7, 16, 17, 33, 40
ODD = float("nan"), float("inf"), float("-inf")


def drawn(axes, chance):
    """An input of few different values, so that many are alike, and the windows' counts."""
    shape = [chance.randint(1, 3) for _ in range(chance.choice((1, 2)))]
    shape += [chance.choice(LINES) for _ in range(axes)]
    x = torch.randn(*shape).round(decimals=1)
    if chance.random() < 0.3:
        x.view(-1)[chance.randrange(x.numel())] = chance.choice(ODD)
    if axes == 2 and len(shape) == 4 and chance.random() < 0.3:
        x = x.to(memory_format=torch.channels_last)
    return x, [chance.choice((1, 1, 1, 2, 3, 5)) for _ in range(axes)]


def steps(tensor):
    """Strides of dimensions that have two elements and more."""
    return [s for s, n in zip(tensor.stride(), tensor.shape) if n > 1]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_adaptive_pools_of_any_sizes_are_pytorchs(axes):
    chance = random.Random(axes)
    torch.manual_seed(axes)
    for _ in range(60):
        x, count = drawn(axes, chance)
        found = []
        for library, leaf in ((rl, to_rushlight(x)), (torch, x.clone())):
            leaf = leaf.requires_grad_()
            F = library.nn.functional
            most = getattr(F, f"adaptive_max_pool{axes}d")
            mean = getattr(F, f"adaptive_avg_pool{axes}d")
            values, places = most(leaf, count, return_indices=True)
            parts = values, mean(leaf, count)
            grads = library.autograd.grad([part.sum() for part in parts], leaf)
            found.append((*parts, *grads, places))
        for ours, theirs in zip(*found):
            assert steps(ours) == steps(theirs), (x.shape, count)
            ours, theirs = ours.detach(), to_rushlight(theirs.detach())
            rl.testing.assert_close(ours, theirs, equal_nan=True)
