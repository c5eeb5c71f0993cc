"""Derivatives of factorizations, real and complex, made of operators.

A gradient ``g`` of ``A`` means that the loss changes by ``Re tr(g^H dA)``. The rules are
those of Giles, *An extended collection of matrix derivative results* (2008); Seeger et
al., *Auto-differentiating linear algebra* (2017); and Wan and Zhang, *Automatic
differentiation for complex valued SVD* (2019), for the phases that are free.
"""

from rushlight.operators import call as ops


def _real(x):
    return ops.real(x) if x.is_complex() else x


def _imaginary(x):
    return ops.imag(x)


def _skew(x):
    """Twice the part that a small rotation keeps."""
    return x - x.mH


def _half_diagonal(x):
    """The matrix with its diagonal halved."""
    diagonal = x.diagonal(0, -2, -1)
    return x - ops.diag_embed(diagonal) * 0.5


def _differences(values):
    """``values[j] - values[i]``, with ones on the diagonal."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    size = values.shape[-1]
    return gaps + ops.eye(size, dtype=values.dtype, device=values.device)


def _off_diagonal(x):
    return x - ops.diag_embed(x.diagonal(0, -2, -1))


def cholesky_backward(grad, upper, L):
    """``A = L L^H``: ``L^-H sym(tril(L^H g)) L^-1``."""
    if upper:
        L, grad = L.mH, grad.mH
    middle = ops.tril(L.mH @ grad)
    middle = (middle + ops.tril(middle, -1).mH) * 0.5
    middle = ops.linalg_solve_triangular(L.mH, middle, upper=True, left=True)
    return ops.linalg_solve_triangular(L, middle, upper=False, left=False)


def qr_backward(grads, Q, R, mode):
    """For ``A = Q R`` with the diagonal of R real.

    With more columns than rows the first of them make Q, and the rest is ``Q^H A``.

    Raises:
        RuntimeError: Q is not there, or has columns that A says nothing about.
    """
    grad_q, grad_r = grads
    if grad_q is None and grad_r is None:
        return None
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when "
            "mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to "
            "require gradients in your code"
        )
    rows, columns = Q.shape[-2], R.shape[-1]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and "
            "nrows > ncols"
        )
    if rows >= columns:
        return _tall_qr_backward(grad_q, grad_r, Q, R)
    return _wide_qr_backward(grad_q, grad_r, Q, R)


def _wide_qr_backward(grad_q, grad_r, Q, R):
    """Q turns by what lies below the diagonal of the first columns over R.

    No number is divided by R's last diagonal element, which may be zero.
    """
    rows, columns = R.shape[-2:]
    rotated = 0 if grad_q is None else Q.mH @ grad_q
    rotated = rotated if grad_r is None else rotated - grad_r @ R.mH
    skew = ops.tril(rotated - rotated.mH)
    skew = skew - 0.5 * ops.diag_embed(ops.diagonal(skew, 0, -2, -1))
    first = R.narrow(-1, 0, rows)
    skew = ops.linalg_solve_triangular(first.mH, skew, upper=False, left=False)
    result = ops.constant_pad_nd(skew, (0, columns - rows))
    return Q @ (result if grad_r is None else result + grad_r)


def _tall_qr_backward(grad_q, grad_r, Q, R):
    middle = None
    if grad_r is not None:
        middle = grad_r @ R.mH
    if grad_q is not None:
        rotated = Q.mH @ grad_q
        middle = -rotated if middle is None else middle - rotated
    middle = _half_diagonal(ops.triu(middle))
    result = Q @ (middle + middle.mH)
    if grad_q is not None:
        result = result + grad_q
    return ops.linalg_solve_triangular(R.mH, result, upper=False, left=False)


def svd_backward(grads, U, S, Vh, full_matrices, compute_uv):
    """``U (diag(gS) + rotations) Vh``, plus what leaves the span of the vectors.

    Raises:
        RuntimeError: vectors were not computed, or the loss depends on their phases.
    """
    grad_u, grad_s, grad_vh = grads
    if grad_u is None and grad_s is None and grad_vh is None:
        return None
    if not compute_uv:
        raise RuntimeError(
            "svd_backward: Setting compute_uv to false in torch.svd doesn't compute "
            "singular matrices, and hence we cannot compute backward. Please use "
            "torch.svd(compute_uv=True)"
        )
    if full_matrices:
        least = S.shape[-1]
        U, Vh = U.narrow(-1, 0, least), Vh.narrow(-2, 0, least)
        grad_u = None if grad_u is None else grad_u.narrow(-1, 0, least)
        grad_vh = None if grad_vh is None else grad_vh.narrow(-2, 0, least)
    if grad_u is None and grad_vh is None:
        if U.shape[-2] >= Vh.shape[-1]:
            return U @ (grad_s.unsqueeze(-1) * Vh)
        return (U * grad_s.unsqueeze(-2)) @ Vh
    along, down = S.unsqueeze(-2), S.unsqueeze(-1)
    gaps = _differences(S) * _sums(S)
    rotated_u = None if grad_u is None else U.mH @ grad_u
    rotated_v = None if grad_vh is None else Vh @ grad_vh.mH
    middle = 0
    if rotated_u is not None:
        middle = (_skew(rotated_u) / gaps) * along
    if rotated_v is not None:
        middle = middle + down * (_skew(rotated_v) / gaps)
    middle = _off_diagonal(middle)
    if U.is_complex():
        middle = middle + ops.diag_embed(_phase(rotated_u, rotated_v, S))
    if grad_s is not None:
        middle = middle + ops.diag_embed(grad_s)
    result = U @ middle @ Vh
    if grad_u is not None and U.shape[-2] > S.shape[-1]:
        outside = grad_u - U @ rotated_u
        result = result + (outside / along) @ Vh
    if grad_vh is not None and Vh.shape[-1] > S.shape[-1]:
        outside = grad_vh - rotated_v.mH @ Vh
        result = result + (U / along) @ outside
    return result


def _sums(values):
    """``values[j] + values[i]``, with ones on the diagonal."""
    sums = values.unsqueeze(-2) + values.unsqueeze(-1)
    size = values.shape[-1]
    eye = ops.eye(size, dtype=values.dtype, device=values.device)
    return ops.where(eye > 0, eye, sums)


def _phase(rotated_u, rotated_v, S):
    """What a common phase of both vectors would change; it must not change the loss."""
    own = None if rotated_u is None else rotated_u.diagonal(0, -2, -1)
    other = None if rotated_v is None else rotated_v.diagonal(0, -2, -1)
    first = ops.zeros_like(S) if own is None else _imaginary(own)
    second = ops.zeros_like(S) if other is None else _imaginary(other)
    if not ops.allclose(first.detach(), -second.detach(), 1e-2, 1e-2):
        raise RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to "
            "multiplication by e^{i phi}. The specified loss function depends on this "
            "quantity, making it ill-defined."
        )
    if own is None:
        return ops.complex(ops.zeros_like(S), -second / S)
    return ops.complex(ops.zeros_like(S), first / S)


def eigh_backward(grads, values, vectors, compute_v):
    """``V (diag(gL) + skew(V^H gV) / gaps) V^H``.

    Raises:
        RuntimeError: vectors were not computed, or the loss depends on their phases.
    """
    grad_values, grad_vectors = grads
    if grad_values is None and grad_vectors is None:
        return None
    if not compute_v:
        raise RuntimeError(
            "linalg_eigh_backward: torch.linalg.eigvalsh and torch.linalg.eigh without "
            "eigenvectors keep nothing to differentiate through. Please use "
            "torch.linalg.eigh"
        )
    if grad_vectors is None:
        return (vectors * grad_values.unsqueeze(-2)) @ vectors.mH
    rotated = vectors.mH @ grad_vectors
    _check_phase(rotated, "linalg_eigh_backward")
    middle = _off_diagonal(_skew(rotated) * 0.5 / _differences(values))
    if grad_values is not None:
        middle = middle + ops.diag_embed(grad_values)
    return vectors @ middle @ vectors.mH


def _check_phase(rotated, operator):
    if rotated.is_complex():
        phases = _imaginary(rotated.diagonal(0, -2, -1)).detach()
        if not ops.allclose(phases, ops.zeros_like(phases), 1e-2, 1e-2):
            raise RuntimeError(
                f"{operator}: The eigenvectors in the complex case are specified up to "
                "multiplication by e^{i phi}. The specified loss function depends on "
                "this quantity, so it is ill-defined."
            )


def eig_backward(grads, values, vectors, real):
    """``V^-H (diag(gL) + (V^H gV - V^H V Re(diag(V^H gV))) / gaps) V^H``.

    The second part keeps the vectors at unit length.

    Raises:
        RuntimeError: the loss depends on the phases of the vectors.
    """
    grad_values, grad_vectors = grads
    if grad_values is None and grad_vectors is None:
        return None
    if grad_vectors is None:
        middle = grad_values.unsqueeze(-1) * vectors.mH
    else:
        rotated = vectors.mH @ grad_vectors
        _check_phase(rotated, "linalg_eig_backward")
        lengths = ops.real(rotated.diagonal(0, -2, -1)).unsqueeze(-2)
        rotated = rotated - (vectors.mH @ (vectors * lengths))
        middle = _off_diagonal(rotated / _differences(values).conj())
        if grad_values is not None:
            middle = middle + ops.diag_embed(grad_values)
        middle = middle @ vectors.mH
    result = ops.linalg_solve(vectors.mH, middle)
    return ops.real(result) if real else result


# Products of reflectors: H1 H2 ... Hk = 1 - V T V^H, where
# T = (1 + diag(tau) striu(V^H V))^-1 diag(tau), a form without division
# (Joffrain et al., Accumulating Householder transformations, 2006).


def _compact(input, tau):
    """V, which holds the reflectors as columns, and ``1 + diag(tau) striu(V^H V)``."""
    count = tau.shape[-1]
    V = ops.tril(input.narrow(-1, 0, count), -1)
    V = V + ops.eye(V.shape[-2], count, dtype=V.dtype, device=V.device)
    inner = ops.triu(V.mH @ V, 1)
    eye = ops.eye(count, dtype=V.dtype, device=V.device)
    return V, inner, eye + tau.unsqueeze(-1) * inner


def _reflectors_backward(g, input, tau, C, adjoint):
    """Gradients of ``(1 - V T V^H) C``, or with the adjoint, for ``input`` and ``tau``."""
    V, inner, N = _compact(input, tau)
    column = tau.unsqueeze(-1)
    met = V.mH @ C
    g_W = -(V.mH @ g)
    if adjoint:
        Z = ops.linalg_solve_triangular(N.mH, met, upper=False)
        W = column.conj() * Z
        g_tau = (g_W.conj() * Z).sum([-1])
        g_met = ops.linalg_solve_triangular(N, column * g_W, upper=True)
        g_N = -(Z @ g_met.mH)
    else:
        W = ops.linalg_solve_triangular(N, column * met, upper=True)
        g_R = ops.linalg_solve_triangular(N.mH, g_W, upper=False)
        g_tau = (g_R * met.conj()).sum([-1])
        g_met = column.conj() * g_R
        g_N = -(g_R @ W.mH)
    g_tau = g_tau + (g_N * inner.conj()).sum([-1])
    g_inner = ops.triu(column.conj() * g_N, 1)
    g_V = C @ g_met.mH - g @ W.mH + V @ (g_inner + g_inner.mH)
    g_V = ops.tril(g_V, -1)
    beyond = input.shape[-1] - tau.shape[-1]
    if beyond:
        zeros = ops.zeros_like(input.narrow(-1, 0, beyond))
        g_V = ops.cat([g_V, zeros], -1)
    return g_V, g_tau


def householder_backward(grad, input, tau):
    """Gradients for the reflectors below the diagonal and for their factors."""
    if input.numel() == 0 or tau.numel() == 0:
        return None, None
    eye = ops.eye(*input.shape[-2:], dtype=input.dtype, device=input.device)
    return _reflectors_backward(grad, input, tau, eye, False)


def ormqr_backward(grad, self, tau, other, left, transpose, needs):
    """Gradients for reflectors, factors and the matrix that they were applied to."""
    d_self = d_tau = d_other = None
    if needs & 3 and self.numel() and tau.numel() and other.numel():
        if left:
            found = _reflectors_backward(grad, self, tau, other, transpose)
        else:  # C Q is the adjoint of Q^H C^H
            found = _reflectors_backward(grad.mH, self, tau, other.mH, not transpose)
        d_self, d_tau = found
    if needs & 4:
        d_other = ops.ormqr(self, tau, grad, left, not transpose)
    return d_self, d_tau, d_other
