"""Margins between classes are PyTorch's, and so are their gradients."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(7,), (5, 9), (40, 33), (3, 1)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_listed_classes_are_pytorchs(sizes, kind, reduction):
    random = np.random.default_rng(0)
    x = random.normal(size=sizes).astype(kind)
    target = random.integers(-1, sizes[-1], sizes)
    seen = []
    for library in rl, torch:
        y = library.from_numpy(x).requires_grad_()
        loss = library.nn.functional.multilabel_margin_loss(
            y, library.from_numpy(target), reduction=reduction
        )
        (grad,) = library.autograd.grad((loss * loss).sum(), y)
        seen.append([t.detach().numpy() for t in (loss, grad)])
    close = 1e-5 if kind == "float32" else 1e-12
    for ours, theirs in zip(*seen):
        np.testing.assert_allclose(ours, theirs, close, close)


def test_margins_are_followed_forwards():
    x, along = rl.randn(4, 6), rl.randn(4, 6)
    target = rl.tensor([[0, 2, -1, 0, 0, 0]] * 4)

    def loss(x):
        return rl.nn.functional.multilabel_margin_loss(x, target)

    value, slope = rl.func.jvp(loss, (x,), (along,))
    grad = rl.func.grad(loss)(x)
    assert value.item() == pytest.approx(loss(x).item())
    assert slope.item() == pytest.approx((grad * along).sum().item(), rel=1e-5)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("sizes", [(7,), (5, 9), (40, 33), (3, 1)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_one_class_are_pytorchs(sizes, weighed, p, reduction):
    random = np.random.default_rng(0)
    x = random.normal(size=sizes)
    target = random.integers(0, sizes[-1], sizes[:-1])
    weight = random.random(sizes[-1])
    for wanted in True, False:
        seen = []
        for library in rl, torch:
            y = library.from_numpy(x).requires_grad_(wanted)
            loss = library.nn.functional.multi_margin_loss(
                y, library.from_numpy(np.asarray(target)), p, 0.7,
                library.from_numpy(weight) if weighed else None, reduction=reduction,
            )  # fmt: skip
            seen.append([loss.detach().numpy()])
            if wanted:
                (grad,) = library.autograd.grad((loss * loss).sum(), y)
                seen[-1].append(grad.numpy())
        for ours, theirs in zip(*seen):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, 1e-12, 1e-12)


@pytest.mark.parametrize("label", [-2, 4])
@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
def test_labels_that_are_no_classes_are_refused_each_time(name, label):
    for library in rl, torch:
        shape = (3,) if name == "multi_margin_loss" else (3, 4)
        target = library.full(shape, label, dtype=library.int64)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="out of range"):
                getattr(library.nn.functional, name)(library.ones(3, 4), target)
