"""Different slices along a dimension, beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")


def described(found):
    return [(t.tolist(), list(t.shape), t.stride()) for t in found]


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8"])
@pytest.mark.parametrize("shape", [(6,), (7, 3), (5, 4, 3), (40, 2), (1, 3), (0, 3)])
def test_different_slices_are_pytorchs(name, dtype, shape):
    x = np.random.default_rng(len(shape)).integers(0, 2, shape).astype(dtype)
    for dim in range(len(shape) if x.size else 1):
        flags = {"return_inverse": True, "return_counts": True, "dim": dim}
        ours = getattr(rushlight, name)(rushlight.tensor(x), **flags)
        theirs = getattr(torch, name)(torch.tensor(x), **flags)
        assert described(ours) == described(theirs)


@pytest.mark.parametrize("shape, dim", [((0, 3), 1), ((0, 0), 0), ((), 0), ((3,), 5)])
def test_slices_that_do_not_exist_are_refused_as_in_pytorch(shape, dim):
    kinds = []
    for m in (rushlight, torch):
        with pytest.raises((RuntimeError, IndexError)) as raised:
            m.unique(m.zeros(shape), dim=dim)
        kinds.append(type(raised.value))
    assert kinds[0] is kinds[1]


def test_different_elements_belong_to_a_graph_that_cannot_be_swept():
    x = rushlight.tensor([1.0, 2.0, 1.0], requires_grad=True)
    for found in (rushlight.unique(x), rushlight.unique(x, dim=0)):
        assert found.requires_grad
        with pytest.raises(RuntimeError, match="derivative for"):
            found.sum().backward()
