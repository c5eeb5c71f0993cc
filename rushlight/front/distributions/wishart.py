"""The Wishart law."""

import math
import warnings
from numbers import Number

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.multivariate_normal import (
    CovarianceParameter,
    _log_diagonal,
)
from rushlight.distributions.utils import the_one_matrix

__all__ = ["Wishart"]


class Wishart(CovarianceParameter, ExponentialFamily):
    """The Wishart law: that of ``sum(x_i x_i^T)`` over ``df`` centred normal vectors.

    Its density is proportional to ``det(X)^((df - N - 1) / 2) * exp(-tr(V^-1 X) / 2)``.
    Exactly one of the three matrices is given. Drawn by Bartlett's decomposition. (S.
    Sawyer: Wishart distributions and inverse-Wishart sampling, 2007.)

    Args:
        df: degrees of freedom, more than ``N - 1``; a number or a tensor of the batch's
            shape.
        covariance_matrix: the matrix ``V``, a positive-definite tensor of ``(*, N, N)``.
        precision_matrix: its inverse, likewise.
        scale_tril: its lower Cholesky factor, of positive diagonal, likewise.

    Raises:
        AssertionError: not exactly one matrix is given.
        ValueError: it has too few dimensions, or ``df`` is too small.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _expandable = (
        "df",
        "covariance_matrix",
        "precision_matrix",
        "scale_tril",
        "_dist_chi2",
    )
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        df,
        covariance_matrix=None,
        precision_matrix=None,
        scale_tril=None,
        validate_args=None,
    ):
        name, matrix = the_one_matrix(
            AssertionError,
            scale_tril=scale_tril,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
        )
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        batch_shape, event_shape = matrix.shape[:-2], matrix.shape[-2:]
        if isinstance(df, Number):
            self.df = rl.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = rl.broadcast_shapes(batch_shape, df.shape)
            self.df = df.expand(batch_shape)
        size = event_shape[-1]
        if self.df.le(size - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}."
            )
        if self.df.lt(size).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur "
                "for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._take_covariance(batch_shape, **{name: matrix})
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self.df = self.df.expand(batch_shape)
        self._factor(covariance_matrix, precision_matrix, scale_tril)
        rows = rl.arange(size, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - rows)

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _df_of_matrices(self):
        return self.df[..., None, None]

    @property
    def mean(self):
        return self._df_of_matrices() * self.covariance_matrix

    @property
    def mode(self):
        factor = self._df_of_matrices() - self.event_shape[-1] - 1
        factor = rl.where(factor <= 0, math.nan, factor)
        return factor * self.covariance_matrix

    @property
    def variance(self):
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._df_of_matrices() * (V.pow(2) + products)

    def _bartlett_sampling(self, sample_shape=()):
        """``L A A^T L^T``: the roots of chi-squared numbers above normal ones in ``A``."""
        size = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        triangle = roots.clamp(min=rl.finfo(roots.dtype).eps).diag_embed()
        row, column = rl.tril_indices(size, size, offset=-1)
        triangle[..., row, column] = rl.randn(
            rl.Size(sample_shape) + self._batch_shape + (size * (size - 1) // 2,),
            dtype=roots.dtype,
            device=roots.device,
        )
        factor = self._unbroadcasted_scale_tril @ triangle
        return factor @ factor.mT

    def rsample(self, sample_shape=(), max_try_correction=None):
        """Samples that are differentiable functions of the parameters.

        Args:
            sample_shape: shape in front of the batch.
            max_try_correction: how often singular matrices are drawn anew; 10 by default.
        """
        tries = 10 if max_try_correction is None else max_try_correction
        sample_shape = rl.Size(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        if tries == 0:
            return sample
        # PyTorch draws every matrix a second time, taking the regular ones for singular:
        # its numbers are those of the second draw.
        sample = self._bartlett_sampling((sample_shape.numel(),))
        singular = self._singular(sample)
        if singular.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(tries - 1):
            if not singular.any():
                break
            again = self._bartlett_sampling((int(singular.sum()),))
            sample = sample.index_put((singular,), again)
            singular = singular.index_put((singular.clone(),), self._singular(again))
        return sample.reshape(self._extended_shape(sample_shape))

    def _singular(self, sample):
        """Which samples have a singular matrix anywhere in the batch."""
        found = ~self.support.check(sample)
        return found.reshape(len(found), -1).any(-1)

    def log_prob(self, value):
        self._check_sample(value)
        nu, size = self.df, self._event_shape[-1]
        whitened = rl.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = whitened.diagonal(dim1=-2, dim2=-1).sum(-1)
        log_det = rl.linalg.slogdet(value).logabsdet
        return (
            -nu
            * (size * math.log(2) / 2 + _log_diagonal(self._unbroadcasted_scale_tril))
            - rl.mvlgamma(nu / 2, p=size)
            + (nu - size - 1) / 2 * log_det
            - trace / 2
        )

    def entropy(self):
        nu, size = self.df, self._event_shape[-1]
        volume = size * math.log(2) / 2 + _log_diagonal(self._unbroadcasted_scale_tril)
        return (
            (size + 1) * volume
            + rl.mvlgamma(nu / 2, p=size)
            - (nu - size - 1) / 2 * _mvdigamma(nu / 2, size)
            + nu * size / 2
        )

    @property
    def _natural_params(self):
        size = self._event_shape[-1]
        return -self.precision_matrix / 2, (self.df - size - 1) / 2

    def _log_normalizer(self, x, y):
        size = self._event_shape[-1]
        half_df = y + (size + 1) / 2
        log_det = rl.linalg.slogdet(-2 * x).logabsdet
        return half_df * (size * math.log(2) - log_det) + rl.mvlgamma(half_df, p=size)


def _mvdigamma(x, size):
    """The derivative of the multivariate log-gamma function."""
    if not x.gt((size - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    halves = rl.arange(size, dtype=x.dtype, device=x.device) / 2
    return rl.digamma(x.unsqueeze(-1) - halves).sum(-1)
