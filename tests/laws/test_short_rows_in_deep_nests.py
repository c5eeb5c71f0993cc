"""Elementwise calls whose rows are short go along their longest loop, wherever that is."""

import itertools

import numpy as np
import pytest

import rushlight as rl

SIZES = (700, 4, 3), (3, 700, 4), (90, 2, 5, 4), (4, 3, 2, 160), (2, 1200, 2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_order_of_short_loops_gives_the_same_elements(sizes, threads):
    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        x = rl.arange(int(np.prod(sizes)), dtype=rl.float32).reshape(sizes)
        wanted = x.numpy()
        for order in itertools.permutations(range(len(sizes))):
            turned = x.permute(order)
            expected = wanted.transpose(order)
            assert np.array_equal(turned.contiguous().numpy(), expected)
            part = turned[..., :2]
            plain = rl.ones(part.shape).add(part)
            assert np.array_equal(plain.numpy(), expected[..., :2] + 1)
            assert np.array_equal(part.gt(7).numpy(), expected[..., :2] > 7)
            target = x.new_zeros(sizes).permute(order)
            target[..., 1:].copy_(turned[..., :-1].double())
            assert np.array_equal(target[..., 1:].numpy(), expected[..., :-1])
    finally:
        rl.set_num_threads(before)
