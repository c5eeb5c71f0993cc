"""Lanes behind a line's end are read, and are nobody's: not in results, nor in memory."""

import ctypes
import mmap

import numpy as np
import pytest

import rushlight
from rushlight.kernels.conv.conv_geometry import Geometry
from rushlight.kernels.conv.weight_geometry import weight_plan

# Lines of results that end at a vector, within one, and before the first is full.
LINES = (5, 15, 16, 17, 28, 32, 33, 48)
PAGE = mmap.PAGESIZE


def drawn(*sizes, dtype="float32", seed=0):
    rng = np.random.default_rng([seed, *sizes])
    return rushlight.from_numpy(rng.standard_normal(sizes).astype(dtype))


def weight_gradient(grad, x, w, padding):
    call = rushlight.ops.aten.convolution_backward
    settings = [1, 1], [padding, padding], [1, 1], False, [0, 0], 1
    return call(grad, x, w, [w.shape[0]], *settings, [False, True, True])[1:]


@pytest.mark.parametrize("rows", [1, 5, 10, 16])
@pytest.mark.parametrize("line", LINES)
def test_an_element_without_a_value_spoils_the_windows_that_see_it_and_no_others(
    line, rows
):
    for padding in (0, 1):
        width = line + 2 - 2 * padding
        x, w = drawn(2, 3, 6, width), drawn(rows, 3, 3, 3)
        for place in ((0, 0, 0, 0), (0, 2, 3, width - 1), (1, 1, 5, width // 2)):
            spoilt = x.clone()
            spoilt[place] = float("nan")
            seen = rushlight.conv2d(
                spoilt.isnan().double(), w.double().abs(), padding=padding
            )
            result = rushlight.conv2d(spoilt, w, padding=padding)
            whole = rushlight.conv2d(x, w, padding=padding)
            assert (result.isnan() == (seen != 0)).all(), (line, rows, place)
            rest = ~result.isnan()
            assert rushlight.equal(result[rest], whole[rest]), (line, rows, place)


@pytest.mark.parametrize("line", LINES)
def test_a_channel_without_values_spoils_the_gradient_of_its_weights_alone(line):
    x, grad, w = drawn(2, 4, 6, line), drawn(2, 8, 6, line), drawn(8, 4, 3, 3)
    x[:, 1] = float("nan")
    grad[:, 5] = float("inf")
    weight, bias = weight_gradient(grad, x, w, 1)
    assert weight[:, 1].isnan().all(), line
    assert rushlight.isfinite(weight[:5, [0, 2, 3]]).all(), line
    assert rushlight.isfinite(bias[[0, 1, 2, 3, 4, 6, 7]]).all(), line


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("line", LINES)
def test_nothing_is_read_behind_the_memory_of_the_images(line, dtype):
    for rows in (1, 6, 16):
        x, w = drawn(2, 2, 4, line + 2, dtype=dtype), drawn(rows, 2, 3, 3, dtype=dtype)
        with Fenced(x) as fenced:
            assert rushlight.equal(rushlight.conv2d(fenced, w), rushlight.conv2d(x, w))
            grad = drawn(2, rows, 2, line, dtype=dtype)
            for ours, expected in zip(
                weight_gradient(grad, fenced, w, 0),
                weight_gradient(grad, x, w, 0),
                strict=True,
            ):
                assert rushlight.equal(ours, expected)
            del fenced


def test_squares_of_inputs_and_filters_are_read_within_their_memory():
    for line in LINES:
        x, w = drawn(2, 16, 14, line + 2), drawn(17, 16, 3, 3)
        expected = rushlight.conv2d(x, w)
        with Fenced(x) as images, Fenced(w) as filters:
            assert rushlight.equal(rushlight.conv2d(images, filters), expected), line
            del images, filters


class Fenced:
    """A copy of a tensor, whose memory ends where nobody may read."""

    def __init__(self, x):
        array = x.numpy()
        self.pages = -(-array.nbytes // PAGE) * PAGE
        self.map = mmap.mmap(-1, self.pages + PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        begin = self.pages - array.nbytes
        self.array = np.frombuffer(self.map, array.dtype, array.size, begin)
        self.array = self.array.reshape(array.shape)
        self.array[...] = array

    def protect(self, rights):
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        where = ctypes.c_void_p(self.address + self.pages)
        assert protect(where, ctypes.c_size_t(PAGE), rights) == 0

    def __enter__(self):
        self.protect(0)
        return rushlight.from_numpy(self.array)

    def __exit__(self, *_):
        self.protect(mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.parametrize(
    "channels, rows, lines, line",
    [(16, 16, 40, 40), (8, 32, 7, 56), (12, 10, 33, 64), (16, 16, 5, 30)],
)
def test_gradients_of_many_weights_are_the_sums_over_all_positions(
    channels, rows, lines, line
):
    shape, kernel = (3, channels, lines, line), (rows, channels, 3, 3)
    ones = (1, 1)
    plan = weight_plan(shape, kernel, (lines, line), ones, ones, ones, 1, 4)
    assert plan[0] == "few_weights"
    assert not Geometry(shape, kernel, (lines, line), ones, ones, ones, 1).simple
    x, grad = drawn(*shape), drawn(3, rows, lines, line)
    found = weight_gradient(grad, x, drawn(*kernel), 1)
    wide = np.pad(x.numpy().astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    above = grad.numpy().astype(float)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    expected = np.einsum("nohw,nchwyx->ocyx", above, windows)
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(
        found[1].numpy(), above.sum((0, 2, 3)), rtol=1e-4, atol=2e-3
    )


def test_gradients_of_many_weights_are_the_same_bits_for_any_number_of_threads():
    before = rushlight.get_num_threads()
    x, grad, w = drawn(5, 16, 40, 32), drawn(5, 16, 40, 32), drawn(16, 16, 3, 3)
    found = []
    try:
        for threads in (1, 2, 3):
            rushlight.set_num_threads(threads)
            found.append(weight_gradient(grad, x, w, 1)[0])
    finally:
        rushlight.set_num_threads(before)
    assert all(rushlight.equal(one, found[0]) for one in found)
