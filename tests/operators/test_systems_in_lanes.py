"""Many tiny systems at once are factored and solved as each of them is alone, to the bit."""

import math

import pytest

import rushlight as rl

DTYPES = rl.float32, rl.float64


def odd_matrices(n, dtype):
    """Plain ones, and singular, infinite, subnormal and huge ones among them."""
    rl.manual_seed(n)
    A = rl.rand(45, n, n, dtype=dtype) - 0.5
    tiny = rl.finfo(dtype).tiny
    A[3] = 0
    A[4, :, 0] = 0
    A[5, 1] = A[5, 0]
    A[6] = math.nan
    A[7, 0, 0] = math.inf
    A[8] *= tiny / 8
    A[9] = rl.arange(n * n).reshape(n, n)
    A[10, 1, 1] = math.nan
    A[11] = rl.eye(n) * (tiny / 4)
    A[12] *= rl.finfo(dtype).max
    A[13] = -rl.eye(n).flip(0)
    A[14, 0] = 0
    return A


def bits(x):
    return x.contiguous().view(rl.int32 if x.dtype == rl.float32 else rl.int64)


def alike(found, wanted):
    """Equal bits, but for the payloads of NaN."""
    return (bits(found) == bits(wanted)) | (found.isnan() & wanted.isnan())


@pytest.mark.parametrize("count", [4, 7, 45])
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_factors_and_pivots_are_those_of_one_matrix_alone(dtype, n, count):
    A = odd_matrices(n, dtype)[:count]
    LU, pivots, codes = rl.linalg.lu_factor_ex(A)
    for k in range(count):
        alone, places, code = rl.linalg.lu_factor_ex(A[k])
        assert alike(LU[k], alone).all(), k
        assert pivots[k].equal(places) and codes[k].equal(code), k
    assert codes[3] == 1 and (count < 5 or codes[4] == 1)


@pytest.mark.parametrize("columns", [1, 3, 5])
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_solutions_are_those_of_one_system_alone(dtype, n, columns):
    LU, pivots, _ = rl.linalg.lu_factor_ex(odd_matrices(n, dtype))
    B = rl.rand(45, n, columns, dtype=dtype) - 0.5
    for adjoint in False, True:
        found = rl.linalg.lu_solve(LU, pivots, B, adjoint=adjoint)
        for k in range(45):
            alone = rl.linalg.lu_solve(LU[k], pivots[k], B[k], adjoint=adjoint)
            assert alike(found[k], alone).all(), (k, adjoint)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_threads_share_them_without_a_trace(n):
    A = rl.rand(3001, n, n) - 0.5
    before = rl.get_num_threads()
    results = []
    try:
        for threads in 1, 2:
            rl.set_num_threads(threads)
            results.append((rl.linalg.inv(A), rl.linalg.det(A)))
    finally:
        rl.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert one.equal(two)
