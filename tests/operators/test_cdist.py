"""Distances between rows: by differences for a few rows, by one product for many."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

MODES = [
    None,
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
]


def both(shape, seed):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True), rl.tensor(
        values, requires_grad=True
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
@pytest.mark.parametrize(
    "shapes",
    [((4, 3), (5, 3)), ((30, 3), (5, 3)), ((2, 26, 4), (2, 27, 4)),
     ((2, 1, 30, 4), (3, 30, 4)), ((30, 0), (4, 0)), ((0, 3), (40, 3))],
    ids=str,
)  # fmt: skip
def test_distances_and_their_gradients_are_the_oracles(shapes, p, mode):
    (x, a), (y, b) = both(shapes[0], 0), both(shapes[1], 1)
    options = {} if mode is None else {"compute_mode": mode}
    want, got = torch.cdist(x, y, p, **options), rl.cdist(a, b, p, **options)
    assert tuple(got.shape) == tuple(want.shape)
    np.testing.assert_allclose(got.tolist(), want.tolist(), atol=1e-7)
    (want * want).sum().backward()
    (got * got).sum().backward()
    np.testing.assert_allclose(a.grad.tolist(), x.grad.tolist(), atol=1e-6)
    np.testing.assert_allclose(b.grad.tolist(), y.grad.tolist(), atol=1e-6)


def test_rows_that_meet_have_no_direction():
    x = rl.ones(30, 2, requires_grad=True)
    rl.cdist(x, rl.ones(30, 2)).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]] * 30
