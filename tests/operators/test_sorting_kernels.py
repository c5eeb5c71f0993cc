"""Sorting, selecting, counting and searching against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.operators.sorting import sorting_kernels as sorting

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def pair(values, dtype=None):
    values = np.ascontiguousarray(values)
    ours, theirs = rl.from_numpy(values.copy()), torch.from_numpy(values.copy())
    if dtype is None:
        return ours, theirs
    return ours.to(getattr(rl, dtype)), theirs.to(getattr(torch, dtype))


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32") * 5


def same(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    np.testing.assert_array_equal(np.array(ours.tolist()), np.array(theirs.tolist()))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [1, 5, 16, 17, 100, 1000])
def test_sorting_is_stable_and_equals_the_oracle(size, descending, dtype):
    x, y = pair(np.abs(noise(3, size)), dtype)
    theirs = torch.sort(y, dim=1, descending=descending, stable=True)
    for mine, other in zip(sorting.sort(x, 1, descending), theirs):
        same(mine, other)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("size", [40, 400])
@pytest.mark.parametrize("descending", [False, True])
def test_nan_is_the_largest_value(descending, size, dtype):
    values = noise(size)
    values[::7] = np.nan
    values[3], values[5], values[8] = np.inf, -np.inf, -np.nan
    values[20:24] = [0.0, -0.0, 0.0, -0.0]
    x, y = pair(values, dtype)
    theirs = torch.sort(y, descending=descending, stable=True)
    for mine, other in zip(sorting.sort(x, 0, descending), theirs):
        same(mine, other)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_long_rows_of_integers(descending, dtype):
    limits = np.iinfo("int8" if dtype == "bool" else dtype)
    values = np.random.default_rng(0).integers(limits.min, limits.max, (2, 700))
    x, y = pair(values * (values % 3 > 0), dtype)
    theirs = torch.sort(y, dim=1, descending=descending, stable=True)
    for mine, other in zip(sorting.sort(x, 1, descending), theirs):
        same(mine, other)


def test_other_dimensions():
    x, y = pair(noise(4, 5, 6))
    for dim in (0, 1, -1):
        same(sorting.argsort(x, dim), torch.argsort(y, dim))
        for mine, other in zip(sorting.topk(x, 3, dim), torch.topk(y, 3, dim)):
            same(mine, other)
        for keepdim in (False, True):
            ours = sorting.kthvalue(x, 2, dim, keepdim)
            for mine, other in zip(ours, torch.kthvalue(y, 2, dim, keepdim)):
                same(mine, other)
            ours = sorting.median_dim(x, dim, keepdim)
            for mine, other in zip(ours, torch.median(y, dim, keepdim)):
                same(mine, other)


def test_medians_with_nan_equal_the_oracle():
    values = noise(6, 7)
    values[0, 2] = values[1, 3] = values[1, 5] = np.nan
    values[2] = np.nan
    x, y = pair(values)
    same(sorting.median(x), torch.median(y))
    same(sorting.nanmedian(x), torch.nanmedian(y))
    same(sorting.median_dim(x, 1)[0], torch.median(y, 1)[0])
    same(sorting.nanmedian_dim(x, 1)[0], torch.nanmedian(y, 1)[0])


def test_distinct_values_equal_the_oracle():
    x, y = pair(np.random.default_rng(0).integers(0, 9, (5, 8)))
    theirs = torch.unique(y, return_inverse=True, return_counts=True)
    for mine, other in zip(sorting.unique(x, True, True, True), theirs):
        same(mine, other)
    theirs = torch.unique_consecutive(y, return_inverse=True, return_counts=True)
    for mine, other in zip(sorting.unique_consecutive(x, True, True), theirs):
        same(mine, other)


def test_counts_equal_the_oracle():
    x, y = pair(np.random.default_rng(0).integers(0, 9, 50))
    w, v = pair(noise(50))
    same(sorting.bincount(x), torch.bincount(y))
    same(sorting.bincount(x, None, 20), torch.bincount(y, minlength=20))
    same(sorting.bincount(x, w), torch.bincount(y, v))
    x, y = pair(noise(200))
    same(sorting.histc(x, 12), torch.histc(y, 12))
    same(sorting.histc(x, 12, -2, 3), torch.histc(y, 12, -2, 3))


@pytest.mark.parametrize("right", [False, True])
def test_searches_equal_the_oracle(right):
    s, t = pair(np.sort(np.round(noise(3, 20)), 1))
    x, y = pair(np.round(noise(3, 6, seed=1)))
    ours = sorting.searchsorted(s, x, False, right)
    same(ours, torch.searchsorted(t, y, right=right))
    ours = sorting.bucketize(x, s.select(0, 0), True, right)
    same(ours, torch.bucketize(y, t[0], out_int32=True, right=right))


def test_what_cannot_be_is_refused():
    x = rl.zeros(3, 4)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        sorting.topk(x, 9)
    with pytest.raises(
        RuntimeError, match="selected number k out of range for dimension"
    ):
        sorting.kthvalue(x, 9)
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero"):
        sorting.median_dim(rl.zeros(0, 3), 0)
    with pytest.raises(RuntimeError, match="only supports 1-d non-negative integral"):
        sorting.bincount(rl.tensor([-1]))
    with pytest.raises(NotImplementedError, match="bincount"):
        sorting.bincount(rl.zeros(3))
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        sorting.histc(x, 0)
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        sorting.histc(x, 4, 3, 1)
