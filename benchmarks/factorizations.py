"""Linear algebra: many small matrices, one of the size of a cache, a large one."""

from benchmarks.harness import Case, Group, tensors

SHAPES = {
    "10,000 of 4 x 4": (10000, 4, 4),
    "64 x 64": (64, 64),
    "512 x 512": (512, 512),
}
CALLS = {
    "solve": lambda linalg, A, S: linalg.solve(A, S),
    "inv": lambda linalg, A, S: linalg.inv(A),
    "cholesky": lambda linalg, A, S: linalg.cholesky(S),
    "qr": lambda linalg, A, S: linalg.qr(A),
    "svd": lambda linalg, A, S: linalg.svd(A),
    "eigh": lambda linalg, A, S: linalg.eigh(S),
    "det": lambda linalg, A, S: linalg.det(A),
}


def factorization(name, shape):
    """A call with a random matrix and a positive-definite one."""

    def make(library):
        (A,) = tensors(library, shape)
        A = A - 0.5
        S = A @ A.mT + library.eye(shape[-1])
        return lambda: CALLS[name](library.linalg, A, S)

    return make


def groups(quick):
    """The table's rows for linear algebra."""
    shapes = list(SHAPES.items())[: 2 if quick else 3]
    cases = [
        Case(f"{name}, {title}", factorization(name, shape))
        for title, shape in shapes
        for name in CALLS
    ]
    return [Group("linear algebra: solutions and factorizations", 1.00, cases)]
