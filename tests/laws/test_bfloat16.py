"""bfloat16 rounds as the oracle's does, and needs no instructions of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def around(bits, width):
    """Numbers a few steps from each half-way point between two bfloat16 values."""
    steps = np.array([-2, -1, 0, 1, 2], np.int64)
    shift = width - 16
    half = (bits.astype(np.int64)[:, None] << shift) + (1 << shift - 1) + steps
    return half.ravel()


ALL = np.arange(1 << 16, dtype=np.uint16)


def assert_rounds_alike(array):
    with np.errstate(invalid="ignore"):
        found = rushlight.from_numpy(array).to(rushlight.bfloat16)
    expected = torch.from_numpy(array).to(torch.bfloat16)
    mine = found.view(rushlight.int16).numpy()
    theirs = expected.view(torch.int16).numpy()
    same = (mine == theirs) | (found.isnan().numpy() & expected.isnan().numpy())
    assert same.all(), array[~same][:5]


def test_every_value_goes_to_wider_types_and_back():
    x = rushlight.from_numpy(ALL.view(np.int16)).view(rushlight.bfloat16)
    y = torch.from_numpy(ALL.view(np.int16)).view(torch.bfloat16)
    for name in ("float32", "float64"):
        wide, other = x.to(getattr(rushlight, name)), y.to(getattr(torch, name))
        np.testing.assert_array_equal(wide.numpy(), other.numpy())
        assert_rounds_alike(wide.numpy())
    np.testing.assert_array_equal((x != 0).numpy(), (y != 0).numpy())
    np.testing.assert_array_equal(x.bool().numpy(), y.bool().numpy())
    np.testing.assert_array_equal((-x).float().numpy(), (-y).float().numpy())
    np.testing.assert_array_equal(x.abs().float().numpy(), y.abs().float().numpy())


def test_float32_rounds_to_even_around_every_tie():
    with np.errstate(invalid="ignore"):
        assert_rounds_alike(around(ALL, 32).astype(np.uint32).view(np.float32))


def test_float64_rounds_as_the_oracle_does_around_every_tie():
    near = around(ALL, 32).astype(np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        near = near.astype(np.float64)
    for step in (0, 1, -1, 1 << 28, -(1 << 28), (1 << 28) + 1):
        moved = (near.view(np.int64) + step).view(np.float64)
        assert_rounds_alike(moved)


def test_integers_round_as_the_oracles_do():
    for dtype in ("int64", "int32"):
        array = (np.arange(-4000, 4000, dtype=dtype) * 4099) + 1
        assert_rounds_alike(array)


def test_numbers_are_rounded_as_values_are():
    x = torch.arange(-8.0, 8.0, dtype=torch.bfloat16)
    mine = rushlight.arange(-8.0, 8.0).to(rushlight.bfloat16)
    for number in (0.1, 1 / 3, 1.00390625, 1.01171875, 3.3e38, -1e-40, 1e-41):
        for name in ("div", "mul"):
            found = getattr(mine, name)(number).float().numpy()
            expected = getattr(x, name)(number).float().numpy()
            np.testing.assert_array_equal(found, expected)
        full = rushlight.full((2,), number, dtype=rushlight.bfloat16)
        other = torch.full((2,), number, dtype=torch.bfloat16)
        np.testing.assert_array_equal(full.float().numpy(), other.float().numpy())


OTHER_THREAD = """
import rushlight as rl
x = (rl.arange(200.0).reshape(10, 20) / 7).to(rl.bfloat16)
y = x.float()
for found, exact in (
    (x + x, y + y), (x @ x.t(), y @ y.t()), (x.exp(), y.exp()), (x.sum(1), y.sum(1)),
    (x.softmax(1), y.softmax(1)), (x.sort(1)[0], y), (x.double(), y), (-x, -y),
):
    gap = (found.float() - exact.float()).abs() / (1 + exact.float().abs())
    assert gap.max() < 0.02
assert (x > 3).sum() == (y > 3).sum()
try:
    rl.arange(40) // rl.arange(40)
except RuntimeError as error:
    print(error)
"""


@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="names processors of another kind"
)
def test_processors_without_its_instructions_compute_with_it():
    """Kernels for a processor with AVX2 alone run on every later one."""
    environment = {**os.environ, "RUSHLIGHT_TARGET": "x86-64-v3"}
    done = subprocess.run(
        [sys.executable, "-c", OTHER_THREAD], env=environment, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout == "ZeroDivisionError\n", done.stderr
