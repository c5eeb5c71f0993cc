"""Convolutions by transformed filters, their loops run natively and by the reference."""

import numpy as np
import pytest
import torch

import rushlight
from rushlight.codegen.schedule.contraction import Tile
from rushlight.ir import expr as ir
from rushlight.kernels.conv import conv_geometry, winograd
from tests.operators.test_contraction import run_native, run_reference
from tests.operators.test_convolution_kernels import correlate

TILE = Tile(lanes=4, rows=3, vectors=2, depth=128, columns=64)
# Images, channels, sides of the input, output channels, padding: odd and even sides, lines
# that end within a vector, several images in a block, and several blocks of an image.
CASES = [
    (3, 2, (7, 10), 4, (1, 1)),
    (2, 3, (5, 21), 7, (0, 2)),
    (1, 2, (20, 16), 3, (2, 0)),
]
ONES = (1, 1), 1


def drawn(*sizes, seed=0):
    rng = np.random.default_rng([seed, *sizes])
    return rng.standard_normal(sizes).astype(np.float32)


def both(*arrays):
    """The arrays as tensors of each library."""
    return [[made(a) for a in arrays] for made in (rushlight.tensor, torch.tensor)]


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_squares_multiplied_place_by_place_are_the_sums_over_taps(
    run, case, monkeypatch
):
    monkeypatch.setattr(conv_geometry, "WINOGRAD_CHANNELS", 1)
    images, channels, sides, rows, padding = case
    x, w = drawn(images, channels, *sides), drawn(rows, channels, 3, 3)
    bias = drawn(rows)
    full = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    transform = winograd.filters("filters_4", ir.f32, 4)
    function = winograd.convolution("winograd_4", ir.f32, TILE)
    for turned in (False, True):
        filters = w[:, :, ::-1, ::-1] if turned else w
        expected = correlate(full, filters, (1, 1)) + bias[:, None, None]
        sizes = x.shape, w.shape, expected.shape[2:], (1, 1), padding, *ONES
        plan = conv_geometry.winograd_plan.__wrapped__(sizes, True, turned, 4)
        ints, chunks, _ = plan
        held = np.ascontiguousarray(w.swapaxes(0, 1)) if turned else w
        first, second, row, channel = rows, channels, *ints[-5:-3]
        if turned:  # filters lie as the weight does
            first, second, row, channel = channels, rows, channel, row
        places = np.full((16, first, second), np.nan, np.float32)
        run(transform, (places, held), (second, first, row, channel, *ints[-3:]), first)
        out = np.full_like(expected, np.nan)
        run(function, (out, places, x, bias, held), ints, chunks)
        np.testing.assert_allclose(out, expected, atol=2e-5)


def test_outputs_and_gradients_are_nearer_to_the_exact_ones_than_pytorch_says_they_must():
    for images, channels, side, rows, padding in (
        (1, 64, 28, 96, 1),
        (5, 33, 7, 100, 2),
        (2, 16, 57, 16, 0),
        (4, 300, 9, 20, 1),
    ):
        arrays = drawn(images, channels, side, side), drawn(rows, channels, 3, 3)
        found = []
        for library, tensors in zip((rushlight, torch), both(*arrays), strict=True):
            x, w = (t.requires_grad_() for t in tensors)
            if library is torch:
                x, w = (t.detach().double().requires_grad_() for t in tensors)
            y = library.nn.functional.conv2d(x, w, None, 1, padding)
            found.append([y, *library.autograd.grad(y.square().sum(), (x, w))])
        for ours, exact in zip(*found, strict=True):
            error = np.abs(ours.detach().numpy() - exact.detach().numpy()).max()
            assert error <= 3e-6 * float(exact.detach().abs().max()), (channels, rows)


def test_transformed_filters_have_half_the_error_of_sums_over_all_taps_in_turn():
    x, w = drawn(1, 64, 24, 24), drawn(16, 64, 3, 3)
    (ours, filters), (theirs, their_filters) = both(x, w)
    exact = torch.conv2d(theirs.double(), their_filters.double()).numpy()
    total = np.zeros(exact.shape, np.float32)
    for c, i, j in np.ndindex(64, 3, 3):
        total += w[:, c, i, j, None, None] * x[:, c, None, i : i + 22, j : j + 22]
    error = rushlight.conv2d(ours, filters).numpy() - exact
    assert np.std(error) < 0.7 * np.std(total - exact)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 3e38, np.nan])
def test_infinite_and_huge_operands_spoil_what_sees_them_as_sums_over_taps_do(value):
    x, w = drawn(2, 18, 13, 17), drawn(20, 18, 3, 3)
    for spoil in (x, w):
        spoilt = spoil.copy()
        for place in ((0, 0, 0, 0), (1, 7, 1, 2)):
            spoilt[place] = value
        arrays = (spoilt, w) if spoil is x else (x, spoilt)
        ours, theirs = (
            library.conv2d(*tensors).numpy()
            for library, tensors in zip((rushlight, torch), both(*arrays), strict=True)
        )
        assert (np.isnan(ours) == np.isnan(theirs)).all()
        assert (np.isposinf(ours) == np.isposinf(theirs)).all()
        small = np.isfinite(theirs) & (np.abs(theirs) < 1e30)
        np.testing.assert_allclose(ours[small], theirs[small], atol=1e-4)
        rest = np.isfinite(ours)
        whole = rushlight.conv2d(*both(x, w)[0]).numpy()
        if spoil is x:
            assert np.equal(ours, whole)[rest & (np.abs(ours) < 1e30)].all()


def test_filters_are_transformed_where_steps_are_one_and_channels_are_many():
    sizes = (
        (1, 64, 28, 28),
        (64, 64, 3, 3),
        (28, 28),
        (1, 1),
        (1, 1),
        *ONES,
        False,
        False,
        8,
    )

    def plan(*sizes):
        return conv_geometry.winograd_plan(sizes[:7], *sizes[7:])

    assert plan(*sizes) is not None
    few = (1, 8, 28, 28), (64, 8, 3, 3), *sizes[2:]
    steps = *sizes[:2], (14, 14), (2, 2), *sizes[4:]
    wide = (1, 64, 28, 28), (64, 64, 5, 5), (24, 24), *sizes[3:]
    spread = *sizes[:2], (26, 26), (1, 1), (1, 1), (2, 2), 1, False, False, 8
    small = (1, 64, 4, 4), (64, 64, 3, 3), (4, 4), *sizes[3:]
    assert [plan(*one) for one in (few, steps, wide, spread, small)] == [None] * 5
