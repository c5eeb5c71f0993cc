"""Convolutions of one channel each, at every edge of their tiles, beside PyTorch."""

import itertools
import math

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

TAPS = [(1, 3), (3, 3), (5, 5), (3, 1), (2, 4), (7, 7)]
SIZES = list(itertools.product((1, 4, 9), (3, 7, 8, 17, 32)))


def results(m, x, w, b, **settings):
    """The convolution and its gradients."""
    given = [m.tensor(t).requires_grad_() for t in (x, w, b)]
    out = m.nn.functional.conv2d(*given, **settings)
    slope = np.cos(np.arange(math.prod(out.shape))).astype(x.dtype)
    grads = m.autograd.grad(out, given, m.tensor(slope).reshape(out.shape))
    return [t.detach().numpy() for t in (out, *grads)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("stride", [1, 2])
def test_every_edge_of_a_tile(taps, shared, dtype, stride):
    generator = np.random.default_rng([*taps, shared])
    for (height, width), pad, step in itertools.product(
        SIZES[shared - 1 :: 2 * stride], (0, 2), (1, 2)
    ):
        if height + 2 * pad < taps[0] or width + 2 * pad <= (taps[1] - 1) * step:
            continue
        x, w, b = (
            generator.standard_normal(s).astype(dtype)
            for s in ((2, 3, height, width), (3 * shared, 1, *taps), 3 * shared)
        )
        settings = {"padding": pad, "dilation": (1, step), "groups": 3}
        settings["stride"] = stride
        both = [results(m, x, w, b, **settings) for m in (rushlight, torch)]
        for ours, theirs in zip(*both, strict=True):
            close = 1e-5 if dtype == "float32" else 1e-13
            most = max(1.0, abs(theirs).max())
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=close * most)


def test_memory_around_a_plane_is_not_read_as_part_of_it():
    memory = rushlight.full((4, 9, 33), math.nan)
    memory[1:3] = 1.0
    planes = memory[1:3].unsqueeze(0)
    weight = rushlight.ones(2, 1, 5, 5)
    out = rushlight.nn.functional.conv2d(planes, weight, padding=2, groups=2)
    assert out.isfinite().all()
    assert out.amax().item() == 25 and out.amin().item() == 9


@pytest.mark.parametrize("stride", [1, 2])
def test_infinities_stay_in_their_windows(stride):
    x = np.ones((1, 1, 20, 40), np.float32)
    x[0, 0, 7, 20] = np.inf
    w = np.ones((1, 1, 3, 3), np.float32)
    ours, theirs = (
        m.nn.functional.conv2d(m.tensor(x), m.tensor(w), None, stride, 1).numpy()
        for m in (rushlight, torch)
    )
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("stride", [1, 2])
def test_infinities_reach_only_the_weights_that_meet_them(stride):
    for at, edge in itertools.product(((0, 0), (7, 20), (19, 39)), (0, 1)):
        x = np.ones((2, 1, 20, 40), np.float32)
        sizes = [(n + 2 * edge - 3) // stride + 1 for n in (20, 40)]
        slope = np.ones((2, 1, *sizes), np.float32)
        for far in (x, slope):
            before = far[1, 0].copy()
            far[1, 0][min(at[0], len(before) - 1), min(at[1], before.shape[1] - 1)] = (
                np.inf
            )
            w = rushlight.ones(1, 1, 3, 3).requires_grad_()
            out = rushlight.nn.functional.conv2d(
                rushlight.tensor(x), w, None, stride, edge
            )
            (got,) = rushlight.autograd.grad(out, w, rushlight.tensor(slope))
            exact = weight_gradient(x, slope, edge, stride)
            np.testing.assert_allclose(got.numpy(), exact, rtol=1e-5)
            far[1, 0] = before


def weight_gradient(x, slope, edge, stride):
    """Of a filter of 3 x 3: only what meets is multiplied."""
    result = np.zeros((1, 1, 3, 3))
    height, width = slope.shape[2:]
    for dy, dx in itertools.product(range(3), range(3)):
        for y, i in itertools.product(range(height), range(width)):
            row, column = y * stride + dy - edge, i * stride + dx - edge
            if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                products = x[:, 0, row, column] * slope[:, 0, y, i]
                result[0, 0, dy, dx] += products.sum()
    return result
