"""Pooling against the oracle, over windows inside and across the border."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight.operators.pooling import pooling

torch = pytest.importorskip("torch", reason="the oracle is not installed")
aten = torch.ops.aten

# kernel, stride, padding, dilation, ceil_mode, for planes of 11 x 13
WINDOWS = [
    (2, 2, 0, 1, False),
    (2, 2, 0, 1, True),
    (3, 2, 1, 1, False),
    (3, 1, 1, 2, False),
    ((3, 2), (2, 1), (1, 0), (1, 2), True),
    (5, 3, 2, 1, False),
    (5, 5, 0, 1, False),
]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def pair(values):
    """The same array as our tensor and as the oracle's."""
    return rl.from_numpy(values.copy()), torch.from_numpy(values.copy())


def lists(*values):
    """Window parameters as the oracle wants them: lists of two."""
    return [[v, v] if isinstance(v, int) else list(v) for v in values]


def same(ours, theirs, **tolerance):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), **tolerance)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_max_pool2d_equals_the_oracle(window):
    x, y = pair(noise(2, 3, 11, 13))
    ours = pooling.max_pool2d_with_indices(x, *window)
    theirs = aten.max_pool2d_with_indices(y, *lists(*window[:4]), window[4])
    for mine, other in zip(ours, theirs):
        same(mine, other)
    g, h = pair(noise(*theirs[0].shape, seed=1))
    grad = pooling.max_pool2d_with_indices_backward(g, x, *window, ours[1])
    expected = aten.max_pool2d_with_indices_backward(
        h, y, *lists(*window[:4]), window[4], theirs[1]
    )
    same(grad, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("override", [None, 3])
@pytest.mark.parametrize("count_pad", [True, False])
@pytest.mark.parametrize("window", [w for w in WINDOWS if w[3] == 1], ids=str)
def test_avg_pool2d_equals_the_oracle(window, count_pad, override):
    kernel, stride, padding, _, ceil = window
    x, y = pair(noise(2, 3, 11, 13))
    options = (ceil, count_pad, override)
    ours = pooling.avg_pool2d(x, kernel, stride, padding, *options)
    theirs = aten.avg_pool2d(y, *lists(kernel, stride, padding), *options)
    same(ours, theirs, rtol=1e-5, atol=1e-6)
    g, h = pair(noise(*theirs.shape, seed=1))
    grad = pooling.avg_pool2d_backward(g, x, kernel, stride, padding, *options)
    expected = aten.avg_pool2d_backward(h, y, *lists(kernel, stride, padding), *options)
    same(grad, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", [1, 3])
def test_one_and_three_dimensions_equal_the_oracle(axes):
    x, y = pair(noise(2, 3, *(7, 8, 9)[:axes]))
    functional = torch.nn.functional
    ours = getattr(pooling, f"max_pool{axes}d_with_indices")(x, 3, 2, 1, 1, False)
    pool = getattr(functional, f"max_pool{axes}d")
    for mine, other in zip(ours, pool(y, 3, 2, 1, 1, False, return_indices=True)):
        same(mine, other)
    ours = getattr(pooling, f"avg_pool{axes}d")(x, 3, 2, 1)
    same(ours, getattr(functional, f"avg_pool{axes}d")(y, 3, 2, 1), rtol=1e-5)
    ours = getattr(pooling, f"adaptive_avg_pool{axes}d")(x, 4)
    same(ours, getattr(functional, f"adaptive_avg_pool{axes}d")(y, 4), rtol=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (4, None), 20])
def test_adaptive_pools_equal_the_oracle(size):
    x, y = pair(noise(2, 3, 11, 13))
    functional = torch.nn.functional
    y.requires_grad_()
    theirs = functional.adaptive_avg_pool2d(y, size)
    same(pooling.adaptive_avg_pool2d(x, size), theirs.detach(), rtol=1e-5, atol=1e-6)
    g, h = pair(noise(*theirs.shape, seed=1))
    (expected,) = torch.autograd.grad(theirs, y, h)
    grad = pooling.adaptive_avg_pool2d_backward(g, x)
    same(grad, expected, rtol=1e-5, atol=1e-6)
    theirs = functional.adaptive_max_pool2d(y, size, return_indices=True)
    ours = pooling.adaptive_max_pool2d(x, size)
    for mine, other in zip(ours, theirs):
        same(mine, other.detach())
    (expected,) = torch.autograd.grad(theirs[0], y, h)
    grad = pooling.adaptive_max_pool2d_backward(g, x, ours[1])
    same(grad, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", [2, 4])
def test_nan_wins_in_max_pool(kernel):
    values = noise(1, 1, 8, 8)
    values[0, 0, 1, 2] = np.nan
    x, y = pair(values)
    ours = pooling.max_pool2d_with_indices(x, kernel)
    theirs = aten.max_pool2d_with_indices(y, [kernel, kernel])
    for mine, other in zip(ours, theirs):
        same(mine, other)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_dtypes_equal_the_oracle(dtype):
    x, y = pair(noise(2, 3, 8, 12))
    x, y = x.to(getattr(rl, dtype)), y.to(getattr(torch, dtype))
    ours, place = pooling.max_pool2d_with_indices(x, 2)
    theirs, other = aten.max_pool2d_with_indices(y, [2, 2])
    assert ours.tolist() == theirs.tolist() and place.tolist() == other.tolist()
    ours, theirs = pooling.avg_pool2d(x, 2), aten.avg_pool2d(y, [2, 2])
    np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-2)


def test_integers_are_averaged_towards_zero():
    values = np.random.default_rng(0).integers(-9, 9, (2, 6, 6))
    x, y = pair(values)
    same(pooling.avg_pool2d(x, 2), aten.avg_pool2d(y, [2, 2]))


def test_inputs_that_are_not_contiguous():
    x, y = pair(noise(2, 10, 3, 8))
    ours, _ = pooling.max_pool2d_with_indices(x.permute(0, 2, 1, 3), 2)
    theirs, _ = aten.max_pool2d_with_indices(y.permute(0, 2, 1, 3), [2, 2])
    same(ours, theirs)


def test_shapes_only_on_meta():
    x = rl.empty(2, 3, 11, 13, device="meta")
    out, index = pooling.max_pool2d_with_indices(x, 2)
    assert tuple(out.shape) == tuple(index.shape) == (2, 3, 5, 6)
    assert out.device.type == "meta"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, 2, 2), "pad should be at most half of effective kernel size"),
        ((3, 1, 2, 2), "pad should be smaller than or equal to half of kernel size"),
        ((2, 0), "stride should be greater than zero"),
        ((20,), "Output size is too small"),
        (((2, 2, 2),), "must either be a single int, or a tuple of 2 ints"),
    ],
)
def test_bad_windows_are_refused(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        pooling.max_pool2d_with_indices(rl.zeros(1, 1, 8, 8), *arguments)


def test_bad_shapes_are_refused():
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        pooling.max_pool2d_with_indices(rl.zeros(3), 2)
    with pytest.raises(NotImplementedError, match="avg_pool2d"):
        pooling.avg_pool2d(rl.zeros(1, 4, 4, dtype=rl.int32), 2)
    with pytest.raises(RuntimeError, match="expected grad_output to have shape"):
        x = rl.zeros(1, 1, 4, 4)
        pooling.avg_pool2d_backward(x, x, 2, 2, 0, False, True, None)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize(
    "shape, strides",
    [
        ((1, 1, 3), (3, 1, 1)),
        ((1, 2, 3), (6, 1, 2)),
        ((2, 1, 3), (3, 1, 1)),
        ((2, 2, 1), (2, 1, 2)),
        ((1, 3, 1), (9, 1, 9)),
        ((2, 3, 4), (12, 1, 3)),
        ((2, 3, 4), (12, 4, 1)),
    ],
)
def test_lines_pool_into_pytorchs_layout(shape, strides, places, learns):
    found = []
    for module in (torch, rl):
        x = module.as_strided(module.arange(40.0), shape, strides).detach()
        x.requires_grad_(learns)
        y = module.nn.functional.max_pool1d(x, 3, 2, 1, return_indices=places)
        found.append([(t.stride(), t.tolist()) for t in (y if places else [y])])
    assert found[0] == found[1]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_paddings_are_refused_as_by_pytorch_whatever_the_dilation(count):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")

    def refused(module, window, pad, dilation):
        pool = getattr(module.nn.functional, f"max_pool{count}d")
        x = module.ones([1, 1] + [9] * count)
        try:
            pool(x, window, 1, pad, dilation, return_indices=True)
        except RuntimeError as error:
            return "effective" in str(error), "smaller than" in str(error)
        return None

    for case in itertools.product((1, 2, 3, 4), (0, 1, 2, 3), (1, 2, 3)):
        assert refused(rl, *case) == refused(torch, *case), case


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(
    "pool",
    [
        lambda f, x: f.max_pool2d(x, 3, 2, 1),
        lambda f, x: f.max_pool2d(x, 2, ceil_mode=True, return_indices=True)[1],
        lambda f, x: f.max_pool2d(x, 3, 1, 1, dilation=2),
        lambda f, x: f.avg_pool2d(x, 3, 2, 1),
        lambda f, x: f.avg_pool2d(x, 2, count_include_pad=False),
        lambda f, x: f.adaptive_avg_pool2d(x, (3, 4)),
        lambda f, x: f.adaptive_max_pool2d(x, (4, 3)),
    ],
)
def test_windows_over_innermost_channels_give_what_those_over_planes_do(pool, dtype):
    plain = rl.randn(2, 19, 11, 13).to(getattr(rl, dtype))
    plain[0, 3, 4, 5] = float("nan")
    found = []
    for format in (rl.contiguous_format, rl.channels_last):
        x = plain.detach().clone(memory_format=format).requires_grad_()
        y = pool(rl.nn.functional, x)
        assert y.is_contiguous(memory_format=format)
        if y.dtype is x.dtype:
            y.square().sum().backward()
            assert x.grad.is_contiguous(memory_format=format)
            found.append((y.detach(), x.grad))
        else:
            found.append((y,))
    for planes, pixels in zip(*found, strict=True):
        assert planes.equal(pixels) or rl.allclose(planes, pixels, equal_nan=True)
