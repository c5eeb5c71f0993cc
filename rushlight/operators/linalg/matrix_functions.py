"""Functions of whole matrices: exponentials, norms, ranks, conditions, tensor equations."""

import math

from rushlight.core.dtype import FLOATING
from rushlight.core.dtypes import float32, int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.warning import warn_once
from rushlight.operators import call as ops
from rushlight.operators.linalg.linalg_checks import (
    LinAlgError,
    check_float,
    check_matrix,
    check_square,
    raise_faults,
)
from rushlight.operators.linalg.solving import tolerances
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.shared import has_elements

# Exponentials

# How large a matrix may be, in the 1-norm, for Taylor's polynomial of a degree to be
# right to the last bit, and how few products give the polynomial: Bader, Blanes and Casas,
# Computing the matrix exponential with an optimized Taylor polynomial approximation (2019).
_DEGREES = (1, 2, 4, 8, 12, 18)
_LIMITS = {
    "float32": (1.192e-07, 5.978e-04, 5.116e-02, 5.800e-01, 1.461e00, 3.010e00),
    "float64": (2.220e-16, 2.580e-08, 3.397e-04, 4.991e-02, 2.996e-01, 1.090e00),
}
# Their sums of powers: a row of factors of I, A, A^2, A^3 for each, and of A^6.
_SUMS_OF_12 = (
    (
        9.0198e-16,
        0.46932117595418237389,
        -0.20099424927047284052,
        -0.04623946134063071740,
    ),
    (
        5.31597895759871264183,
        1.19926790417132231573,
        0.01179296240992997031,
        0.01108844528519167989,
    ),
    (
        0.18188869982170434744,
        0.05502798439925399070,
        0.09351590770535414968,
        0.00610700528898058230,
    ),
    (
        -2.0861320e-13,
        -0.13181061013830184015,
        -0.02027855540589259079,
        -0.00675951846863086359,
    ),
)
_SUMS_OF_18 = (
    (0.0, -0.100365581030144618291, -8.02924648241156932449e-03,
     -8.92138498045729985177e-04, 0.0),
    (0.0, 0.397849749499645077844, 1.36783778460411720168,
     0.498289622525382669416, -6.37898194594723280150e-04),
    (-10.9676396052962061844, 1.68015813878906206114, 0.0571779846478865511061,
     -6.98210122488052056106e-03, 3.34975017086070470649e-05),
    (-0.0904316832390810593223, -0.0676404519071381882256, 0.0675961301770459654925,
     0.0295552570429315521194, -1.39180257516060693404e-05),
    (0.0, 0.0, -0.0923364619367118555360,
     -0.0169364939002081722752, -1.40086798182036094347e-05),
)  # fmt: skip


def linalg_matrix_exp(self):
    """Taylor's polynomial of a matrix scaled down, squared as often.

    Raises:
        RuntimeError: the matrices aren't square.
    """
    check_square(self, "linalg.matrix_exp")
    check_float(self, "linalg.matrix_exp")
    size = self.shape[-1]
    if not has_elements(self):
        return ops.clone(self)
    if size == 1:
        return ops.exp(self)
    if self.dtype.itemsize == 2:
        return linalg_matrix_exp(self.to(float32)).to(self.dtype)
    limits = _LIMITS[self.dtype.to_real().name]
    norms = ops.abs(self).sum([-2]).amax([-1])
    if norms.numel() == 1:
        largest = norms.max().item()
        for degree, limit in zip(_DEGREES, limits):
            if largest <= limit:
                return _taylor(self, degree)
    # The squarings of each matrix; NaN and infinity are left to the polynomial.
    times = ops.ceil(ops.log2(norms / limits[-1]))
    times = ops.where(ops.isfinite(times), ops.clamp_min(times, 0.0), 0.0)
    most = int(times.max().item())
    times = times.unsqueeze(-1).unsqueeze(-1)
    result = _taylor(self * ops.exp2(-times), _DEGREES[-1])
    for iteration in range(most):
        squared = result @ result
        result = (
            squared if self.ndim == 2 else ops.where(times > iteration, squared, result)
        )
    return result


def _taylor(A, degree):
    """The polynomial of a degree, by five products at most."""
    eye = ops.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    if degree == 1:
        return eye + A
    square = A @ A
    if degree == 2:
        return eye + A + square / 2
    if degree == 4:
        return eye + A + square @ (eye / 2 + A / 6 + square / 24)
    if degree == 8:
        return _taylor_of_8(eye, A, square)
    powers = [eye, A, square, A @ square]
    if degree == 12:
        first, second, third, fourth = _sums(powers, _SUMS_OF_12)
        half = third + fourth @ fourth
        return first + (second + half) @ half
    powers.append(powers[3] @ powers[3])
    first, second, third, fourth, fifth = _sums(powers, _SUMS_OF_18)
    half = first @ fifth + fourth
    return second + (third + half) @ half


def _taylor_of_8(eye, A, square):
    root = math.sqrt(177)
    a = 2 / 3
    fourth = square @ (a * (1 + root) / 88 * A + a * (1 + root) / 352 * square)
    eighth = (a * square + fourth) @ (
        (29 * root - 271) / (315 * a) * eye
        + 11 * (root - 1) / (1260 * a) * A
        + 11 * (root - 9) / (5040 * a) * square
        + (89 - root) / (5040 * a * a) * fourth
    )
    return eye + A + (857 - 58 * root) / 630 * square + eighth


def _sums(powers, rows):
    """Sums of powers of a matrix, with a row of factors for each."""
    found = []
    for row in rows:
        terms = [f * power for f, power in zip(row, powers, strict=True) if f]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        found.append(total)
    return found


def matrix_exp_backward(grad, self):
    """The corner of ``exp([[A^H, g], [0, A^H]])``, which is the derivative along ``g``.

    See Najfeld and Havel, *Derivatives of the matrix exponential* (1995).
    """
    size = self.shape[-1]
    A = self.mH
    upper = ops.cat([A, grad.expand(A.shape)], -1)
    lower = ops.cat([ops.zeros_like(A), A], -1)
    whole = ops.linalg_matrix_exp(ops.cat([upper, lower], -2))
    return whole.narrow(-2, 0, size).narrow(-1, size, size)


# Norms


def linalg_norm(self, ord, dim, keepdim, dtype):
    """Of vectors where one dimension or none is given, of matrices for two.

    Raises:
        RuntimeError: the dimensions don't fit the order.
    """
    if dim is not None and len(dim) not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got "
            f"{list(dim)}"
        )
    if isinstance(ord, str):
        dims = range(self.ndim) if dim is None else dim
        if dim is None and self.ndim not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D "
                f"or 2D. Got {self.ndim}D."
            )
        return linalg_matrix_norm(self, ord, list(dims), keepdim, dtype)
    if ord is not None and dim is None and self.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or "
            f"2D. Got {self.ndim}D."
        )
    if ord is not None and (self.ndim if dim is None else len(dim)) == 2:
        dims = [0, 1] if dim is None else dim
        return linalg_matrix_norm(self, ord, dims, keepdim, dtype)
    order = 2 if ord is None else ord
    return ops.linalg_vector_norm(self, order, dim, keepdim, dtype=dtype)


def linalg_matrix_norm(self, ord, dim, keepdim, dtype):
    """From the elements, the sums of rows or columns, or the singular values.

    Raises:
        RuntimeError: the order is unknown, or the dimensions aren't two.
    """
    operator = "linalg.matrix_norm"
    check_matrix(self, operator)
    if isinstance(ord, complex):
        raise RuntimeError(
            f"{operator}: Expected a non-complex scalar as the order of norm."
        )
    known = ("fro", "nuc") if isinstance(ord, str) else (1, 2, math.inf)
    if (ord if isinstance(ord, str) else abs(ord)) not in known:
        raise RuntimeError(f"{operator}: Order {_shown(ord)} not supported.")
    if len(dim) != 2:
        raise RuntimeError(
            f"{operator}: dim must be a 2-tuple. Got {' '.join(map(str, dim))}"
        )
    check_float(self, operator)
    rows, columns = (wrap_dim(axis, self.ndim) for axis in dim)
    if rows == columns:
        raise RuntimeError(
            f"{operator}: dims must be different. Got ({dim[0]}, {dim[1]})"
        )
    if ord == "fro":
        return ops.linalg_vector_norm(self, 2, [rows, columns], keepdim, dtype=dtype)
    if dtype is not None:
        _check_norm_dtype(self, dtype)
        self = self.to(dtype)
    if ord == "nuc" or abs(ord) == 2:
        check_float(self, operator, low=False)
        result = _spectral_norm(self, ord, rows, columns)
    else:
        along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = ops.abs(self).sum([along], keepdim=True)
        result = _extreme(sums, ord, across)
    if keepdim:
        if ord == "nuc" or abs(ord) == 2:
            for axis in sorted((rows, columns)):
                result = result.unsqueeze(axis)
        return result
    if ord == "nuc" or abs(ord) == 2:
        return result
    result = result.squeeze([rows, columns])
    return ops._unsafe_view(result, result.shape)


def _shown(ord):
    if isinstance(ord, str) or not math.isfinite(ord) or ord != int(ord):
        return ord
    return int(ord)


def _check_norm_dtype(self, dtype):
    if dtype.category not in (2, 3):
        raise RuntimeError(
            "linalg.matrix_norm: dtype should be floating point or complex, but got "
            f"{scalar_name(dtype)}"
        )
    if dtype.is_complex != self.is_complex():
        kind = "complex" if self.is_complex() else "real"
        raise RuntimeError(
            f"linalg.matrix_norm: dtype should be {kind} for {kind} inputs, but got "
            f"{scalar_name(dtype)}"
        )


def _extreme(values, ord, axis):
    """The largest, or for a negative order the smallest, of them along an axis."""
    if values.shape[axis] == 0 and ord > 0:
        return values.sum([axis], keepdim=True)
    return (ops.amax if ord > 0 else ops.amin)(values, [axis], True)


def _spectral_norm(A, ord, rows, columns):
    """From singular values, without the two dimensions."""
    rest = [axis for axis in range(A.ndim) if axis not in (rows, columns)]
    values = ops.linalg_svdvals(A.permute([*rest, rows, columns]))
    if ord == "nuc":
        return values.sum([-1])
    return _extreme(values, ord, values.ndim - 1).squeeze(-1)


def _warn_of_kept(name, instead):
    """Says that an operator is there for recorded programs only."""
    warn_once(
        f"at::{name} is deprecated and it is just left for JIT compatibility. It will be "
        f"removed in a future release. Please use `{instead}` instead"
    )


def nuclear_norm(self, keepdim):
    """The sum of the singular values."""
    _warn_of_kept("nuclear_norm", "torch.linalg.matrix_norm")
    return ops.linalg_matrix_norm(self, "nuc", [-2, -1], keepdim)


def nuclear_norm_along(self, dim, keepdim):
    """Of the matrices in two dimensions."""
    _warn_of_kept("nuclear_norm", "torch.linalg.matrix_norm")
    return ops.linalg_matrix_norm(self, "nuc", dim, keepdim)


def frobenius_norm(self, dim, keepdim):
    """The root of the sum of squares along one or two dimensions, or all.

    Raises:
        RuntimeError: there are more dimensions.
    """
    _warn_of_kept("frobenius_norm", "torch.linalg.vector_norm")
    if len(dim) > 2:
        raise RuntimeError(
            f"Expected at most 2 dimensions, but got {len(dim)} dimensions instead."
        )
    return ops.linalg_vector_norm(self, 2, dim or None, keepdim)


def norm_except_dim(v, pow, dim):
    """Over all dimensions but one; -1 leaves none."""
    if dim == -1:
        return ops.linalg_vector_norm(v, pow)
    dim = wrap_dim(dim, v.ndim)
    others = [axis for axis in range(v.ndim) if axis != dim]
    if not others:
        return ops.abs(v)
    return ops.linalg_vector_norm(v, pow, others, True)


def weight_norm(v, g, dim):
    """The direction of one tensor, the length of another."""
    return v * (g / norm_except_dim(v, 2, dim))


# Condition and rank


def linalg_cond(self, p):
    """The norm times the inverse's; of singular values, the largest over the smallest.

    Raises:
        RuntimeError: the order is unknown, or the matrices aren't square and it is not 2.
    """
    if self.ndim < 2:
        raise RuntimeError(
            "linalg.cond: The input tensor must have at least 2 dimensions."
        )
    if isinstance(p, complex):
        raise RuntimeError("value cannot be converted to type double without overflow")
    whole = (
        self.numel() == 0 and self.dtype.category < FLOATING
    )  # of integers nothing is taken
    if p is None or p in (2, -2):
        if whole:
            return ops.new_zeros(self, self.shape[:-2])
        values = ops.linalg_svdvals(self)
        if values.numel() == 0:
            return _no_matrix(values)
        first, last = values.narrow(-1, 0, 1), values.narrow(-1, -1, 1)
        return (last / first if p == -2 else first / last).squeeze(-1)
    if isinstance(p, str):
        check_square(self, f"linalg.cond(ord={p})")
    if p not in ("fro", "nuc") and (isinstance(p, str) or abs(p) not in (1, math.inf)):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {_shown(p)}")
    if not isinstance(p, str):
        name = str(_shown(p)) if math.isfinite(p) else str(p)
        check_square(self, f"linalg.cond(ord={name})")
    if whole:
        return ops.new_zeros(self, self.shape[:-2])
    if self.numel() == 0:
        return _no_matrix(ops.abs(self).sum([-1]))
    inverse, codes = ops.linalg_inv_ex(self)
    singular = (codes > 0).unsqueeze(-1).unsqueeze(-1)
    inverse = ops.masked_fill(inverse, singular, math.inf)
    norm = ops.linalg_matrix_norm(self, p)
    if p == "nuc":
        # The singular values of what is infinite are not to be found.
        inverse = ops.masked_fill(inverse, singular, 0.0)
        other = ops.linalg_matrix_norm(inverse, p)
        return ops.where(codes > 0, math.inf, norm * other)
    return norm * ops.linalg_matrix_norm(inverse, p)


def _no_matrix(values):
    return ops.zeros(values.shape[:-1], dtype=values.dtype, device=values.device)


def linalg_matrix_rank(self, atol, rtol, hermitian):
    """How many singular values do not count as zero.

    Raises:
        RuntimeError: the input is no matrix of floating-point numbers.
    """
    check_matrix(self, "torch.linalg.matrix_rank", "input")
    precise = self.dtype.category >= FLOATING and self.dtype.itemsize >= 4
    if not precise and rtol is None:
        raise RuntimeError(
            "This function doesn't handle types other than float and double"
        )
    atol, rtol = tolerances(self, atol, rtol, "torch.linalg.matrix_rank")
    if self.numel() == 0:
        return ops.zeros(self.shape[:-2], dtype=int64, device=self.device)
    if hermitian:
        values = ops.abs(ops.linalg_eigvalsh(self))
    else:
        values = ops.linalg_svdvals(self)
    largest = ops.amax(values, [-1])
    cut = ops.maximum(atol, rtol * largest).unsqueeze(-1)
    return (values > cut).sum([-1])


def linalg_matrix_rank_of_tol(self, tol, hermitian):
    """With an absolute tolerance, a number or a tensor."""
    return linalg_matrix_rank(self, tol, 0.0, hermitian)


# Tensors as matrices


def linalg_tensorinv(self, ind):
    """The inverse of the tensor seen as a matrix.

    Raises:
        RuntimeError: it is no square matrix.
        LinAlgError: the matrix is singular.
    """
    if ind <= 0:
        raise RuntimeError(
            f"Expected a strictly positive integer for 'ind', but got {ind}"
        )
    if ind > self.ndim:
        raise RuntimeError(
            f"Expected 'ind' to be at most the number of dimensions {self.ndim}, but got "
            f"{ind}"
        )
    shape = list(self.shape)
    before, after = math.prod(shape[:ind]), math.prod(shape[ind:])
    if before != after:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {after} != {before}"
        )
    inverse, codes = ops.linalg_inv_ex(self.reshape([after, before]))
    raise_faults(codes, "inv", True)
    return inverse.reshape([*shape[ind:], *shape[:ind]])


def linalg_tensorsolve(self, other, dims):
    """The solution of ``tensordot(self, x) = other``.

    Raises:
        RuntimeError: the sizes don't make a square matrix.
    """
    moved = self
    if dims is not None:
        moved = self.movedim(dims, list(range(self.ndim - len(dims), self.ndim)))
    split = other.ndim
    rest = list(moved.shape[split:])
    count, wanted = math.prod(rest), math.prod(moved.shape[:split])
    if count != wanted:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {count} != {wanted}"
        )
    matrix = moved.reshape([count, count])
    return ops.linalg_solve(matrix, other.reshape([-1])).reshape(rest)
