"""Factorizations by the laws that they keep, beside PyTorch in layout and refusals."""

import re
import threading

import pytest

import rushlight as rl

linalg = rl.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [
    (4, 4),
    (5, 3),
    (20, 18),
    (3, 5),
    (2, 3, 6, 4),
    (1, 1),
    (2, 0, 3, 3),
    (0, 0),
    (3, 0),
]
REAL_AND_COMPLEX = ["float64", "complex128"]


@pytest.fixture(autouse=True)
def seed():
    rl.manual_seed(0)


def matrices(shape, dtype="float64"):
    return rl.randn(*shape, dtype=getattr(rl, dtype))


def positive(shape, dtype="float64"):
    A = matrices((*shape, shape[-1]), dtype)
    return A @ A.mH + shape[-1] * rl.eye(shape[-1], dtype=A.dtype)


def close(a, b):
    single = a.dtype in (rl.float32, rl.complex64)
    assert a.shape == b.shape
    assert rl.allclose(a, b.to(a.dtype), *([1e-3, 1e-4] if single else [1e-9, 1e-10]))


def identity(A):
    return rl.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)


# Laws


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_factors_multiply_to_the_matrix(dtype, upper):
    A = positive((2, 3, 5), dtype)
    L = linalg.cholesky(A, upper=upper)
    assert (rl.tril(L, -1) if upper else rl.triu(L, 1)).abs().max() == 0
    close(L.mH @ L if upper else L @ L.mH, A)
    close(rl.cholesky_inverse(L, upper) @ A, identity(A))
    B = matrices((5, 2), dtype)
    close(A @ rl.cholesky_solve(B, L, upper), B.expand(2, 3, 5, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_is_a_unitary_times_a_triangle(shape, dtype, mode):
    A = matrices(shape, dtype)
    Q, R = linalg.qr(A, mode)
    close(Q @ R, A)
    close(Q.mH @ Q, identity(Q.mH @ Q))
    assert (rl.tril(R, -1) == 0).all()
    close(linalg.qr(A, "r").R, linalg.qr(A).R)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 6, 4)])
def test_reflectors_are_applied_as_their_product_is(shape, dtype):
    A = matrices(shape, dtype)
    packed, tau = rl.geqrf(A)
    Q = linalg.qr(A, "complete").Q
    close(linalg.householder_product(packed, tau), linalg.qr(A).Q)
    C = matrices((*shape[:-2], shape[-2], 2), dtype)
    close(rl.ormqr(packed, tau, C), Q @ C)
    close(rl.ormqr(packed, tau, C, transpose=True), Q.mH @ C)
    close(rl.ormqr(packed, tau, C.mT, left=False), C.mT @ Q)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_svd_multiplies_to_the_matrix(shape, dtype, full):
    A = matrices(shape, dtype)
    U, S, Vh = linalg.svd(A, full_matrices=full)
    close(U.mH @ U, identity(U.mH @ U))
    close(Vh @ Vh.mH, identity(Vh @ Vh.mH))
    k = S.shape[-1]
    close((U[..., :k] * S.unsqueeze(-2)) @ Vh[..., :k, :], A)
    close(linalg.svdvals(A), S)
    assert (S[..., 1:] <= S[..., :-1]).all() and (S >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("UPLO", ["L", "U"])
def test_eigh_diagonalises_and_reads_one_triangle(dtype, UPLO):
    A = positive((3, 5), dtype)
    half = rl.tril(A) if UPLO == "L" else rl.triu(A)
    values, vectors = linalg.eigh(half, UPLO)
    close((vectors * values.unsqueeze(-2)) @ vectors.mH, A)
    close(linalg.eigvalsh(half, UPLO), values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig_gives_pairs_of_unit_length(dtype):
    A = matrices((3, 7, 7), dtype)
    values, vectors = linalg.eig(A)
    close(A.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2))
    close(linalg.vector_norm(vectors, dim=-2), rl.ones(3, 7, dtype=A.real.dtype))
    close(linalg.det(A).to(values.dtype), values.prod(-1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_is_a_permutation_times_two_triangles(shape, dtype):
    A = matrices(shape, dtype)
    P, L, U = linalg.lu(A)
    close(P @ L @ U, A)
    packed, pivots = linalg.lu_factor(A)
    for part, again in zip((P, L, U), rl.lu_unpack(packed, pivots)):
        close(part, again)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
def test_solutions_satisfy_their_equations(dtype, left):
    A = matrices((3, 4, 4), dtype)
    B = matrices((2, 1, 4, 4), dtype)

    def product(M, X):
        return M @ X if left else X @ M

    wanted = B.expand(2, 3, 4, 4)
    close(product(A, linalg.solve(A, B, left=left)), wanted)
    packed, pivots = linalg.lu_factor(A)
    for adjoint in (False, True):
        X = linalg.lu_solve(packed, pivots, B, left=left, adjoint=adjoint)
        close(product(A.mH if adjoint else A, X), wanted)
    for upper in (False, True):
        T = (rl.triu if upper else rl.tril)(A)
        for given in (T, T.mT.contiguous().mT):
            X = linalg.solve_triangular(given, B, upper=upper, left=left)
            close(product(T, X), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses_and_determinants_agree(dtype):
    A = matrices((3, 4, 4), dtype)
    close(linalg.inv(A) @ A, identity(A))
    close(linalg.det(linalg.inv(A)) * linalg.det(A), rl.ones(3, dtype=A.dtype))
    sign, size = linalg.slogdet(A)
    close(sign * rl.exp(size), linalg.det(A))
    close(linalg.matrix_power(A, -2), linalg.inv(A @ A))
    assert linalg.det(rl.zeros(0, 0)) == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl_factors_solve(dtype, hermitian):
    A = matrices((2, 5, 5), dtype)
    A = A + (A.mH if hermitian else A.mT)
    B = matrices((5, 3), dtype)
    LD, pivots = linalg.ldl_factor(A, hermitian=hermitian)
    X = linalg.ldl_solve(LD, pivots, B, hermitian=hermitian)
    close(A @ X, B.expand(2, 5, 3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_least_squares_leave_a_residual_at_right_angles(shape, driver, dtype):
    A, B = matrices(shape, dtype), matrices((*shape[:-1], 2), dtype)
    X = linalg.lstsq(A, B, driver=driver).solution
    close(A.mH @ (A @ X - B) + 1, rl.ones_like(A.mH @ B))
    close(X, linalg.pinv(A) @ B)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
def test_a_matrix_solved_for_many_right_sides_has_one_rank(driver):
    A, B = matrices((2, 1, 4, 3), "float64"), matrices((2, 5, 4, 2), "float64")
    found = linalg.lstsq(A, B, driver=driver)
    assert found.solution.shape == (2, 5, 3, 2)
    assert found.rank.tolist() == [[3], [3]]
    assert found.singular_values.shape == ((0,) if driver == "gelsy" else (2, 1, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pinv_keeps_the_laws_of_penrose(dtype):
    A = matrices((2, 5, 2), dtype) @ matrices((2, 2, 4), dtype)
    P = linalg.pinv(A)
    close(A @ P @ A, A)
    close(P @ A @ P, P)
    close((A @ P).mH, A @ P)
    assert (linalg.matrix_rank(A) == 2).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.3, 1.0, 40.0])
def test_exponentials_of_matrices_add_their_exponents(dtype, size):
    A = matrices((2, 4, 4), dtype)
    A = (A - A.mH) * size  # a rotation: nothing grows
    close(linalg.matrix_exp(A) @ linalg.matrix_exp(-A), identity(A))
    values, vectors = linalg.eig(A)
    close(
        linalg.matrix_exp(A).to(vectors.dtype) @ vectors,
        vectors * rl.exp(values).unsqueeze(-2),
    )


@pytest.mark.parametrize(
    "ord", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")]
)
def test_matrix_norms_are_numpys(ord):
    import numpy as np

    A = matrices((4, 3))
    for x in (A, A.mT):
        expected = np.linalg.norm(x.numpy(), ord)
        close(linalg.matrix_norm(x, ord), rl.tensor(expected))
        close(linalg.matrix_norm(x, ord, keepdim=True), rl.tensor([[expected]]))
    S = positive((4,))
    expected = np.linalg.norm(S.numpy(), ord) * np.linalg.norm(
        np.linalg.inv(S.numpy()), ord
    )
    if ord not in (2, -2):
        close(linalg.cond(S, ord), rl.tensor(expected))


def test_tensors_are_inverted_as_matrices():
    A = matrices((2, 3, 6))
    close(rl.tensordot(linalg.tensorinv(A, 2), A, 2 - 1 + 1), rl.eye(6).double())
    b = matrices((2, 3))
    close(rl.tensordot(A, linalg.tensorsolve(A, b), 1), b)


@pytest.mark.parametrize("rows, columns", [(30, 8), (8, 30)])
def test_low_rank_is_found_by_random_products(rows, columns):
    A = matrices((rows, 3)) @ matrices((3, columns))
    U, S, V = rl.svd_lowrank(A, q=5)
    close((U * S) @ V.mH, A)
    close(S[:3], linalg.svdvals(A)[:3])
    U, S, V = rl.pca_lowrank(A, q=4)
    close((U * S) @ V.mH, A - A.mean(0))


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_finds_the_outermost_pairs(largest):
    A = positive((40,))
    values, vectors = rl.lobpcg(A, k=3, largest=largest, tol=1e-9)
    expected = linalg.eigvalsh(A)
    close(values, expected.flip(0)[:3] if largest else expected[:3])
    assert (A @ vectors - vectors * values).abs().max() < 1e-5
    B = positive((40,))
    values, vectors = rl.lobpcg(A, k=2, B=B, largest=largest, tol=1e-9)
    assert (A @ vectors - B @ vectors * values).abs().max() < 1e-4


# Gradients


def hermitian(A):
    return (A + A.mH) / 2


FUNCTIONS = {
    "cholesky": lambda A: linalg.cholesky(A @ A.mH + 3 * identity(A)),
    "cholesky_solve": lambda A: rl.cholesky_solve(A, rl.tril(A) + 2 * identity(A)),
    "cholesky_inverse": lambda A: rl.cholesky_inverse(
        linalg.cholesky(A @ A.mH + 3 * identity(A))
    ),
    "qr": lambda A: tuple(linalg.qr(A)),
    "qr wide": lambda A: tuple(linalg.qr(A[..., :2, :])),
    "householder": lambda A: linalg.householder_product(A, A[..., 0, :] / 3),
    "ormqr": lambda A: rl.ormqr(A / 2, A[..., 0, :] / 3, A.mT, False, True),
    "svd values": linalg.svdvals,
    "svd": lambda A: tuple(
        x.abs() for x in linalg.svd(A[..., :2], full_matrices=False)
    ),
    "eigh": lambda A: (lambda w, v: (w, v.abs(), v @ (w.unsqueeze(-1) * v.mH) @ A))(
        *linalg.eigh(hermitian(A))
    ),
    "eig": lambda A: tuple(x.abs() for x in linalg.eig(A)),
    "lu": lambda A: tuple(linalg.lu(A))[1:],
    "lu wide": lambda A: tuple(linalg.lu(A[..., :2, :]))[1:],
    "lu tall": lambda A: tuple(linalg.lu(A[..., :2]))[1:],
    "lu_solve": lambda A: linalg.lu_solve(*linalg.lu_factor(A), A.mT, adjoint=True),
    "lu_solve right": lambda A: linalg.lu_solve(*linalg.lu_factor(A), A.mT, left=False),
    "solve": lambda A: linalg.solve(A, A.mT),
    "solve right": lambda A: linalg.solve(A, A.mT[..., :2, :], left=False),
    "solve vector": lambda A: linalg.solve(A, A[..., 0]),
    "triangle": lambda A: linalg.solve_triangular(A, A.mT, upper=True, left=False),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": lambda A: linalg.slogdet(A)[1],
    "pinv": lambda A: linalg.pinv(A[..., :2]),
    "lstsq": lambda A: linalg.lstsq(A[..., :2], A[..., 2:]).solution,
    "exp": linalg.matrix_exp,
    "nuclear": lambda A: linalg.matrix_norm(A, "nuc"),
    "spectral": lambda A: linalg.matrix_norm(A, 2),
}


def in_real_numbers(name, shape, dtype):
    """A function of real numbers with real results, and where to look at it."""
    A = matrices(shape, dtype) + 2 * rl.eye(3)
    if not A.is_complex():
        return FUNCTIONS[name], A.requires_grad_()

    def function(parts):
        results = FUNCTIONS[name](rl.view_as_complex(parts))
        results = results if isinstance(results, tuple) else (results,)
        return tuple(rl.view_as_real(x) if x.is_complex() else x for x in results)

    return function, rl.view_as_real(A).clone().requires_grad_()


@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_finite_differences(name, dtype):
    function, A = in_real_numbers(name, (2, 3, 3), dtype)
    assert rl.autograd.gradcheck(function, (A,))


@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_those_of_finite_differences(name, dtype):
    function, A = in_real_numbers(name, (3, 3), dtype)
    assert rl.autograd.gradgradcheck(function, (A,), atol=1e-4)


def test_lobpcg_has_the_derivative_of_the_dense_eigenvalues():
    A = positive((12,))
    grads = []
    for find in (lambda A: rl.lobpcg(A, k=2, tol=1e-12), lambda A: linalg.eigh(A)):
        x = A.clone().requires_grad_()
        values, vectors = find(x)
        if vectors.shape[-1] > 2:
            values, vectors = values.flip(0)[:2], vectors.flip(1)[:, :2]
        (values.sum() + (vectors[0] ** 2).sum()).backward()
        grads.append(hermitian(x.grad))
    assert (grads[0] - grads[1]).abs().max() < 1e-6


@pytest.mark.parametrize("A", [[[1.0, 0], [0, 0]], [[1.0, 2], [2, 4]]])
def test_determinants_of_singular_matrices_have_cofactors_as_gradient(A):
    x = rl.tensor(A, dtype=rl.float64, requires_grad=True)
    cofactors = rl.tensor([[A[1][1], -A[1][0]], [-A[0][1], A[0][0]]]).double()
    for again in (False, True):
        (grad,) = rl.autograd.grad(linalg.det(x), x, create_graph=again)
        assert (grad - cofactors).abs().max() < 1e-9


@pytest.mark.parametrize(
    "loss, message",
    [
        (lambda A: linalg.svd(A)[0].imag.sum(), "svd_backward: The singular vectors"),
        (lambda A: linalg.eigh(A)[1].imag.sum(), "linalg_eigh_backward: The eigenvec"),
        (lambda A: linalg.eig(A)[1].imag.sum(), "linalg_eig_backward: The eigenvec"),
        (lambda A: linalg.qr(A, "r")[1].abs().sum(), "The derivative of linalg.qr"),
        (
            lambda A: linalg.qr(A[:, :2], "complete")[0].abs().sum(),
            "The QR decomposition is not differentiable",
        ),
    ],
)
def test_losses_that_depend_on_what_is_free_are_refused(loss, message):
    A = matrices((3, 3), "complex128").requires_grad_()
    with pytest.raises(RuntimeError, match=re.escape(message)):
        loss(A).backward()


# Beside PyTorch

STRIDED = {
    "cholesky": lambda t, A: t.linalg.cholesky(A @ A.mH + 5 * t.eye(4).to(A.dtype)),
    "qr": lambda t, A: t.linalg.qr(A[..., :3]),
    "qr complete": lambda t, A: t.linalg.qr(A[..., :3], "complete"),
    "svd": lambda t, A: t.linalg.svd(A[..., :3]),
    "old svd": lambda t, A: t.svd(A[..., :3]),
    "eig": lambda t, A: t.linalg.eig(A),
    "eigh": lambda t, A: t.linalg.eigh(A),
    "lu": lambda t, A: t.linalg.lu(A[..., :3]),
    "lu_factor": lambda t, A: t.linalg.lu_factor(A[..., :3]),
    "inv": lambda t, A: t.linalg.inv(A),
    "pinv": lambda t, A: t.linalg.pinv(A[..., :3]),
    "solve": lambda t, A: t.linalg.solve(A, A[..., :2]),
    "solve right": lambda t, A: t.linalg.solve(A, A[..., :2, :], left=False),
    "solve vector": lambda t, A: t.linalg.solve(A, A[..., 0]),
    "triangle": lambda t, A: t.linalg.solve_triangular(A, A[..., :2], upper=True),
    "lstsq": lambda t, A: t.linalg.lstsq(A[..., :3], A, driver="gelsd"),
    "exp": lambda t, A: t.linalg.matrix_exp(A),
    "ldl": lambda t, A: t.linalg.ldl_factor(A),
    "tensorsolve": lambda t, A: t.linalg.tensorsolve(A, A[..., 0]),
}


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0,)])
@pytest.mark.parametrize("name", STRIDED)
def test_results_have_the_strides_of_pytorch(name, batch):
    torch = pytest.importorskip("torch")
    if name == "tensorsolve" and batch:
        batch = ()
    A = matrices((*batch, 4, 4))
    results = STRIDED[name](rl, A), STRIDED[name](torch, torch.from_numpy(A.numpy()))
    ours, theirs = ([r] if hasattr(r, "stride") else list(r) for r in results)
    for a, b in zip(ours, theirs, strict=True):
        assert (tuple(a.shape), a.stride()) == (tuple(b.shape), b.stride())
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]


SINGULAR = [[1.0, 2], [2, 4]]
REFUSED = {
    "not positive": lambda t: t.linalg.cholesky(-t.eye(3)),
    "not positive in a batch": lambda t: t.linalg.cholesky(
        t.stack([t.eye(3), -t.eye(3)])
    ),
    "checked": lambda t: t.linalg.cholesky_ex(-t.eye(3), check_errors=True),
    "singular inverse": lambda t: t.linalg.inv(t.tensor(SINGULAR)),
    "singular solve": lambda t: t.linalg.solve(t.tensor(SINGULAR), t.eye(2)),
    "singular tensorinv": lambda t: t.linalg.tensorinv(t.zeros(2, 2, 4)),
    "svd of NaN": lambda t: t.linalg.svd(t.full((2, 2), float("nan"))),
    "eig of NaN": lambda t: t.linalg.eig(t.full((2, 2), float("nan"))),
    "a vector": lambda t: t.linalg.inv(t.ones(3)),
    "not square": lambda t: t.linalg.det(t.ones(2, 3)),
    "integers": lambda t: t.linalg.svd(t.ones(2, 2, dtype=t.int64)),
    "half": lambda t: t.linalg.slogdet(t.ones(2, 2, dtype=t.float16)),
    "half lu": lambda t: t.linalg.lu_factor(t.ones(2, 2, dtype=t.float16)),
    "shapes": lambda t: t.linalg.solve(t.eye(3), t.ones(2, 2)),
    "dtypes": lambda t: t.linalg.solve(t.eye(3), t.eye(3).double()),
    "mode": lambda t: t.linalg.qr(t.eye(3), "no"),
    "UPLO": lambda t: t.linalg.eigh(t.eye(3), "X"),
    "driver": lambda t: t.linalg.svd(t.eye(3), driver="gesvd"),
    "norm": lambda t: t.linalg.matrix_norm(t.eye(3), 3),
    "cond": lambda t: t.linalg.cond(t.ones(2, 3), 1),
    "no pivots": lambda t: t.linalg.lu_factor(t.eye(3), pivot=False),
    "removed": lambda t: t.matrix_rank(t.eye(3)),
    "a vector among matrices": lambda t: t.linalg.multi_dot(
        [t.ones(2, 2), t.ones(2), t.ones(2, 2)]
    ),
    "pivots": lambda t: t.lu_unpack(t.eye(3), t.ones(3, dtype=t.int64)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:
        REFUSED[name](torch)
    with pytest.raises(Exception) as ours:
        REFUSED[name](rl)
    assert type(ours.value).__name__ == type(theirs.value).__name__
    first = str(theirs.value).splitlines()[0]
    assert str(ours.value).splitlines()[0].startswith(first[:60])


def test_failures_are_runtime_errors_of_their_own():
    assert issubclass(linalg.LinAlgError, RuntimeError)
    with pytest.raises(linalg.LinAlgError, match=r"Batch element 1.*order 2"):
        linalg.cholesky(rl.stack([rl.eye(2), rl.diag(rl.tensor([1.0, -1]))]))


def test_codes_say_which_matrices_failed():
    A = rl.stack([rl.eye(2), rl.zeros(2, 2), rl.eye(2)])
    assert linalg.inv_ex(A).info.tolist() == [0, 1, 0]
    assert linalg.cholesky_ex(A).info.tolist() == [0, 1, 0]
    assert linalg.lu_factor_ex(A).info.tolist() == [0, 1, 0]


def test_empty_matrices_have_no_rank():
    for hermitian in (False, True):
        assert linalg.matrix_rank(rl.zeros(2, 0, 3), hermitian=hermitian).tolist() == [
            0,
            0,
        ]


def test_norms_of_slices_keep_their_dimension():
    v = matrices((2, 3, 4))
    close(rl.norm_except_dim(v, 2, 1), linalg.vector_norm(v, 2, (0, 2), True))
    close(rl.norm_except_dim(v, 1, -1), v.abs().sum())


# Many at once


@pytest.mark.parametrize("count", [1, 3, 500])
def test_a_batch_is_its_matrices_one_by_one(count):
    A = positive((count, 6))
    whole = [
        linalg.inv(A),
        linalg.cholesky(A),
        linalg.eigvalsh(A),
        linalg.svdvals(A),
        linalg.qr(A).R,
        linalg.eigvals(A).real.sort().values,
    ]
    for at in {0, count // 2, count - 1}:
        one = [
            linalg.inv(A[at]),
            linalg.cholesky(A[at]),
            linalg.eigvalsh(A[at]),
            linalg.svdvals(A[at]),
            linalg.qr(A[at]).R,
            linalg.eigvals(A[at]).real.sort().values,
        ]
        for a, b in zip(whole, one):
            close(a[at], b)


def test_threads_may_factor_at_once():
    A = positive((4, 64))
    B = positive((200,))
    expected = linalg.inv(A), linalg.eigvalsh(B)
    failed = []

    def work():
        for _ in range(5):
            if not rl.allclose(linalg.inv(A), expected[0]):
                failed.append("inv")
            if not rl.allclose(linalg.eigvalsh(B), expected[1]):
                failed.append("eigvalsh")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_matrices_without_data_have_results_without_data():
    A = rl.ones(2, 5, 3, device="meta")
    assert linalg.svd(A).U.shape == (2, 5, 5)
    assert linalg.qr(A).R.stride() == (9, 1, 3)
    S = rl.ones(2, 3, 3, device="meta")
    assert linalg.solve(S, A.mT).shape == (2, 3, 5)
    assert linalg.det(S).shape == (2,)
    assert linalg.eigh(S).eigenvalues.shape == (2, 3)


def test_importing_does_not_load_lapack():
    import subprocess
    import sys

    program = (
        "import sys, rushlight as rl; rl.ones(2, 2) @ rl.ones(2, 2); "
        "assert 'rushlight.runtime.cpu.lapack' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_permutation_of_lu_wants_no_gradient():
    a = rl.eye(3, requires_grad=True)
    for parts in (rl.linalg.lu(a), rl.lu_unpack(*rl.linalg.lu_factor(a))):
        assert [t.requires_grad for t in parts] == [False, True, True]
