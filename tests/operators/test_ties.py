"""Which of equal elements a selection names: the ones that PyTorch names."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

SIZES = (1, 2, 3, 4, 7, 16, 17, 33, 65, 129, 500, 3000)
CALLS = {
    "mode": lambda m, x, k: m.mode(x),
    "kthvalue": lambda m, x, k: m.kthvalue(x, k),
    "median": lambda m, x, k: m.median(x, 1),
    "nanmedian": lambda m, x, k: m.nanmedian(x, 1),
    "topk": lambda m, x, k: m.topk(x, k),
    "the smallest": lambda m, x, k: m.topk(x, k, largest=False),
    "topk unsorted": lambda m, x, k: m.topk(x, k, sorted=False),
}


@pytest.mark.parametrize("kinds", [2, 5, 1000])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_places_among_equal_elements_are_pytorchs(name, dtype, kinds):
    draw = np.random.default_rng(kinds)
    for size in SIZES:
        x = draw.integers(0, kinds, (4, size)).astype(dtype)
        if dtype == "float32":
            x[draw.random(x.shape) < 0.1] = np.nan
        for k in sorted({1, 1 + size // 100, 1 + size // 2, size}):
            ours = CALLS[name](rushlight, rushlight.tensor(x), k)
            theirs = CALLS[name](torch, torch.tensor(x), k)
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy(), f"{size} {k}")


@pytest.mark.parametrize("name", ["mode", "kthvalue", "median", "topk", "sort"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_results_are_laid_out_as_pytorchs(name, keepdim, dim):
    def strides(m):
        x = m.arange(5 * 1 * 4).reshape(5, 1, 4).permute(2, 0, 1)
        more = {"kthvalue": (1,), "topk": (1,)}.get(name, ())
        flags = {} if name in ("topk", "sort") else {"keepdim": keepdim}
        results = getattr(m, name)(x, *more, dim=dim, **flags)
        return [(list(t.shape), t.stride()) for t in results]

    assert strides(rushlight) == strides(torch)


@pytest.mark.parametrize("name", ["mode", "kthvalue"])
@pytest.mark.parametrize("dtype", ["uint64", "complex64", "bool"])
def test_one_element_of_any_type_is_its_own_selection(name, dtype):
    more = (1,) if name == "kthvalue" else ()
    value, place = getattr(rushlight, name)(
        rushlight.tensor(1, dtype=getattr(rushlight, dtype)), *more
    )
    assert (value.item(), place.item()) == (1, 0)
    assert str(value.dtype) == f"rushlight.{dtype}"
