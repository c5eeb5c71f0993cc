"""Factorizations of matrices by LAPACK: Cholesky, QR, singular values, eigenvalues, LDL.

Their derivatives are in `decomposition_gradients`.
"""

import math

from rushlight.core.dtype import INTEGER
from rushlight.core.state import is_grad_enabled
from rushlight.core.warning import warn_once
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.linalg.decomposition_gradients import (
    cholesky_backward,
    eig_backward,
    eigh_backward,
    householder_backward,
    ormqr_backward,
    qr_backward,
    svd_backward,
)
from rushlight.operators.linalg.linalg_checks import (
    INT32,
    batched,
    by_columns,
    check_float,
    check_kernel,
    check_matrix,
    check_same,
    check_square,
    clear_triangle,
    empty_columns,
    joint_batch,
    lapack_of,
    new_codes,
    raise_faults,
    seen_by_columns,
)
from rushlight.operators.loop_calls import fresh
from rushlight.operators.shared import differentiated, has_elements, recorded_ahead

# Cholesky


def _cholesky(A, upper):
    """One triangle, by columns, and the codes."""
    factor = by_columns(A)
    codes = new_codes(A)
    lapack_of(factor).cholesky(factor, codes, upper)
    clear_triangle(factor, upper)
    return factor, codes


def linalg_cholesky_ex(self, upper, check_errors):
    """By `potrf`; only one triangle of the input is read.

    Raises:
        LinAlgError: a matrix is not positive-definite, and errors are to be checked.
    """
    check_square(self, "linalg.cholesky")
    check_float(self, "linalg.cholesky")
    check_kernel("cholesky_cpu", self, empty=True)
    factor, codes = _cholesky(self, upper)
    if check_errors:
        raise_faults(codes, "linalg.cholesky_ex", self.ndim == 2)
    return factor, codes


def linalg_cholesky(self, upper):
    """As `linalg_cholesky_ex`, with its errors raised."""
    factor, codes = ops.linalg_cholesky_ex(self, upper=upper)
    raise_faults(codes, "linalg.cholesky", self.ndim == 2)
    return factor


def cholesky(self, upper):
    """The older name of `linalg_cholesky`."""
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be "
        "removed in a future release.\n"
        "U = torch.cholesky(A, upper=True) becomes U = torch.linalg.cholesky(A).mH"
    )
    if self.numel() == 0:
        return ops.clone(self)
    check_square(self, "cholesky")
    check_kernel("cholesky_cpu", self, empty=True)
    factor, codes = ops.linalg_cholesky_ex(self, upper=upper)
    raise_faults(codes, "cholesky", self.ndim == 2)
    return factor


# QR


def geqrf(self):
    """R with the reflectors of Q below it.

    Raises:
        RuntimeError: there are fewer than two dimensions.
    """
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_kernel("geqrf_cpu", self)
    if self.is_complex() and self.requires_grad and is_grad_enabled():
        raise RuntimeError(
            "geqrf does not support automatic differentiation for outputs with complex "
            "dtype."
        )
    return _reflect(self)


def _reflect(A):
    packed = by_columns(A)
    tau = fresh(A, (*A.shape[:-2], min(A.shape[-2:])))
    lapack_of(packed).qr(packed, tau)
    return packed, tau


def linalg_qr(A, mode):
    """R from `geqrf`, and Q from its reflectors unless the mode is ``r``.

    Raises:
        RuntimeError: the mode is none of ``reduced``, ``complete`` and ``r``.
    """
    check_matrix(A, "linalg.qr")
    check_float(A, "linalg.qr")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' "
            "(default), 'r', or 'complete'"
        )
    check_kernel("geqrf_cpu", A)
    *batch, rows, columns = A.shape
    least = min(rows, columns)
    packed, tau = _reflect(A)
    kept = rows if mode == "complete" else least
    R = by_columns(packed.narrow(-2, 0, kept))
    clear_triangle(R, True)
    if mode == "r":
        return fresh(A, (0,)), R
    if kept == columns:
        Q = packed
    elif kept < columns:
        Q = by_columns(packed.narrow(-1, 0, kept))
    else:
        Q = empty_columns(A, (*batch, rows, kept))
        Q.narrow(-1, 0, least).copy_(packed.narrow(-1, 0, least))
        # The columns without a reflector come out of those of the identity.
        Q.narrow(-1, least, kept - least).zero_()
    if Q.numel() and not least:
        Q.zero_().diagonal(0, -2, -1).fill_(1)
    else:
        lapack_of(Q).expand_reflectors(Q, tau)
    return Q, R


def qr(self, some):
    """The older name of `linalg_qr`."""
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a "
        "future release.\nQ, R = torch.qr(A, some) becomes "
        "Q, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return ops.linalg_qr(self, "reduced" if some else "complete")


def _check_factors(tau):
    if tau.ndim == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")


def _check_reflectors(operator, input, tau):
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{operator}: Expected tau to have one dimension less than input, but got "
            f"tau.ndim equal to {tau.ndim} and input.ndim is equal to {input.ndim}"
        )
    _check_shapes(operator, "tau", tau, tau.shape[:-1], input)


def _check_shapes(operator, name, x, batch, input):
    """Refuses an operand of another batch or another type than the matrices have."""
    if tuple(batch) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"{operator}: Expected batch dimensions of {name} to be equal to "
            f"input.shape[:-2], but got {list(batch)}"
        )
    if x.dtype is not input.dtype:
        raise RuntimeError(
            f"{operator}: {name} dtype {x.dtype.name} does not match input dtype "
            f"{input.dtype.name}"
        )


def linalg_householder_product(input, tau):
    """The first columns of the product of the reflectors, by `orgqr`.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    operator = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{operator}: input must have at least 2 dimensions.")
    _check_factors(tau)
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(
            f"{operator}: input.shape[-2] must be greater than or equal to "
            "input.shape[-1]"
        )
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"{operator}: input.shape[-1] must be greater than or equal to "
            "tau.shape[-1]"
        )
    _check_reflectors(operator, input, tau)
    check_kernel("orgqr_cpu", input)
    result = by_columns(input)
    if result.numel() and not tau.shape[-1]:
        result.zero_().diagonal(0, -2, -1).fill_(1)
    else:
        lapack_of(result).expand_reflectors(result, tau.contiguous())
    return result


def ormqr(self, input2, input3, left, transpose):
    """The product with the reflectors, by `ormqr`.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    operator, side = "torch.ormqr", -2 if left else -1
    if self.ndim < 2 or input3.ndim < 2:
        name = "input" if self.ndim < 2 else "other"
        raise RuntimeError(f"{operator}: {name} must have at least 2 dimensions.")
    _check_factors(input2)
    if input3.shape[side] < input2.shape[-1]:
        raise RuntimeError(
            f"{operator}: other.shape[{side}] must be greater than or equal to "
            "tau.shape[-1]"
        )
    if input3.shape[side] != self.shape[-2]:
        raise RuntimeError(
            f"{operator}: other.shape[{side}] must be equal to input.shape[-2]"
        )
    if input2.shape[-1] != min(input3.shape[side], self.shape[-1]):
        raise RuntimeError(
            f"{operator}: tau.shape[-1] must be equal to min(other.shape[{side}], "
            "input.shape[-1])"
        )
    _check_reflectors(operator, self, input2)
    if self.ndim != input3.ndim:
        raise RuntimeError(
            f"{operator}: Expected other to have the same number of dimensions as input, "
            f"but got other.ndim equal to {input3.ndim} and input.ndim is equal to "
            f"{self.ndim}"
        )
    _check_shapes(operator, "other", input3, input3.shape[:-2], self)
    check_kernel("ormqr_cpu", self)
    result = by_columns(input3)
    count = input2.shape[-1]
    if count:
        packed = seen_by_columns(self.narrow(-1, 0, count))
        lapack_of(packed).apply_reflectors(
            packed, input2.contiguous(), result, left, transpose
        )
    return result


# Singular values


def _take_infinite(given, read=None):
    """Which matrices have infinite elements; zeros take their place.

    With those, LAPACK's divide and conquer may never end.

    Args:
        read: takes the triangle that is read, where it is not the whole.
    """
    if not recorded_ahead() and not lapack_of(given).has_infinity(given):
        return None
    seen = given if read is None else read(given)
    infinite = ops.isinf(seen).any(-1).any(-1) & ~ops.isnan(seen).any(-1).any(-1)
    given.masked_fill_(infinite.unsqueeze(-1).unsqueeze(-1), 0)
    return infinite


def _leave_nan(lost, vectors, values):
    if lost is not None:
        values.masked_fill_(lost.unsqueeze(-1), math.nan)
        for one in vectors:
            one.masked_fill_(lost.unsqueeze(-1).unsqueeze(-1), math.nan)


def _refuse_driver(device):
    raise RuntimeError(
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA "
        "inputs with cuSOLVER backend."
    )


_check_driver = KernelTable(cpu=_refuse_driver, cuda=lambda device: None)


def _linalg_svd(A, full_matrices, compute_uv, driver):
    """By `gesdd`, which divides and conquers.

    Raises:
        RuntimeError: a driver is named: those are for GPUs.
        LinAlgError: it did not converge.
    """
    check_matrix(A, "linalg.svd")
    check_float(A, "linalg.svd")
    if driver is not None:
        _check_driver(A.device)
    if driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise RuntimeError(
            f"torch.linalg.svd: unknown svd driver {driver} for cuSOLVER. Supported: "
            "gesvd, gesvdj, gesvda"
        )
    check_kernel("linalg_svd_cpu", A, empty=True)
    *batch, rows, columns = A.shape
    least = min(rows, columns)
    values = fresh(A, (*batch, least), A.dtype.to_real())
    if not compute_uv:
        left, right, letter = fresh(A, (0,)), fresh(A, (0,)), "N"
    else:
        tall, wide = (rows, columns) if full_matrices else (least, least)
        left = empty_columns(A, (*batch, rows, tall))
        right = empty_columns(A, (*batch, wide, columns))
        letter = "A" if full_matrices and rows != columns else "S"
    if A.numel() == 0:
        if compute_uv and full_matrices:
            for vectors in (left, right):
                vectors.zero_().diagonal(0, -2, -1).fill_(1)
        return left, values, right
    codes, given = new_codes(A), by_columns(A)
    lost = _take_infinite(given)
    lapack_of(given).svd(given, left, values, right, codes, letter)
    raise_faults(codes, "linalg.svd", A.ndim == 2)
    _leave_nan(lost, (left, right) if compute_uv else (), values)
    return left, values, right


def linalg_svd(A, full_matrices, driver):
    """``U diag(S) Vh``."""
    return ops._linalg_svd(A, full_matrices, True, driver=driver)


def linalg_svdvals(A, driver):
    """Without the vectors, unless the derivative wants them."""
    wanted = differentiated(A)
    return ops._linalg_svd(A, False, wanted, driver=driver)[1]


def svd(self, some, compute_uv):
    """The older form: V rather than its adjoint, zeros for vectors not wanted.

    Raises:
        RuntimeError: there are fewer than two dimensions.
    """
    if self.ndim < 2:
        raise RuntimeError(
            "linalg.svd: input should have at least 2 dimensions, but has "
            f"{self.ndim} dimensions instead"
        )
    if compute_uv:
        left, values, right = ops._linalg_svd(self, not some, True)
        return left, values, right.mH
    values = ops.linalg_svdvals(self)
    *batch, rows, columns = self.shape
    left = ops.zeros((*batch, rows, rows), dtype=self.dtype, device=self.device)
    right = ops.zeros((*batch, columns, columns), dtype=self.dtype, device=self.device)
    return left, values, right


# Eigenvalues


def _check_triangle(UPLO):
    if len(UPLO) != 1 or UPLO.upper() not in "UL":
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


def _linalg_eigh(A, UPLO, compute_v):
    """By `syevd` or `heevd`; only one triangle is read.

    Raises:
        RuntimeError: the matrices aren't square, or the triangle is neither L nor U.
        LinAlgError: it did not converge.
    """
    check_square(A, "linalg.eigh")
    upper = _check_triangle(UPLO)
    check_kernel("linalg_eigh_cpu", A, empty=True)
    values = fresh(A, tuple(A.shape[:-1]), A.dtype.to_real())
    vectors, codes = by_columns(A), new_codes(A)
    lost = _take_infinite(vectors, ops.triu if upper else ops.tril)
    lapack_of(vectors).eigh(vectors, values, codes, upper, compute_v)
    raise_faults(codes, "linalg.eigh", A.ndim == 2)
    _leave_nan(lost, (vectors,), values)
    return values, vectors if compute_v else fresh(A, (0,))


def linalg_eigh(self, UPLO):
    """Eigenvalues of Hermitian matrices, in ascending order, and their vectors."""
    return ops._linalg_eigh(self, UPLO, True)


def linalg_eigvalsh(self, UPLO):
    """Without the vectors, unless the derivative wants them."""
    wanted = differentiated(self)
    return ops._linalg_eigh(self, UPLO, wanted)[0]


def _eig(A, operator, wanted):
    check_square(A, operator)
    if A.dtype.category not in (2, 3):
        from rushlight.operators.loop_calls import scalar_name

        raise RuntimeError(f"Unknown Complex ScalarType for {scalar_name(A.dtype)}")
    check_kernel("linalg_eig_out_cpu", A)
    if recorded_ahead():
        lost = ops.isfinite(A).all().logical_not().to(INT32)
        raise_faults(lost, operator, True)
    elif has_elements(A) and not ops.isfinite(A).all().item():
        raise RuntimeError(
            f"torch.{operator}: input tensor should not contain infs or NaNs."
        )
    number = A.dtype.to_complex()
    values = fresh(A, tuple(A.shape[:-1]), number)
    vectors = empty_columns(A, tuple(A.shape) if wanted else (0, 0), number)
    codes = new_codes(A)
    given = by_columns(A)
    lapack_of(given).eig(given, values, vectors, codes, wanted)
    raise_faults(codes, operator, A.ndim == 2)
    return values, vectors


def linalg_eig(self):
    """By `geev`; values and vectors are complex.

    Raises:
        RuntimeError: the matrices aren't square, or hold infinities or NaN.
        LinAlgError: it did not converge.
    """
    return _eig(self, "linalg.eig", True)


def _linalg_eigvals(self):
    """The eigenvalues alone."""
    return _eig(self, "linalg.eigvals", False)[0]


def linalg_eigvals(self):
    """Without the vectors, unless the derivative wants them."""
    if differentiated(self):
        return ops.linalg_eig(self)[0]
    return ops._linalg_eigvals(self)


# LDL


def linalg_ldl_factor_ex(self, hermitian, check_errors):
    """By `sytrf` or `hetrf`; only the lower triangle is read.

    Raises:
        LinAlgError: a block is singular, and errors are to be checked.
    """
    check_square(self, "torch.linalg.ldl_factor_ex")
    check_float(self, "torch.linalg.ldl_factor_ex")
    check_kernel("ldl_factor_kernel_cpu", self, empty=True)
    factor, codes = by_columns(self), new_codes(self)
    pivots = fresh(self, tuple(self.shape[:-1]), INT32)
    lapack_of(factor).ldl(factor, pivots, codes, hermitian)
    if check_errors:
        raise_faults(codes, "torch.linalg.ldl_factor_ex", self.ndim == 2)
    clear_triangle(factor, False)
    return factor, pivots, codes


def linalg_ldl_factor(self, hermitian):
    """As `linalg_ldl_factor_ex`, with its errors raised."""
    factor, pivots, codes = ops.linalg_ldl_factor_ex(self, hermitian=hermitian)
    raise_faults(codes, "torch.linalg.ldl_factor", self.ndim == 2)
    return factor, pivots


def linalg_ldl_solve(LD, pivots, B, hermitian):
    """Solves with the factors of `linalg_ldl_factor`.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    operator = "torch.linalg.ldl_solve"
    check_square(LD, operator, "LD")
    check_float(LD, operator)
    if B.ndim < 2:
        raise RuntimeError(
            f"{operator}: Expected B to have at least 2 dimensions, but it has {B.ndim} "
            "dimensions instead"
        )
    if tuple(LD.shape[:-1]) != tuple(pivots.shape):
        raise RuntimeError(
            f"{operator}: Expected LD.shape[:-1] and pivots.shape to be the same, but got "
            f"pivots with shape {list(pivots.shape)} instead"
        )
    if pivots.dtype.category != INTEGER:
        raise RuntimeError(
            f"{operator}: Expected pivots to be integers. Got {pivots.dtype.name}"
        )
    check_same(operator, LD, B, ("LD", "B"))
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"{operator}: Incompatible shapes of A and B for the equation AX = B "
            f"({LD.shape[-2]}x{LD.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    check_kernel("ldl_solve_kernel_cpu", LD, empty=True)
    batch = joint_batch(LD, B)
    result = by_columns(batched(B, batch))
    pivots = pivots.expand((*batch, pivots.shape[-1])).contiguous().to(INT32)
    lapack_of(result).ldl_solve(
        seen_by_columns(batched(LD, batch)),
        pivots,
        result,
        hermitian and LD.is_complex(),
    )
    return result
