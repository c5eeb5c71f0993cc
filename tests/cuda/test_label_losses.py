"""Losses of labels on an imagined card: the host's, a thread a label."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from rushlight.nn import functional as F

SHAPES = ((40, 7), ()), ((6, 5, 3, 2), (3, 2)), ((9,), None)


@pytest.mark.parametrize("shape, places", SHAPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_labels_are_the_hosts(machine, shape, places, reduction):
    rl.manual_seed(0)
    classes = shape[0] if places is None else shape[1]
    labels = () if places is None else (shape[0], *places)
    target = rl.randint(0, classes, labels)
    for weight, ignore in itertools.product((None, rl.rand(classes)), (-100, 2)):
        found = []
        for device in ("cpu", "cuda"):
            rl.manual_seed(1)
            x = rl.randn(shape).to(device).requires_grad_()
            given = None if weight is None else weight.to(device)
            loss = F.cross_entropy(
                x, target.to(device), given, ignore_index=ignore, reduction=reduction
            )
            loss.backward(rl.ones_like(loss))
            found += [loss.detach().cpu(), x.grad.cpu()]
        here, slopes, there, others = found
        assert rl.allclose(here, there, rtol=1e-5, equal_nan=True)
        assert rl.allclose(slopes, others, atol=1e-6, equal_nan=True)


def test_a_label_that_is_no_class_is_refused(machine):
    x, target = rl.randn(9, 4, device="cuda"), rl.full((9,), 4, device="cuda")
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        F.cross_entropy(x, target).item()
