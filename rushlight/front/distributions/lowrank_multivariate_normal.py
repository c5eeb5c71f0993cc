"""The multivariate normal law of a covariance of low rank."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions._centred import Centred
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.multivariate_normal import (
    _batch_mahalanobis,
    _batch_mv,
    _log_diagonal,
)
from rushlight.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _plus_identity(matrix):
    size = matrix.shape[-1]
    return matrix + rl.eye(size, dtype=matrix.dtype, device=matrix.device)


def _batch_capacitance_tril(W, D):
    """The Cholesky factor of ``I + W^T D^-1 W``."""
    return rl.linalg.cholesky(_plus_identity((W.mT / D.unsqueeze(-2)) @ W))


def _batch_lowrank_logdet(W, D, capacitance_tril):
    """``log det(W W^T + D)``, by the matrix determinant lemma."""
    return 2 * _log_diagonal(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W, D, x, capacitance_tril):
    """``x^T (W W^T + D)^-1 x``, by the Woodbury identity."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    correction = _batch_mahalanobis(capacitance_tril, projected)
    return (x.pow(2) / D).sum(-1) - correction


class LowRankMultivariateNormal(Centred, Distribution):
    """The multivariate normal law of covariance ``W W^T + diag(D)``.

    All that needs the covariance goes through the capacitance ``I + W^T D^-1 W``, which
    is as small as the rank.

    Args:
        loc: mean, a tensor of shape ``(*, N)``.
        cov_factor: the factor ``W``, a tensor of shape ``(*, N, M)``.
        cov_diag: the diagonal ``D``, positive, a tensor of shape ``(*, N)``.

    Raises:
        ValueError: the shapes do not fit.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _expandable = ("loc", "cov_factor", "cov_diag")
    _kept = (
        "_unbroadcasted_cov_factor",
        "_unbroadcasted_cov_diag",
        "_capacitance_tril",
    )

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading "
                "batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(
                f"cov_diag must be a batch of vectors with shape {event_shape}"
            )
        try:
            batch_shape = rl.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor "
                f"{cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(*batch_shape, -1)
        self.cov_factor = cov_factor.expand(*batch_shape, -1, -1)
        self.cov_diag = cov_diag.expand(*batch_shape, -1)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _parts(self):
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag

    def _over_batch(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self):
        factor, diagonal = self._parts()
        variance = factor.pow(2).sum(-1) + diagonal
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance."""
        factor, diagonal = self._parts()
        root = diagonal.sqrt().unsqueeze(-1)
        scaled = factor / root
        inner = rl.linalg.cholesky(_plus_identity(scaled @ scaled.mT))
        return self._over_batch(root * inner)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        factor, diagonal = self._parts()
        return self._over_batch(factor @ factor.mT + diagonal.diag_embed())

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        root = self._whitened_factor()
        inverse = self._unbroadcasted_cov_diag.reciprocal().diag_embed()
        return self._over_batch(inverse - root.mT @ root)

    def _whitened_factor(self):
        """``A`` such that the precision is ``D^-1 - A^T A``."""
        factor, diagonal = self._parts()
        scaled = factor.mT / diagonal.unsqueeze(-2)
        return rl.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        factor, diagonal = self._parts()
        like = self.loc.dtype, self.loc.device
        inner = _standard_normal(shape[:-1] + factor.shape[-1:], *like)
        outer = _standard_normal(shape, *like)
        return self.loc + _batch_mv(factor, inner) + diagonal.sqrt() * outer

    def _log_det(self):
        return _batch_lowrank_logdet(*self._parts(), self._capacitance_tril)

    def log_prob(self, value):
        self._check_sample(value)
        distance = _batch_lowrank_mahalanobis(
            *self._parts(), value - self.loc, self._capacitance_tril
        )
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + distance)

    def entropy(self):
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self._log_det())).expand(self._batch_shape)
