"""Differences between neighbours along a dimension, and distances between rows."""

import math

from rushlight.core.dtypes import uint8
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.operators import call as ops
from rushlight.operators.linalg import distances
from rushlight.operators.loop_calls import brief, require
from rushlight.operators.matmul.products import order_in
from rushlight.operators.shared import readable, wrap_dims
from rushlight.operators.type_groups import FLOATS

# ---- slopes


def gradient_by_number(self, spacing, dim, edge_order):
    """All dimensions, or the given ones, with one distance between samples."""
    dims = _dims_of(self, dim)
    distance = 1 if spacing is None else spacing
    check_samples(self, edge_order, dims)
    return tuple(_even_slopes(self, d, distance, edge_order) for d in dims)


def gradient_along(self, dim, edge_order):
    """Samples that are one apart."""
    return gradient_by_number(self, 1, dim, edge_order)


def gradient_by_numbers(self, spacing, dim, edge_order):
    """A distance for each dimension."""
    dims = _check_spacing(self, spacing, dim)
    check_samples(self, edge_order, dims)
    return tuple(
        _even_slopes(self, d, distance, edge_order)
        for d, distance in zip(dims, spacing)
    )


def gradient_at_positions(self, spacing, dim, edge_order):
    """The places of the samples for each dimension.

    Raises:
        RuntimeError: a tensor of places isn't a vector.
    """
    dims = _check_spacing(self, spacing, dim)
    for positions in spacing:
        if positions.ndim != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, "
                f"but got an element with {positions.ndim} dimensions!"
            )
    check_samples(self, edge_order, dims)
    return tuple(
        _uneven_slopes(self, d, positions, edge_order)
        for d, positions in zip(dims, spacing)
    )


def _dims_of(self, dim):
    if dim is None:
        return list(range(self.ndim))
    if isinstance(dim, int):
        return [wrap_dim(dim, self.ndim)]
    return wrap_dims(dim, self.ndim) if len(dim) else []


def _check_spacing(self, spacing, dim):
    """The dimensions, one for each distance.

    Raises:
        RuntimeError: there are more or fewer of them.
    """
    if dim is None and len(spacing) != self.ndim:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of "
            f"length equal to 'self.dim() = {self.ndim}', since dim argument was not "
            f"given, but got a list of length {len(spacing)}"
        )
    dims = _dims_of(self, dim)
    if len(dims) != len(spacing):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing "
            "and dim arguments to have the same length, but got a spacing argument of "
            f"length {len(spacing)} and a dim argument of length {len(dims)}."
        )
    return dims


def check_samples(self, edge_order, dims):
    """Refuses what has no slopes: bytes, and dimensions that are too short.

    Raises:
        RuntimeError: the type, the order at the edges or a size isn't right.
    """
    if self.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError(
            "torch.gradient only supports edge_order=1 and edge_order=2."
        )
    for dim in dims:
        if self.ndim and self.shape[dim] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )


def _even_slopes(self, dim, distance, edge_order):
    size = self.shape[dim]

    def part(start, length=1):
        return ops.narrow(self, dim, start, length)

    if edge_order == 1:
        first = (part(1) - part(0)) / distance
        last = (part(size - 1) - part(size - 2)) / distance
    else:
        first = (part(1) * 2 - part(0) * 1.5 - part(2) * 0.5) / distance
        last = part(size - 1) * 1.5 - part(size - 2) * 2 + part(size - 3) * 0.5
        last = last / distance
    middle = (part(2, size - 2) - part(0, size - 2)) / distance / 2
    return ops.cat([first, middle, last], dim)


def _uneven_slopes(self, dim, positions, edge_order):
    size = self.shape[dim]
    steps = ops.diff(positions)
    across = [1] * self.ndim
    across[dim] = -1
    before, after = steps[:-1].reshape(across), steps[1:].reshape(across)

    def part(start, length=1):
        return ops.narrow(self, dim, start, length)

    both = before + after
    middle = (
        part(0, size - 2) * (-after / (before * both))
        + part(1, size - 2) * ((after - before) / (before * after))
        + part(2, size - 2) * (before / (after * both))
    )
    if edge_order == 1:
        first = (part(1) - part(0)) / steps[0]
        last = (part(size - 1) - part(size - 2)) / steps[-1]
        return ops.cat([first, middle, last], dim)
    near, far = steps[0], steps[1]
    first = (
        part(0) * (-(2 * near + far) / (near * (near + far)))
        + part(1) * ((near + far) / (near * far))
        + part(2) * (-near / (far * (near + far)))
    )
    far, near = steps[-2], steps[-1]
    last = (
        part(size - 3) * (near / (far * (near + far)))
        + part(size - 2) * (-(near + far) / (near * far))
        + part(size - 1) * ((2 * near + far) / (near * (near + far)))
    )
    return ops.cat([first, middle, last], dim)


# ---- distances between all pairs of rows


def pdist(self, p):
    """The upper triangle of ``cdist(self, self, p)``, row by row.

    Raises:
        RuntimeError: the input is no matrix of floats, or the norm is negative.
    """
    if self.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.ndim}D")
    if not self.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:  # nor NaN
        raise RuntimeError("pdist only supports non-negative p values")
    return ops._pdist_forward(self.contiguous(), order_in(self.dtype, p))


def pdist_forward(self, p):
    """A norm of the difference for each pair."""
    if self.ndim != 2 or self.shape[0] > 1:
        require("pdist", self.dtype, FLOATS - {5, 15}, self)
    if self.ndim != 2:
        raise RuntimeError(f"_pdist_forward: expected rows\n  self: {brief(self)}")
    rows = self.shape[0]
    if rows < 2 or self.shape[1] == 0:
        return ops.new_zeros(self, [max(rows * (rows - 1) // 2, 0)])
    return distances.distances_with_epilogue(self.contiguous(), p)


def pdist_backward(grad, self, p, pdist):
    """Each pair pulls its two rows apart; pairs that meet have no direction."""
    if p == 0 or self.numel() == 0 or pdist.numel() == 0:
        return ops.zeros_like(self)
    return distances.distances_gradient(grad, self, p, pdist)
