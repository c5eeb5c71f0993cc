"""Whether matrices are taken apart correctly, where there are several correct ways."""

from __future__ import annotations

import numpy as np

import rushlight
from tests.fuzz import judge
from tests.fuzz.specs import EPSILON

SLACK = 50  # roundings, times the size of the matrices


def recomposed(case):
    """Whether the factors found multiply to the matrix, within rounding.

    Signs of singular vectors, phases of eigenvectors, and pivots and factors of matrices
    that are singular are for LAPACK to choose.
    """
    space, _, name = case.path[1].rpartition(".")
    answer = judge.call(rushlight, case)
    if name not in WAYS or answer.error is not None or not case.args:
        return False
    A = array(answer.side.build(case.args[0]))
    parts = [array(part) for part in answer.result if hasattr(part, "numpy")]
    if name == "eigh" and "U" in (*case.args[1:2], case.kwargs.get("UPLO")):
        A = adjoint(A)
    if name == "eigh":  # the other triangle is not looked at
        A = np.tril(A)
    if A.ndim > 2:  # in a batch, of those that have factors
        finite = np.isfinite(A).all((-2, -1))
        A, parts = A[finite], [part[finite] for part in parts]
    if not A.size or not np.isfinite(A).all() or "out" in case.kwargs:
        return False
    with np.errstate(all="ignore"):
        try:
            if name == "svd" and space:
                parts[2] = adjoint(parts[2])
            pairs = WAYS[name](A, *parts)
        except (ValueError, TypeError, IndexError):
            return False
    eps = EPSILON[str(answer.result[0].dtype).rpartition(".")[2]]
    return all(near(found, wanted, eps) for found, wanted in pairs)


def turned(case):
    """Whether the factors are right, but not PyTorch's in single or double precision."""
    if not recomposed(case):
        return False
    answers = [judge.call(rushlight, case), judge.call(judge.torch, case)]
    answers.append(judge.call(judge.torch, case, wide=True))
    if any(answer.error is not None for answer in answers):
        return False
    ours, *others = ([array(part) for part in answer.result] for answer in answers)
    return any(
        part.shape != other.shape or not np.allclose(part, other, rtol=0.1, atol=1e-2)
        for parts in others
        for part, other in zip(ours, parts, strict=True)
    )


def same_spectrum(case):
    """Whether eigenvalues are PyTorch's in another order.

    Those that meet move by the root of a rounding.
    """
    answers = [judge.call(m, case) for m in (rushlight, judge.torch)]
    if any(answer.error is not None for answer in answers):
        return False
    ours, theirs = (array(answer.result) for answer in answers)
    A = array(answers[0].side.build(case.args[0]))
    if ours.shape != theirs.shape or not A.size or not np.isfinite(A).all():
        return False
    n = A.shape[-1]
    eps = EPSILON[str(answers[0].result.dtype).rpartition(".")[2]]
    scale = np.abs(A).max() * n
    for mine, other in zip(ours.reshape(-1, n), theirs.reshape(-1, n), strict=True):
        left = list(other)
        for value in mine:
            nearest = min(range(len(left)), key=lambda i: abs(left[i] - value))
            if abs(left.pop(nearest) - value) > 4 * scale * eps**0.5:
                return False
    return True


def array(tensor):
    return tensor.detach().resolve_conj().numpy()


def near(found, wanted, eps):
    """Whether batches of matrices differ by rounding only, measured by the largest."""
    axes = (-2, -1)
    scale = np.abs(wanted).max(axes) + eps
    gap = np.abs(found - wanted).max(axes)
    return bool((gap <= SLACK * eps * scale * max(wanted.shape[-2:])).all())


def adjoint(A):
    return A.swapaxes(-2, -1).conj()


def orthonormal(Q):
    found = adjoint(Q) @ Q
    return found, np.broadcast_to(np.eye(Q.shape[-1]), found.shape)


def qr(A, Q, R):
    return [(Q @ R, A), orthonormal(Q)]


def svd(A, U, S, V):
    rank = S.shape[-1]
    found = (U[..., :rank] * S[..., None, :]) @ adjoint(V[..., :rank])
    return [(found, A), orthonormal(U), orthonormal(V)]


def eigh(A, values, V):
    lower = np.tril(A, -1)
    real = np.einsum("...ii->...i", A).real
    A = lower + adjoint(lower) + real[..., None] * np.eye(A.shape[-1])
    return [((V * values[..., None, :]) @ adjoint(V), A), orthonormal(V)]


def eig(A, values, V):
    lengths = np.linalg.norm(V, axis=-2)[..., None, :]
    return [(V * values[..., None, :], A @ V), (lengths, np.ones_like(lengths))]


def lu(A, P, L, U):
    return [(P @ (L @ U), A)]


def packed(A, LU, pivots, *codes):
    """The factors in one matrix, and exchanges of rows that count from one."""
    *batch, rows, columns = LU.shape
    least = min(rows, columns)
    L = np.tril(LU[..., :least], -1) + np.eye(rows, least)
    found = L @ np.triu(LU[..., :least, :])
    for place in np.ndindex(*batch):
        for row in reversed(range(least)):
            other = pivots[place][row] - 1
            found[place][[row, other]] = found[place][[other, row]]
    return [(found, A)]


WAYS = {
    "qr": qr,
    "svd": svd,
    "eigh": eigh,
    "eig": eig,
    "lu": lambda A, *parts: (lu if parts[1].ndim == A.ndim else packed)(A, *parts),
    "lu_factor": packed,
    "lu_factor_ex": packed,
}
