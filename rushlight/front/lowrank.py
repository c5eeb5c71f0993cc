"""Eigenpairs and singular values of large matrices, a few at a time."""

from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import no_grad
from rushlight.core import naming
from rushlight.core.dtype import FLOATING
from rushlight.dispatch.overridable import open_functions
from rushlight.operators import call

__all__ = ["lobpcg", "pca_lowrank", "svd_lowrank"]


def _range_of(A, q, niter, M):
    """Columns that span nearly what the first ``q`` singular vectors span.

    Algorithm 4.4 of Halko, Martinsson and Tropp, *Finding structure with randomness*
    (2009): products with random vectors, made orthonormal after each.
    """
    q = 6 if q is None else q
    niter = 2 if niter is None else niter
    # of integers: the default
    dtype = A.dtype if A.dtype.category >= FLOATING else None
    draws = call.randn([A.shape[-1], q], dtype=dtype, device=A.device)

    def forward(X):
        product = A @ X
        return product if M is None else product - M @ X

    def back(X):
        product = A.mH @ X
        return product if M is None else product - M.mH @ X

    Q = call.linalg_qr(forward(draws))[0]
    for _ in range(niter):
        Q = call.linalg_qr(back(Q))[0]
        Q = call.linalg_qr(forward(Q))[0]
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """Nearly the largest singular values of a matrix, with their vectors.

    Args:
        q: how many; a few more than are wanted.
        niter: how often the subspace is improved.
        M: what to subtract from the matrix, broadcast to its shape.

    Returns:
        ``U, S, V`` with ``U @ diag(S) @ V.mH`` close to ``A``.

    >>> import rushlight as rl
    >>> A = rl.outer(rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]))
    >>> rl.svd_lowrank(A, q=1)[1].sub(125**0.5).abs().item() < 1e-4
    True
    """
    rows, columns = A.shape[-2:]
    if M is not None:
        M = M.expand(A.shape)
    if rows < columns:  # the smaller side is searched
        A, M = A.mH, None if M is None else M.mH
    Q = _range_of(A, q, niter, M)
    B = Q.mH @ A
    if M is not None:
        B = B - Q.mH @ M
    U, S, Vh = call.linalg_svd(B, False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if rows < columns else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """Nearly the principal components of the rows of a matrix.

    Args:
        q: how many; by default six, or as many as there are rows or columns.
        center: subtract the means of the columns first.
        niter: how often the subspace is improved.
        A: matrices of shape (..., rows, columns).

    Returns:
        ``U``, ``S`` and ``V`` with ``A`` nearly ``U diag(S) Vᵀ``, its columns centred.

    Raises:
        ValueError: ``q`` or ``niter`` doesn't fit.

    >>> x = torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    >>> u, s, v = torch.pca_lowrank(x, q=1)
    >>> s
    tensor([3.1623])
    """
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not (q >= 0 and q <= min(rows, columns)):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)="
            f"{min(rows, columns)}"
        )
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, q, niter=niter)
    return svd_lowrank(A - A.mean([-2], keepdim=True), q, niter=niter)


class _Eigenpairs(Function):
    """The search, with the derivative of the pairs that it finds."""

    @staticmethod
    def forward(ctx, A, search):
        with no_grad():
            values, vectors = search(A)
        ctx.save_for_backward(A, values, vectors)
        return values, vectors

    @staticmethod
    def backward(ctx, grad_values, grad_vectors):
        A, values, vectors = ctx.saved_tensors
        inside = call.diag_embed(grad_values)
        rotated = vectors.mH @ grad_vectors
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        eye = call.eye(values.shape[-1], dtype=gaps.dtype, device=gaps.device)
        rotated = rotated * (1 - eye)
        inside = inside + rotated / (gaps + eye)
        grad = vectors @ inside @ vectors.mH
        # Outside of their span each vector moves by (value - A)^-1 dA vector.
        size = A.shape[-1]
        eye = call.eye(size, dtype=A.dtype, device=A.device)
        span = vectors @ vectors.mH
        rest = eye - span
        shifted = (
            values.unsqueeze(-1).unsqueeze(-1) * rest.unsqueeze(-3)
            - (rest @ A @ rest).unsqueeze(-3)
            + span.unsqueeze(-3)
        )
        wanted = (rest @ grad_vectors).mT.unsqueeze(-1)
        moved = call.linalg_solve(shifted, wanted).squeeze(-1).mT
        grad = grad + (rest @ moved) @ vectors.mH
        return (grad + grad.mH) / 2, None


def lobpcg(
    A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None,
    method=None, tracker=None, ortho_iparams=None, ortho_fparams=None,
    ortho_bparams=None,
):  # fmt: skip
    """The ``k`` largest or smallest eigenvalues of a symmetric matrix, with vectors.

    A block of vectors is improved by Rayleigh and Ritz within the space of the vectors,
    their residuals and their last steps: Knyazev, *Toward the optimal preconditioned
    eigensolver* (2001), with bases made orthonormal as in Duersch et al., *A robust and
    efficient implementation of LOBPCG* (2018).

    Args:
        A: symmetric matrices.
        k: how many pairs; by default as many as ``X`` has columns, or one.
        B: positive-definite matrices, for ``A x = value B x``.
        X: vectors to start from; by default random ones.
        n: how many vectors to start from where ``X`` is not given.
        iK: a preconditioner, close to the inverse of ``A``.
        niter: steps at most; by default as many as are needed.
        tol: residual of a pair that is found, relative to the norms.
        largest: whether the largest are wanted; they are by default.
        method: ``"basic"`` or ``"ortho"``.
        tracker: called with the state after each step; it may set ``force_stop``.
        ortho_iparams, ortho_fparams, ortho_bparams: how bases are made orthonormal;
            taken for compatibility.

    Raises:
        ValueError: the matrix is too small for so many pairs, or the method unknown.

    >>> values, vectors = torch.lobpcg(torch.diag(torch.arange(1.0, 7.0)), k=1)
    >>> values.round(decimals=2)
    tensor([6.])
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"unknown LOBPCG method {method!r}")
    if A.requires_grad and B is not None and B.requires_grad:
        raise ValueError("lobpcg.backward does not support gradients for B")
    m = A.shape[-1]
    if k is None:
        k = 1 if X is None else X.shape[-1]
    if m < 3 * k:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is "
            f"smaller than 3 x the number of requested eigenpairs (={k})"
        )
    n = (k if n is None else n) if X is None else X.shape[-1]

    def search(A):
        lead = tuple(A.shape[:-2])
        start = X
        if start is None:
            start = call.randn([*lead, m, n], dtype=A.dtype, device=A.device)
        state = (B, iK, niter, tol, True if largest is None else largest, tracker)
        if not lead:
            values, vectors = _Search(A, start, k, *state).run()
            return values, vectors
        flat = A.reshape([-1, m, m])
        starts = start.expand((*lead, m, n)).reshape([-1, m, n])
        found = []
        for at in range(flat.shape[0]):
            others = [
                t if t is None or t.ndim == 2 else t.reshape([-1, m, m])[at]
                for t in (B, iK)
            ]
            found.append(_Search(flat[at], starts[at], k, *others, *state[2:]).run())
        values = call.stack([pair[0] for pair in found]).reshape([*lead, k])
        vectors = call.stack([pair[1] for pair in found]).reshape([*lead, m, k])
        return values, vectors

    if A.requires_grad:
        return _Eigenpairs.apply(A, search)
    with no_grad():
        return search(A)


class _Search:
    """The state of one search: what a tracker sees.

    Attributes:
        E: the values so far. X: the vectors. R: their residuals.
        ivars, fvars, bvars, tvars: numbers, flags and tensors by name.
    """

    def __init__(self, A, X, k, B, iK, niter, tol, largest, tracker):
        self.A, self.B, self.iK, self.X, self.k = A, B, iK, X, k
        self.largest, self.tracker = largest, tracker
        eps = (
            1.2e-7 if A.dtype.itemsize // (2 if A.is_complex() else 1) == 4 else 2.2e-16
        )
        tol = eps**0.5 if tol is None else tol
        norm_a = (call.linalg_norm(A @ X) / call.linalg_norm(X)).item()
        norm_b = (call.linalg_norm(self.by_B(X)) / call.linalg_norm(X)).item()
        self.fparams = {"tol": tol}
        self.iparams = {"m": A.shape[-1], "n": X.shape[-1], "k": k}
        self.iparams["niter"] = 1000 if niter is None else niter
        self.fvars = {"A_norm": norm_a, "B_norm": norm_b, "X_norm": 0.0}
        self.ivars = {"istep": 0, "converged_count": 0}
        self.bvars = {"force_stop": False}
        self.tvars = {}
        self.E = self.R = self.P = None

    def by_B(self, X):
        """``B X``."""
        return X if self.B is None else self.B @ X

    def orthonormal(self, S):
        """A basis of the columns' span, orthonormal in the product of ``B``.

        Directions that rounding has made dependent are left out.
        """
        for _ in range(2):
            gram = S.mH @ self.by_B(S)
            scale = (
                gram.diagonal()
                .abs()
                .clamp_min(1e-300 if S.dtype.itemsize > 8 else 1e-38)
            )
            scale = scale.rsqrt()
            gram = gram * scale.unsqueeze(-1) * scale.unsqueeze(-2)
            values, vectors = call.linalg_eigh(gram)
            floor = (
                values[-1]
                * values.shape[-1]
                * (1.2e-7 if values.dtype.itemsize == 4 else 2.2e-16)
            )
            first = int((values <= floor).sum().item())
            values, vectors = values[first:], vectors[:, first:]
            S = (S * scale.unsqueeze(-2)) @ (vectors * values.rsqrt().unsqueeze(-2))
        return S

    def ritz(self, S):
        """The wanted pairs within the span of an orthonormal basis."""
        values, vectors = call.linalg_eigh(S.mH @ (self.A @ S))
        if self.largest:
            values, vectors = values.flip([-1]), vectors.flip([-1])
        return values, vectors

    def converged(self):
        """How many of the first pairs have small residuals."""
        sizes = call.linalg_vector_norm(self.X, 2, [0])
        rest = call.linalg_vector_norm(self.R, 2, [0])
        scale = self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]
        errors = rest / (sizes * scale)
        self.tvars["rerr"] = errors
        count = 0
        for good in (errors[: self.k] < self.fparams["tol"]).tolist():
            if not good:
                break
            count += 1
        self.ivars["converged_count"] = count
        return count

    def run(self):
        """The values and vectors of the search's end."""
        S = self.orthonormal(self.X)
        width = self.X.shape[-1]
        values, vectors = self.ritz(S)
        self.X, self.E = S @ vectors, values
        while True:
            self.R = self.A @ self.X - self.by_B(self.X) * self.E.unsqueeze(-2)
            done = self.converged() >= self.k
            if self.tracker is not None:
                self.tracker(self)
            if done or self.bvars["force_stop"]:
                break
            if self.ivars["istep"] >= self.iparams["niter"]:
                break
            self.ivars["istep"] += 1
            W = self.R if self.iK is None else self.iK @ self.R
            self.step(W, width)
        return self.E[: self.k], self.X[:, : self.k].contiguous()

    def step(self, W, width):
        """One improvement by the residuals and the last step."""
        X = self.X
        others = W if self.P is None else call.cat([W, self.P], -1)
        for _ in range(2):
            others = others - X @ (X.mH @ self.by_B(others))
        others = self.orthonormal(others)
        room = self.A.shape[-1] - X.shape[-1]
        basis = call.cat([X, others[:, :room]], -1)
        values, vectors = self.ritz(basis)
        chosen = vectors[:, :width]
        self.E, self.X = values[:width], basis @ chosen
        self.P = basis[:, X.shape[-1] :] @ chosen[X.shape[-1] :]


open_functions(globals(), __all__, naming.package)
