"""Products of vectors and matrices that are made of simpler ones."""

from rushlight.ops import call as ops
from rushlight.ops.shared import wrap_dim


def _rmatmul(self, other):
    """``other @ self``."""
    return ops.matmul(other, self)


def linalg_vecdot(x, y, dim):
    """The sum of the products along ``dim``."""
    return (x.conj() * y).sum([dim])


def matrix_power(self, n):
    """By squaring.

    Raises:
        RuntimeError: the matrices aren't square, or the power is negative.
    """
    if self.ndim < 2 or self.shape[-1] != self.shape[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{list(self.shape)}"
        )
    if n < 0:
        self, n = ops.linalg_inv(self), -n
    result = None
    while n:
        if n & 1:
            result = self if result is None else ops.matmul(result, self)
        n >>= 1
        self = ops.matmul(self, self) if n else self
    if result is None:
        eye = ops.eye(self.shape[-1], dtype=self.dtype, device=self.device)
        return ops.clone(eye.expand(self.shape))
    return result


def kron(self, other):
    """Each size the product of the two."""
    ndim = max(self.ndim, other.ndim)
    left = [1] * (ndim - self.ndim) + list(self.shape)
    right = [1] * (ndim - other.ndim) + list(other.shape)
    wide = self.reshape([n for size in left for n in (size, 1)])
    tall = other.reshape([n for size in right for n in (1, size)])
    return (wide * tall).reshape([a * b for a, b in zip(left, right)])


def linalg_cross(self, other, dim):
    """From the two other components, in cyclic order.

    Raises:
        RuntimeError: the dimension's size isn't three.
    """
    if self.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions."
        )
    if self.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got "
            f"{self.shape[dim]} and {other.shape[dim]}"
        )
    self, other = ops.broadcast_tensors([self, other])
    return self.roll([-1], [dim]) * other.roll([-2], [dim]) - (
        self.roll([-2], [dim]) * other.roll([-1], [dim])
    )


def cross(self, other, dim):
    """Along the first dimension of size three unless one is given."""
    if dim is None:
        sizes = [max(a, b) for a, b in zip(self.shape, other.shape)]
        if 3 not in sizes:
            raise RuntimeError(f"no dimension of size 3 in input: {list(self.shape)}")
        dim = sizes.index(3)
    return linalg_cross(self, other, dim)


def cosine_similarity(x1, x2, dim, eps):
    """The dot product over the lengths, each at least ``eps``."""
    x1, x2 = ops.broadcast_tensors([x1, x2])
    dim = wrap_dim(dim, x1.ndim)
    first = ops.linalg_vector_norm(x1, 2, [dim], True)
    second = ops.linalg_vector_norm(x2, 2, [dim], True)
    x1 = x1 / ops.clamp_min(first, eps)
    x2 = x2 / ops.clamp_min(second, eps)
    return (x1 * x2).sum([dim])
