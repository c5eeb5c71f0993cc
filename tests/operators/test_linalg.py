"""Matrix products: values against NumPy, gradients, shapes, dtypes and errors."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.operators import call

SHAPES = [
    (1, 1, 1),
    (3, 4, 5),
    (7, 70, 33),
    (65, 130, 400),
    (5, 300, 1),
    (1, 17, 900),
    (11, 1, 90),
    (200, 330, 70),
]
DTYPES = ["float32", "float64", "int64", "int32", "int8", "uint8"]


def random(rng, shape, dtype="float32"):
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if dtype == "uint8" else -9, 9, shape).astype(dtype)


def assert_product(result, a, b, dtype):
    expected = np.matmul(a, b)
    assert result.dtype is getattr(rl, dtype)
    assert tuple(result.shape) == expected.shape
    if dtype.startswith("float"):
        scale = max(1.0, np.abs(expected).max()) * (
            1e-5 if dtype == "float32" else 1e-12
        )
        np.testing.assert_allclose(result.numpy(), expected, atol=scale)
    else:
        assert (result.numpy() == expected).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_mm_reads_operands_of_any_strides(shape, dtype):
    rng = np.random.default_rng(0)
    m, n, k = shape
    a, b = random(rng, (m, k), dtype), random(rng, (k, n), dtype)
    for left in (
        rl.from_numpy(a),
        rl.from_numpy(a.T.copy()).t(),
        rl.from_numpy(np.repeat(a, 2, 1))[:, ::2],
    ):
        for right in (
            rl.from_numpy(b),
            rl.from_numpy(b.T.copy()).t(),
            rl.from_numpy(np.repeat(b, 2, 1))[:, ::2],
        ):
            assert_product(rl.mm(left, right), a, b, dtype)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("depth", [600, 601, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_sums_in_float32(dtype, depth, turned):
    rng = np.random.default_rng(1)
    kind = getattr(rl, dtype)
    a = rl.from_numpy(random(rng, (20, depth))).to(kind)
    b = rl.from_numpy(random(rng, (depth, 30))).to(kind)
    b = b.t().contiguous().t() if turned else b
    exact = rl.mm(a.to(rl.float32), b.to(rl.float32)).numpy()
    result = rl.mm(a, b)
    assert result.dtype is kind
    step = 2**-8 if dtype == "bfloat16" else 2**-11
    np.testing.assert_allclose(
        result.to(rl.float32).numpy(), exact, rtol=1.01 * step, atol=1e-3
    )


def test_results_are_the_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(2)
    a, b = (rl.from_numpy(random(rng, (300, 300))) for _ in range(2))
    before = rl.get_num_threads()
    try:
        rl.set_num_threads(1)
        alone = rl.mm(a, b)
        rl.set_num_threads(2)
        assert (rl.mm(a, b) == alone).all()
    finally:
        rl.set_num_threads(before)


def test_an_empty_depth_gives_zeros():
    assert (rl.mm(rl.ones(3, 0), rl.ones(0, 4)) == 0).all()
    assert tuple(rl.mm(rl.ones(0, 3), rl.ones(3, 4)).shape) == (0, 4)
    assert rl.dot(rl.ones(0), rl.ones(0)).item() == 0
    total = rl.addmm(rl.ones(4), rl.ones(3, 0), rl.ones(0, 4), beta=2)
    assert (total == 2).all()


def test_bmm_takes_batches_with_any_strides():
    rng = np.random.default_rng(3)
    a, b = random(rng, (5, 9, 20)), random(rng, (5, 20, 33))
    expected = a @ b
    for left, right in (
        (rl.from_numpy(a), rl.from_numpy(b)),
        (
            rl.from_numpy(a.transpose(1, 0, 2).copy()).transpose(0, 1),
            rl.from_numpy(b.transpose(0, 2, 1).copy()).transpose(1, 2),
        ),
    ):
        np.testing.assert_allclose(rl.bmm(left, right).numpy(), expected, atol=1e-4)
    shared = rl.from_numpy(b[:1]).expand(5, 20, 33)
    np.testing.assert_allclose(
        rl.bmm(rl.from_numpy(a), shared).numpy(), a @ b[:1], atol=1e-4
    )


@pytest.mark.parametrize("addend", [(), (1,), (40,), (9, 1), (1, 40), (9, 40)])
def test_addmm_expands_its_addend(addend):
    rng = np.random.default_rng(4)
    a, b, c = random(rng, (9, 30)), random(rng, (30, 40)), random(rng, addend)
    result = rl.addmm(*map(rl.from_numpy, (np.asarray(c), a, b)), beta=0.5, alpha=2)
    np.testing.assert_allclose(result.numpy(), 0.5 * c + 2 * (a @ b), atol=1e-4)


def test_addmm_with_beta_zero_does_not_see_its_addend():
    nan = rl.full((2, 2), float("nan"))
    assert (rl.addmm(nan, rl.ones(2, 3), rl.ones(3, 2), beta=0) == 3).all()


def test_addmm_adds_to_one_column():
    result = rl.addmm(rl.ones(5, 1), rl.ones(5, 3), rl.ones(3, 1))
    assert (result == 4).all()


def test_baddbmm_and_addbmm_add_to_batches():
    rng = np.random.default_rng(5)
    a, b, c = (random(rng, s) for s in ((3, 4, 5), (3, 5, 6), (4, 6)))
    x, y, z = map(rl.from_numpy, (a, b, c))
    np.testing.assert_allclose(
        rl.baddbmm(z, x, y, beta=2).numpy(), 2 * c + a @ b, atol=1e-5
    )
    np.testing.assert_allclose(
        rl.addbmm(z, x, y, alpha=3).numpy(), c + 3 * (a @ b).sum(0), atol=1e-5
    )


@pytest.mark.parametrize(
    "left, right",
    [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((0, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
    ],
)
def test_matmul_broadcasts_as_numpy_does(left, right):
    rng = np.random.default_rng(6)
    a, b = random(rng, left), random(rng, right)
    result = rl.from_numpy(a) @ rl.from_numpy(b)
    assert tuple(result.shape) == np.matmul(a, b).shape
    np.testing.assert_allclose(result.numpy(), np.matmul(a, b), atol=1e-5)


@pytest.mark.parametrize("lead", [(), (6,), (2, 3), (70, 5)])
@pytest.mark.parametrize("biased", [True, False])
def test_linear_multiplies_the_last_dimension(lead, biased):
    rng = np.random.default_rng(7)
    x, w, c = random(rng, (*lead, 33)), random(rng, (17, 33)), random(rng, (17,))
    bias = rl.from_numpy(c) if biased else None
    result = rl.nn.functional.linear(rl.from_numpy(x), rl.from_numpy(w), bias)
    expected = x @ w.T + (c if biased else 0)
    assert result.is_contiguous()
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-4)


def test_gradients_of_products_match_the_oracle():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    rng = np.random.default_rng(8)
    cases = [
        (lambda t, *x: t.mm(*x), [(4, 5), (5, 6)]),
        (lambda t, *x: t.bmm(*x), [(3, 4, 5), (3, 5, 6)]),
        (lambda t, *x: t.addmm(*x, beta=0.5, alpha=2), [(6,), (4, 5), (5, 6)]),
        (lambda t, *x: t.matmul(*x), [(2, 3, 4), (4, 5)]),
        (lambda t, *x: t.mv(*x), [(4, 5), (5,)]),
        (lambda t, *x: t.dot(*x), [(7,), (7,)]),
        (lambda t, *x: t.nn.functional.linear(*x), [(2, 3, 4), (5, 4), (5,)]),
    ]
    for function, shapes in cases:
        arrays = [random(rng, s, "float64") for s in shapes]
        grads = []
        for t in (rl, torch):
            operands = [t.from_numpy(a.copy()).requires_grad_() for a in arrays]
            function(t, *operands).sin().sum().backward()
            grads.append([x.grad.numpy() for x in operands])
        for ours, theirs in zip(*grads):
            np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_tensordot_and_chains_match_numpy():
    rng = np.random.default_rng(9)
    a, b = random(rng, (3, 4, 5)), random(rng, (5, 4, 2))
    result = call.tensordot(rl.from_numpy(a), rl.from_numpy(b), [1, 2], [1, 0])
    np.testing.assert_allclose(
        result.numpy(), np.tensordot(a, b, ([1, 2], [1, 0])), atol=1e-4
    )
    chain = [random(rng, s) for s in ((3, 40), (40, 5), (5, 30), (30, 2))]
    result = rl.chain_matmul(list(map(rl.from_numpy, chain)))
    np.testing.assert_allclose(
        result.numpy(), np.linalg.multi_dot(chain), rtol=1e-3, atol=1e-3
    )


def test_meta_tensors_have_products_of_the_right_shape():
    a, b = rl.empty(3, 4, device="meta"), rl.empty(4, 5, device="meta")
    result = rl.mm(a, b)
    assert tuple(result.shape) == (3, 5) and result.is_meta


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda: rl.mm(rl.ones(3, 4), rl.ones(5, 6)),
            r"mm: mat1 and mat2 shapes cannot be multiplied \(3x4 and 5x6\): mat1 "
            r"has 4 columns but mat2 has 5 rows\n  mat1: float32\[3, 4\] on cpu\n"
            r"  mat2: float32\[5, 6\] on cpu",
        ),
        (lambda: rl.mm(rl.ones(3), rl.ones(3, 6)), "self must be a matrix"),
        (
            lambda: rl.mm(rl.ones(3, 4), rl.ones(4, 6).double()),
            "expected m1 and m2 to have the same dtype, but got: float != double",
        ),
        (lambda: rl.bmm(rl.ones(3, 4), rl.ones(4, 6)), "batch1 must be a 3D tensor"),
        (
            lambda: rl.bmm(rl.ones(3, 4, 5), rl.ones(3, 4, 5)),
            r"Expected size for first two dimensions of batch2 tensor to be: \[3, 5\] "
            r"but got: \[3, 4\]",
        ),
        (lambda: rl.dot(rl.ones(3), rl.ones(4)), "inconsistent tensor size"),
        (
            lambda: rl.dot(rl.ones(3, 1), rl.ones(4)),
            "1D tensors expected, but got 2D and 1D",
        ),
        (
            lambda: rl.mv(rl.ones(3, 4), rl.ones(3)),
            r"size mismatch, got input \(3\), mat \(3x4\), vec \(3\)",
        ),
        (
            lambda: rl.matmul(rl.tensor(1.0), rl.ones(3)),
            "both arguments to matmul need to be at least 1D, but they are 0D and 1D",
        ),
        (
            lambda: rl.nn.functional.linear(rl.ones(2, 3), rl.ones(4, 5)),
            r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 5x4\)",
        ),
    ],
)
def test_operands_that_do_not_fit_are_named(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_products_of_booleans_are_refused():
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        rl.mm(rl.ones(2, 2, dtype=rl.bool), rl.ones(2, 2, dtype=rl.bool))
