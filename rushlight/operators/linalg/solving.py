"""Equations, inverses and determinants, from LU factors, triangles and singular values.

Their derivatives are in `solving_gradients`.
"""

import math

from rushlight.codegen.loops import i64, loops
from rushlight.core.dtype import finfo
from rushlight.core.dtypes import float64
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn_once
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.linalg.linalg_checks import (
    INT32,
    INT64,
    batched,
    by_columns,
    check_float,
    check_kernel,
    check_matrix,
    check_older_form,
    check_same,
    check_square,
    equation,
    joint_batch,
    lapack_of,
    new_codes,
    raise_faults,
    seen_by_columns,
)
from rushlight.operators.linalg.solving_gradients import (
    cholesky_inverse_backward,
    cholesky_solve_backward,
    det_backward,
    inverse_backward,
    lstsq_backward,
    lu_backward,
    lu_solve_backward,
    lu_unpack_backward,
    mixed_triangle_backward,
    pinv_backward,
    signs_of,
    slogdet_backward,
    solve_backward,
    triangular_solve_backward,
)
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    fresh,
    refuse_fault,
    run,
    scalar_name,
)
from rushlight.operators.shared import has_elements, refuse_gradient
from rushlight.operators.type_groups import PRECISE

# LU


def _factored(A):
    """LU factors by columns, pivots and codes."""
    factors, codes = by_columns(A), new_codes(A)
    pivots = fresh(A, (*A.shape[:-2], min(A.shape[-2:])), INT32)
    lapack_of(factors).lu(factors, pivots, codes)
    return factors, pivots, codes


def linalg_lu_factor_ex(A, pivot, check_errors):
    """By `getrf`.

    Raises:
        RuntimeError: the input is no matrix, or no pivots are wanted.
        LinAlgError: U has a zero on its diagonal, and errors are to be checked.
    """
    if A.ndim < 2:
        raise RuntimeError(
            "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(A.shape)} instead"
        )
    check_kernel("lu_cpu", A, empty=True)
    if not pivot and A.numel():
        raise RuntimeError(
            "linalg.lu_factor: LU without pivoting is not implemented on the CPU"
        )
    factors, pivots, codes = _factored(A)
    if check_errors:
        raise_faults(codes, "torch.linalg.lu_factor_ex", A.ndim == 2)
    return factors, pivots, codes


def linalg_lu_factor(A, pivot):
    """As `linalg_lu_factor_ex`, with its errors raised."""
    factors, pivots, codes = ops.linalg_lu_factor_ex(A, pivot=pivot)
    raise_faults(codes, "torch.linalg.lu_factor", A.ndim == 2)
    return factors, pivots


def _lu_with_info(self, pivot, check_errors):
    """What the older ``torch.lu`` is made of."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / "
        "torch.linalg.lu_factor_ex and will be removed in a future release.\n"
        "LU, pivots = torch.lu(A, compute_pivots) becomes "
        "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)"
    )
    return ops.linalg_lu_factor_ex(self, pivot=pivot)  # singular ones have factors


def linalg_lu(A, pivot):
    """The factors apart from each other, and the pivots as a matrix.

    Raises:
        RuntimeError: the input is no matrix, or no pivots are wanted.
    """
    if A.ndim < 2:
        raise RuntimeError(
            "linalg.lu: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(A.shape)} instead"
        )
    if not pivot and A.numel():
        check_kernel("lu_cpu", A, empty=True)
        raise RuntimeError(
            "linalg.lu_factor: LU without pivoting is not implemented on the CPU"
        )
    factors, pivots, _ = ops.linalg_lu_factor_ex(A, pivot=pivot)
    return ops.lu_unpack(factors, pivots, True, pivot)


_NO_PIVOTS = (
    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
    "Did you properly pass the result of lu_factor?"
)


@loops
def exchange_rows(
    order: "i64*", pivots: "i32*", fault: "i64*", rows: int, count: int, begin: int,
    end: int,
):  # fmt: skip
    """Where each row comes from once row ``i`` was exchanged with pivot ``i``, from one."""
    for matrix in range(begin, end):
        first = matrix * rows
        for i in range(rows):
            order[first + i] = i
        for i in range(count):
            other = i64(pivots[matrix * count + i]) - 1
            if other < 0 or other >= rows:
                fault[0] = other + 1
            else:
                held = order[first + i]
                order[first + i] = order[first + other]
                order[first + other] = held


def _no_row(found, rows):
    return RuntimeError(
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive: got "
        f"{found} of {rows} rows"
    )


def lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):
    """Triangles, and the permutation that the pivots stand for.

    Raises:
        RuntimeError: sizes or dtypes don't fit, or a pivot is out of range.
    """
    if LU_data.ndim < 2:
        raise RuntimeError(
            "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(LU_data.shape)} instead"
        )
    if unpack_pivots and LU_pivots.dtype is not INT32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of "
            "torch.int32 dtype.\nNote: this function is intended to be used with the "
            "output produced by torch.linalg.lu_factor"
        )
    rows, columns = LU_data.shape[-2:]
    least = min(rows, columns)
    empty = fresh(LU_data, (0,))
    P, L, U = empty, empty, empty
    if unpack_data:
        L = ops.tril(LU_data.narrow(-1, 0, least), -1).contiguous()
        L.diagonal(0, -2, -1).fill_(1)
        U = ops.triu(LU_data.narrow(-2, 0, least)).contiguous()
    batch = LU_data.shape[:-2]
    if unpack_pivots and rows * math.prod(batch) == 0:
        P = fresh(LU_data, (*batch, rows, rows))
    elif unpack_pivots:
        order = fresh(LU_data, (*batch, rows), INT64)
        if LU_pivots.ndim == 0:  # the one row's; of others the pivots are missing
            LU_pivots = LU_pivots.reshape([1])
            if rows > 1:
                raise RuntimeError(_NO_PIVOTS)
        pivots = LU_pivots.expand((*batch, LU_pivots.shape[-1])).contiguous()
        least = pivots.shape[-1]
        if least > rows:
            raise RuntimeError(_NO_PIVOTS)
        flag = fault_flag(pivots)
        run(exchange_rows, [order, pivots, flag], [rows, least], math.prod(batch), rows)
        refuse_fault(flag, "lu_unpack", _no_row, rows)
        P = ops.zeros((*batch, rows, rows), dtype=LU_data.dtype, device=LU_data.device)
        if has_elements(P):
            P.scatter_(-2, order.unsqueeze(-2), 1)
    return P, L, U


def linalg_lu_solve(LU, pivots, B, left, adjoint):
    """By `getrs`; from the right, for the transposed equation.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    operator = "torch.linalg.lu_solve"
    check_float(LU, operator)
    check_same(operator, LU, B, ("LU", "B"))
    if pivots.dtype is not INT32:
        raise RuntimeError(
            f"{operator}: pivots should be a Tensor of scalar type torch.int32"
        )
    equation(LU, B, operator, left)
    if pivots.ndim == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if LU.shape[-1] != pivots.shape[-1]:
        raise RuntimeError(
            f"{operator}: Number of pivots per batch should be same as the dimension of "
            "the matrix"
        )
    if tuple(LU.shape[:-2]) != tuple(pivots.shape[:-1]):
        raise RuntimeError(
            f"{operator}: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
            f"pivots with shape {list(pivots.shape)} instead"
        )
    check_kernel("lu_solve_cpu", LU, empty=True)
    return _solved(LU, pivots, B, left, adjoint)


def _solved(LU, pivots, B, left, adjoint=False):
    batch = joint_batch(LU, B)
    pivots = pivots.expand((*batch, pivots.shape[-1])).contiguous()
    factors = seen_by_columns(batched(LU, batch))
    B = batched(B, batch)
    if left:
        result = by_columns(B)
        lapack_of(factors).lu_solve(factors, pivots, result, "C" if adjoint else "N")
        return result
    transposed = by_columns(B.mH if adjoint else B.transpose(-2, -1))
    lapack_of(factors).lu_solve(factors, pivots, transposed, "N" if adjoint else "T")
    return ops.resolve_conj(transposed.mH) if adjoint else transposed.transpose(-2, -1)


def lu_solve(self, LU_data, LU_pivots):
    """The older form of `linalg_lu_solve`."""
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solve and will be "
        "removed in a future release.\nX = torch.lu_solve(B, LU, pivots) becomes "
        "X = torch.linalg.lu_solve(LU, pivots, B)"
    )
    return ops.linalg_lu_solve(LU_data, LU_pivots, self)


# Equations


def _is_vector(A, B):
    """Whether B has a vector rather than a matrix for each matrix."""
    return B.ndim == 1 or (
        A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1])
    )


def _linalg_solve_ex(A, B, left, check_errors):
    """By `getrf` and `getrs`.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
        LinAlgError: a matrix is singular, and errors are to be checked.
    """
    operator = "linalg.solve"
    check_float(A, operator)
    check_same(operator, A, B)
    vector = _is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported "
            "for left=False. In this case linalg.solve is equivalent to B / "
            "A.squeeze(-1)"
        )
    matrices = B.unsqueeze(-1) if vector else B
    equation(A, matrices, operator, left)
    check_kernel("lu_cpu", A, empty=True)
    joint_batch(A, matrices)
    factors, pivots, codes = _factored(A)
    result = _solved(factors, pivots, matrices, left)
    if check_errors:
        raise_faults(codes, "torch.linalg.solve_ex", A.ndim == 2)
    if vector:
        result = result.squeeze(-1)
        result = by_columns(result) if result.ndim > 1 else result
    return result, factors, pivots, codes


def linalg_solve_ex(A, B, left, check_errors):
    """Solutions, and which matrices were singular."""
    result, _, _, codes = ops._linalg_solve_ex(
        A, B, left=left, check_errors=check_errors
    )
    return result, codes


def linalg_solve(A, B, left):
    """As `linalg_solve_ex`, with its errors raised."""
    result, _, _, codes = ops._linalg_solve_ex(A, B, left=left)
    raise_faults(codes, "torch.linalg.solve", A.ndim == 2)
    return result


def _triangle(A, batch):
    """A triangle by columns, and whether it is the transposed one."""
    A = batched(A, batch)
    if A.is_contiguous():
        return A.transpose(-2, -1), True
    return seen_by_columns(A), False


def linalg_solve_triangular(self, B, upper, left, unitriangular):
    """By `trsm`; only one triangle is read.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    check_kernel("triangular_solve_cpu", self)
    B = B if B.dtype is self.dtype else B.to(self.dtype)
    equation(self, B, "linalg.solve_triangular", left)
    batch = joint_batch(self, B)
    A, transposed = _triangle(self, batch)
    result = by_columns(batched(B, batch))
    form = "T" if transposed else "N"
    lapack_of(A).triangular_solve(
        A, result, left, upper != transposed, form, unitriangular
    )
    return result


def triangular_solve(self, A, upper, transpose, unitriangular):
    """The older form: also gives a copy of the triangle.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    check_older_form(self, A)
    check_kernel("triangular_solve_cpu", self)
    batch = joint_batch(A, self)
    copied = by_columns(batched(A, batch))
    result = by_columns(batched(self, batch))
    form = "N" if not transpose else "C" if A.is_complex() else "T"
    lapack_of(copied).triangular_solve(copied, result, True, upper, form, unitriangular)
    return result, copied


def cholesky_solve(self, input2, upper):
    """By `potrs`; only one triangle of the factor is read.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    for name, tensor in (("b", self), ("u", input2)):
        if tensor.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {tensor.ndim} "
                "dimensions instead"
            )
    equation(input2, self, "cholesky_solve")
    check_kernel("cholesky_solve_cpu", self)
    batch = joint_batch(input2, self)
    result = by_columns(batched(self, batch))
    lapack_of(result).cholesky_solve(
        seen_by_columns(batched(input2, batch)), result, upper
    )
    return result


def cholesky_inverse(self, upper):
    """By `potri`; only one triangle of the factor is read.

    Raises:
        RuntimeError: the matrices aren't square.
        LinAlgError: a factor has a zero on its diagonal.
    """
    check_square(self, "cholesky_inverse")
    check_kernel("cholesky_inverse_out_cpu", self)
    half, codes = by_columns(self), new_codes(self)
    lapack_of(half).cholesky_inverse(half, codes, upper)
    raise_faults(codes, "cholesky_inverse", self.ndim == 2)
    rows = half.transpose(-2, -1)  # has the other triangle
    whole = ops.tril(rows) if upper else ops.triu(rows)
    other = ops.tril(rows, -1) if upper else ops.triu(rows, 1)
    whole = whole + ops.resolve_conj(other.mH)
    return whole.contiguous().transpose(-2, -1)


# Inverses


def _inverse(A):
    check_square(A, "linalg.inv")
    check_float(A, "linalg.inv", low=False)
    factors, pivots, codes = _factored(A)
    result = ops.zeros(A.shape, dtype=A.dtype, device=A.device).transpose(-2, -1)
    result.diagonal(0, -2, -1).fill_(1)
    lapack_of(factors).lu_solve(factors, pivots, result, "N")
    return result, codes


def linalg_inv_ex(A, check_errors):
    """Solutions for the identity.

    Raises:
        LinAlgError: a matrix is singular, and errors are to be checked.
    """
    result, codes = _inverse(A)
    if check_errors:
        raise_faults(codes, "linalg.inv_ex", A.ndim == 2)
    return result, codes


def linalg_inv(A):
    """As `linalg_inv_ex`, with its errors raised."""
    result, codes = ops.linalg_inv_ex(A)
    raise_faults(codes, "linalg.inv", A.ndim == 2)
    return result


def tolerances(A, atol, rtol, operator="torch.linalg.pinv"):
    """Absolute and relative tolerances as tensors: no relative one beside an absolute.

    Raises:
        RuntimeError: a tolerance is complex.
    """
    options = {"dtype": float64, "device": A.device}
    for name, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(
                f"{operator}: {name} tensor of complex type is not supported. Got "
                f"{scalar_name(value.dtype)}"
            )
    if rtol is None:
        default = finfo(A.dtype).eps * max(A.shape[-2:])
        rtol = ops.full((), default, **options)
        if isinstance(atol, Tensor):
            rtol = ops.where(atol > 0, 0.0, rtol)
        elif atol is not None and atol > 0:
            rtol = ops.zeros((), **options)
    elif not isinstance(rtol, Tensor):
        rtol = ops.full((), rtol, **options)
    if atol is None:
        atol = ops.zeros((), **options)
    elif not isinstance(atol, Tensor):
        atol = ops.full((), atol, **options)
    return atol, rtol


def _cut(values, largest, atol, rtol):
    """Below what a singular value counts as zero."""
    atol, rtol = atol.to(values.dtype), rtol.to(values.dtype)
    return ops.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * largest)


def _check_pinv(self):
    if self.ndim < 2 or self.dtype.code not in (6, 7, 9, 10):
        raise RuntimeError(
            f"linalg.pinv({scalar_name(self.dtype)}{{{list(self.shape)}}}): expected a "
            "tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
        )


def linalg_pinv(self, atol, rtol, hermitian):
    """Reciprocals of the singular values that do not count as zero.

    Raises:
        RuntimeError: the input is no matrix of floating-point numbers, or a tolerance
            requires a gradient.
    """
    refuse_gradient("linalg_pinv", atol=atol, rtol=rtol)
    _check_pinv(self)
    atol, rtol = tolerances(self, atol, rtol)
    if self.numel() == 0:
        *batch, rows, columns = self.shape
        return ops.empty((*batch, columns, rows), dtype=self.dtype, device=self.device)
    if hermitian:
        values, vectors = ops.linalg_eigh(self)
        sizes = ops.abs(values)
        largest = ops.amax(sizes, [-1], True)
        kept = sizes > _cut(values, largest, atol, rtol)
        inverse = ops.where(kept, ops.reciprocal(values), 0.0)
        return (vectors * inverse.unsqueeze(-2)) @ vectors.mH
    U, values, Vh = ops._linalg_svd(self)
    kept = values > _cut(values, values.narrow(-1, 0, 1), atol, rtol)
    inverse = ops.where(kept, ops.reciprocal(values), 0.0)
    return (Vh.mH * inverse.unsqueeze(-2)) @ U.mH


def linalg_pinv_of_numbers(self, atol, rtol, hermitian):
    """With tolerances that are numbers."""
    _check_pinv(self)
    atol, rtol = tolerances(self, atol, rtol)
    return ops.linalg_pinv(self, atol=atol, rtol=rtol, hermitian=hermitian)


def linalg_pinv_of_rcond(self, rcond, hermitian):
    """With a relative tolerance, a number or a tensor."""
    _check_pinv(self)
    atol = None if isinstance(rcond, Tensor) else 0.0
    atol, rtol = tolerances(self, atol, rcond)
    return ops.linalg_pinv(self, atol=atol, rtol=rtol, hermitian=hermitian)


def pinverse(self, rcond):
    """The older name of `linalg_pinv`."""
    return ops.linalg_pinv(self, rcond, False)


# Determinants


def _linalg_det(A):
    """The product of U's diagonal, and the factors."""
    check_square(A, "linalg.det")
    check_float(A, "linalg.det")
    check_kernel("lu_cpu", A, empty=True)
    # A transposed matrix has the same determinant, and may need no other layout.
    factors, pivots, _ = _factored(A.transpose(-2, -1) if A.is_contiguous() else A)
    diagonal = factors.diagonal(0, -2, -1)
    return ops.prod(diagonal, -1) * signs_of(pivots), factors, pivots


def linalg_det(A):
    """The determinant alone."""
    return ops._linalg_det(A)[0]


def _linalg_slogdet(A):
    """Its sign, the logarithm of its size, and the factors."""
    check_square(A, "linalg.slogdet")
    check_float(A, "linalg.slogdet", low=False)
    factors, pivots, _ = _factored(A)
    diagonal = factors.diagonal(0, -2, -1)
    sign = ops.prod(ops.sgn(diagonal), -1) * signs_of(pivots)
    return sign, ops.log(ops.abs(diagonal)).sum([-1]), factors, pivots


def linalg_slogdet(A):
    """Sign and logarithm alone."""
    sign, size, _, _ = ops._linalg_slogdet(A)
    return sign, size


def logdet(self):
    """NaN where a real determinant is negative; complex in the complex plane."""
    check_square(self, "logdet")
    check_float(self, "logdet", low=False)
    sign, size = ops.linalg_slogdet(self)
    if self.is_complex():
        return ops.log(sign) + size
    return ops.where(sign == -1.0, math.nan, size)


# Least squares


def linalg_lstsq(self, b, rcond, driver):
    """By one of LAPACK's four drivers.

    Raises:
        RuntimeError: sizes or dtypes don't fit, or there is no such driver.
        LinAlgError: ``gels`` met a matrix without full rank.
    """
    operator = "torch.linalg.lstsq"
    if self.ndim < 2:
        raise RuntimeError(f"{operator}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{operator}: other must have at least 1 dimension.")
    gap = self.ndim - b.ndim
    if gap not in (0, 1):
        raise RuntimeError(
            f"{operator}: input.dim() must be greater or equal to other.dim() and "
            "(input.dim() - other.dim()) <= 1"
        )
    vector = _is_vector(self, b) if gap else False
    matrices = b.unsqueeze(-1) if vector else b
    if self.shape[-2] != matrices.shape[-2]:
        where = "-1" if vector else "-2"
        raise RuntimeError(
            f"{operator}: input.size(-2) should match other.size({where})"
        )
    if self.dtype is not b.dtype:
        raise RuntimeError(
            f"{operator}: Expected input and other to have the same dtype, but got "
            f"input's dtype {scalar_name(self.dtype)} and other's dtype "
            f"{scalar_name(b.dtype)}"
        )
    driver = _driver_of(self.device, operator, driver)
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"{operator}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    if rcond is None and self.dtype.code not in PRECISE:
        raise RuntimeError(
            "This function doesn't handle types other than float and double\n"
            f"  input: {brief(self)}"
        )
    check_kernel("linalg_lstsq_cpu", self)
    # A matrix beside a batch of them counts its rows as a batch, as on PyTorch.
    others = tuple(b.shape[:-1] if gap else b.shape[:-2])
    batch = tuple(broadcast_sizes([tuple(self.shape[:-2]), others]))
    return _least_squares(self, matrices, rcond, driver, vector, batch)


def _device_driver(device, operator, driver):
    if driver not in (None, "gels"):
        raise RuntimeError(
            f"{operator}: parameter `driver` other than `gels` is not supported on CUDA"
        )
    return "gels"


_driver_of = KernelTable(
    cpu=lambda device, operator, driver: "gelsy" if driver is None else driver,
    cuda=_device_driver,
)


def _least_squares(A, B, rcond, driver, vector, batch):
    *_, rows, columns = A.shape
    real = A.dtype.to_real()
    if rcond is None:
        rcond = finfo(A.dtype).eps * max(rows, columns)
    own = A.shape[:-2]
    A, B = batched(A, batch), batched(B, batch)
    wide = B.shape[-1]
    room = ops.zeros(
        (*batch, wide, max(rows, columns)), dtype=A.dtype, device=A.device
    ).transpose(-2, -1)
    room.narrow(-2, 0, rows).copy_(B)
    codes = new_codes(A)
    least = min(rows, columns)
    rank = ops.zeros(batch, dtype=INT32, device=A.device)
    values = ops.zeros((*batch, least), dtype=real, device=A.device)
    given = by_columns(A)
    if driver in ("gelsd", "gelss") and lapack_of(given).has_infinity(given):
        codes.fill_(1)  # it would not converge, or never end
    else:
        lapack_of(given).lstsq(given, room, values, rank, codes, driver, rcond)
    raise_faults(codes, "torch.linalg.lstsq", len(batch) == 0)
    residuals = fresh(A, (0,), real)
    if rows > columns and driver != "gelsy":
        full = driver == "gels" or bool((rank == columns).all().item())
        if full:
            rest = ops.abs(room.narrow(-2, columns, rows - columns))
            residuals = ops.square(rest).sum([-2])
    solution = room.narrow(-2, 0, columns)
    if A.numel() == 0:
        solution.zero_()
    return (
        solution.squeeze(-1) if vector else solution,
        residuals,
        fresh(A, (0,), INT64) if driver == "gels" else _once(rank, own).to(INT64),
        fresh(A, (0,), real) if driver in ("gels", "gelsy") else _once(values, own),
    )


def _once(facts, batch):
    """What was found of each matrix, for those that were solved more than once."""
    for d, size in enumerate(batch):
        if size == 1 and facts.shape[d] != 1:
            rest = (*facts.shape[:d], 1, *facts.shape[d + 1 :])
            facts = facts.narrow(d, 0, 1) if facts.shape[d] else facts.new_zeros(rest)
    return facts
