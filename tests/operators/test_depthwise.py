"""Convolutions of one channel each, at every edge of their tiles, beside PyTorch."""

import itertools
import math

import numpy as np
import pytest

import rushlight
from rushlight import te
from rushlight.codegen.target import named as target_named
from rushlight.codegen.target import using
from rushlight.kernels.conv import depthwise_schedule
from rushlight.kernels.conv.conv_geometry import Geometry, forward_plan, output_size
from tests.operators.test_contraction import run_reference

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


SCHEDULED = {  # sizes of input and filters, stride, padding, dilation
    "large filters": ((2, 3, 40, 50), (6, 9, 9), (1, 1), (4, 4), (1, 1)),
    "as large as planes": ((4, 3, 17, 18), (3, 17, 17), (1, 1), (8, 8), (1, 1)),
    "rows apart": ((2, 4, 70, 66), (4, 5, 3), (1, 1), (4, 2), (2, 2)),
    "steps of three": ((5, 4, 61, 75), (8, 7, 5), (3, 3), (0, 3), (1, 1)),
    "other steps down": ((4, 8, 64, 45), (8, 5, 7), (1, 4), (1, 1), (1, 1)),
    "bands": ((1, 2, 150, 260), (2, 8, 11), (1, 1), (5, 5), (2, 1)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SCHEDULED)
def test_planes_of_any_filters_and_steps_are_built_for_their_sizes(name, dtype):
    size, (rows, *taps), *settings = SCHEDULED[name]
    generator = np.random.default_rng(len(name))
    x, w, b = (
        generator.standard_normal(s).astype(dtype)
        for s in (size, (rows, 1, *taps), rows)
    )
    named = dict(zip(("stride", "padding", "dilation"), settings, strict=True))
    both = [results(m, x, w, b, **named, groups=size[1]) for m in (rushlight, torch)]
    output = both[0][0].shape[2:]
    kind, *_ = forward_plan(size, w.shape, output, *settings, size[1], True)
    assert kind.startswith("planes")
    # but for the gradient of the bias: of so many signs the sum is mostly rounding
    for ours, theirs in zip(both[0][:3], both[1][:3], strict=True):
        most = max(1.0, abs(theirs).max()) * (1e-5 if dtype == "float32" else 1e-13)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=most)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_a_scheduled_convolution_is_its_expression(target):
    rng = np.random.default_rng(3)
    for size, taps, stride, padding in (
        ((11, 19), (4, 3), (1, 1), (1, 2)),
        ((12, 37), (2, 5), (2, 3), (2, 0)),
    ):
        output = [
            output_size(n, k, s, p, 1)
            for n, k, s, p in zip(size, taps, stride, padding, strict=True)
        ]
        shapes = (2, 3, *size), (6, 1, *taps)
        g = Geometry(*shapes, output, stride, padding, (1, 1), 3)
        with using(target_named(target)):
            function = depthwise_schedule.for_host("planes", g, "float32", True)
        x, w = (rng.standard_normal(s, np.float32) for s in shapes)
        bias = rng.standard_normal(6, np.float32)
        out = np.empty((2, 6, *output), np.float32)
        run_reference(function, (out, w, x, bias), (), 6)
        s, arguments = depthwise_schedule.for_device(g, 2, "float32", True)
        plain = np.empty((6, 2, *output), np.float32)
        given = w.reshape(3, 2, *taps), x.reshape(6, *size), bias.reshape(3, 2)
        te.build(s, arguments, target="python")(plain, *given)
        np.testing.assert_allclose(out, plain.reshape(out.shape), atol=2e-6)


def test_memory_around_a_plane_is_not_read_as_part_of_it():
    memory = rushlight.full((4, 9, 33), math.nan)
    memory[1:3] = 1.0
    planes = memory[1:3].unsqueeze(0)
    weight = rushlight.ones(2, 1, 5, 5)
    out = rushlight.nn.functional.conv2d(planes, weight, padding=2, groups=2)
    assert out.isfinite().all()
    assert out.amax().item() == 25 and out.amin().item() == 9
    memory = rushlight.full((6, 90, 99), math.nan)
    memory[1:5] = 1.0
    weight = rushlight.ones(4, 1, 9, 9)
    out = rushlight.nn.functional.conv2d(memory[1:5], weight, padding=4, groups=4)
    assert out.isfinite().all()
    assert out.amax().item() == 81 and out.amin().item() == 25


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
