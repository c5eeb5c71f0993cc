"""Derivatives and composites of reading and writing at positions."""

import rushlight
from rushlight.ops import call as ops
from rushlight.ops import indexing_kernels as kernels
from rushlight.ops.shared import wrap_dim

# The kernel's mode for each reduction, and the value that changes nothing.
REDUCTIONS = {
    "sum": (kernels.ADD, 0), "mean": (kernels.ADD, 0), "prod": (kernels.MULTIPLY, 1),
    "amin": (kernels.SMALLEST, float("inf")), "amax": (kernels.LARGEST, -float("inf")),
}  # fmt: skip


def index_gradient(grad, shape, indices):
    """Adds every element of the gradient to where it was read."""
    return ops.index_put(ops.new_zeros(grad, shape), indices, grad, True)


def values_of_zero(grad):
    """One zero, for overwriting gradients."""
    return ops.new_zeros(grad, ())


def index_select_like(grad, dim, index, shape):
    """The slices of the gradient; a source without dimensions counts as one."""
    selected = ops.index_select(grad, dim, index)
    return selected if len(shape) == selected.ndim else selected.reshape(shape)


def gather_like(grad, dim, index, shape):
    """The picked gradient, zero where a larger source was not read."""
    picked = ops.gather(grad, dim, index)
    if tuple(picked.shape) == tuple(shape):
        return picked
    padding = [
        width
        for have, want in zip(reversed(picked.shape), reversed(shape))
        for width in (0, want - have)
    ]
    return ops.constant_pad_nd(picked, padding)


def index_copy(self, dim, index, source):
    """Writes through the positions of the dimension.

    Raises:
        IndexError: the index has more than one dimension.
        RuntimeError: the source doesn't fit.
    """
    if index.ndim > 1:
        raise IndexError(
            f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})"
        )
    if source.dtype != self.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got "
            f"(self) {self.dtype} and (source) {source.dtype}"
        )
    if self.ndim == 0:
        return ops.clone(source.reshape(()))
    if source.ndim == 0:
        source = source.reshape([1] * self.ndim)
    sizes = [1] * self.ndim
    sizes[dim] = -1
    positions = index.reshape(sizes).expand(source.shape)
    return ops.scatter(self, dim, positions, source)


def index_fill_tensor(self, dim, index, value):
    """``index_fill`` with the number in a tensor.

    Raises:
        RuntimeError: the tensor has dimensions.
    """
    if value.ndim:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor "
            f"with {value.ndim} dimension(s)."
        )
    return ops.index_fill(self, dim, index, value.item())


def masked_select_gradient(grad, shape, mask):
    """The gradients put back where they were taken."""
    wide = ops.broadcast_tensors([ops.new_zeros(grad, shape), mask])
    zeros, mask = wide[0].contiguous(), wide[1].contiguous()
    return ops.masked_scatter(zeros, mask, grad)


def masked_scatter_gradient(grad, mask, shape):
    """The gradients that were taken from the source, zero for its unused rest."""
    taken = ops.masked_select(grad, mask)
    size = 1
    for extent in shape:
        size *= extent
    rest = size - taken.numel()
    return ops.constant_pad_nd(taken, [0, rest]).reshape(shape)


def nonzero_numpy(self):
    """A tensor of positions for each dimension."""
    places = ops.nonzero(ops.unsqueeze(self, 0) if self.ndim == 0 else self)
    return places.unbind(1)


def take_along_dim(self, indices, dim):
    """``gather`` after both were broadcast outside of ``dim``.

    Raises:
        RuntimeError: the numbers of dimensions differ.
    """
    if dim is None:
        return ops.gather(self.reshape(-1), 0, indices.reshape(-1))
    if self.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {self.ndim} dimensions for input, and "
            f"{indices.ndim} dimensions for indices"
        )
    dim = dim % self.ndim
    indices = ops.where(indices < 0, indices + self.shape[dim], indices)
    rest = [
        1 if axis == dim else max(a, b) if min(a, b) else 0
        for axis, (a, b) in enumerate(zip(self.shape, indices.shape))
    ]
    source, places = list(rest), list(rest)
    source[dim], places[dim] = self.shape[dim], indices.shape[dim]
    return ops.gather(self.expand(source), dim, indices.expand(places))


def embedding_second_gradient(grad, indices, padding_idx):
    """The rows of the incoming gradient, none for the padding."""
    rows = ops.index_select(grad, 0, indices.reshape(-1))
    rows = rows.reshape([*indices.shape, *grad.shape[1:]])
    if padding_idx >= 0:
        rows = ops.masked_fill(rows, (indices == padding_idx).unsqueeze(-1), 0)
    return rows


def scatter_reduce(self, dim, index, src, reduce, include_self):
    """Combines the source's elements at each place, with what was there or without.

    Raises:
        RuntimeError: the reduction is unknown.
    """
    if reduce not in REDUCTIONS:
        raise RuntimeError(
            "reduce argument must be either sum, prod, mean, amax or amin, got "
            f"{reduce}"
        )
    mode, identity = REDUCTIONS[reduce]
    base = self
    if not include_self:
        if abs(identity) == float("inf") and not self.is_floating_point():
            limits = rushlight.iinfo(self.dtype)
            identity = limits.max if identity > 0 else limits.min
        base = ops.scatter(self, dim, index, identity)
    result = kernels._scatter("scatter_reduce", base, dim, index, src, mode)
    if reduce == "mean":
        counts = _counts(self, dim, index, include_self)
        rounded = None if self.is_floating_point() else "floor"
        result = ops.div(result, counts, rounding_mode=rounded)
    return result


def _counts(self, dim, index, include_self):
    """How many elements meet at each place, at least one."""
    counts = (ops.ones_like if include_self else ops.zeros_like)(self)
    counts = ops.scatter_add(counts, dim, index, ops.ones_like(index, dtype=self.dtype))
    return ops.clamp_min(counts, 1)


def scatter_reduce_gradients(
    grad, self, dim, index, src, reduce, include_self, result, needs
):
    """Gradients of ``scatter_reduce`` for the input and the source."""
    if reduce == "mean":
        grad = grad / _counts(self, dim, index, include_self)
    if reduce == "prod":
        to_self = (grad * result) / self
        to_src = ops.gather(grad * result, dim, index) / _narrowed(src, index)
    elif reduce in ("amin", "amax"):
        shared = self == result
        met = _narrowed(src, index) == ops.gather(result, dim, index)
        ties = ops.scatter_add(shared.to(grad.dtype), dim, index, met.to(grad.dtype))
        to_self = grad * shared / ties
        to_src = ops.gather(grad / ties, dim, index) * met
    else:
        to_self, to_src = grad, ops.gather(grad, dim, index)
    if not include_self:
        to_self = ops.scatter(to_self, dim, index, 0)
    return to_self if needs & 1 else None, to_src if needs & 2 else None


def _narrowed(src, index):
    """The part of the source that the index reaches."""
    for axis, size in enumerate(index.shape):
        src = src.narrow(axis, 0, size)
    return src


def index_reduce(self, dim, index, source, reduce, include_self):
    """``scatter_reduce`` of whole slices.

    Raises:
        RuntimeError: the reduction is unknown.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but "
            f"got {reduce}."
        )
    sizes = [1] * max(self.ndim, 1)
    sizes[wrap_dim(dim, self.ndim)] = -1
    places = (
        index.reshape(sizes).expand(source.shape) if self.ndim else index.reshape(())
    )
    return ops.scatter_reduce(
        self, dim, places, source, reduce, include_self=include_self
    )
