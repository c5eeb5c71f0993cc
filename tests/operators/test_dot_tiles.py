"""Products of few rows as tiles of dot products, run natively and by the reference."""

import numpy as np
import pytest
import torch

import rushlight
from rushlight.ir import expr as ir
from rushlight.kernels.epilogue import Epilogue
from rushlight.kernels.matmul import dot_tiles
from rushlight.kernels.matmul.matmul_kernel_registry import ready
from tests.operators.test_contraction import product_ints, run_native, run_reference


def drawn(*sizes, seed=0):
    rng = np.random.default_rng([seed, *sizes])
    return rng.standard_normal(sizes).astype(np.float32)


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("behind", [False, True])
def test_tiles_of_dot_products_are_the_product_with_what_is_behind_it(run, behind):
    after = Epilogue(lambda x, bias: x * 2.0 + bias, (("float32", True),), "float32")
    kinds = ir.f32, ir.f32, ir.f32, 4, after if behind else None
    function = ready(dot_tiles.dot_tiles("dots_4", *kinds), kinds[-1])
    for rows, depth, columns in (1, 8, 3), (5, 13, 10), (7, 4, 7), (11, 3, 20):
        a, w, bias = drawn(rows, depth), drawn(columns, depth), drawn(columns)
        out = np.full((rows, columns), np.nan, np.float32)
        added = None if behind else np.broadcast_to(bias, out.shape)
        ints = product_ints(a, w.T, out, added, rows, 7, 0)
        data = [out, a, w, out if behind else bias, out]
        if behind:
            ints, data = (*ints, 0, 0), [*data, bias]
        run(function, data, ints, -(-columns // 7))
        expected = a @ w.T * (2 if behind else 1) + bias
        np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "bfloat16", "float16", "int64"]
)
def test_linear_layers_of_few_rows_agree_with_pytorch(dtype):
    kind, exact = getattr(torch, dtype), torch.float64
    tolerance = {"float32": 2e-6, "float64": 1e-14, "int64": 0}.get(dtype, 1e-2)
    for rows in (2, 3, 5, 8, 17, 24, 25):
        for depth, columns in (5, 9), (65, 7), (130, 100), (301, 40):
            a, w = drawn(rows, depth) * 3, drawn(columns, depth) * 3
            b = drawn(columns)
            theirs = [torch.tensor(t).to(kind) for t in (a, w, b)]
            numbers = [rushlight.tensor(t) for t in (a, w, b)]
            ours = [t.to(getattr(rushlight, dtype)) for t in numbers]
            found = rushlight.nn.functional.linear(*ours).double().numpy()
            x, weight, bias = (t.to(exact) for t in theirs)
            expected = torch.nn.functional.linear(x, weight, bias).numpy()
            error = np.abs(found - expected).max()
            assert error <= tolerance * np.abs(expected).max(), (rows, depth, columns)


def test_rows_of_a_batch_and_of_a_larger_matrix_are_read_where_they_lie():
    a, w = drawn(3, 6, 200), drawn(3, 40, 200)
    for first, second in (
        (slice(None), slice(0, 128)),
        (slice(1, 5), slice(7, 100)),
        (slice(None, None, 2), slice(100, 200)),
    ):
        left, right = a[:, first, second], w[:, ::3, second]
        ours = rushlight.tensor(a)[:, first, second]
        other = rushlight.tensor(w)[:, ::3, second]
        found = rushlight.bmm(ours, other.transpose(1, 2)).numpy()
        np.testing.assert_allclose(found, left @ right.swapaxes(1, 2), atol=1e-4)


def test_columns_have_the_same_bits_on_any_number_of_threads_and_in_any_company():
    a, w = rushlight.tensor(drawn(9, 300)), rushlight.tensor(drawn(700, 300))
    before, found = rushlight.get_num_threads(), []
    for threads in (1, 2, 3):
        rushlight.set_num_threads(threads)
        found.append(rushlight.nn.functional.linear(a, w))
    rushlight.set_num_threads(before)
    assert all(rushlight.equal(one, found[0]) for one in found)
    part = rushlight.nn.functional.linear(a, w[100:231])
    assert rushlight.equal(part, found[0][:, 100:231])
