"""``triangular_solve`` with a matrix that is compressed by rows has PyTorch's numbers."""

import itertools

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated"),
    pytest.mark.filterwarnings("ignore:Sparse"),
]


def matrix(lib, dtype, n=5):
    """Most places full in both triangles."""
    grid = lib.arange(float(n * n)).view(n, n) % 7
    grid = grid + lib.eye(n) * 9
    return grid.to(getattr(lib, dtype))


@pytest.mark.parametrize("dtype", ("float32", "float64", "complex64", "complex128"))
def test_either_triangle_is_solved_as_it_is_transposed_and_with_ones(dtype):
    for upper, transpose, unit in itertools.product((True, False), repeat=3):
        found = []
        for lib in (rl, torch):
            A, B = (
                matrix(lib, dtype),
                lib.arange(15.0).view(5, 3).to(getattr(lib, dtype)),
            )
            if lib.is_complex(A):
                A, B = A * (1 + 0.5j), B * (2 - 1j)
            solution, copy = lib.triangular_solve(
                B, A.to_sparse_csr(), upper, transpose, unit
            )
            assert tuple(copy.shape) == (0,) and solution.stride() == (3, 1)
            found.append(solution.numpy())
        assert found[0] == pytest.approx(found[1], rel=2e-5)


def test_batches_are_solved_as_dense_triangles_are():
    A, B = matrix(rl, "float64"), rl.rand(2, 5, 3, dtype=rl.float64)
    both = rl.stack([A + 1, A + 2])
    for dense in (A, both):
        found = rl.triangular_solve(B, dense.to_sparse_csr())[0]
        assert rl.allclose(found, rl.triangular_solve(B, dense)[0])


def test_blocks_and_strides_of_right_hand_sides_are_taken():
    calls = (
        lambda lib, A: lib.triangular_solve(
            lib.arange(10.0).view(2, 5).t(), A.to_sparse_csr()
        ),
        lambda lib, A: lib.triangular_solve(
            lib.ones(4, 2), A[:4, :4].contiguous().to_sparse_bsr((2, 2))
        ),
        lambda lib, A: lib.triangular_solve(lib.ones(0, 2), A[:0, :0].to_sparse_csr()),
    )
    for call in calls:
        ours, theirs = (call(lib, matrix(lib, "float32"))[0] for lib in (rl, torch))
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-5)


def test_a_diagonal_that_is_not_there_gives_no_number():
    for lib in (rl, torch):
        A = lib.tensor([[2.0, 1.0], [0.0, 0.0]]).to_sparse_csr()
        assert lib.triangular_solve(lib.ones(2, 1), A)[0].isnan().all()


def test_gradients_of_right_hand_sides_are_those_of_the_dense_triangle():
    grads = []
    for sparse in (True, False):
        A, B = (
            matrix(rl, "float64"),
            rl.ones(5, 2, dtype=rl.float64, requires_grad=True),
        )
        solution = rl.triangular_solve(B, A.to_sparse_csr() if sparse else A)[0]
        (solution * rl.arange(10.0).view(5, 2)).sum().backward()
        grads.append(B.grad)
    assert rl.allclose(*grads)


WRONG = {
    "columns": lambda lib, A: lib.triangular_solve(lib.ones(5, 2), A.to_sparse_csc()),
    "integers": lambda lib, A: lib.triangular_solve(
        lib.ones(5, 2).long(), A.long().to_sparse_csr()
    ),
    "a vector": lambda lib, A: lib.triangular_solve(lib.ones(5), A.to_sparse_csr()),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_go_together_is_refused_in_the_same_words(name):
    words = []
    for lib in (rl, torch):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            WRONG[name](lib, matrix(lib, "float32"))
        words.append((caught.type, str(caught.value).splitlines()[0]))
    assert words[0] == words[1]
