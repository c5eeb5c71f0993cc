"""What linear algebra refuses, how its failures are told, and how matrices are laid out."""

from rushlight.core.dtype import by_code
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.roles import host, roles_for
from rushlight.core.warning import warn_once
from rushlight.dispatch.python_key import listening
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import (
    brief,
    filled,
    fresh,
    place_of,
    require,
    scalar_name,
)
from rushlight.operators.shared import recorded_ahead
from rushlight.operators.type_groups import PRECISE

# Numbers of float32, float64, complex64 and complex128: what LAPACK computes in.
INT32, INT64 = by_code(3), by_code(4)


class LinAlgError(RuntimeError):
    """A matrix has no such factorization, or none was found."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"
LinAlgError.__module__ = "rushlight._C"


def lapack_of(a):
    """The factorizations of the device where a tensor's memory is."""
    return roles_for(place_of(a)).lapack


def check_matrix(A, operator, name="A"):
    """Refuses what is no matrix and no batch of them.

    Raises:
        RuntimeError: there are fewer than two dimensions.
    """
    if A.ndim < 2:
        raise RuntimeError(
            f"{operator}: The input tensor {name} must have at least 2 dimensions.\n"
            f"  {name}: {brief(A)}"
        )


def check_square(A, operator, name="A"):
    """Refuses matrices that are not square.

    Raises:
        RuntimeError: they aren't, or are no matrices.
    """
    check_matrix(A, operator, name)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{operator}: {name} must be batches of square matrices, but they are "
            f"{A.shape[-2]} by {A.shape[-1]} matrices"
        )


def check_float(A, operator, low=True):
    """Refuses integers, and where ``low`` is false numbers of less than 32 bits.

    Raises:
        RuntimeError: the dtype is one of those.
    """
    if A.dtype.category not in (2, 3):
        raise RuntimeError(
            f"{operator}: Expected a floating point or complex tensor as input. Got "
            f"{scalar_name(A.dtype)}"
        )
    if not low and A.dtype.code not in PRECISE:
        raise RuntimeError(
            f"{operator}: Low precision dtypes not supported. Got "
            f"{scalar_name(A.dtype)}"
        )


def check_kernel(kernel, A, empty=False):
    """Refuses a dtype that LAPACK does not compute in.

    Args:
        empty: whether matrices without elements may be of any dtype.

    Raises:
        NotImplementedError: it is none of the four.
    """
    if A.dtype.code not in PRECISE and not (empty and A.numel() == 0):
        require(kernel, A.dtype, PRECISE, A)


def check_same(operator, A, B, names=("A", "B")):
    """Refuses operands of two dtypes.

    Raises:
        RuntimeError: the dtypes differ.
    """
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{operator}: Expected {names[0]} and {names[1]} to have the same dtype, but "
            f"found {names[0]} of type {scalar_name(A.dtype)} and {names[1]} of type "
            f"{scalar_name(B.dtype)} instead"
        )


def equation(A, B, operator, left=True):
    """Checks ``AX = B`` or, from the right, ``XA = B``.

    Raises:
        RuntimeError: dimensions, sizes or dtypes don't fit.
    """
    check_same(operator, A, B)
    check_square(A, operator)
    check_matrix(B, operator, "B")
    if A.shape[-2] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{operator}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )


def check_older_form(B, A):
    """Says that ``triangular_solve`` is deprecated, and refuses what does not fit.

    Raises:
        RuntimeError: dimensions, sizes or dtypes don't fit.
    """
    warn_once(
        "torch.triangular_solve is deprecated in favor of "
        "torch.linalg.solve_triangular and will be removed in a future release.\n"
        "X = torch.triangular_solve(B, A).solution becomes "
        "X = torch.linalg.solve_triangular(A, B)"
    )
    if B.ndim < 2 or A.ndim < 2:
        name, tensor = ("b", B) if B.ndim < 2 else ("A", A)
        raise RuntimeError(
            f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but "
            f"it has {tensor.ndim} dimensions instead"
        )
    check_same("triangular_solve", B, A, ("b", "A"))
    equation(A, B, "triangular_solve")


def joint_batch(A, B):
    """The batch that both expand to.

    Raises:
        RuntimeError: there is none.
    """
    first, second = tuple(A.shape[:-2]), tuple(B.shape[:-2])
    return first if first == second else tuple(broadcast_sizes([first, second]))


def batched(A, batch):
    """The matrices expanded to a batch."""
    return A if tuple(A.shape[:-2]) == batch else A.expand((*batch, *A.shape[-2:]))


def by_columns(A):
    """A copy whose matrices lie column by column, one after the other."""
    if A.numel() >= 64:
        result = host.lapack.small_columns(A)
        if result is not None:
            return result
    return ops.clone(A.transpose(-2, -1), memory_format=_row_major()).transpose(-2, -1)


def seen_by_columns(A):
    """The matrices themselves if they lie column by column, or such a copy."""
    rows = A.transpose(-2, -1)
    return A if rows.is_contiguous() else rows.contiguous().transpose(-2, -1)


def _row_major():
    from rushlight.core.layout import contiguous_format

    return contiguous_format


def empty_columns(like, sizes, dtype=None):
    """Uninitialised matrices that lie column by column."""
    *batch, rows, columns = sizes
    return fresh(like, (*batch, columns, rows), dtype).transpose(-2, -1)


def clear_triangle(A, upper):
    """Zeros the triangle beside the upper, or beside the lower, one, in place."""
    if recorded_ahead():
        ops.triu_(A) if upper else ops.tril_(A)
    else:
        lapack_of(A).clear_triangle(A, upper)


def new_codes(A):
    """A zero for each matrix, where LAPACK leaves what went wrong."""
    return filled(A, tuple(A.shape[:-2]), 0, INT32)


def raise_faults(codes, operator, single):
    """Raises what the first code that is not zero means.

    Args:
        single: whether there is one matrix rather than a batch.

    Raises:
        LinAlgError: the factorization failed, or a matrix is singular; a plain
            RuntimeError of ``lu_factor``.
    """
    if listening(codes):
        ops._linalg_check_errors(codes, operator, is_matrix=single)
    else:
        check_errors(codes, operator, single)


def check_errors(codes, operator, single):
    """The same by an operator's arguments; `_linalg_check_errors` of PyTorch."""
    if recorded_ahead():
        host.lapack.set_codes(codes, operator)
    fault = host.lapack.first_fault(codes)
    if fault is None:
        return
    place, code = fault
    where = operator if single else f"{operator}: (Batch element {place})"
    fault = RuntimeError if "lu_factor" in operator else LinAlgError
    raise fault(f"{where}: {_meaning(operator, code)}")


def _meaning(operator, code):
    if "svd" in operator and code == -4:
        return (
            "The algorithm failed to converge because the input matrix contained "
            "non-finite values."
        )
    if code < 0:
        return f"Argument {-code} has an illegal value."
    if "inv" in operator:
        return (
            f"The diagonal element {code} is zero, the inversion could not be completed "
            "because the input matrix is singular."
        )
    if "solve" in operator:
        return "The solver failed because the input matrix is singular."
    if "cholesky" in operator:
        return (
            "The factorization could not be completed because the input is not "
            f"positive-definite (the leading minor of order {code} is not "
            "positive-definite)."
        )
    if "svd" in operator:
        return (
            "The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated singular values (error code: "
            f"{code})."
        )
    if "eig" in operator:
        return (
            "The algorithm failed to converge because the input matrix is "
            f"ill-conditioned or has too many repeated eigenvalues (error code: {code})."
        )
    if "lstsq" in operator:
        return (
            "The least squares solution could not be computed because the input matrix "
            f"does not have full rank (error code: {code})."
        )
    if "lu_factor" in operator:
        return (
            f"U[{code},{code}] is zero and using it on lu_solve would result in a "
            "division by zero. If you still want to perform the factorization, consider "
            "calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    return f"The factorization could not be completed (error code: {code})."
