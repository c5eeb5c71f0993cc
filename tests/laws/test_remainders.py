"""Remainders are exact, however a quotient is rounded and however large it is."""

import numpy as np
import pytest

import rushlight


def numbers(dtype, count=20_000):
    """Pairs beside multiples, of every size, and the special ones."""
    draw, info = np.random.default_rng(3), np.finfo(dtype)
    step = draw.uniform(0.1, 9, count).astype(dtype)
    many = (step * draw.integers(1, 2**20, count).astype(dtype)).astype(dtype)
    ways = draw.choice(np.array([-np.inf, np.inf], dtype), count)
    integers = f"int{info.bits}"
    every = draw.integers(0, 2 ** (info.bits - 1) - 1, 2 * count, "int64")
    every = every.astype(integers).view(dtype)
    edges = [0.0, 1.0, np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max]
    edges = np.array([*edges, *(-x for x in edges)], dtype)
    whole = draw.integers(-(2**23), 2**23, count).astype(dtype)
    near = draw.uniform(-50, 50, count).astype(dtype)
    left = many, np.nextafter(many, ways), every[:count], near, whole, edges.repeat(14)
    divisors = draw.integers(1, 2000, count).astype(dtype)
    right = step, step, every[count:], near[::-1], divisors, np.tile(edges, 14)
    return np.concatenate(left), np.concatenate(right)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_are_those_of_the_c_library_to_the_last_bit(dtype):
    x, y = numbers(dtype)
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    ours = rushlight.fmod(rushlight.from_numpy(x), rushlight.from_numpy(y)).numpy()
    bits = f"int{np.finfo(dtype).bits}"
    same = (ours.view(bits) == wanted.view(bits)) | (np.isnan(ours) & np.isnan(wanted))
    assert same.all(), (x[~same][:3], y[~same][:3], ours[~same][:3], wanted[~same][:3])
