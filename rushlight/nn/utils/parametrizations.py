"""Weights that stay orthogonal, or of a known norm."""

import enum

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize
from rushlight.nn.utils.weight_norm import _lengths

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module, name):
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"Module '{module}' has no parameter or buffer with name '{name}'"
        )
    return tensor


def _default_dim(module):
    """The dimension of a weight that counts outputs."""
    transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
    return 1 if isinstance(module, transposed) else 0


def _is_orthogonal(matrix):
    rows, columns = matrix.shape[-2:]
    one = rl.eye(columns, dtype=matrix.dtype, device=matrix.device)
    tolerance = 10.0 * rows * rl.finfo(matrix.dtype).eps
    return rl.allclose(matrix.mH @ matrix, one, atol=tolerance)


def _made_orthogonal(matrix):
    """The orthogonal factor of a QR decomposition whose triangle's diagonal is positive."""
    packed, tau = rl.geqrf(matrix)
    signs = packed.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return rl.linalg.householder_product(packed, tau) * signs


class _OrthMaps(enum.Enum):
    matrix_exp = enum.auto()
    cayley = enum.auto()
    householder = enum.auto()


class _Orthogonal(Module):
    """Makes a matrix orthogonal: by a map of its lower triangle, times a base."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError(
                "The householder parametrization does not support complex tensors."
            )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        """The orthogonal matrix."""
        wide = X.size(-2) < X.size(-1)
        if wide:
            X = X.mT
        if self.orthogonal_map is _OrthMaps.householder:
            result = self._reflections(X)
        else:
            result = self._rotation(X)
        if hasattr(self, "base"):
            result = self.base @ result
        return result.mT if wide else result

    def _rotation(self, X):
        """A function of the skew matrix that the lower triangle tells."""
        rows, columns = X.shape[-2:]
        X = X.tril()
        if rows != columns:
            rest = X.new_zeros((*X.shape[:-2], rows, rows - columns))
            X = rl.cat([X, rest], dim=-1)
        skew = X - X.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            result = rl.matrix_exp(skew)
        else:
            one = rl.eye(rows, dtype=skew.dtype, device=skew.device)
            result = rl.linalg.solve(
                rl.add(one, skew, alpha=-0.5), rl.add(one, skew, alpha=0.5)
            )
        return result[..., :columns]

    @staticmethod
    def _reflections(X):
        """A product of reflections, their vectors below the diagonal, times signs."""
        vectors = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (vectors * vectors).sum(dim=-2))
        signs = X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        return rl.linalg.householder_product(vectors, tau) * signs

    @rl.no_grad()
    def right_inverse(self, Q):
        """What makes ``forward`` give a matrix, or the nearest orthogonal one.

        Raises:
            ValueError: the matrix has another shape.
            NotImplementedError: without a base the map has no inverse.
        """
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a "
                f"tensor of shape {Q.shape}."
            )
        tall = Q.mT if Q.size(-2) < Q.size(-1) else Q
        if hasattr(self, "base"):
            self.base = self._base_for(tall)
            result = rl.zeros_like(Q)
            result.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return result
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        packed, tau = rl.geqrf(tall)
        diagonal = packed.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal[tau == 0.0] *= -1
        return packed if tall is Q else packed.mT

    @staticmethod
    def _base_for(matrix):
        rows, columns = matrix.shape[-2:]
        if rows == columns and _is_orthogonal(matrix):
            return matrix.clone()
        if rows != columns:  # fill it up to a square
            rest = rl.randn(
                (*matrix.shape[:-2], rows, rows - columns),
                dtype=matrix.dtype,
                device=matrix.device,
            )
            matrix = rl.cat([matrix, rest], dim=-1)
        return _made_orthogonal(matrix)


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keep a matrix, or each of a batch, orthogonal or unitary while it is trained.

    Args:
        module: the module that has it.
        name: its name.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; by default
            the first for square and complex matrices, the last for others.
        use_trivialization: whether the map is relative to the matrix last assigned, which
            makes training steadier and assigning possible, for more memory.

    Returns:
        The module.

    Raises:
        ValueError: there is no such matrix, or no such map.

    >>> layer = orthogonal(rl.nn.Linear(3, 3))
    >>> rl.dist(layer.weight @ layer.weight.T, rl.eye(3)).item() < 1e-5
    True
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(
            "Expected a matrix or batch of matrices. Got a tensor of "
            f"{weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = (
            "matrix_exp" if square or weight.is_complex() else "householder"
        )
    kind = getattr(_OrthMaps, orthogonal_map, None)
    if kind is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module


class _WeightNorm(Module):
    """A tensor of lengths and directions."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        """The tensor."""
        return weight_v * (weight_g / _lengths(weight_v, self.dim))

    def right_inverse(self, weight):
        """The lengths, and the tensor itself for the directions."""
        return _lengths(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Learn a weight's length and direction apart.

    Args:
        module: the module that has the weight.
        name: the weight's name.
        dim: the dimension along which there are several lengths; None for one.

    Returns:
        The module.

    >>> layer = weight_norm(rl.nn.Linear(4, 2))
    >>> layer.parametrizations.weight.original0.shape
    rushlight.Size([2, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *args):
        """Take over what the older ``weight_norm`` saved."""
        old = [f"{prefix}{name}_{letter}" for letter in "gv"]
        if all(key in state_dict for key in old):
            for index, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{index}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A tensor over its largest singular value, which a power iteration follows."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, "
                f"{ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            for key, size in zip(("_u", "_v"), matrix.shape):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(key, F.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _as_matrix(self, weight):
        if self.dim != 0:
            weight = weight.movedim(self.dim, 0)
        return weight.flatten(1)

    @rl.no_grad()
    def _iterate(self, matrix, count):
        for _ in range(count):
            left = F.normalize(rl.mv(matrix, self._v), dim=0, eps=self.eps)
            self._u.copy_(left)
            right = F.normalize(rl.mv(matrix.H, self._u), dim=0, eps=self.eps)
            self._v.copy_(right)

    def forward(self, weight):
        """The tensor over its norm; in training the iteration goes on."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: the next call changes the buffers, and backward reads these.
        u, v = self._u.clone(), self._v.clone()
        return weight / rl.vdot(u, rl.mv(matrix, v))

    def right_inverse(self, value):
        """The tensor itself, which is not brought to norm one."""
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its largest singular value.

    Args:
        module: the module that has the weight.
        name: the weight's name.
        n_power_iterations: how far each training step follows the singular vectors.
        eps: the smallest length of a vector.
        dim: the dimension that counts outputs: 1 for transposed convolutions, else 0,
            where it is left out.

    Returns:
        The module.

    >>> rl.manual_seed(0) and None
    >>> layer = spectral_norm(rl.nn.Linear(4, 4))
    >>> 0.9 < rl.linalg.matrix_norm(layer.weight, 2).item() < 1.1
    True
    """
    weight = _tensor_of(module, name)
    if dim is None:
        dim = _default_dim(module)
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, made)
    return module
