"""Kernels over rows against NumPy."""

import numpy as np
import pytest

from rushlight.codegen import language as L
from rushlight.codegen.frontend.rowwise import ROW
from rushlight.codegen.language import (
    cast,
    element,
    exp,
    largest,
    length,
    log,
    mean,
    position,
    rowwise,
    rsqrt,
    select,
    total,
)
from rushlight.codegen.target import current
from rushlight.ir import expr as ir

SIZES = [1, 7, 16, 33, 64, 100, 1000]


@rowwise
def softmax(x, dim):
    mass = exp(x - largest(x, over=dim))
    return mass / total(mass, over=dim)


@rowwise
def log_softmax(x, dim):
    shifted = x - largest(x, over=dim)
    return shifted - log(total(exp(shifted), over=dim))


@rowwise
def softmax_backward(grad, result, dim):
    return result * (grad - total(grad * result, over=dim))


@rowwise(scalars=("eps",))
def layer_norm(x, weight, bias, eps, dim):
    center = mean(x, over=dim)
    gap = x - center
    scale = rsqrt(mean(gap * gap, over=dim) + cast(eps, x.type))
    return gap * scale * weight + bias, center, scale


@rowwise(scalars=("label",))
def cross_entropy(x, label, dim):
    top = largest(x, over=dim)
    return log(total(exp(x - top), over=dim)) - (element(x, label, over=dim) - top)


@rowwise(scalars=("label", "grad"))
def cross_entropy_backward(x, label, grad, dim):
    mass = exp(x - largest(x, over=dim))
    hit = select(position(over=dim) == label, 1.0, cast(position(over=dim) * 0, x.type))
    return grad * (mass / total(mass, over=dim) - hit)


@rowwise
def centered(x, dim):
    return x - total(x, over=dim) / cast(length(over=dim), x.type)


def numbers(shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(np.float32)


def exact_softmax(x):
    mass = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return mass / mass.sum(1, keepdims=True)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("n", SIZES)
def test_softmax_and_its_logarithm(native, n, step):
    x = numbers((5, n * step))[:, ::step]
    got = np.zeros((5, n), np.float32)
    native.rowwise(softmax, [got], [x])
    np.testing.assert_allclose(got, exact_softmax(x), rtol=2e-6)
    native.rowwise(log_softmax, [got], [x])
    np.testing.assert_allclose(got, np.log(exact_softmax(x)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [3, 16, 35])
def test_the_compiled_rows_are_their_python_text(native, reference, n):
    x, y = numbers((4, n)), numbers((4, n), 1)
    ours, theirs = np.zeros_like(x), np.zeros_like(x)
    for kernel, inputs in ((softmax, [x]), (softmax_backward, [x, y]), (centered, [x])):
        native.rowwise(kernel, [ours], inputs)
        reference.rowwise(kernel, [theirs], inputs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_rows_may_lie_apart_and_outputs_too(native):
    x = numbers((6, 50))[::2, :30]
    whole = np.zeros((3, 60), np.float32)
    native.rowwise(softmax, [whole[:, ::2]], [x])
    np.testing.assert_allclose(whole[:, ::2], exact_softmax(x), rtol=2e-6)
    assert not whole[:, 1::2].any()


@pytest.mark.parametrize("n", SIZES)
def test_layer_norm_with_its_statistics(native, n):
    x, weight, bias = numbers((5, n)), numbers((1, n), 1), numbers((1, n), 2)
    got, center, scale = np.zeros_like(x), np.zeros(5, "f"), np.zeros(5, "f")
    eps = np.array([1e-5])
    native.rowwise(layer_norm, [got, center, scale], [x, weight, bias, eps])
    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt(wide.var(1) + 1e-5)
    gap = wide - wide.mean(1, keepdims=True)
    np.testing.assert_allclose(
        got, gap * rstd[:, None] * weight + bias, rtol=1e-4, atol=2e-5
    )
    np.testing.assert_allclose(center, wide.mean(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(scale, rstd, rtol=1e-4)


@pytest.mark.parametrize("n", SIZES)
def test_cross_entropy_picks_the_label(native, n):
    x = numbers((5, n))
    label = np.random.default_rng(0).integers(0, n, 5)
    got = np.zeros(5, np.float32)
    native.rowwise(cross_entropy, [got], [x, label])
    expected = -np.log(exact_softmax(x))[np.arange(5), label]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", SIZES)
def test_cross_entropy_backward_subtracts_the_hit(native, n):
    x, grad = numbers((5, n)), numbers((5,), 1)
    label = np.random.default_rng(0).integers(0, n, 5)
    got = np.zeros_like(x)
    native.rowwise(cross_entropy_backward, [got], [x, label, grad])
    hit = np.eye(n)[label]
    np.testing.assert_allclose(
        got, grad[:, None] * (exact_softmax(x) - hit), rtol=1e-4, atol=1e-6
    )


def test_narrow_floats_are_computed_in_single_precision(native):
    x = numbers((4, 50)).astype(np.float16)
    got = np.zeros_like(x)
    native.rowwise(softmax, [got], [x], compute="float16")
    np.testing.assert_allclose(got, exact_softmax(x), atol=1e-3)


def test_infinities_and_nan_behave(native):
    x = np.array([[-np.inf, 0.0], [np.inf, 0.0], [np.nan, 0.0]], np.float32)
    got = np.zeros_like(x)
    native.rowwise(softmax, [got], [x])
    assert got[0].tolist() == [0.0, 1.0]
    assert np.isnan(got[1, 0]) and np.isnan(got[2]).all()


def test_a_costly_value_is_computed_once_and_kept_in_the_output():
    text = str(softmax.lowered(("float32",), ("float32",), "float32"))
    counts = [loop.count("exp(") for loop in text.split("for j")[1:]]
    if current().masks(4):
        assert counts.pop(0) == 1  # of short rows, side by side
    abreast, along, *apart = counts
    assert along == 2  # in the loop over whole vectors, and behind it
    assert abreast in (2 * 2, 4 * 2)
    assert apart == [1, 1]


def test_the_row_axis_must_be_named():
    with pytest.raises(TypeError, match="needs the dim parameter"):
        largest(None, over=1)


@pytest.mark.parametrize("rows", [1, 15, 16, 40])
def test_rows_side_by_side_are_computed_together(runner, rows):
    x = numbers((7, rows)).T  # an element of each row lies beside the next row's
    weight, bias = numbers((1, 7), 1), numbers((1, 7), 2)
    got = np.zeros((7, rows), np.float32).T
    center, scale = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    call(runner, softmax, [got], [x])
    np.testing.assert_allclose(got, exact_softmax(x), rtol=2e-6)
    eps = np.array([1e-5])
    call(runner, layer_norm, [got, center, scale], [x, weight, bias, eps])
    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt(wide.var(1) + 1e-5)
    gap = wide - wide.mean(1, keepdims=True)
    np.testing.assert_allclose(
        got, gap * rstd[:, None] * weight + bias, rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(center, wide.mean(1), rtol=1e-4, atol=1e-6)


def call(runner, kernel, outputs, inputs):
    """Runs a kernel whose rows lie in the inner of the two row loops."""
    rows, n = outputs[0].shape
    operands = [*outputs, *inputs]
    shared = [
        k
        for k, a in enumerate(operands)
        if k > len(outputs) and (a.ndim == 2 or a.dtype == np.float64)
    ]
    apart = [0 if k in shared else a.strides[0] for k, a in enumerate(operands)]
    along = [a.strides[1] if a.ndim == 2 else 0 for a in operands]
    ints = [n, rows, *[0] * len(operands), *apart, *along]
    dtypes = [tuple(str(a.dtype) for a in group) for group in (inputs, outputs)]
    runner.call(kernel, (*dtypes, "float32"), operands, ints, rows)


def test_what_runs_along_a_row_is_told_by_its_kind_and_not_by_a_name():
    """A function of that name is a function like any other."""
    x = ir.Var("x", ir.f32)
    value = L.total(x - L.largest(x, over=ROW), over=ROW)
    assert isinstance(value, ir.Along) and value.op == "add"
    assert repr(value) == "total_along(x - largest_along(x))"
    assert value.rebuild((x,)).type == ir.f32
    assert L.position(over=ROW).type == ir.i64
    assert repr(L.element(x, L.position(over=ROW), over=ROW)) == (
        "element_along(x, position_along())"
    )
    assert not isinstance(ir.Call("total_along", ir.f32, x), ir.Along)


@rowwise
def sums_of_fourteen(a, b, c, d, e, f, g, h, i, j, k, m, n, o, dim):
    first = a + b + c + d + e + f + g
    return first - total(h + i + j + k + m + n + o, over=dim)


@pytest.mark.parametrize("shape", [(3, 5), (200, 400)])
def test_a_kernel_over_rows_takes_any_number_of_operands(shape):
    import rushlight as rl
    from rushlight.operators.normalization.rows import EACH, run_rows

    parts = [rl.tensor(numbers(shape, seed)).double() for seed in range(14)]
    found = rl.empty(shape, dtype=rl.float64)
    given = [(part, EACH) for part in parts]
    run_rows(sums_of_fourteen, [(found, EACH)], given, (*shape, 1), "float64")
    expected = sum(parts[:7]) - sum(parts[7:]).sum(1, keepdim=True)
    rl.testing.assert_close(found, expected)
