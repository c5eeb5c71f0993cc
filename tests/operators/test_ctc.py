"""Connectionist temporal classification, beside all alignments and the oracle."""

import itertools
import math

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.export import export
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from rushlight.testing import assert_close


def scores(steps, batch, classes, seed=0):
    values = np.random.default_rng(seed).standard_normal((steps, batch, classes))
    return rl.from_numpy(values).log_softmax(-1)


def collapsed(path, blank=0):
    kept = [label for label, _ in itertools.groupby(path)]
    return [label for label in kept if label != blank]


@pytest.mark.parametrize("labels", [[], [1], [1, 1], [2, 1], [1, 2, 1]])
def test_the_loss_is_that_of_all_alignments_together(labels):
    steps, classes = 5, 3
    probabilities = scores(steps, 1, classes)
    total = sum(
        math.exp(sum(probabilities[t, 0, c].item() for t, c in enumerate(path)))
        for path in itertools.product(range(classes), repeat=steps)
        if collapsed(path) == labels
    )
    targets = rl.tensor([labels or [0]])[:, : len(labels)]
    loss = F.ctc_loss(
        probabilities, targets, (steps,), (len(labels),), reduction="none"
    )
    assert loss.item() == pytest.approx(-math.log(total), rel=1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [True, False])
def test_losses_and_gradients_are_the_oracles(reduction, zero_infinity):
    torch = pytest.importorskip("torch")
    given = scores(8, 3, 5)
    targets = [[1, 2, 2, 4], [3, 3, 3, 3], [1, 0, 0, 0]]
    lengths = (8, 5, 6), (4, 4, 1)
    x = given.clone().requires_grad_()
    loss = F.ctc_loss(
        x,
        rl.tensor(targets),
        *lengths,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )
    y = torch.from_numpy(given.numpy()).requires_grad_()
    expected = torch.nn.functional.ctc_loss(
        y,
        torch.tensor(targets),
        *lengths,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )
    np.testing.assert_allclose(
        loss.detach().numpy(), expected.detach().numpy(), rtol=1e-12
    )
    loss.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), atol=1e-12)


def test_labels_one_after_the_other_are_the_same():
    given = scores(6, 2, 4)
    padded = F.ctc_loss(given, rl.tensor([[1, 2], [3, 0]]), (6, 6), (2, 1))
    joined = F.ctc_loss(
        given, rl.tensor([1, 2, 3]), rl.tensor([6, 6]), rl.tensor([2, 1])
    )
    assert padded.item() == joined.item()


def test_what_does_not_fit_is_refused():
    given, targets = scores(6, 2, 4), rl.tensor([[1, 2], [3, 0]])
    for arguments, message in (
        (((6,), (2, 1)), "input_lengths must be of size batch_size"),
        (((7, 6), (2, 1)), "Expected input_lengths to have value at most 6"),
        (((6, 6), (3, 1)), "Expected tensor to have size at least 3 at dimension 1"),
        (((6, 6), (2, 1), 9), "blank must be in label range"),
    ):
        with pytest.raises(RuntimeError, match=message):
            F.ctc_loss(given, targets, *arguments)
    with pytest.raises(RuntimeError, match="labels are between 0 and 3"):
        F.ctc_loss(given, targets + 2, (6, 6), (2, 1))


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_pooling_is_the_oracles(dims):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    image = rng.standard_normal((2, 3, *(9, 8, 7)[:dims]))
    samples = rng.uniform(0, 1, (2, 3, dims))
    name = f"fractional_max_pool{dims}d_with_indices"
    x, y = (
        rl.from_numpy(image).requires_grad_(),
        torch.from_numpy(image).requires_grad_(),
    )
    ours = getattr(F, name)(
        x, 2, output_ratio=(0.6,) * dims, _random_samples=rl.from_numpy(samples)
    )
    theirs = getattr(torch.nn.functional, name)(
        y, 2, output_ratio=(0.6,) * dims, _random_samples=torch.from_numpy(samples)
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), other.detach().numpy())
    ours[0].square().sum().backward()
    theirs[0].square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("labels", [1, 3, 4, 7, 8, 11])
def test_states_at_the_edges_of_vectors_are_the_oracles(labels, dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(labels)
    given = rng.standard_normal((26, 3, 6)).astype(dtype)
    targets = rng.integers(1, 6, (3, labels))
    lengths = [26, 22, 9], [labels, labels - 1, 1]
    gradients = []
    for library in (rl, torch):
        x = library.from_numpy(given.copy()).requires_grad_()
        loss = library.nn.functional.ctc_loss(
            x.log_softmax(-1), library.from_numpy(targets), *lengths, reduction="sum"
        )
        loss.backward()
        gradients.append([loss.detach().numpy(), x.grad.numpy()])
    exact = 1e-4 if dtype == "float32" else 1e-9
    for mine, other in zip(*gradients):
        np.testing.assert_allclose(mine, other, exact, exact)


def test_states_without_ways_cost_no_more_than_others_and_give_infinity_where_all_are():
    """Their logarithms are minus infinity, which is no argument of a function."""
    impossible = rl.full((3, 1, 3), -math.inf, dtype=rl.float64)
    x = impossible.clone().requires_grad_()
    loss = F.ctc_loss(x, rl.tensor([[1]]), (3,), (1,), reduction="sum")
    loss.backward()
    assert loss.item() == math.inf
    assert x.grad.isnan().all()
    far = scores(4, 1, 3) * 900  # ways that are e^-700 of others and less
    paths = itertools.product(range(3), repeat=4)
    ways = [
        sum(far[t, 0, c].item() for t, c in enumerate(path))
        for path in paths
        if collapsed(path) == [1, 2]
    ]
    loss = F.ctc_loss(far, rl.tensor([[1, 2]]), (4,), (2,), reduction="sum")
    assert loss.item() == pytest.approx(-max(ways), rel=1e-12)


def test_lengths_in_tensors_stay_arguments_of_a_recorded_loss():
    """A recording with the numbers of its example would be wrong for all others."""
    logits, targets = scores(20, 3, 5), rl.randint(1, 5, (3, 6))
    times = rl.tensor([20, 18, 15])
    recorded = make_fx(F.ctc_loss)(logits, targets, times, rl.tensor([6, 3, 5]))
    other = logits, targets, times, rl.tensor([1, 2, 4])
    assert_close(recorded(*other), F.ctc_loss(*other))


def test_an_export_says_that_lengths_are_not_known():
    class Loss(rl.nn.Module):
        def forward(self, logits, targets, lengths):
            counts = lengths.tolist() if self.listed else lengths
            times = [20, 18, 15] if self.listed else rl.tensor([20, 18, 15])
            return F.ctc_loss(logits, targets, times, counts)

    loss = Loss()
    given = scores(20, 3, 5), rl.randint(1, 5, (3, 6)), rl.tensor([6, 3, 5])
    for loss.listed in (True, False):
        with pytest.raises(GuardOnDataDependentSymNode, match="_ctc_loss"):
            export(loss, given)
