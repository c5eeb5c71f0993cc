"""Forward mode of decompositions: what the factors do when the matrix moves.

The Jacobian's transpose, transposed once more, would ask a loss to be independent of
what the factors leave open, such as phases. Moving forwards leaves nothing open: LAPACK's
choice of norms is kept along the way.
"""

from rushlight.operators import call as ops


def cholesky_tangents(tangents, args, results):
    """``dL = L tril(L^-1 dA L^-H, half of its diagonal)``."""
    moved, upper = tangents[0], args[1]
    L = results[0].mH if upper else results[0]
    phi = ops.linalg_solve_triangular(L, moved, upper=False)
    phi = ops.linalg_solve_triangular(L.mH, phi, upper=True, left=False)
    phi = ops.tril(phi) - ops.diag_embed(phi.diagonal(0, -2, -1) * 0.5)
    found = L @ phi
    return (found.mH if upper else found), None


def eigh_tangents(tangents, args, results):
    """``dw = diag(V^H dA V)``, ``dV = V (V^H dA V / gaps)``."""
    if len(args) > 2 and not args[2]:
        raise RuntimeError(
            "linalg_eigh: forward mode needs the eigenvectors. Please use "
            "torch.linalg.eigh"
        )
    moved, (values, vectors) = tangents[0], results
    rotated = vectors.mH @ (moved @ vectors)
    grown = rotated.diagonal(0, -2, -1)
    grown = ops.real(grown) if grown.is_complex() else grown
    return grown.clone(), vectors @ _off_diagonal(rotated, values)


def eig_tangents(tangents, args, results):
    """``dw = diag(V^-1 dA V)``; the vectors keep their length."""
    moved, (values, vectors) = tangents[0], results
    rotated = ops.linalg_solve(vectors, moved.to(vectors.dtype) @ vectors)
    turning = vectors @ _off_diagonal(rotated, values)
    along = ops.real((vectors.conj() * turning).sum([-2], keepdim=True))
    grown = rotated.diagonal(0, -2, -1).clone()
    return grown, turning - vectors * along


def _off_diagonal(rotated, values):
    """Divided by the gaps between eigenvalues; zeros on the diagonal."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    own = ops.diag_embed(ops.ones_like(values))
    return rotated / (gaps + own) * (1 - own)
