"""The negative log likelihood against the oracle; labels that are no class."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight.operators.loss import loss_kernels

torch = pytest.importorskip("torch", reason="the oracle is not installed")
aten = torch.ops.aten
SHAPES = [(7, 10), (3, 10, 4, 5)]


def pair(values):
    values = np.ascontiguousarray(values)
    return rl.from_numpy(values.copy()), torch.from_numpy(values.copy())


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def labels(shape):
    found = np.random.default_rng(3).integers(0, shape[1], (shape[0], *shape[2:]))
    found.flat[::5] = -100
    return found


@pytest.mark.parametrize(
    ("shape", "reduction", "weighted"),
    list(itertools.product(SHAPES, (0, 1, 2), (False, True))),
)
def test_values_and_gradients_equal_the_oracle(shape, reduction, weighted):
    x, y = pair(noise(*shape))
    t, u = pair(labels(shape))
    w, v = pair(np.abs(noise(shape[1], seed=1))) if weighted else (None, None)
    suffix = "2d" if len(shape) == 4 else ""
    forward = getattr(aten, f"nll_loss{suffix}_forward")
    ours, total = loss_kernels.nll_loss_forward(x, t, w, reduction, -100)
    theirs, weight = forward(y, u, v, reduction, -100)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total.numpy(), weight.numpy(), rtol=1e-5)
    g, h = pair(np.abs(noise(*theirs.shape, seed=2)) + 0.5)
    grad = loss_kernels.nll_loss_backward(g, x, t, w, reduction, -100, total)
    backward = getattr(aten, f"nll_loss{suffix}_backward")
    expected = backward(h, y, u, v, reduction, -100, weight)
    np.testing.assert_allclose(grad.numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)


def forward(x, target, weight=None):
    return loss_kernels.nll_loss_forward(x, target, weight, 1, -100)[0]


def test_one_sample_without_a_batch():
    x = rl.tensor([-1.0, -2.0, -3.0])
    assert forward(x, rl.tensor(1)).item() == 2.0


def test_no_samples_or_only_ignored_ones_give_nan():
    assert np.isnan(forward(rl.zeros(0, 3), rl.zeros(0, dtype=rl.int64)).item())
    ignored = rl.full((2,), -100, dtype=rl.int64)
    assert np.isnan(forward(rl.zeros(2, 3), ignored).item())


@pytest.mark.parametrize("label", [10, -1])
def test_a_label_that_is_no_class_is_refused(label):
    x, target = rl.zeros(4, 10), rl.tensor([0, 1, label, 2])
    with pytest.raises(IndexError, match=f"Target {label} is out of bounds."):
        forward(x, target)
    with pytest.raises(IndexError, match=f"Target {label} is out of bounds."):
        loss_kernels.nll_loss_backward(
            rl.tensor(1.0), x, target, None, 1, -100, rl.tensor(4.0)
        )
    assert forward(x, rl.tensor([0, 1, 9, 2])).item() == 0.0


def test_operands_that_do_not_fit_are_refused():
    x = rl.zeros(3, 4)
    with pytest.raises(
        ValueError, match=r"input batch_size \(3\) to match target batch"
    ):
        forward(x, rl.tensor([0, 1]))
    with pytest.raises(
        RuntimeError, match="expected target dtype to be int64 or uint8"
    ):
        forward(x, rl.zeros(3))
    with pytest.raises(
        RuntimeError, match="should be defined either for all 4 classes"
    ):
        forward(x, rl.tensor([0, 1, 2]), rl.zeros(3))


def test_gradients_that_are_not_of_the_loss_are_refused_before_they_are_read():
    x, target, weight = rl.zeros(2, 3), rl.tensor([1, 1]), rl.tensor(2.0)

    def slopes(grad, reduction, total=weight):
        return rl.ops.aten.nll_loss_backward(
            grad, x, target, None, reduction, -100, total
        )

    for shape in ((), (1,), (3,), (2, 1)):
        with pytest.raises(RuntimeError, match="Expected a tensor of dimension 1"):
            slopes(rl.ones(shape), 0)
    with pytest.raises(RuntimeError, match="Expected a single element grad_output"):
        slopes(rl.ones(2), 1)
    with pytest.raises(RuntimeError, match="total_weight to be a  single element"):
        slopes(rl.ones(()), 1, rl.ones(2))
    with pytest.raises(
        RuntimeError, match="expected scalar type Float but found Double"
    ):
        slopes(rl.ones(2, dtype=rl.float64), 0)
    assert slopes(rl.ones(2), 0)[:, 1].tolist() == [-1.0, -1.0]
