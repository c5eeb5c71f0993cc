"""Kernels of reductions with values before and after, of any layout, against NumPy."""

import itertools

import numpy as np
import pytest

from rushlight.codegen import language as L
from rushlight.codegen.frontend.nest import Nest, arrange
from rushlight.codegen.language import (
    exp,
    fold,
    largest,
    length,
    mean,
    position,
    rsqrt,
    total,
)
from rushlight.operators.reduction.reduction import argmax, var_mean
from rushlight.operators.reduction.reduction import sum as plain_sum
from tests.codegen.grid_kernels import log_mass


@Nest
def scaled_softmax(x, scale, dim):
    """A prologue over two inputs, and two levels."""
    scaled = x * scale
    mass = exp(scaled - largest(scaled, over=dim))
    return mass / total(mass, over=dim)


@Nest
def normalised(x, weight, bias, dim):
    """Results for each place and for each row beside each other."""
    center = mean(x, over=dim)
    gap = x - center
    rstd = rsqrt(mean(gap * gap, over=dim) + 1e-5)
    return L.maximum(gap * rstd * weight + bias, 0.0), center, rstd


@Nest
def sum_of_products(x, y, dim):
    """Two sums of one pass, of reductions as operators have them."""
    return fold(plain_sum, x * y)[0], fold(plain_sum, x)[0] * 2.0


@Nest
def online(x, dim):
    """One pass whose state has two variables, and what it is at a place."""
    return x - fold(log_mass, x)[0]


@Nest
def moments_and_place(x, y, dim):
    """States of several variables, and places along the row."""
    divisor = L.cast(length(over=dim), "float64") - 1.0
    spread, center = fold(var_mean, x + y, scalar=divisor)
    return spread, center, fold(argmax, x + y)[0]


@Nest
def places(x, dim):
    """The position itself."""
    return L.cast(position(over=dim), x.type) + x * 0.0


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(runner, kernel, outputs, inputs, axes, shape, ordered=False):
    """Calls a kernel over some axes of arrays that broadcast to a shape."""
    arrays = [*outputs, *inputs]
    kept = [d for d in range(len(shape)) if d not in axes]
    strides = []
    for array in arrays:
        steps = [s if n > 1 else 0 for n, s in zip(array.shape, array.strides)]
        strides.append([steps[d] for d in (*kept, *axes)])
    found = arrange(
        [shape[d] for d in kept],
        [shape[d] for d in axes],
        strides,
        [array.itemsize for array in arrays],
        len(outputs),
        ordered,
    )
    dtypes = [tuple(str(a.dtype) for a in group) for group in (inputs, outputs)]
    specialization = (*dtypes, "float32", found.key, ())
    runner.call(kernel, specialization, arrays, found.integers, found.rows)
    return found


AXES = [axes for n in (1, 2, 3) for axes in itertools.combinations(range(3), n)]
SHAPES = [(3, 5, 70), (20, 4, 33), (2, 35, 17)]
ORDERS = list(itertools.permutations(range(3)))


def laid_out(shape, order, seed=0):
    """Numbers of a shape, the axes in memory in some order."""
    stored = numbers([shape[d] for d in order], seed)
    return stored.transpose(np.argsort(order))


def ends(shape, axes):
    return [1 if d in axes else n for d, n in enumerate(shape)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_softmax_with_a_prologue_over_any_axes(native, shape, axes):
    for order in ORDERS:
        x, scale = laid_out(shape, order), numbers((1, shape[1], 1), 1)
        got = np.zeros([shape[d] for d in order], "f").transpose(np.argsort(order))
        run(native, scaled_softmax, [got], [x, scale], axes, shape)
        wide = x.astype(np.float64) * scale
        mass = np.exp(wide - wide.max(axes, keepdims=True))
        expected = mass / mass.sum(axes, keepdims=True)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_results_for_places_and_for_rows_stand_beside_each_other(runner, axes):
    shape = (3, 5, 19)
    x, weight, bias = (numbers(s, k) for k, s in enumerate([shape, (1, 1, 19), (5, 1)]))
    bias = bias[None]
    got = np.zeros(shape, "f")
    center, rstd = (np.zeros(ends(shape, axes), "f") for _ in range(2))
    run(runner, normalised, [got, center, rstd], [x, weight, bias], axes, shape)
    wide = x.astype(np.float64)
    middle = wide.mean(axes, keepdims=True)
    scale = 1 / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
    expected = np.maximum((wide - middle) * scale * weight + bias, 0)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(center, middle, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rstd, scale, rtol=1e-4)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_several_monoids_and_inputs_of_several_layouts(native, order, axes):
    shape = (9, 40, 70)
    x, y = laid_out(shape, order), numbers((1, 40, 1), 1)
    found = [np.zeros(ends(shape, axes), "f") for _ in range(2)]
    run(native, sum_of_products, found, [x, y], axes, shape)
    wide = x.astype(np.float64)
    keep = {"axis": axes, "keepdims": True}
    np.testing.assert_allclose(found[0], (wide * y).sum(**keep), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found[1], 2 * wide.sum(**keep), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_states_of_several_variables_and_places_in_order(runner, axes):
    shape = (4, 6, 21)
    x, y = numbers(shape).round(), numbers((1, 6, 1), 1).round()
    spread, center = (np.zeros(ends(shape, axes), "f") for _ in range(2))
    place = np.zeros(ends(shape, axes), np.int64)
    run(runner, moments_and_place, [spread, center, place], [x, y], axes, shape, True)
    whole = (x + y).astype(np.float64)
    keep = {"axis": axes, "keepdims": True}
    np.testing.assert_allclose(center, whole.mean(**keep), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(spread, whole.var(ddof=1, **keep), rtol=1e-4)
    rest = [d for d in range(3) if d not in axes]
    flat = whole.transpose(*rest, *axes).reshape(*(shape[d] for d in rest), -1)
    np.testing.assert_array_equal(place.reshape(flat.shape[:-1]), flat.argmax(-1))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=str)
def test_one_pass_may_rescale_what_it_has(native, order):
    shape = (3, 40, 70)
    x = laid_out(shape, order) * 30
    got = np.zeros([shape[d] for d in order], "f").transpose(np.argsort(order))
    run(native, online, [got], [x], (2,), shape)
    wide = x.astype(np.float64)
    top = wide.max(2, keepdims=True)
    expected = wide - top - np.log(np.exp(wide - top).sum(2, keepdims=True))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


def test_places_count_in_the_order_of_the_axes(runner):
    x = laid_out((4, 5, 6), (2, 1, 0))
    got = np.zeros((4, 5, 6), "f")
    run(runner, places, [got], [x], (0, 2), (4, 5, 6), ordered=True)
    expected = np.arange(24).reshape(4, 1, 6) + np.zeros((4, 5, 6))
    np.testing.assert_array_equal(got, expected)


def test_rows_over_five_loops(native):
    shape = (2, 3, 4, 5, 6, 7)
    x = numbers(shape).transpose(5, 3, 1, 0, 2, 4)
    got = np.zeros((7, 5, 3, 2, 4, 1), "f")
    scale = np.ones((1,) * 6, "f")
    whole = np.zeros_like(x)
    run(native, sum_of_products, [got, got.copy()], [x, scale], (5,), x.shape)
    np.testing.assert_allclose(got, x.sum(5, keepdims=True), rtol=1e-4, atol=1e-5)
    run(native, scaled_softmax, [whole], [x, scale], (2,), x.shape)
    np.testing.assert_allclose(whole.sum(2), 1, rtol=1e-5)


def test_more_loops_along_a_row_than_three_are_not_arranged():
    sizes = (3, 3, 3, 3)
    steps = [[0, 4, 40, 400, 4000], [4, 16, 100, 1000, 10000]]
    assert arrange([3], sizes, steps, [4, 4], 1) is None
