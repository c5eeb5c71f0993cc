"""Matrices that are singular but for the rounding of their elements are solved.

A product that is rounded before it is subtracted cancels to a pivot of exactly zero in
some of them, and what PyTorch solves is refused.
"""

from fractions import Fraction

import pytest

import rushlight as rl

DTYPES = ["float32", "float64"]


def less_an_eigenvalue(torch, size, dtype, count=150):
    """A - e*I of symmetric matrices, for each of their eigenvalues e."""
    torch.manual_seed(size)
    drawn = torch.randn(count // size, size, size, dtype=getattr(torch, dtype))
    drawn = drawn + drawn.mT
    found = torch.linalg.eigvalsh(drawn)[..., None, None]
    eye = torch.eye(size, dtype=drawn.dtype)
    return (drawn[:, None] - found * eye).reshape(-1, size, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 3, 4, 7, 12, 13, 16, 17, 30])
def test_what_rounding_alone_keeps_regular_is_solved(size, dtype):
    torch = pytest.importorskip("torch")
    theirs = less_an_eigenvalue(torch, size, dtype, 3000)
    ours = rl.tensor(theirs.numpy())
    right = rl.ones(len(ours), size, 1, dtype=ours.dtype)
    beside = torch.ones(len(ours), size, 1, dtype=theirs.dtype)
    refused = int((torch.linalg.solve_ex(theirs, beside).info != 0).sum())
    assert int((rl.linalg.solve_ex(ours, right).info != 0).sum()) <= refused
    assert int((rl.linalg.inv_ex(ours).info != 0).sum()) <= refused
    assert int((rl.linalg.lu_factor_ex(ours).info != 0).sum()) <= refused


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_last_pivot_is_rounded_once(dtype):
    rl.manual_seed(0)
    drawn = rl.randn(2000, 2, 2, dtype=getattr(rl, dtype))
    drawn[:, 0, 0] += 10 * drawn[:, 0, 0].sign()  # no rows are exchanged
    drawn[:, 1, 1] = drawn[:, 1, 0] / drawn[:, 0, 0] * drawn[:, 0, 1]
    factors = rl.linalg.lu_factor(drawn)[0]
    below, right, last = drawn[:, 1, 1], factors[:, 0, 1], factors[:, 1, 1]
    numbers = zip(
        below.tolist(), factors[:, 1, 0].tolist(), right.tolist(), strict=True
    )
    exact = [float(Fraction(a) - Fraction(b) * Fraction(c)) for a, b, c in numbers]
    assert rl.equal(last, rl.tensor(exact, dtype=drawn.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 5, 16, 40])
def test_a_matrix_with_a_row_of_zeros_is_singular(size, dtype):
    drawn = rl.randn(3, size, size, dtype=getattr(rl, dtype))
    drawn[1, size // 2] = 0
    assert rl.linalg.lu_factor_ex(drawn).info.tolist() == [0, size, 0]
    with pytest.raises(RuntimeError, match="singular"):
        rl.linalg.solve(drawn, rl.ones(3, size, 1, dtype=drawn.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("size", [2, 5, 8])
def test_a_solution_of_small_triangles_is_the_product_undone(size, left, upper, dtype):
    rl.manual_seed(size)
    a = rl.randn(20, size, size, dtype=getattr(rl, dtype)) + size * rl.eye(size)
    a = a.triu() if upper else a.tril()
    b = rl.randn(20, size, size, dtype=a.dtype)
    x = rl.linalg.solve_triangular(a, b, upper=upper, left=left)
    wide, found = a.double(), x.double()
    back = wide @ found if left else found @ wide
    assert (back - b).abs().max() < 100 * rl.finfo(a.dtype).eps


@pytest.mark.filterwarnings("ignore")
def test_the_older_lu_gives_factors_of_singular_matrices():
    def outcome(m):
        a = m.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
        return [one.tolist() for one in (*m.lu(a), *m.lu(a, get_infos=True))]

    assert outcome(rl) == outcome(pytest.importorskip("torch"))
