"""The loops of convolutions with small tiles, run natively and by the reference."""

import itertools
import math

import numpy as np
import pytest

import rushlight
from rushlight.codegen.schedule.contraction import Tile
from rushlight.codegen.target import named, using
from rushlight.ir import expr as ir
from rushlight.kernels.conv import conv_geometry, depthwise, direct
from rushlight.kernels.conv import implicit_gemm as kernels
from rushlight.kernels.conv.conv_geometry import Geometry, forward_plan
from rushlight.kernels.conv.weight_geometry import weight_plan
from tests.operators.test_contraction import run_native, run_reference

TILE = Tile(lanes=4, rows=3, vectors=2, depth=5, columns=320)
# Input, weight, stride, padding: the sizes of planes, lines and steps that differ.
CASES = [
    ((2, 2, 5, 6), (4, 2, 3, 2), (1, 1), (1, 0)),
    ((1, 2, 7, 9), (2, 2, 2, 3), (2, 2), (0, 1)),
    ((1, 2, 4, 11), (1, 2, 1, 2), (1, 3), (0, 0)),
]

# The loops for few channels read lines without steps only.
CHOICES = [
    (case, few) for case in CASES for few in (False, True) if case[2][1] == 1 or not few
]


def correlate(x, w, stride):
    """The convolution of a padded input, one output position at a time."""
    steps = [
        (n - k) // s + 1
        for n, k, s in zip(x.shape[2:], w.shape[2:], stride, strict=True)
    ]
    out = np.empty((x.shape[0], w.shape[0], *steps), np.float32)
    for i, j in np.ndindex(*steps):
        y, z = i * stride[0], j * stride[1]
        window = x[:, :, y : y + w.shape[2], z : z + w.shape[3]]
        out[:, :, i, j] = np.einsum("ncyx,ocyx->no", window, w)
    return out


def padded(x, margins):
    return np.pad(x, ((0, 0), (0, 0), *margins[1:])).astype(np.float32)


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("case, few", CHOICES, ids=str)
def test_forward_loops_gather_every_patch(run, case, few):
    shape, kernel, stride, padding = case
    rng = np.random.default_rng(0)
    x, w, bias = (
        rng.standard_normal(s).astype(np.float32) for s in (shape, kernel, kernel[:1])
    )
    expected = correlate(
        np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding))), w, stride
    )
    _, _, margins, ints, chunks, _ = forward_plan(
        shape, kernel, expected.shape[2:], stride, padding, (1, 1), 1, True
    )
    make = direct.few_channels if few else kernels.forward
    function = make(f"{make.__name__}_4", *([ir.f32] * (1 if few else 2)), TILE)
    out = np.empty_like(expected)
    run(function, (out, w, padded(x, margins), bias), ints, chunks)
    np.testing.assert_allclose(out, expected + bias[:, None, None], atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("case, few", CHOICES, ids=str)
def test_weight_loops_add_up_every_position(run, case, few):
    shape, kernel, stride, padding = case
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(np.float32)
    full = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    sizes = correlate(full, np.zeros(kernel, np.float32), stride).shape
    grad = rng.standard_normal(sizes).astype(np.float32)
    _, _, margins, ints, chunks, parts = weight_plan(
        shape, kernel, sizes[2:], stride, padding, (1, 1), 1, kernels.weight_block(TILE)
    )
    make = direct.few_weights if few else kernels.weight_gradient
    function = make(f"{make.__name__}_4", *([ir.f32] * (1 if few else 2)), TILE)
    out = np.empty(parts, np.float32)
    run(function, (out, grad, padded(x, margins)), ints, chunks)
    sums = out.sum(0)[0]
    for o, c, i, j in np.ndindex(*kernel):
        lines = full[:, c, i:, j:][:, :: stride[0], :: stride[1]]
        expected = (lines[:, : sizes[2], : sizes[3]] * grad[:, o]).sum()
        row = (c * kernel[2] + i) * kernel[3] + j
        np.testing.assert_allclose(sums[row, o], expected, atol=1e-4)
    np.testing.assert_allclose(sums[-1], grad.sum((0, 2, 3)), atol=1e-4)


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("step", [1, 2])
def test_loops_over_planes_of_their_own_take_steps(run, step):
    rng = np.random.default_rng(2)
    shape, taps, strides, padding = (2, 3, 11, 19), (3, 2), (step, step), (1, 1)
    x = rng.standard_normal(shape).astype(np.float32)
    w = rng.standard_normal((3, 1, *taps)).astype(np.float32)
    bias = rng.standard_normal(3).astype(np.float32)
    full = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    planes = [correlate(full[:, c : c + 1], w[c : c + 1], strides) for c in range(3)]
    expected = np.concatenate(planes, 1)
    sizes = shape, w.shape, expected.shape[2:], strides, padding, (1, 1), 3
    kind, _, _, ints, chunks, _ = forward_plan(*sizes, True)
    assert kind == f"depthwise_3_2_{step}_{step}"
    function = depthwise.depthwise("planes_4", ir.f32, 4, taps, strides)
    out = np.empty_like(expected)
    run(function, (out, w, x, bias), ints, chunks)
    np.testing.assert_allclose(out, expected + bias[:, None, None], atol=1e-5)
    _, _, _, ints, chunks, parts = weight_plan(*sizes, 1)
    function = depthwise.depthwise_weights("planes_4", ir.f32, 4, taps, strides)
    sums = np.empty(parts, np.float32)
    run(function, (sums, expected, x), ints, chunks)
    height, width = expected.shape[2:]
    for c, i, j in np.ndindex(3, *taps):
        seen = full[:, c, i::step, j::step][:, :height, :width]
        exact = (seen * expected[:, c]).sum()
        np.testing.assert_allclose(sums[0, c, i * 2 + j, 0], exact, rtol=1e-4)


PLANES = [
    (11, 19),
    (5, 2),
    (2, 9),
    (4, 4),
    (100, 90),
]  # narrow, low, larger than a copy


def test_planes_that_are_copied_have_the_bits_of_those_that_are_masked():
    rng = np.random.default_rng(4)
    w, bias = rng.standard_normal((2, 1, 3, 3), np.float32), np.ones(2, np.float32)
    runs = []
    for run, target in (
        (run_native, "x86-64-v3"), (run_native, "x86-64-v4"), (run_reference, "x86-64-v3"),
    ):  # fmt: skip
        with using(named(target)):
            name = f"planes_{target[-2:]}"
            function = depthwise.depthwise(name, ir.f32, 8, (3, 3), (1, 1))
        runs.append((run, function))
    for sides, pad, step in itertools.product(PLANES, (0, 1, 2), (1, 2)):
        shape = (1, 2, *sides)
        sizes = [n + 2 * pad - 2 * s for n, s in zip(sides, (1, step), strict=True)]
        if sizes[0] < 1 or sizes[1] < 4:
            continue
        x = rng.standard_normal(shape, np.float32)
        settings = (1, 1), (pad, pad), (1, step), 2, True
        kind, _, _, ints, chunks, _ = forward_plan(
            shape, w.shape, tuple(sizes), *settings
        )
        assert kind.startswith("depthwise")
        found = []
        for run, function in runs:
            if run is run_reference and (sides[0] > 11 or pad > 1):
                continue
            out = np.full((1, 2, *sizes), 7, np.float32)
            run(function, (out, w, x, bias), ints, chunks)
            found.append(out)
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_allclose(found[0], found[-1], atol=1e-5)
        full = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        places = [(i, j) for i in range(3) for j in range(3)]
        exact = sum(
            w[:, :, i, j, None] * full[0, :, i:, j * step :][:, : sizes[0], : sizes[1]]
            for i, j in places
        )
        np.testing.assert_allclose(out[0], exact + 1, atol=1e-5)


@pytest.mark.parametrize("run", [run_native, run_reference])
def test_padding_puts_zeros_around_planes(run):
    x = np.arange(1, 31, dtype=np.float32).reshape(2, 1, 3, 5)
    out = np.full((2, 2, 6, 9), 7, np.float32)
    function = kernels.padded("padded_4", ir.f32, 4)
    run(function, (out, x), (1, 3, 5, 2, 6, 9, 1, 2, 3), 2)
    expected = np.pad(x, ((0, 0), (1, 0), (2, 1), (3, 1)))
    assert (out == expected).all()


def test_one_tap_reads_the_input_itself_but_for_many_planes_of_more_than_a_page():
    for channels, side, there in (256, 28, True), (64, 56, True), (256, 56, False):
        sizes = (2, channels, side, side), (64, channels, 1, 1), (side, side)
        geometry = Geometry(*sizes, (1, 1), (0, 0), (1, 1), 1)
        assert geometry.in_place(channels) is there, (channels, side)


EXCHANGED = [  # input, weight, padding, groups: filters that no block of the depth divides
    ((1, 70, 7, 7), (40, 70, 3, 3), (1, 1), 1),
    ((2, 8, 6, 5), (36, 4, 5, 5), (2, 2), 2),
    ((1, 30, 9), (300, 30, 3), (0,), 1),
    ((1, 80, 3, 4, 5), (24, 40, 2, 2, 3), (1, 0, 1), 2),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", EXCHANGED, ids=str)
def test_gradients_of_inputs_read_weights_as_they_lie(sizes, dtype, monkeypatch):
    from rushlight.operators.convolution import convolution

    torch = pytest.importorskip("torch")
    shape, kernel, padding, groups = sizes
    monkeypatch.delattr(convolution, "transpose_weight")
    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(s).astype(dtype) for s in (shape, kernel))
    found = []
    for m in (rushlight, torch):
        given = m.tensor(x).requires_grad_()
        call = getattr(m.nn.functional, f"conv{len(padding)}d")
        out = call(given, m.tensor(w), padding=padding, groups=groups)
        slope = np.cos(np.arange(out.numel())).astype(dtype).reshape(tuple(out.shape))
        found.append(m.autograd.grad(out, given, m.tensor(slope))[0].numpy())
    close = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(*found, rtol=0, atol=close)


def test_an_infinite_weight_has_no_share_where_it_sees_zeros_beyond_the_edge():
    torch = pytest.importorskip("torch")
    for channels, side in ((24, 5), (2, 30)):  # more weights than results, and fewer
        w = np.ones((channels, channels, 3, 3), np.float32)
        w[0, 1, 0, 0], w[1, 0, 2, 2] = np.inf, np.nan
        found = []
        for m in (rushlight, torch):
            x = m.ones(1, channels, side, side).requires_grad_()
            out = m.nn.functional.conv2d(x, m.tensor(w), padding=1)
            found.append(m.autograd.grad(out.sum(), x)[0].numpy())
        np.testing.assert_array_equal(*found)


def test_padded_planes_of_gradients_do_not_lie_whole_pages_apart():
    """28 x 28 with margins of two are 32 x 32: one line of the cache for all channels."""
    shape, taps = (1, 32, 28, 28), (32, 32, 5, 5)
    _, sizes, margins, _ = conv_geometry.input_plan(
        shape, taps, shape[2:], (1, 1), (2, 2), (1, 1), 1
    )
    assert math.prod(conv_geometry.grown(sizes, margins)) % conv_geometry.PAGE
    grad, weight = rushlight.rand(shape), rushlight.rand(taps)
    wide = [x.double() for x in (grad, weight)]
    narrow, exact = (
        rushlight.nn.functional.conv_transpose2d(*x, padding=2)
        for x in ((grad, weight), wide)
    )
    assert rushlight.allclose(narrow.double(), exact, 1e-5)
