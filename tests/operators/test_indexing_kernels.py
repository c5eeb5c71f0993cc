"""Gather, scatter and their relatives against the oracle; bad indices."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.operators.indexing import (
    advanced_indexing,
    gather,
    index_slices,
    indexing_kernels,
    masks,
    scatter,
)
from rushlight.operators.shape import permute

torch = pytest.importorskip("torch", reason="the oracle is not installed")
aten = torch.ops.aten
DTYPES = ["float32", "float64", "bfloat16", "int64", "int32", "uint8", "bool"]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def whole(high, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape)


def pair(values, dtype=None):
    """The same array as our tensor and as the oracle's."""
    values = np.ascontiguousarray(values)
    ours, theirs = rl.from_numpy(values.copy()), torch.from_numpy(values.copy())
    if dtype is None:
        return ours, theirs
    return (ours * 3).to(getattr(rl, dtype)), (theirs * 3).to(getattr(torch, dtype))


def same(ours, theirs, tolerance=1e-5):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    np.testing.assert_allclose(
        np.array(ours.tolist()), np.array(theirs.tolist()), rtol=tolerance, atol=1e-6
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select_equals_the_oracle(dim, dtype):
    x, y = pair(noise(5, 6, 7), dtype)
    i, j = pair(whole(5, 9))
    same(gather.index_select(x, dim, i), torch.index_select(y, dim, j))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("shape", [(5, 6, 7), (3, 4, 2), (5, 1, 7)])
def test_gather_and_scatter_equal_the_oracle(dim, shape):
    x, y = pair(noise(5, 6, 7))
    i, j = pair(whole(5, *shape))
    u, v = pair(noise(*shape, seed=2))
    k = scatter
    same(gather.gather(x, dim, i), torch.gather(y, dim, j))
    same(k.scatter_add(x, dim, i, u), torch.scatter_add(y, dim, j, v))
    same(k.scatter_value(x, dim, i, 2.5), torch.scatter(y, dim, j, 2.5))
    for reduce, theirs in (("add", "sum"), ("multiply", "prod")):
        ours = k.scatter_reduce_old(x, dim, i, u, reduce)
        same(ours, torch.scatter_reduce(y, dim, j, v, theirs), 1e-4)
        ours = k.scatter_value_reduce(x, dim, i, 1.5, reduce)
        same(ours, torch.scatter(y, dim, j, 1.5, reduce=reduce), 1e-4)


@pytest.mark.parametrize("dim", [0, 1])
def test_scatter_src_equals_the_oracle(dim):
    x, y = pair(noise(6, 6))
    order = np.stack([np.random.default_rng(k).permutation(6) for k in range(6)])
    i, j = pair(order if dim else order.T)
    u, v = pair(noise(6, 6, seed=2))
    same(scatter.scatter_src(x, dim, i, u), torch.scatter(y, dim, j, v))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
@pytest.mark.parametrize("dim", [0, 1])
def test_index_add_and_fill_equal_the_oracle(dim, dtype):
    x, y = pair(noise(5, 6), dtype)
    i, j = pair(np.array([1, 4, 1]))
    u, v = pair(noise(3, 6) if dim == 0 else noise(5, 3), dtype)
    ours = index_slices.index_add(x, dim, i, u, alpha=2)
    same(ours, torch.index_add(y, dim, j, v, alpha=2), 2e-2)
    i, j = pair(np.array([1, -1]))
    same(index_slices.index_fill(x, dim, i, 3), torch.index_fill(y, dim, j, 3))


def indices_of(kinds):
    """Advanced indices for a tensor of 4 x 5 x 6, ours and the oracle's."""
    made = {
        "none": None,
        "row": np.array([0, 3, 1]),
        "column": np.array([[0], [-1]]),
        "mask": np.arange(20).reshape(4, 5) % 3 == 0,
        "line": np.array([True, False, True, True, False, True]),
    }
    picked = [made[kind] for kind in kinds.split()]
    pairs = [(None, None) if item is None else pair(item) for item in picked]
    return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


INDICES = [
    "row",
    "none row",
    "row row",
    "row none row",
    "none row row",
    "column row",
    "none none line",
    "mask",
    "none column",
    "row column none",
]


@pytest.mark.parametrize("kinds", INDICES)
def test_advanced_indices_equal_the_oracle(kinds):
    x, y = pair(noise(4, 5, 6))
    ours, theirs = indices_of(kinds)
    expected = aten.index(y, theirs)
    same(advanced_indexing.index(x, ours), expected)
    u, v = pair(noise(*expected.shape, seed=3))
    for accumulate in (False, True):
        put = advanced_indexing.index_put(x, ours, u, accumulate)
        same(put, aten.index_put(y, theirs, v, accumulate), 1e-4)


def test_masks_equal_the_oracle():
    x, y = pair(noise(4, 5))
    m, n = pair(noise(4, 5, seed=4) > 0)
    u, v = pair(noise(20, seed=5))
    same(masks.masked_select(x, m), torch.masked_select(y, n))
    same(masks.masked_scatter(x, m, u), torch.masked_scatter(y, n, v))
    same(masks.nonzero(x), torch.nonzero(y))
    same(masks.nonzero(m), torch.nonzero(n))
    assert tuple(masks.nonzero(rl.tensor(3.0)).shape) == (1, 0)
    assert tuple(masks.nonzero(rl.tensor(0.0)).shape) == (0, 0)


def test_take_and_put_equal_the_oracle():
    x, y = pair(noise(4, 5))
    i, j = pair(np.array([[0, 19], [-1, 7]]))
    u, v = pair(noise(2, 2))
    same(advanced_indexing.take(x, i), torch.take(y, j))
    for accumulate in (False, True):
        ours = advanced_indexing.put(x, i, u, accumulate)
        same(ours, y.clone().put_(j, v, accumulate))


@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_and_its_gradient_equal_the_oracle(by_frequency):
    weight, other = pair(noise(10, 70))
    i, j = pair(whole(10, 4, 6))
    same(gather.embedding(weight, i), torch.embedding(other, j))
    g, h = pair(noise(4, 6, 70))
    ours = indexing_kernels.embedding_dense_backward(g, i, 10, 3, by_frequency)
    same(ours, aten.embedding_dense_backward(h, j, 10, 3, by_frequency), 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "bfloat16"])
def test_rearrangements_equal_the_oracle(dtype):
    x, y = pair(noise(3, 4, 5), dtype)
    same(permute.flip(x, [0, 2]), torch.flip(y, [0, 2]))
    same(permute.roll(x, 7), torch.roll(y, 7))
    same(permute.roll(x, [2, -1], [0, 2]), torch.roll(y, [2, -1], [0, 2]))
    for diagonal in (-2, 0, 1, 9):
        same(permute.tril(x, diagonal), torch.tril(y, diagonal))
        same(permute.triu(x, diagonal), torch.triu(y, diagonal))


def bad(*values):
    return rl.tensor(list(values), dtype=rl.int64)


def test_bad_indices_are_refused():
    x, k = rl.zeros(3, 4), scatter
    with pytest.raises(IndexError, match="index out of range in self"):
        gather.index_select(x, 0, bad(0, 5))
    with pytest.raises(IndexError, match="index out of range in self"):
        gather.embedding(x, bad(-1))
    rows = rl.full((3, 3), 5, dtype=rl.int64)
    message = "index 5 is out of bounds for dimension 1 with size 4"
    with pytest.raises(RuntimeError, match=message):
        gather.gather(x, 1, rows)
    with pytest.raises(RuntimeError, match=message):
        k.scatter_value(x, 1, rows, 1.0)
    message = "index -4 is out of bounds for dimension 0 with size 3"
    with pytest.raises(IndexError, match=message):
        index_slices.index_fill(x, 0, bad(-4), 1.0)
    with pytest.raises(IndexError, match=message):
        advanced_indexing.index(x, [bad(-4)])
    with pytest.raises(IndexError, match="tried to access index 12 on a tensor of 12"):
        advanced_indexing.take(x, bad(12))
    assert gather.index_select(x, 0, bad(2)).tolist() == [[0.0] * 4], (
        "the flag is clear again"
    )


def test_operands_that_do_not_fit_are_refused():
    x, k = rl.zeros(3, 4), scatter
    with pytest.raises(IndexError, match="Index is supposed to be a vector"):
        gather.index_select(x, 0, rl.zeros(2, 2, dtype=rl.int64))
    with pytest.raises(RuntimeError, match="same number of dimensions as input"):
        gather.gather(x, 1, bad(1))
    with pytest.raises(RuntimeError, match=r"gather\(\): Expected dtype int32/int64"):
        gather.gather(x, 1, x)
    with pytest.raises(RuntimeError, match="reduce argument must be either add or"):
        k.scatter_value_reduce(x, 1, bad(1).view(1, 1), 1.0, "foo")
    with pytest.raises(IndexError, match="The shape of the mask"):
        advanced_indexing.index(x, [rl.zeros(4, dtype=rl.bool)])
    with pytest.raises(IndexError, match="shape mismatch: indexing tensors could not"):
        advanced_indexing.index(x, [bad(0, 1), bad(0, 1, 2)])
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        advanced_indexing.index(x, [bad(0), bad(0), bad(0)])
    with pytest.raises(RuntimeError, match="Number of elements of source < number of"):
        masks.masked_scatter(x, x == 0, rl.zeros(3))
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        advanced_indexing.index_put(x, [bad(0, 1)], rl.zeros(3))
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        permute.flip(x, (0, 0))


def test_results_are_the_same_bits_for_any_number_of_threads():
    x, index = rl.from_numpy(noise(300, 700)), rl.from_numpy(whole(40, 300, 700))
    words, weight = rl.from_numpy(whole(40, 300)), rl.zeros(40, 700)
    before, found = rl.get_num_threads(), []
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            added = scatter.scatter_add(weight, 0, index, x)
            grad = indexing_kernels.embedding_dense_backward(x, words, 40, -1, False)
            found.append((added.tolist(), grad.tolist()))
    finally:
        rl.set_num_threads(before)
    assert found[0] == found[1]
