"""Filters of infinities and of what is no number, over images with borders."""

import itertools

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

ODD = [float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_what_a_border_adds_is_what_it_adds_on_pytorch(rank, transposed):
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    for odd, element, stride in itertools.product(ODD, (0.0, 1.0), (1, 2)):
        seen = []
        for t in (rl, torch):
            weight = t.ones((1, 1) + (3,) * rank)
            weight.view(-1)[0] = odd
            image = t.full((1, 1) + (5,) * rank, element)
            run = getattr(t.nn.functional, name)
            seen.append(run(image, weight, stride=stride, padding=1).numpy())
        np.testing.assert_array_equal(*seen)
