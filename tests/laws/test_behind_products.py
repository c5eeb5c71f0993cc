"""What is traced behind a product or convolution is what would be computed after it."""

import functools
import itertools

import numpy as np
import pytest

import rushlight
from rushlight.codegen.language import erf, maximum
from rushlight.operators.matmul.matmul_epilogue import (
    EpilogueSpec,
    conv_with_epilogue,
    linear_with_epilogue,
    product_with_epilogue,
)
from tests.laws.test_block_edges import around, ours, values

torch = pytest.importorskip("torch", reason="the oracle is not installed")

HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64", *HALVES)
WHOLE = ("int64", "int32", "int16", "int8", "uint8")
RELU = EpilogueSpec(lambda x, y, z: maximum(x + y, 0) - z)
GELU = EpilogueSpec(lambda x: x * 0.5 * (1 + erf(x * 0.7071067811865476)))
PLAIN = EpilogueSpec(lambda x: x)


def assert_near(result, expected, what, dtype="float32"):
    found, wanted = result.double().numpy(), expected.double().numpy()
    assert found.shape == wanted.shape, what
    bound = {"float64": 1e-12, "float32": 1e-4}.get(dtype, 3e-2)
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound, err_msg=str(what))


@functools.cache
def drawn(*sizes, dtype="float32", seed=0):
    """A tensor of PyTorch's and ours; the same for the same sizes."""
    theirs = values(sizes, dtype, seed)
    return ours(theirs), theirs


EDGES = [
    *itertools.product((1, 2, 7), around(16, 64), (64,)),
    *itertools.product((1, 3, 13), (40, 600), around(384)),
    *itertools.product(around(6, 48), (1, 33), (8, 400)),
]


@pytest.mark.parametrize("sizes", EDGES, ids=str)
def test_operands_of_every_layout_are_found_at_every_edge(sizes):
    rows, columns, depth = sizes
    (a, a2), (b, b2) = drawn(rows, depth), drawn(depth, columns, seed=1)
    whole, one, line = (
        drawn(*shape, seed=2) for shape in ((rows, columns), (rows, 1), (columns,))
    )
    product = a2 @ b2
    for (y, y2), (z, z2) in ((line, whole), (one, whole), (whole, one)):
        expected = torch.relu(product + y2) - z2
        assert_near(product_with_epilogue(a, b, RELU, [y, z]), expected, sizes)
    turned = b.t().contiguous()
    (y, y2), (z, z2) = line, whole
    expected = torch.relu(product + y2) - z2
    assert_near(linear_with_epilogue(a, turned, RELU, [y, z]), expected, sizes)
    out = z.clone()
    product_with_epilogue(a, b, RELU, [y, out], out=out)
    assert_near(out, expected, sizes)


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE])
def test_results_of_every_dtype_are_rounded_as_the_product_rounds_them(dtype):
    for sizes in ((1, 5, 6), (7, 17, 64), (30, 1, 20), (4, 600, 10), (9, 65, 400)):
        rows, columns, depth = sizes
        (a, a2), (b, b2) = (
            drawn(*shape, dtype=dtype) for shape in ((rows, depth), (depth, columns))
        )
        expected = a2 @ b2
        assert_near(product_with_epilogue(a, b, PLAIN), expected, sizes, dtype)
        wide = product_with_epilogue(a, b, PLAIN, dtype=rushlight.float64)
        assert_near(wide, expected, sizes, dtype)
        if dtype in FLOATS:
            assert_near(
                product_with_epilogue(a, b, GELU),
                torch.nn.functional.gelu(expected),
                sizes,
                dtype,
            )


def test_batches_have_operands_of_their_own_or_share_them():
    (a, a2), (b, b2) = drawn(3, 7, 400), drawn(3, 400, 20)
    for sizes in ((3, 7, 20), (7, 20), (3, 1, 20), (3, 7, 1), (20,), ()):
        y, y2 = drawn(*sizes, seed=3)
        expected = torch.relu(a2 @ b2 + y2) - y2
        assert_near(product_with_epilogue(a, b, RELU, [y, y]), expected, sizes)


def test_sums_of_nothing_go_through_it_too():
    nothing = product_with_epilogue(
        rushlight.ones(2, 0), rushlight.ones(0, 3), RELU, [1, 3]
    )
    assert nothing.tolist() == [[-2.0] * 3] * 2


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape, kernel, stride, padding, groups",
    [
        ((2, 3, 9, 9), (8, 3, 3, 3), 1, 1, 1),
        ((1, 16, 30, 30), (32, 16, 3, 3), 2, 1, 1),
        ((5, 8, 7, 7), (20, 8, 1, 1), 1, 0, 1),
        ((2, 8, 12), (8, 4, 3), 1, 1, 2),
        ((3, 1, 20, 20), (6, 1, 5, 5), 1, 2, 1),
        ((1, 40, 14, 14), (200, 40, 3, 3), 1, 1, 1),
        ((1, 2, 5, 6, 7), (4, 2, 2, 2, 2), 1, 0, 1),
    ],
)
def test_convolutions_have_residuals_and_values_of_channels_behind(
    dtype, shape, kernel, stride, padding, groups
):
    (x, x2), (w, w2) = drawn(*shape, dtype=dtype), drawn(*kernel, dtype=dtype, seed=1)
    n = len(shape) - 2
    convolve = getattr(torch.nn.functional, f"conv{n}d")
    bias, bias2 = drawn(kernel[0], dtype=dtype, seed=2)
    result = convolve(x2, w2, bias2, stride, padding, 1, groups)
    y, y2 = drawn(*result.shape, dtype=dtype, seed=3)
    z, z2 = drawn(kernel[0], *[1] * n, dtype=dtype, seed=4)
    settings = stride, padding, 1, groups
    for one, other, expected in (
        (y, z, torch.relu(result + y2) - z2),
        (z, y, torch.relu(result + z2) - y2),
    ):
        found = conv_with_epilogue(x, w, RELU, [one, other], *settings, bias=bias)
        assert_near(found, expected, shape, dtype)


def test_what_has_no_products_is_refused():
    x = rushlight.ones(2, 2, dtype=rushlight.complex64)
    with pytest.raises(
        NotImplementedError, match="no product with operands of complex64"
    ):
        product_with_epilogue(x, x, PLAIN)
    with pytest.raises(NotImplementedError, match="no convolution"):
        conv_with_epilogue(rushlight.ones(1, 1, 2, 2), x[None, None], PLAIN, [x])
