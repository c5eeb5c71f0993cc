"""Derivatives of solutions, inverses and determinants, made of operators.

A gradient ``g`` of ``A`` means that the loss changes by ``Re tr(g^H dA)``. The rules are
those of Giles, *An extended collection of matrix derivative results* (2008), with
adjoints in place of transposes.
"""

from rushlight.core.dtype import finfo
from rushlight.core.dtypes import bool_
from rushlight.operators import call as ops
from rushlight.operators.shared import differentiated, readable


def _triangle(x, upper, unit=False):
    if upper:
        return ops.triu(x, 1 if unit else 0)
    return ops.tril(x, -1 if unit else 0)


def solve_backward(grad, A, result, LU, pivots, left, needs):
    """``gB = A^-H g``, and ``gA = -gB X^H``; from the right the other way round."""
    vector = result.ndim == A.ndim - 1
    shown = grad.unsqueeze(-1) if vector else grad
    if differentiated(A):
        d_B = ops.linalg_solve(A.mH, shown, left=left)
    else:
        d_B = ops.linalg_lu_solve(LU, pivots, shown, left=left, adjoint=True)
    d_A = None
    if needs & 1:
        X = result.unsqueeze(-1) if vector else result
        d_A = -(d_B @ X.mH) if left else -(X.mH @ d_B)
    return d_A, (d_B.squeeze(-1) if vector else d_B) if needs & 2 else None


def triangle_backward(grad, A, X, upper, left, unit, needs, transpose=False):
    """As for whole matrices, kept to the triangle that was read."""
    if transpose:  # A^H X = B
        d_B = ops.linalg_solve_triangular(
            A, grad, upper=upper, left=left, unitriangular=unit
        )
        d_A = -(X @ d_B.mH) if needs & 1 else None
    else:
        d_B = ops.linalg_solve_triangular(
            A.mH, grad, upper=not upper, left=left, unitriangular=unit
        )
        d_A = None
        if needs & 1:
            d_A = -(d_B @ X.mH) if left else -(X.mH @ d_B)
    if d_A is not None:
        d_A = _triangle(d_A, upper, unit)
    return d_A, d_B if needs & 2 else None


def mixed_triangle_backward(grad, A, B, X, upper, left, unit, needs):
    """`triangle_backward` where B may be of another type than A, which it is cast to."""
    d_A, d_B = triangle_backward(grad, A, X, upper, left, unit, needs)
    if d_B is not None and d_B.dtype is not B.dtype:
        real = d_B.is_complex() and not B.is_complex()
        d_B = (ops.real(d_B) if real else d_B).to(B.dtype)
    return d_A, d_B


def triangular_solve_backward(grads, B, A, X, upper, transpose, unit, needs):
    """For the older operator, whose second result is a copy of the triangle."""
    grad, grad_copy = grads
    if A.is_sparse_csr:  # its gradient is that of a whole triangle
        A, grad_copy = ops.to_dense(A), None
    d_A = d_B = None
    if grad is not None:
        wanted = (needs >> 1 & 1) | (needs & 1) << 1
        d_A, d_B = triangle_backward(
            grad, A, X, upper, True, unit, wanted, transpose=transpose
        )
    if grad_copy is not None and needs & 2:
        d_A = grad_copy if d_A is None else d_A + grad_copy
    return d_B, d_A


def cholesky_solve_backward(grad, B, L, X, upper, needs):
    """``gB = (L L^H)^-1 g``; the factor's gradient through their product."""
    d_B = ops.cholesky_solve(grad, L, upper)
    d_L = None
    if needs & 2:
        through = d_B @ X.mH
        through = -(through + through.mH)
        d_L = L @ through if upper else through @ L
    return d_B if needs & 1 else None, d_L


def cholesky_inverse_backward(grad, L, upper, inverse):
    """``-X (g + g^H) X L``."""
    through = -(inverse @ (grad + grad.mH) @ inverse)
    return L @ through if upper else through @ L


def lu_solve_backward(grad, LU, pivots, X, left, adjoint, needs):
    """Gradients for packed factors and the right-hand side.

    Solving from the right is solving the adjoint equation for adjoints.
    """
    d_B = d_LU = None
    back = ops.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    if needs & 2:
        d_B = back
    if needs & 1:
        if not left:
            X, back, adjoint = X.mH, back.mH, not adjoint
        if not grad.numel():  # pivots are not looked at
            return ops.zeros_like(LU), d_B
        P, _, _ = ops.lu_unpack(LU.detach(), pivots, False)
        L, U = ops.tril(LU, -1) + _eye(LU), ops.triu(LU)
        if adjoint:  # A^H X = B: the gradient of A is -X back^H
            outer_left, outer_right = P.mT @ X, back
        else:
            outer_left, outer_right = P.mT @ back, X
        d_L = -(outer_left @ (U @ outer_right).mH)
        d_U = -((L.mH @ outer_left) @ outer_right.mH)
        d_LU = ops.tril(d_L, -1) + ops.triu(d_U)
    return d_LU, d_B


def _eye(A):
    return ops.eye(A.shape[-1], dtype=A.dtype, device=A.device)


def lu_unpack_backward(grads, rows, columns):
    """The triangles' gradients side by side where their factors were packed."""
    _, grad_l, grad_u = grads
    if grad_l is None and grad_u is None:
        return None
    least = min(rows, columns)
    below = above = None
    if grad_l is not None:
        below = ops.tril(grad_l, -1)
        if columns > least:
            below = ops.cat([below, _zeros(below, rows, columns - least)], -1)
    if grad_u is not None:
        above = ops.triu(grad_u)
        if rows > least:
            above = ops.cat([above, _zeros(above, rows - least, columns)], -2)
    if below is None or above is None:
        return above if below is None else below
    return below + above


def _zeros(like, rows, columns):
    return ops.zeros(
        (*like.shape[:-2], rows, columns), dtype=like.dtype, device=like.device
    )


def lu_backward(grad, LU, pivots):
    """For packed factors of matrices of any shape: ``P^T A = L U``."""
    rows, columns = LU.shape[-2:]
    least = min(rows, columns)
    P, _, _ = ops.lu_unpack(LU.detach(), pivots, False)
    square = LU.narrow(-2, 0, least).narrow(-1, 0, least)
    L, U = ops.tril(square, -1) + _eye(square), ops.triu(square)
    corner = grad.narrow(-2, 0, least).narrow(-1, 0, least)
    grad_l, grad_u = ops.tril(corner, -1), ops.triu(corner)
    if rows == columns:
        middle = ops.tril(L.mH @ grad_l, -1) + ops.triu(grad_u @ U.mH)
        middle = ops.linalg_solve_triangular(U.mH, middle, upper=False, left=False)
        return P @ _solve_unit(L.mH, middle)
    if columns > rows:
        U_rest = LU.narrow(-1, least, columns - least)
        rest = grad.narrow(-1, least, columns - least)
        lower = L.mH @ grad_l - (grad_u @ U.mH + rest @ U_rest.mH)
        lower = ops.linalg_solve_triangular(
            U.mH, ops.tril(lower, -1), upper=False, left=False
        )
        return P @ _solve_unit(L.mH, ops.cat([grad_u + lower, rest], -1))
    L_rest = LU.narrow(-2, least, rows - least)
    rest = grad.narrow(-2, least, rows - least)
    upper = grad_u @ U.mH - (L.mH @ grad_l + L_rest.mH @ rest)
    upper = _solve_unit(L.mH, ops.triu(upper))
    whole = ops.cat([grad_l + upper, rest], -2)
    return P @ ops.linalg_solve_triangular(U.mH, whole, upper=False, left=False)


def _solve_unit(upper, right):
    """By an upper triangle that has ones on its diagonal."""
    return ops.linalg_solve_triangular(upper, right, upper=True, unitriangular=True)


def inverse_backward(grad, inverse):
    """``-X^H g X^H``."""
    return -(inverse.mH @ grad @ inverse.mH)


def pinv_backward(grad, result, A):
    """Golub and Pereyra, *The differentiation of pseudo-inverses* (1973)."""
    Xh, gh = result.mH, grad.mH
    own = -(Xh @ grad @ Xh)
    left = gh @ (result @ Xh)
    left = left - A @ (result @ left)
    right = (Xh @ result) @ gh
    right = right - (right @ result) @ A
    return own + left + right


def det_backward(grad, A, det, LU, pivots):
    """``conj(det) g A^-H``; of a singular matrix, that of one close to it.

    Where the result is to be differentiated again, a singular matrix has the matrix of
    its cofactors from singular values, which nothing divides by.
    """
    if A.numel() == 0:
        return ops.zeros_like(A)
    if A.shape[-1] == 1:
        return grad.unsqueeze(-1).unsqueeze(-1)
    if differentiated(A):
        if readable(det) and (det == 0).any().item():
            return grad.unsqueeze(-1).unsqueeze(-1) * _cofactors(A)
        scaled = (grad * det.conj()).unsqueeze(-1)
        wanted = ops.diag_embed(scaled.expand(A.shape[:-1]))
        return ops.linalg_solve_ex(A.mH, wanted)[0]
    diagonal = LU.diagonal(0, -2, -1)
    near = ops.where(diagonal == 0, finfo(A.dtype).eps, 0.0).to(LU.dtype)
    factors = LU + ops.diag_embed(near)
    det = ops.prod(factors.diagonal(0, -2, -1), -1) * signs_of(pivots)
    scaled = (grad * det.conj()).unsqueeze(-1)
    wanted = ops.diag_embed(scaled.expand(A.shape[:-1]))
    # The factors are those of the transposed matrix where that lay better.
    result = ops.linalg_lu_solve(factors, pivots, wanted, adjoint=True)
    return result.transpose(-2, -1) if A.is_contiguous() else result


def _cofactors(A):
    """The conjugated cofactors: ``conj(det(U) det(Vh)) U diag(others) Vh``."""
    U, S, Vh = ops.linalg_svd(A, False)
    size = S.shape[-1]
    eye = ops.eye(size, dtype=bool_, device=A.device)
    others = ops.where(eye, 1.0, S.unsqueeze(-2)).prod(-1)
    phase = (ops.linalg_det(U) * ops.linalg_det(Vh)).unsqueeze(-1).unsqueeze(-1)
    return phase * ((U * others.unsqueeze(-2)) @ Vh)


def signs_of(pivots):
    """1 or -1: whether the exchanged rows are an even permutation."""
    count = pivots.shape[-1]
    positions = ops.arange(1, count + 1, dtype=pivots.dtype, device=pivots.device)
    moved = (pivots != positions).sum([-1])
    return 1 - 2 * (moved & 1)


def slogdet_backward(grads, A, sign, LU, pivots):
    """``(g_log + i Im(conj(sign) g_sign)) A^-H``."""
    grad_sign, grad_log = grads[0], grads[1]
    if A.is_complex():
        factor = None if grad_log is None else grad_log.to(A.dtype)
        if grad_sign is not None:
            phase = ops.imag(grad_sign * sign.conj())
            phase = ops.complex(ops.zeros_like(phase), phase)
            factor = phase if factor is None else factor + phase
    else:
        factor = grad_log
    if factor is None:
        return None
    wanted = ops.diag_embed(factor.unsqueeze(-1).expand(A.shape[:-1]))
    if differentiated(A):
        return ops.linalg_solve(A.mH, wanted)
    return ops.linalg_lu_solve(LU, pivots, wanted, adjoint=True)


def lstsq_backward(grads, A, B, X, needs):
    """Through the pseudo-inverse: ``X = A^+ B``.

    What is left over does not change with the solution: it is the least.
    """
    grad, grad_left = grads[0], grads[1]
    vector = B.ndim == A.ndim - 1
    if vector:
        B, X = B.unsqueeze(-1), X.unsqueeze(-1)
        grad = None if grad is None else grad.unsqueeze(-1)
    d_A = d_B = None
    if grad is not None:
        pinv = ops.linalg_pinv(A, atol=None, rtol=None)
        if needs & 1:
            d_A = pinv_backward(grad @ B.mH, pinv, A)
        if needs & 2:
            d_B = pinv.mH @ grad
    if grad_left is not None and grad_left.numel():
        left = (A @ X - B) * (2 * grad_left.unsqueeze(-2))
        if needs & 1:
            part = left @ X.mH
            d_A = part if d_A is None else d_A + part
        if needs & 2:
            d_B = -left if d_B is None else d_B - left
    return d_A, d_B.squeeze(-1) if vector and d_B is not None else d_B
