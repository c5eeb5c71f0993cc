"""Names of older programs that are no more: each says what to call in its place."""

from rushlight.core.docstrings import describe_arguments
from rushlight.core.tensor import install

_GONE = "This function was deprecated since version 1.9 and is now removed."


def solve(input, A, *, out=None):
    """Gone: ``linalg.solve(A, input)``."""
    raise RuntimeError(
        f"{_GONE} `torch.solve` is deprecated in favor of `torch.linalg.solve`, whose "
        "arguments are the other way round and which returns no LU factors.\n"
        "X = torch.solve(B, A).solution should be replaced with:\n"
        "X = torch.linalg.solve(A, B)"
    )


def lstsq(input, A, *, out=None):
    """Gone: ``linalg.lstsq(A, input)``."""
    raise RuntimeError(
        f"{_GONE} `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, whose "
        "arguments are the other way round and which returns no QR factors.\n"
        "X, _ = torch.lstsq(B, A).solution[:A.size(1)] should be replaced with:\n"
        "X = torch.linalg.lstsq(A, B).solution"
    )


def matrix_rank(input, tol=None, symmetric=False, *, out=None):
    """Gone: ``linalg.matrix_rank``.

    Args:
        tol: what counts as zero.
        symmetric: whether the matrix is.
    """
    raise RuntimeError(
        f"{_GONE}\nPlease use the `torch.linalg.matrix_rank` function instead. The "
        "parameter 'symmetric' was renamed in `torch.linalg.matrix_rank()` to "
        "'hermitian'."
    )


def eig(self, eigenvectors=False, *, e=None, v=None):
    """Gone: ``linalg.eig`` or ``linalg.eigvals``.

    Args:
        e, v: where to write.
    """
    raise RuntimeError(
        f"{_GONE} `torch.linalg.eig` returns complex tensors of dtype `cfloat` or "
        "`cdouble` rather than real tensors mimicking complex tensors.\n"
        "L, V = torch.eig(A, eigenvectors=True) should be replaced with:\n"
        "L_complex, V_complex = torch.linalg.eig(A)"
    )


def symeig(input, eigenvectors=False, upper=True, *, out=None):
    """Gone: ``linalg.eigh`` or ``linalg.eigvalsh``.

    Args:
        upper: whether its upper triangle counts.
    """
    raise RuntimeError(
        f"{_GONE} The default behavior has changed from using the upper triangular "
        "portion of the matrix by default to using the lower triangular portion.\n"
        "L, V = torch.symeig(A, eigenvectors=True) should be replaced with:\n"
        "L, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')"
    )


for _function, _example in (
    (solve, "solve(torch.ones(2, 1), torch.eye(2))"),
    (lstsq, "lstsq(torch.ones(2, 1), torch.eye(2))"),
    (matrix_rank, "matrix_rank(torch.eye(2))"),
    (eig, "eig(torch.eye(2))"),
    (symeig, "symeig(torch.eye(2))"),
):
    _function.__doc__ = (
        (_function.__doc__ or "").rstrip()
        + f"""

    Raises:
        RuntimeError: always.

    >>> torch.{_example}
    Traceback (most recent call last):
        ...
    RuntimeError: {_GONE} ...
    """
    )
describe_arguments(
    globals(),
    input="the matrix, or the right sides.",
    self="the matrix.",
    A="the matrix.",
    out="where to write.",
    eigenvectors="whether they are wanted.",
)
for _function in (solve, lstsq, eig, symeig):
    install(_function.__name__, _function)
