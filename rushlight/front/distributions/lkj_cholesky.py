"""The LKJ law of correlation matrices."""

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.beta import Beta
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all, same_options

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """The LKJ law of Cholesky factors ``L`` of correlation matrices.

    The density of the matrix is proportional to ``det(L L^T)^(concentration - 1)``; with
    a concentration of one, all correlation matrices are equally likely. Drawn by the onion
    method. (D. Lewandowski, D. Kurowicka, H. Joe: Generating random correlation matrices
    based on vines and extended onion method, 2009.)

    Args:
        dim: size of the matrices, at least 2.
        concentration: positive; a number or a tensor of the batch's shape.

    Raises:
        ValueError: the matrices are smaller.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expandable = ("concentration", "_beta")
    _kept = ("dim",)

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(
                "Expected dim to be an integer greater than or equal to 2. Found "
                f"dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared length of each row below the diagonal is a beta number.
        rows = rl.arange(dim - 1, **same_options(self.concentration))
        rows = rl.cat([rows.new_zeros((1,)), rows])
        marginal = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1)
        self._beta = Beta(rows + 0.5, marginal - 0.5 * rows)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape=()):
        with rl.no_grad():
            squares = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            noise = rl.randn(shape, **same_options(squares)).tril(-1)
            # Directions on spheres; the first row has none.
            lengths = noise.square().sum(-1, keepdim=True).sqrt()
            below = squares.sqrt() * rl.where(lengths > 0, noise / lengths, 0.0)
            tiny = rl.finfo(below.dtype).tiny
            diagonal = (1 - below.square().sum(-1)).clamp(min=tiny).sqrt()
            return below + diagonal.diag_embed()

    def log_prob(self, value):
        self._check_sample(value)
        # The Jacobian of L L^T gives the diagonal another power in each row.
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = rl.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        return (order * diagonal.log()).sum(-1) - self._log_normalizer()

    def _log_normalizer(self):
        """The normalizer of page 1999 of the paper, from multivariate gamma functions."""
        count = self.dim - 1
        alpha = self.concentration + 0.5 * count
        gammas = rl.mvlgamma(alpha - 0.5, count) - alpha.lgamma() * count
        return 0.5 * count * math.log(math.pi) + gammas
