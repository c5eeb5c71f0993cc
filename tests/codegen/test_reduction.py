"""Reductions against NumPy, over every choice of axes."""

import itertools

import numpy as np
import pytest

from rushlight.codegen import language as L
from rushlight.codegen.language import inf, reduction

HIGHEST = 0x7FFFFFFFFFFFFFFF


@reduction(identity=0)
def total(left, right):
    return left + right


@reduction(identity=1)
def product(left, right):
    return left * right


@reduction(identity=-inf)
def largest(left, right):
    return L.maximum(left, right)


@reduction(identity=inf)
def smallest(left, right):
    return L.minimum(left, right)


@reduction(identity=False)
def anything(left, right):
    return left | right


@reduction(identity=True)
def everything(left, right):
    return left & right


@reduction(identity=0, prepare=lambda x: x * x)
def sum_of_squares(left, right):
    return left + right


@reduction(
    identity=(-inf, HIGHEST),
    prepare=lambda x, index: (x, index),
    finish=lambda state: state[1],
)
def position_of_largest(left, right):
    """The first position of the largest value; of the first NaN, if there is one."""
    (x, i), (y, j) = left, right
    tied = (x == y) | (L.isnan(x) & L.isnan(y))
    take = (y > x) | (L.isnan(y) & ~L.isnan(x)) | (tied & (j < i))
    return L.select(take, y, x), L.select(take, j, i)


@reduction(
    identity=(0, 0, 0),
    prepare=lambda x: (x, 0, 1),
    finish=lambda state, scalar: (
        state[1] / (state[2] - L.cast(scalar, state[1].type)),
        state[0],
    ),
)
def variance_and_mean(left, right):
    """Chan's rule; the scalar is the correction."""
    (mean, squares, count), (other, more, number) = left, right
    both = count + number
    gap, share = other - mean, number / L.maximum(both, 1)
    return mean + gap * share, squares + more + gap * gap * count * share, both


@reduction(
    identity=(-inf, 0),
    prepare=lambda x: (x, 1),
    finish=lambda state: state[0] + L.log(state[1]),
)
def log_sum_exp(left, right):
    (high, mass), (other, more) = left, right
    top = L.maximum(high, other)
    floor = L.select(top == -inf, 0.0, top)
    return top, mass * L.exp(high - floor) + more * L.exp(other - floor)


AXES = [axes for n in (1, 2, 3) for axes in itertools.combinations(range(3), n)]


def numbers(shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 10).astype(dtype)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("shape", [(5, 7, 133), (3, 70, 64), (2, 3, 1)], ids=str)
def test_every_choice_of_axes(native, shape, axes):
    x = numbers(shape)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(
        native.reduction(total, x, axes), wide.sum(axes), rtol=1e-5, atol=1e-3
    )
    np.testing.assert_array_equal(native.reduction(largest, x, axes), x.max(axes))
    np.testing.assert_array_equal(native.reduction(smallest, x, axes), x.min(axes))
    np.testing.assert_allclose(
        native.reduction(sum_of_squares, x, axes), (wide * wide).sum(axes), rtol=1e-5
    )


@pytest.mark.parametrize("axes", [(1,), (0,)], ids=str)
def test_the_compiled_reduction_is_its_python_text(native, reference, axes):
    x = numbers((5, 70))
    for kernel in (total, largest, sum_of_squares):
        np.testing.assert_array_equal(
            native.reduction(kernel, x, axes), reference.reduction(kernel, x, axes)
        )


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_any_layout_of_the_input(native, order):
    x = numbers((6, 20, 40)).transpose(order)[:, ::2]
    for axes in AXES:
        np.testing.assert_allclose(
            native.reduction(total, x, axes),
            x.astype(np.float64).sum(axes),
            rtol=1e-5,
            atol=1e-3,
        )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_first_of_the_largest_is_found(native, axis):
    x = np.random.default_rng(0).integers(0, 5, (9, 35, 67)).astype(np.float32)
    got = native.reduction(position_of_largest, x, (axis,), out="int64")
    np.testing.assert_array_equal(got, x.argmax(axis))


@pytest.mark.parametrize("n", [1, 2, 16, 40, 1000])
def test_nan_is_the_largest(native, n):
    x = numbers((3, n))
    x[1, n // 2 :] = np.nan
    got = native.reduction(position_of_largest, x, (1,), out="int64")
    np.testing.assert_array_equal(got, x.argmax(1))
    np.testing.assert_array_equal(native.reduction(largest, x, (1,)), x.max(1))


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_variance_and_mean_together(native, axes):
    x = numbers((8, 33, 20)) + 1000
    wide = x.astype(np.float64)
    variance, mean = native.reduction(
        variance_and_mean, x, axes, out=("float32", "float32"), scalar=1.0
    )
    np.testing.assert_allclose(variance, wide.var(axes, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(mean, wide.mean(axes), rtol=1e-6)


def test_log_sum_exp_does_not_overflow(native):
    x = np.array([[1000.0, 1000.0], [-inf, -inf], [0.0, -inf]], np.float32)
    expected = [1000 + np.log(2), -inf, 0]
    np.testing.assert_allclose(native.reduction(log_sum_exp, x, (1,)), expected)


@pytest.mark.parametrize(
    ("kernel", "function"), [(anything, np.any), (everything, np.all)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_truth(runner, kernel, function, axis):
    x = np.random.default_rng(0).random((5, 70)) < 0.02
    if kernel is everything:
        x = ~x
    got = runner.reduction(kernel, x, (axis,))
    np.testing.assert_array_equal(got, function(x, axis=axis))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_integers_are_summed_in_int64(native, dtype):
    x = np.random.default_rng(0).integers(0, 120, (7, 1000)).astype(dtype)
    for axis in (0, 1):
        got = native.reduction(total, x, (axis,), out="int64", compute="int64")
        np.testing.assert_array_equal(got, x.sum(axis, dtype=np.int64))


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_infinite_identities_become_the_bounds_of_integers(native, dtype):
    x = np.random.default_rng(0).integers(1, 100, (3, 50)).astype(dtype)
    np.testing.assert_array_equal(native.reduction(largest, x, (1,)), x.max(1))
    np.testing.assert_array_equal(native.reduction(smallest, x, (1,)), x.min(1))


@pytest.mark.parametrize("axis", [0, 1])
def test_complex_sums(native, axis):
    x = (numbers((9, 30)) + 1j * numbers((9, 30), seed=1)).astype(np.complex64)
    np.testing.assert_allclose(
        native.reduction(total, x, (axis,)), x.sum(axis), rtol=1e-4
    )


def test_no_values_give_the_identity(native):
    x = np.zeros((4, 0), np.float32)
    assert native.reduction(total, x, (1,)).tolist() == [0] * 4
    assert native.reduction(largest, x, (1,)).tolist() == [-inf] * 4


def test_half_precision_is_summed_in_single(native):
    x = np.full((1, 5000), 1.0, np.float16)
    assert native.reduction(total, x, (1,), compute="float16").tolist() == [5000.0]


def test_long_sums_stay_accurate(native):
    x = np.full(1 << 22, 0.1, np.float32)
    exact = x.astype(np.float64).sum()
    assert abs(native.reduction(total, x, (0,)) - exact) / exact < 1e-6


def test_parts_of_the_outputs_are_the_same_bits_as_the_whole(native):
    from rushlight.runtime.cpu.launch import launch

    x = numbers((40, 999))
    whole = native.reduction(total, x, (1,))
    parts = np.zeros(40, np.float32)
    ints = [1, 1, 999, 0, 0, 4, 1, 1, 40, 0, 0, x.strides[0], 0, 0, 4]
    kernel = total.specialize("float32", ("float32",), "float32")
    launch(kernel, [parts.ctypes.data, x.ctypes.data], ints, 40, 3)
    np.testing.assert_array_equal(parts, whole)


def test_the_description_can_be_read():
    stages = sum_of_squares.stages("float32", ("float32",), "float32")
    assert stages.expression.splitlines()[:5] == [
        "identity(f32(0.0))",
        "prepare:",
        "    return x * x",
        "combine:",
        "    return state0 + other0",
    ]
