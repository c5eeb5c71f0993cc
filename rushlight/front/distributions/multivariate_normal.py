"""The multivariate normal law."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions._centred import Centred
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import (
    _standard_normal,
    lazy_property,
    the_one_matrix,
)

__all__ = ["CovarianceParameter", "MultivariateNormal"]


def _batch_mv(bmat, bvec):
    """Products of matrices ``(*, N, M)`` and vectors ``(*, M)``."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL, bx):
    """``|L^-1 x|^2`` for lower triangular ``L`` of shape ``(*, N, N)``, ``x`` of ``(*, N)``.

    A single matrix solves for all vectors at once, and is not expanded.
    """
    if bL.dim() == 2:
        columns = bx.reshape(-1, bx.shape[-1]).mT
        solved = rl.linalg.solve_triangular(bL, columns, upper=False)
        return solved.square().sum(0).reshape(bx.shape[:-1])
    solved = rl.linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False)
    return solved.squeeze(-1).square().sum(-1)


def _log_diagonal(triangle):
    """Half of the log-determinant of the matrix that a Cholesky factor belongs to."""
    return triangle.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _inverse_factor(triangle):
    """The inverse of a lower triangular matrix."""
    unit = rl.eye(triangle.shape[-1], dtype=triangle.dtype, device=triangle.device)
    unit = unit.expand(triangle.shape)
    return rl.linalg.solve_triangular(triangle, unit, upper=False)


def _precision_to_scale_tril(P):
    """The Cholesky factor of the inverse of a positive-definite matrix.

    With rows and columns turned around, the factor of ``P`` is the transpose of an upper
    one, whose inverse is what is wanted.
    """
    flipped = rl.linalg.cholesky(rl.flip(P, (-2, -1)))
    return _inverse_factor(rl.flip(flipped, (-2, -1)).mT)


class CovarianceParameter:
    """A covariance as itself, as its inverse or as its Cholesky factor."""

    def _take_covariance(self, batch_shape, **given):
        """Keeps the one that is given, expanded to the batch."""
        ((name, matrix),) = given.items()
        setattr(self, name, matrix.expand(*batch_shape, -1, -1))

    def _factor(self, covariance_matrix, precision_matrix, scale_tril):
        """The Cholesky factor of the one that is given, as it was given."""
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = rl.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    def _over_batch(self, matrix):
        return matrix.expand(*self._batch_shape, *matrix.shape[-2:])

    @lazy_property
    def scale_tril(self):
        """The lower triangular factor ``L`` of the covariance ``L L^T``."""
        return self._over_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._over_batch(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        inverse = _inverse_factor(self._unbroadcasted_scale_tril)
        return self._over_batch(inverse.mT @ inverse)


class MultivariateNormal(Centred, CovarianceParameter, Distribution):
    """The multivariate normal law.

    Its density is ``exp(-|L^-1 (x - loc)|^2 / 2) / (det(L) * (2 pi)^(N / 2))``, where
    ``L`` is the Cholesky factor of the covariance. Exactly one of the three matrices is
    given; the factor costs the least.

    Args:
        loc: mean, a tensor of shape ``(*, N)``.
        covariance_matrix: positive-definite tensor of shape ``(*, N, N)``.
        precision_matrix: its inverse, likewise.
        scale_tril: its lower Cholesky factor, of positive diagonal, likewise.

    Raises:
        ValueError: not exactly one matrix is given, or there are too few dimensions.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _expandable = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc,
        covariance_matrix=None,
        precision_matrix=None,
        scale_tril=None,
        validate_args=None,
    ):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = the_one_matrix(
            ValueError,
            scale_tril=scale_tril,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
        )
        if matrix.dim() < 2:
            label = f"{name} matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{label} must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        batch_shape = rl.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self._take_covariance(batch_shape, **{name: matrix})
        self.loc = loc.expand(*batch_shape, -1)
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._factor(covariance_matrix, precision_matrix, scale_tril)

    @property
    def variance(self):
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value):
        self._check_sample(value)
        factor = self._unbroadcasted_scale_tril
        distance = _batch_mahalanobis(factor, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - _log_diagonal(factor)

    def entropy(self):
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = constant + _log_diagonal(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)
