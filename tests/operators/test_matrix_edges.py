"""Matrices at the edges: none, singular, of odd types, and with pivots that lie."""

import pytest

import rushlight as rl
from tests.operators.outcomes import goes_as_on_pytorch

PIVOTS = [(1, 2, 4), (1, 2, 0), (-2, -1, -4), (1, 2, 2**31 - 1), (1, 2, -(2**31))]


@pytest.mark.parametrize("pivots", PIVOTS, ids=str)
@pytest.mark.parametrize("name", ["lu_solve", "ldl_solve"])
def test_pivots_outside_the_matrix_are_refused_in_pytorchs_words(name, pivots):
    torch = pytest.importorskip("torch")
    for module in (rl, torch):
        rows = module.tensor(pivots, dtype=module.int32)
        solve = getattr(module.linalg, name)
        with pytest.raises(RuntimeError, match=f"^Pivots given to {name} must"):
            solve(module.eye(3), rows, module.ones(3, 1))


@pytest.mark.parametrize("pivots", [(1, 2, -3), (-1, 2, 3), (1, -1, 2), (-1, -2, -3)])
def test_blocks_of_half_a_pivot_are_refused(pivots):
    """LAPACK would exchange rows outside of the matrix; PyTorch does not look."""
    with pytest.raises(RuntimeError, match="must be negative in pairs"):
        rl.linalg.ldl_solve(rl.eye(3), rl.tensor(pivots, dtype=rl.int32), rl.ones(3, 1))


def test_factors_of_two_by_two_blocks_solve():
    A = rl.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 3.0], [1.0, 3.0, 0.0]])
    LD, pivots = rl.linalg.ldl_factor(A)
    assert (pivots < 0).any().item()
    b = rl.tensor([[1.0], [2.0], [3.0]])
    assert rl.allclose(A @ rl.linalg.ldl_solve(LD, pivots, b), b, atol=1e-5)


FACTORS = """eigh eigvalsh lu_factor_ex lu_factor lu inv_ex inv cholesky cholesky_ex qr svd
svdvals det slogdet eig eigvals ldl_factor ldl_factor_ex pinv matrix_rank""".split()


@pytest.mark.parametrize("sizes", [(2, 0, 0), (0, 3, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "int32", "bool", "float32"])
@pytest.mark.parametrize("name", FACTORS)
def test_matrices_without_elements_go_as_on_pytorch(name, dtype, sizes):
    goes_as_on_pytorch(
        lambda m: getattr(m.linalg, name)(m.zeros(sizes, dtype=getattr(m, dtype)))
    )


@pytest.mark.parametrize("name", ["solve", "solve_ex", "lu_solve", "solve_triangular"])
def test_equations_without_elements_go_as_on_pytorch(name):
    def call(m):
        A, b = m.zeros(0, 3, 3, dtype=m.float16), m.zeros(0, 3, 2, dtype=m.float16)
        if name == "lu_solve":
            return m.linalg.lu_solve(A, m.zeros(0, 3, dtype=m.int32), b)
        return getattr(m.linalg, name)(A, b, **{"upper": True} if "tri" in name else {})

    goes_as_on_pytorch(call)


NAMED = {
    "linalg.eigh": lambda m: m.linalg.eigh(m.eye(2)),
    "linalg.lu": lambda m: m.linalg.lu(m.eye(2)),
    "qr": lambda m: m.qr(m.eye(2)),
    "svd": lambda m: m.svd(m.eye(2)),
    "slogdet": lambda m: m.slogdet(m.eye(2)),
    "linalg.solve_ex": lambda m: m.linalg.solve_ex(m.eye(2), m.ones(2)),
    "linalg.inv_ex": lambda m: m.linalg.inv_ex(m.eye(2)),
    "linalg.lu_factor": lambda m: m.linalg.lu_factor(m.eye(2)),
}


@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED)
def test_results_carry_the_name_of_what_was_called(call):
    goes_as_on_pytorch(call)


BATCHES = [
    ((3, 2, 3), (2, 3)), ((3, 3, 2), (3, 3)), ((3, 3, 3), (3, 3)), ((1, 3, 3), (3, 3)),
    ((4, 3, 3), (3, 2)), ((2, 4, 3, 3), (4, 3, 2)), ((2, 3, 3), (1, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize(("left", "right"), BATCHES, ids=str)
def test_batches_of_least_squares_go_as_on_pytorch(left, right, driver):
    def solution(m):
        m.manual_seed(0)
        return m.linalg.lstsq(m.rand(left), m.rand(right), driver=driver).solution

    goes_as_on_pytorch(solution)


ODD = {
    "lstsq of halves": lambda m: m.linalg.lstsq(*[m.ones(2, 2).half()] * 2),
    "lstsq of halves, cut": lambda m: m.linalg.lstsq(
        *[m.ones(2, 2).half()] * 2, rcond=0.1
    ),
    "pinv, atol": lambda m: m.linalg.pinv(m.eye(2), atol=m.ones(2).requires_grad_()),
    "pinv, rcond": lambda m: m.linalg.pinv(m.eye(2), m.ones(()).requires_grad_()),
    "vander of halves": lambda m: m.linalg.vander(m.ones(3).half()),
    "vecdot of two lengths": lambda m: m.linalg.vecdot(m.ones(1), m.ones(3)),
    "vecdot along anything": lambda m: m.linalg.vecdot(m.ones(3), m.ones(3), dim=7),
    "reflectors of a number": lambda m: m.linalg.householder_product(
        m.ones(3, 2), m.ones(())
    ),
    "ormqr of a number": lambda m: m.ormqr(m.ones(3, 2), m.ones(()), m.ones(3, 3)),
    "geqrf, complex": lambda m: m.geqrf(m.eye(2, dtype=m.complex64).requires_grad_()),
    "geqrf": lambda m: m.geqrf(m.eye(2).requires_grad_()),
    "cholesky of nothing": lambda m: m.cholesky(m.zeros(0)),
    "cholesky of a vector": lambda m: m.cholesky(m.zeros(3)),
    "unpacked nothing": lambda m: m.lu_unpack(
        m.zeros(0, 4), m.zeros(7, 3, dtype=m.int32)
    ),
    "power of minus one": lambda m: m.linalg.matrix_power(
        m.rand(2, 3, 3) + m.eye(3), -1
    ),
    "power of one": lambda m: m.linalg.matrix_power(m.rand(2, 3, 3).mT, 1),
    "triangle of another type": lambda m: m.linalg.solve_triangular(
        m.eye(2, dtype=m.complex64), m.ones(2, 1).double(), upper=True
    ),
    "triangle of halves": lambda m: m.linalg.solve_triangular(
        m.eye(2).half(), m.ones(2, 1), upper=True
    ),
    "rank of no halves": lambda m: m.linalg.matrix_rank(m.zeros(0, 5).half()),
    "rank of halves": lambda m: m.linalg.matrix_rank(m.eye(3).half(), rtol=0.1),
    "lu_factor of zeros": lambda m: m.linalg.lu_factor(m.zeros(2, 2)),
    "power of zero": lambda m: m.linalg.matrix_power(m.rand(2, 3, 3).mT, 0),
    "mvlgamma": lambda m: m.mvlgamma(m.tensor([5], dtype=m.uint32), 2),
}


@pytest.mark.parametrize("call", ODD.values(), ids=ODD)
def test_odd_arguments_go_as_on_pytorch(call):
    goes_as_on_pytorch(call)


@pytest.mark.parametrize("dtype", ["uint64", "uint16", "bool", "float8_e4m3fn"])
@pytest.mark.parametrize("name", ["mm", "bmm", "matmul"])
def test_products_without_elements_are_of_any_type(name, dtype):
    lead = [2] if name == "bmm" else []

    def call(m):
        kind = getattr(m, dtype)
        left, right = m.empty(*lead, 2, 0, dtype=kind), m.empty(*lead, 0, 3, dtype=kind)
        return getattr(m, name)(left, right)

    goes_as_on_pytorch(call)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("columns", [3, 5])
def test_gradients_of_wide_qr_need_not_the_last_row_of_r(columns, dtype):
    """Of a matrix of rank one, but for rounding, it is about zero."""
    torch = pytest.importorskip("torch")
    grads = []
    for m in (rl, torch):
        noise = m.arange(2.0 * columns, dtype=m.float64).reshape(2, columns).sin()
        x = (m.tensor([[1.0], [2.0]]) + 1e-13 * noise).to(getattr(m, dtype))
        x.requires_grad_()
        Q, R = m.linalg.qr(x)
        (Q * noise[:, :2]).sum().abs().backward(retain_graph=True)
        (R * noise.cos()).sum().abs().backward()
        grads.append(x.grad.resolve_conj().numpy())
    assert abs(grads[0] - grads[1]).max() < 1e-9


@pytest.mark.parametrize("limit", [float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("sizes", [(3, 5), (2, 4, 4)], ids=str)
def test_infinite_matrices_end_in_nan_and_leave_the_others(sizes, dtype, limit):
    """LAPACK's divide and conquer may never end for them."""
    x = rl.arange(32.0)[: 15 if len(sizes) == 2 else 32].reshape(sizes).sin()
    x = x.to(getattr(rl, dtype))
    first = x if x.ndim == 2 else x[0]
    first[0, 1], first[2, 0] = limit, -limit
    parts = [rl.linalg.svdvals(x), *rl.linalg.svd(x)]
    if sizes[-1] == sizes[-2]:
        parts += [rl.linalg.eigvalsh(x), *rl.linalg.eigh(x)]
    for part in parts:
        assert rl.isnan(part if x.ndim == 2 else part[0]).all().item()
        assert x.ndim == 2 or rl.isfinite(part[1]).all().item()
    for driver in ("gelsd", "gelss"):
        with pytest.raises(rl.linalg.LinAlgError, match="full rank"):
            rl.linalg.lstsq(x, rl.ones_like(x), driver=driver)


@pytest.mark.parametrize("driver", ["", "GELS"])
def test_only_lapacks_names_are_drivers(driver):
    with pytest.raises(RuntimeError, match="should be one of .gels, gelsy"):
        rl.linalg.lstsq(rl.ones(2, 2), rl.ones(2, 1), driver=driver)


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_infinities_in_the_triangle_that_is_not_read_change_nothing(triangle):
    x = rl.arange(9.0).reshape(3, 3).sin()
    wanted = rl.linalg.eigvalsh(x, UPLO=triangle)
    row, column = (0, 2) if triangle == "L" else (2, 0)
    x[row, column] = float("inf")
    assert rl.equal(rl.linalg.eigvalsh(x, UPLO=triangle), wanted)


def test_slopes_of_xlog1py_beyond_its_pole_are_nan():
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        for number in (-0.5, -1, -1.5, -(2**63), float("nan"), float("inf")):
            for name in ("xlog1py", "xlogy"):
                x = m.tensor([-8.5, 0.0, 6.0]).requires_grad_()
                getattr(m.special, name)(x, number).sum().backward()
                found.append([round(v, 5) for v in x.grad.tolist()])
    assert str(found[:12]) == str(found[12:])


def test_products_of_one_element_pass_their_gradient_on():
    x = rl.tensor([[float("inf"), 0.0]], requires_grad=True)
    x.cumprod(0).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0]]
