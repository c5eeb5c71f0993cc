"""Calls with wild numbers end: in a result or in a refusal, and at once."""

import time

import pytest

import rushlight as rl
import rushlight.nn.functional as F

LARGE = 2**62

CALLS = {
    "polygamma": lambda: rl.polygamma(2**31, rl.tensor([1.0])),
    "interpolate": lambda: F.interpolate(rl.ones(1, 1, 2, 2), scale_factor=1e40),
    "interpolate to a size": lambda: F.interpolate(rl.ones(1, 1, 2, 2), size=LARGE),
    "embedding_bag": lambda: F.embedding_bag(
        rl.tensor([0, 1]), rl.ones(3, 2), rl.tensor([0, LARGE])
    ),
    "embedding_bag backwards": lambda: F.embedding_bag(
        rl.tensor([0, 1]), rl.ones(3, 2), rl.tensor([-LARGE, 1])
    ),
    "tensor_split": lambda: rl.ones(3).tensor_split(2**40),
    "split": lambda: rl.ones(3).split(1 << 40),
    "chunk": lambda: len(rl.ones(3).chunk(2**40)) and None,
    "repeat_interleave": lambda: rl.ones(2).repeat_interleave(2**60),
    "matrix_power": lambda: rl.matrix_power(rl.eye(2), 2**31),
    "hermite": lambda: rl.special.hermite_polynomial_h(rl.ones(2), 2**31),
    "vander": lambda: rl.vander(rl.ones(2), 2**50),
    "linspace": lambda: rl.linspace(0, 1, 2**60),
    "arange": lambda: rl.arange(0, 1, 1e-300),
    "combinations": lambda: rl.combinations(rl.ones(4), 2**40),
    "histc": lambda: rl.histc(rl.ones(3), 2**60),
    "bincount": lambda: rl.bincount(rl.tensor([2**60])),
    "one_hot": lambda: F.one_hot(rl.tensor([2**60])),
    "roll": lambda: rl.ones(3).roll(2**62),
    "unfold": lambda: rl.ones(3).unfold(0, 1, 2**62),
    "avg_pool": lambda: F.avg_pool1d(rl.ones(1, 1, 4), 2**40),
    "conv padding": lambda: F.conv1d(rl.ones(1, 1, 4), rl.ones(1, 1, 1), padding=2**40),
    "pixel_shuffle": lambda: F.pixel_shuffle(rl.ones(1, 4, 1, 1), 2**31),
    "multinomial": lambda: rl.multinomial(rl.ones(3), 2**60, True),
    "round": lambda: rl.ones(2).round(decimals=2**31 - 1),
    "zeta": lambda: rl.special.zeta(rl.tensor([1.0 + 1e-7]), rl.tensor([1e30])),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_a_call_with_wild_numbers_ends_at_once(call):
    start = time.perf_counter()
    try:
        CALLS[call]()
    except (
        RuntimeError,
        ValueError,
        TypeError,
        IndexError,
        OverflowError,
        MemoryError,
    ):
        pass
    assert time.perf_counter() - start < 20
