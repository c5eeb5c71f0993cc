"""Convolutions and their gradients against the oracle, and what is refused."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels.conv.conv_geometry import (
    COLUMNS,
    PhaseAxis,
    blocks,
    reach,
    together,
)

# images, channels, sizes, output channels, kernel, stride, padding, dilation, groups
CASES = [
    (2, 3, (8, 9), 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (3, 4, (7, 7), 20, (3, 2), (1, 1), (0, 1), (1, 1), 2),
    (2, 3, (28, 30), 7, (5, 5), (2, 2), (2, 2), (1, 1), 1),
    (2, 4, (13, 11), 6, (3, 3), (2, 3), (1, 2), (2, 1), 2),
    (64, 1, (28, 28), 6, (5, 5), (1, 1), (2, 2), (1, 1), 1),
    (8, 16, (7, 7), 200, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 16, (14, 14), 40, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, 16, (14, 14), 40, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (1, 40, (20, 20), 30, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (4, 5, (40,), 9, (3,), (1,), (1,), (2,), 1),
    (2, 3, (5, 6, 7), 4, (2, 3, 2), (2, 1, 2), (1, 0, 1), (1, 2, 1), 1),
    (2, 8, (9, 9), 8, (3, 3), (1, 1), (1, 1), (1, 1), 8),
    (2, 300, (6, 6), 310, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 64, (56, 56), 64, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 40, (20, 20), 30, (4, 4), (4, 4), (0, 0), (1, 1), 1),
    (1, 1, (1, 1), 1, (1, 1), (3, 3), (4, 4), (1, 1), 1),
]
NAMES = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


def arrays(case, dtype="float32"):
    images, channels, sizes, rows, kernel, *_, groups = case
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(s).astype(dtype)
        for s in (
            (images, channels, *sizes),
            (rows, channels // groups, *kernel),
            (rows,),
        )
    ]


def values_and_gradients(t, call, operands):
    operands = [t.from_numpy(a.copy()).requires_grad_() for a in operands]
    result = call(t, *operands)
    (result * result).sum().backward()
    return [result.detach().numpy(), *(x.grad.numpy() for x in operands)]


def assert_same(ours, theirs, tolerance=3e-5):
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(mine / scale, other / scale, atol=tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_and_its_gradients_match_the_oracle(torch, case):
    settings = case[5:]

    def call(t, *operands):
        return getattr(t.nn.functional, NAMES[len(case[2])])(*operands, *settings)

    assert_same(*(values_and_gradients(t, call, arrays(case)) for t in (rl, torch)))


@pytest.mark.parametrize("case", CASES[:4] + CASES[9:11], ids=str)
def test_float64_is_exact_to_its_own_precision(torch, case):
    def call(t, *operands):
        return getattr(t.nn.functional, NAMES[len(case[2])])(*operands, *case[5:])

    operands = arrays(case, "float64")
    assert_same(*(values_and_gradients(t, call, operands) for t in (rl, torch)), 1e-13)


@pytest.mark.parametrize(
    "sizes, stride, padding, extra, dilation, groups",
    [
        ((5, 6), (1, 1), (0, 0), (0, 0), (1, 1), 1),
        ((5, 6), (2, 3), (1, 1), (1, 2), (1, 1), 1),
        ((4, 4), (2, 2), (0, 1), (0, 0), (2, 3), 2),
        ((7,), (3,), (1,), (1,), (1,), 1),
        ((3, 4, 2), (2, 1, 2), (1, 0, 1), (1, 0, 1), (1, 1, 1), 1),
    ],
)
def test_transposed_convolution_matches_the_oracle(
    torch, sizes, stride, padding, extra, dilation, groups
):
    rng = np.random.default_rng(1)
    n = len(sizes)
    operands = [
        rng.standard_normal(s)
        for s in ((2, 4, *sizes), (4, 6 // groups, *[3] * n), (6,))
    ]

    def call(t, *x):
        function = getattr(t.nn.functional, f"conv_transpose{n}d")
        return function(*x, stride, padding, extra, groups, dilation)

    assert_same(*(values_and_gradients(t, call, operands) for t in (rl, torch)), 1e-12)


@pytest.mark.parametrize("kernel", [(3, 3), (4, 3), (2, 5)])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_has_names(torch, kernel, padding):
    operands = arrays((2, 3, (9, 8), 4, kernel, 1), "float64")

    def call(t, *x):
        return t.nn.functional.conv2d(*x, padding=padding, dilation=2)

    case = (2, 3, (9, 12), 4, kernel, 1)
    assert_same(
        *(values_and_gradients(t, call, arrays(case, "float64")) for t in (rl, torch)),
        1e-12,
    )
    assert operands[1].shape[2:] == kernel


def test_one_image_needs_no_batch_dimension():
    x, w = rl.ones(3, 8, 8), rl.ones(4, 3, 3, 3)
    assert tuple(rl.nn.functional.conv2d(x, w).shape) == (4, 6, 6)
    assert (rl.nn.functional.conv2d(x, w) == 27).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_sums_in_float32(dtype):
    kind = getattr(rl, dtype)
    x, w, _ = (rl.from_numpy(a).to(kind) for a in arrays(CASES[0]))
    exact = rl.nn.functional.conv2d(x.to(rl.float32), w.to(rl.float32), padding=1)
    result = rl.nn.functional.conv2d(x, w, padding=1)
    assert result.dtype is kind
    assert (result == exact.to(kind)).all()


def test_strided_operands_are_read_as_they_are_seen():
    x, w, _ = map(rl.from_numpy, arrays(CASES[0]))
    expected = rl.nn.functional.conv2d(x, w)
    turned = x.transpose(2, 3).contiguous().transpose(2, 3)
    assert (rl.nn.functional.conv2d(turned, w) == expected).all()


def test_results_are_the_same_bits_for_any_number_of_threads():
    operands = [rl.from_numpy(a) for a in arrays(CASES[12])]
    before = rl.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            x, w, c = (t.clone().requires_grad_() for t in operands)
            out = rl.nn.functional.conv2d(x, w, c, padding=1)
            out.sum().backward()
            results.append([out.detach(), x.grad, w.grad, c.grad])
    finally:
        rl.set_num_threads(before)
    for one, two in zip(*results):
        assert (one == two).all()


def test_an_empty_batch_has_an_empty_output_and_zero_gradients():
    x = rl.ones(0, 3, 8, 8).requires_grad_()
    w = rl.ones(4, 3, 3, 3).requires_grad_()
    out = rl.nn.functional.conv2d(x, w)
    assert tuple(out.shape) == (0, 4, 6, 6)
    out.sum().backward()
    assert (w.grad == 0).all()


def test_meta_tensors_have_outputs_of_the_right_shape():
    x, w = rl.empty(2, 3, 8, 8, device="meta"), rl.empty(4, 3, 3, 3, device="meta")
    assert tuple(rl.nn.functional.conv2d(x, w, stride=2).shape) == (2, 4, 3, 3)


@pytest.mark.parametrize(
    "x, w, settings, text",
    [
        (
            (1, 1, 5, 5),
            (16, 3, 3, 3),
            {},
            r"Given groups=1, weight of size \[16, 3, 3, 3\], expected "
            r"input\[1, 1, 5, 5\] to have 3 channels, but got 1 channels instead",
        ),
        (
            (5, 5),
            (1, 1, 3, 3),
            {},
            r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got "
            r"input of size: \[5, 5\]",
        ),
        (
            (1, 1, 2, 2),
            (1, 1, 3, 3),
            {},
            r"Calculated padded input size per channel: \(2 x 2\). Kernel size: "
            r"\(3 x 3\). Kernel size can't be greater than actual input size",
        ),
        (
            (1, 4, 5, 5),
            (3, 2, 3, 3),
            {"groups": 2},
            "expected weight to be divisible by 2 at dimension 0",
        ),
        (
            (1, 1, 5, 5),
            (1, 1, 3, 3),
            {"padding": -1},
            "negative padding is not supported",
        ),
        (
            (1, 1, 5, 5),
            (1, 1, 3, 3),
            {"stride": 0},
            "non-positive stride is not supported",
        ),
        (
            (1, 1, 5, 5),
            (1, 1, 3, 3),
            {"stride": (1, 2, 3)},
            "expected stride to be a single integer value or a list of 2 values",
        ),
        (
            (1, 1, 5, 5),
            (1, 1, 3, 3),
            {"padding": "same", "stride": 2},
            "padding='same' is not supported for strided convolutions",
        ),
    ],
)
def test_settings_that_no_convolution_has_are_refused(x, w, settings, text):
    with pytest.raises(RuntimeError, match=text):
        rl.nn.functional.conv2d(rl.ones(*x), rl.ones(*w), **settings)


def test_convolutions_of_booleans_are_refused():
    x, w = rl.ones(1, 1, 3, 3, dtype=rl.bool), rl.ones(1, 1, 2, 2, dtype=rl.bool)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        rl.nn.functional.conv2d(x, w)


def test_integers_convolve_exactly():
    x = rl.arange(36).reshape(1, 1, 6, 6)
    out = rl.nn.functional.conv2d(x, rl.ones(2, 1, 3, 3, dtype=rl.int64))
    assert out.dtype is rl.int64
    assert out[0, 1, 0, 0].item() == 63 and out[0, 0, 3, 3].item() == 252


def test_margins_cover_what_the_taps_reach():
    assert reach(28, 28, 1, -2, 1, 5) == (2, 2)
    assert reach(10, 5, 2, 0, 1, 2) == (0, 0)
    assert reach(7, 7, 1, 1, -1, 3) == (1, 1)


def test_phases_share_out_positions_and_taps():
    for size, kernel, stride, padding, dilation in (
        (9, 3, 2, 1, 1),
        (10, 4, 3, 2, 2),
        (5, 1, 4, 0, 1),
    ):
        axes = [
            PhaseAxis(p, size, kernel, stride, padding, dilation) for p in range(stride)
        ]
        assert sum(axis.count for axis in axes) == size
        seen = {k for axis in axes for k in range(kernel)[axis.slice]}
        assert seen == set(range(kernel))


@pytest.mark.parametrize("images", range(2, 70))
@pytest.mark.parametrize("positions", [25, 49, 64, 100, 144])
def test_two_threads_share_images_of_small_planes(images, positions):
    held = together(images, positions)
    most = max(1, COLUMNS // positions)
    assert (most - 1) // 2 < held <= most if images > most else held == images
    if images > most:
        busier = held * -(-images // (2 * held))
        assert busier <= images * 0.67
        if images in (4, 8, 16, 32, 64):
            assert busier <= 0.55 * images


def test_small_planes_share_blocks_evenly():
    (_, _, held, width, _, band, _), buffered, chunks = blocks(
        *(8, 49, 512, 1, 1 << 30, False, False), threads=2
    )
    assert (held, width, buffered) == (4, 196, 1)
    assert chunks == 2 * -(-512 // band)
