"""Running sums, products and extremes against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.operators.scan import scan

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def pair(values, dtype="float32"):
    values = np.ascontiguousarray(values)
    ours, theirs = rl.from_numpy(values.copy()), torch.from_numpy(values.copy())
    return ours.to(getattr(rl, dtype)), theirs.to(getattr(torch, dtype))


def noise(*shape):
    return np.random.default_rng(0).standard_normal(shape) * 3


def same(ours, theirs, tolerance=1e-5):
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    ours, theirs = np.array(ours.tolist()), np.array(theirs.tolist())
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("width", [6, 70])
def test_sums_and_products_equal_the_oracle(width, dim, dtype):
    x, y = pair(noise(4, 5, width) / 2, dtype)
    tolerance = 4e-2 if dtype == "bfloat16" else 1e-5
    same(scan.cumsum(x, dim), torch.cumsum(y, dim), tolerance)
    same(scan.cumprod(x, dim), torch.cumprod(y, dim), tolerance)


@pytest.mark.parametrize("dim", [0, 1])
def test_extremes_equal_the_oracle(dim):
    values = np.round(noise(6, 7))
    values[2, 3] = np.nan
    x, y = pair(values)
    for ours, theirs in zip(scan.cummax(x, dim), torch.cummax(y, dim)):
        same(ours, theirs)
    for ours, theirs in zip(scan.cummin(x, dim), torch.cummin(y, dim)):
        same(ours, theirs)


def test_log_sums_stay_below_overflow():
    values = noise(3, 8) * 100
    values[0, :3] = -np.inf
    values[1, 4] = np.inf
    x, y = pair(values)
    same(scan.logcumsumexp(x, 1), torch.logcumsumexp(y, 1))


def test_a_dtype_may_be_asked_for():
    x, y = pair(noise(9))
    same(scan.cumsum(x, 0, rl.float64), torch.cumsum(y, 0, dtype=torch.float64))


def test_dimensions_out_of_range_are_refused():
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\]"):
        scan.cumsum(rl.zeros(2, 3), 2)


def test_empty_and_scalar_tensors():
    assert tuple(scan.cumsum(rl.zeros(2, 0), 1).shape) == (2, 0)
    assert scan.cumsum(rl.tensor(3.0), 0).item() == 3.0
