"""Convolutions whose images' channels lie innermost: values, gradients, layouts and copies."""

from itertools import product

import numpy as np
import pytest
import torch

import rushlight
from rushlight.codegen.schedule.contraction import Tile
from rushlight.ir import expr as ir
from rushlight.kernels.conv import (
    conv_geometry,
    pixel_geometry,
    pixels,
    winograd,
    winograd_pixels,
)
from rushlight.operators.convolution import conv_channels_last, convolution
from tests.operators.test_contraction import run_native, run_reference
from tests.operators.test_convolution_kernels import correlate

TILE = Tile(lanes=4, rows=3, vectors=2, depth=128, columns=66)
WIDE = Tile(lanes=4, rows=3, vectors=2, depth=128, columns=256)
LIBRARIES = rushlight, torch
FEW = [  # positions, fewer than output channels
    (2, 20, (4, 5), 200, 3, 1, 1, 1, 1),
    (1, 40, (7, 9), 260, 3, 2, 1, 1, 1),
    (1, 300, (5, 6), 130, 1, 2, 0, 1, 1),
    (3, 200, (5, 6), 130, 1, 1, 0, 1, 1),
    (1, 48, (9, 9), 128, 3, 1, 0, 2, 1),
    (1, 64, (10, 10), 420, 3, 1, 1, 1, 1),  # squares, too few
]
# Images, channels, sides, output channels, side of the filter, step, padding, dilation, groups
GEOMETRIES = [
    (2, 24, (13, 9), 40, 3, 1, 1, 1, 1),
    (3, 70, (8, 21), 100, 3, 1, 2, 1, 1),
    (2, 16, (14, 14), 33, 1, 1, 0, 1, 1),
    (2, 20, (15, 11), 24, 1, 2, 0, 1, 1),
    (1, 3, (31, 30), 16, 7, 2, 3, 1, 1),
    (2, 32, (12, 17), 48, 3, 2, 1, 1, 2),
    (2, 300, (7, 7), 24, 3, 1, 0, 2, 1),
    (4, 16, (9, 10), 16, 5, 3, 1, 1, 1),
    (2, 12, (10, 10), 12, 3, 1, 1, 1, 12),
    (2, 9, (10, 6), 2, 3, 1, 1, 1, 1),
    *FEW,
]


def drawn(*sizes, seed=0):
    rng = np.random.default_rng([seed, *sizes])
    return rng.standard_normal(sizes).astype(np.float32)


def last(array):
    """The same values with the second dimension innermost."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def first(array):
    """The same values with the innermost dimension second."""
    return np.moveaxis(array, -1, 1)


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("flipped", [False, True])
def test_squares_of_innermost_channels_are_the_sums_over_taps(
    run, flipped, monkeypatch
):
    monkeypatch.setattr(conv_geometry, "WINOGRAD_CHANNELS", 1)
    images, channels, rows, padding = 2, 6, 7, (1, 2)
    x, w, bias = (
        drawn(images, channels, 7, 10),
        drawn(rows, channels, 3, 3),
        drawn(rows),
    )
    full = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    filters = w[:, :, ::-1, ::-1] if flipped else w
    expected = correlate(full, filters, (1, 1)) + bias[:, None, None]
    sizes = x.shape, w.shape, expected.shape[2:], (1, 1), padding, (1, 1), 1, True
    plan = conv_geometry.winograd_plan.__wrapped__(sizes[:7], *sizes[7:], flipped, None)
    ints, chunks, _ = plan
    # channels out innermost: in flipped weights, those of a gradient, they are from the start
    held = w.transpose((1, 2, 3, 0) if flipped else (2, 3, 1, 0))
    held = np.ascontiguousarray(held)
    row, channel, *rest = ints[-5:]
    places = np.full((16, channels, rows), np.nan, np.float32)
    transform = winograd.filters("pixel_filters_4", ir.f32, 4, True)
    run(transform, (places, held), (rows, channels, channel, row, *rest), channels)
    out = np.full_like(last(expected), np.nan)
    function = winograd_pixels.convolution("winograd_pixels_4", ir.f32, TILE)
    run(function, (out, places, last(x), bias, held), ints, chunks)
    np.testing.assert_allclose(first(out), expected, atol=2e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_squares_of_gradients_add_up_to_the_gradient_of_a_filter(run, monkeypatch):
    monkeypatch.setattr(conv_geometry, "WINOGRAD_CHANNELS", 1)
    x, grad = drawn(3, 5, 9, 8), drawn(3, 6, 9, 8)
    settings = (9, 8), (1, 1), (1, 1), (1, 1), 1
    plan = pixel_geometry.winograd_weight_plan.__wrapped__(
        x.shape, (6, 5, 3, 3), *settings
    )
    ints, chunks, parts = plan
    full = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = correlate(full.swapaxes(0, 1), grad.swapaxes(0, 1), (1, 1))
    function = winograd_pixels.weight_gradient("winograd_weights_4", ir.f32, TILE)
    for steps, shape in (((5, 1), (parts, 3, 3, 5, 6)), ((1, 9), (parts, 5, 3, 3, 6))):
        sums = np.full(shape, np.nan, np.float32)
        run(function, (sums, last(grad), last(x)), (*ints, *steps), chunks)
        total = sums.sum(0)
        found = total if steps[1] == 9 else total.transpose(2, 0, 1, 3)
        np.testing.assert_allclose(found, expected.transpose(0, 2, 3, 1), atol=2e-4)


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("step, dilation", [(1, 1), (2, 1), (1, 2)])
def test_pixels_multiplied_by_lines_of_taps_are_a_convolution(run, step, dilation):
    x, w, bias = drawn(2, 5, 8, 7), drawn(9, 5, 3, 3), drawn(9)
    spaced = np.zeros((9, 5, *[2 * dilation + 1] * 2), np.float32)
    spaced[:, :, ::dilation, ::dilation] = w
    full = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = correlate(full, spaced, (step, step))
    grad = drawn(*expected.shape)
    settings = expected.shape[2:], (step,) * 2, (1, 1), (dilation,) * 2, 1
    ints, chunks, _ = pixel_geometry.forward_plan.__wrapped__(
        x.shape, w.shape, *settings, True
    )
    held = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    out = np.full_like(last(expected), np.nan)
    run(
        pixels.forward("pixels_4", ir.f32, WIDE),
        (out, held, last(x), bias),
        ints,
        chunks,
    )
    np.testing.assert_allclose(first(out), expected + bias[:, None, None], atol=2e-5)
    plan = pixel_geometry.weight_plan.__wrapped__(x.shape, w.shape, *settings)
    ints, chunks, parts = plan
    sums = np.full((parts, 3, 3, 5, 9), np.nan, np.float32)
    function = pixels.weight_gradient("pixel_weights_4", ir.f32, WIDE)
    run(function, (sums, last(grad), last(x)), ints, chunks)
    windows = np.lib.stride_tricks.sliding_window_view(full, spaced.shape[2:], (2, 3))
    windows = windows[:, :, ::step, ::step, ::dilation, ::dilation]
    expected = np.einsum("ncyxij,noyx->ijco", windows, grad)
    np.testing.assert_allclose(sums.sum(0), expected, atol=2e-4)


def made(library, geometry, layouts, dtype):
    """Operands of a convolution, its settings, and the gradient of its output."""
    images, channels, sides, rows, side, step, padding, dilation, groups = geometry
    arrays = (
        drawn(images, channels, *sides),
        drawn(rows, channels // groups, side, side),
    )
    x, w = (
        library.tensor(array).to(getattr(library, dtype)).contiguous(
            memory_format=getattr(library, layout)
        )
        for array, layout in zip(arrays, layouts, strict=True)
    )  # fmt: skip
    return x.requires_grad_(), w.requires_grad_(), (step, padding, dilation, groups)


def outcome(library, geometry, layouts, dtype="float32"):
    """The output, and the gradients of input, weight and bias."""
    x, w, settings = made(library, geometry, layouts, dtype)
    bias = library.tensor(drawn(w.shape[0])).to(x.dtype).requires_grad_()
    y = library.nn.functional.conv2d(x, w, bias, *settings)
    grad = library.tensor(drawn(*y.shape)).to(x.dtype)
    return [y, *library.autograd.grad(y, (x, w, bias), grad)]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_outputs_and_gradients_are_pytorchs_whatever_the_layouts(geometry, dtype):
    formats = "channels_last", "contiguous_format"
    limit = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 2e-2}[dtype]
    for layouts in product(formats, formats):
        ours, theirs = (outcome(each, geometry, layouts, dtype) for each in LIBRARIES)
        for found, expected in zip(ours, theirs, strict=True):
            values = found.detach().double().numpy()
            exact = expected.detach().double().numpy()
            assert np.abs(values - exact).max() <= limit * np.abs(exact).max(), layouts
            if 1 not in found.shape:
                assert found.stride() == expected.stride(), layouts


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize(
    "geometry",
    [
        (2, 24, (13, 9), 40, 3, 1, 0, 1, 1),
        (2, 24, (13, 9), 40, 3, 1, 1, 1, 1),
        (2, 32, (12, 17), 48, 3, 2, 0, 1, 2),
        (2, 32, (12, 17), 48, 3, 2, 1, 1, 2),
        (2, 40, (6, 6), 200, 3, 1, 0, 1, 1),
        (2, 20, (4, 5), 200, 3, 1, 1, 1, 1),
    ],
    ids=str,
)
def test_what_is_infinite_reaches_what_sees_it_and_nothing_else(value, geometry):
    layouts = "channels_last", "channels_last"
    step, padding = geometry[
        5:7
    ]  # zeros are multiplied by a weight, as steps on PyTorch
    for spoilt in (0, 1, 2) if (step, padding) == (1, 0) else (0, 2):
        results = []
        for library in LIBRARIES:
            x, w, settings = made(library, geometry, layouts, "float32")
            y = library.nn.functional.conv2d(x, w, None, *settings)
            grad = library.tensor(drawn(*y.shape))
            with library.no_grad():
                (x, w, grad)[spoilt][1, 0, 1, 2] = value
            y = library.nn.functional.conv2d(x, w, None, *settings)
            results.append([y, *library.autograd.grad(y, (x, w), grad)])
        for ours, theirs in zip(*results, strict=True):
            ours, theirs = (t.detach().numpy() for t in (ours, theirs))
            assert (np.isnan(ours) == np.isnan(theirs)).all()
            seen = np.isfinite(theirs)
            np.testing.assert_allclose(ours[seen], theirs[seen], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("geometry", FEW, ids=str)
def test_weights_that_are_larger_than_outputs_are_read_as_they_lie(
    geometry, monkeypatch
):
    def turned(*_):
        raise AssertionError("a weight was turned")

    monkeypatch.setattr(conv_channels_last, "transpose_weight", turned)
    outcome(rushlight, geometry, ["channels_last"] * 2)


def test_a_step_of_residual_blocks_in_channels_last_copies_no_image(monkeypatch):
    def as_it_is(tensor):
        assert tensor.is_contiguous(memory_format=rushlight.channels_last)
        return tensor

    monkeypatch.setattr(convolution, "prepared", None)  # to rows: never asked
    monkeypatch.setattr(conv_channels_last, "dense", as_it_is)
    nn = rushlight.nn
    block = nn.Sequential(
        nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 32, 1, bias=False), nn.BatchNorm2d(32),
    ).to(memory_format=rushlight.channels_last)  # fmt: skip
    x = rushlight.randn(4, 32, 20, 20).contiguous(memory_format=rushlight.channels_last)
    x.requires_grad_()

    block(x).square().sum().backward()
    assert x.grad.is_contiguous(memory_format=rushlight.channels_last)
