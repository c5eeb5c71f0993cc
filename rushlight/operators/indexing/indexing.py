"""Derivatives and composites of reading and writing at positions."""

import math

from rushlight.core.dtypes import int64
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.dispatch.operands import share_device_type
from rushlight.operators import call as ops
from rushlight.operators.indexing.index_slices import along
from rushlight.operators.indexing.scatter import meetings, narrowed
from rushlight.operators.loop_calls import changed_in_place, scalar_name
from rushlight.operators.shared import readable


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
    return padded(ops.gather(grad, dim, index), shape)


def padded(picked, shape):
    """Zeros behind the picked elements, up to a shape."""
    if tuple(picked.shape) == tuple(shape):
        return picked
    padding = [
        width
        for have, want in zip(reversed(picked.shape), reversed(shape))
        for width in (0, want - have)
    ]
    return ops.constant_pad_nd(picked, padding)


def masked_select_gradient(grad, shape, mask):
    """The gradients put back where they were taken."""
    wide = ops.broadcast_tensors([ops.new_zeros(grad, shape), mask])
    zeros, mask = wide[0].contiguous(), wide[1].contiguous()
    return ops.masked_scatter(zeros, mask, grad)


def masked_scatter_gradient(grad, mask, shape):
    """The gradients that were taken from the source, zero for its unused rest."""
    size = math.prod(shape)
    if not readable(mask) or not readable(grad):
        # how many are taken is not known: each is brought to its place
        chosen = ops.flatten(mask.expand(grad.shape))
        at = ops.clamp(ops.cumsum(chosen, 0) - 1, 0, max(size - 1, 0))
        given = ops.masked_fill(ops.flatten(grad), ~chosen, 0)
        return ops.index_add(ops.new_zeros(grad, [size]), 0, at, given).reshape(shape)
    taken = ops.masked_select(grad, mask)
    rest = size - taken.numel()
    return ops.constant_pad_nd(taken, [0, rest]).reshape(shape)


def nonzero_numpy(self):
    """A tensor of positions for each dimension."""
    positions = ops.nonzero(ops.unsqueeze(self, 0) if self.ndim == 0 else self)
    return positions.unbind(1)


def take_along_dim(self, indices, dim):
    """``gather`` after both were broadcast outside of ``dim``.

    With ``dim``, indices count around the dimension, as often as it takes.

    Raises:
        RuntimeError: the devices or the numbers of dimensions differ, or without ``dim`` an
            operand cannot be viewed in one dimension.
    """
    if not share_device_type(self, indices):
        raise RuntimeError(
            f"Expected tensor to have {self.device.type} Device, but got tensor with "
            f"{indices.device.type} Device (while checking arguments for "
            "torch.take_along_dim():)"
        )
    if dim is None:
        return ops.gather(self.view(-1), 0, indices.view(-1))
    if self.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {self.ndim} dimensions for input, and "
            f"{indices.ndim} dimensions for indices"
        )
    if scalar_name(indices.dtype) != "Long":
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{scalar_name(indices.dtype)}"
        )
    size = self.size(dim)
    dim = wrap_dim(dim, self.ndim)
    if size:  # else no index fits, as `gather` will say
        indices = ops.remainder(indices, size)
    source, positions = list(self.shape), list(indices.shape)
    source[dim] = positions[dim] = 1
    rest = list(broadcast_sizes([source, positions]))
    source, positions = list(rest), list(rest)
    source[dim], positions[dim] = self.shape[dim], indices.shape[dim]
    return ops.gather(self.expand(source), dim, indices.expand(positions))


def embedding_second_gradient(grad, indices, padding_idx):
    """The rows of the incoming gradient, none for the padding."""
    rows = ops.index_select(grad, 0, indices.reshape(-1))
    rows = rows.reshape([*indices.shape, *grad.shape[1:]])
    if padding_idx >= 0:
        rows = ops.masked_fill(rows, (indices == padding_idx).unsqueeze(-1), 0)
    return rows


def scatter_reduce_gradients(
    grad, self, dim, index, src, reduce, include_self, result, needs
):
    """Gradients of ``scatter_reduce`` for the input and the source."""
    if not index.numel():
        return grad, ops.zeros_like(src)
    if reduce == "mean":
        grad = grad / meetings(self, dim, index, include_self)
    if reduce == "prod":
        to_self, to_src = _product_gradients(
            grad, self, dim, index, narrowed(src, index.shape), include_self, result
        )
    elif reduce in ("amin", "amax"):
        shared = self == result
        met = narrowed(src, index.shape) == ops.gather(result, dim, index)
        ties = ops.scatter_add(shared.to(grad.dtype), dim, index, met.to(grad.dtype))
        to_self = grad * shared / ties
        to_src = ops.gather(grad / ties, dim, index) * met
    else:
        to_self, to_src = grad, ops.gather(grad, dim, index)
    if not include_self:
        to_self = ops.scatter(to_self, dim, index, 0)
    to_src = padded(to_src, src.shape) if needs & 2 else None
    return to_self if needs & 1 else None, to_src


def index_reduce_gradients(
    grad, self, dim, index, source, reduce, include_self, result, needs
):
    """Gradients of ``index_reduce``, which is ``scatter_reduce`` of whole slices."""
    positions = along(index, wrap_dim(dim, self.dim()), source.shape)
    return scatter_reduce_gradients(
        grad, self, dim, positions, source, reduce, include_self, result, needs
    )


def _product_gradients(grad, self, dim, index, src, include_self, result):
    """Each factor's gradient is the product of the others, zeros among them counted."""

    def product(start, factors):
        return ops.scatter_reduce(
            start, dim, index, factors, "prod", include_self=include_self
        )

    ones = ops.masked_fill(self, self == 0, 1)
    to_self = grad * product(ones, src) / ones
    zero = src == 0
    if not bool(zero.any()):
        return to_self, ops.gather(grad * result, dim, index) / src
    zeros = ops.scatter_add(ops.zeros_like(self), dim, index, zero.to(self.dtype))
    alone = zero & (ops.gather(zeros, dim, index) == 1)
    # where one factor alone is zero, its gradient is the product of the rest
    rest = product(self, ops.masked_fill(src, alone, 1))
    to_src = ops.where(
        alone,
        ops.gather(grad * rest, dim, index),
        ops.gather(grad * result, dim, index) / ops.masked_fill(src, zero, 1),
    )
    return to_self, to_src


def bag_sum_gradient(
    grad, indices, bounds, num_weights, mean, padding_idx, scale_grad_by_freq, sparse
):
    """The gradient of a table: each index takes what arrives at its bag."""
    if mean:
        ones = ops.new_ones(grad, [num_weights, 1])
        named = ops._bag_sum(ones, indices, bounds, padding_idx=padding_idx)
        grad = grad / ops.clamp_min(named, 1)
    bags = ops.arange(bounds.shape[0] - 1, device=bounds.device)
    lengths = ops.diff(bounds)
    bag_of = ops.repeat_interleave(bags, lengths, output_size=indices.shape[0])
    spread = ops.index_select(grad, 0, bag_of)
    return embedding_gradient(
        spread, indices, num_weights, padding_idx, scale_grad_by_freq, sparse
    )


def embedding_gradient(
    grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse
):
    """The gradient of a table: of all its rows, or sparse, of those that were named.

    Raises:
        RuntimeError: a sparse one is to be divided by frequencies.
    """
    if not sparse:
        return ops.embedding_dense_backward(
            grad, indices, num_weights, padding_idx, scale_grad_by_freq
        )
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    features = grad.shape[-1]
    named = indices.reshape([-1]).to(int64)
    rows = grad.reshape([named.shape[0], features])
    if padding_idx >= 0:
        kept = ops.nonzero(named != padding_idx).reshape([-1])
        named = ops.index_select(named, 0, kept)
        rows = ops.index_select(rows, 0, kept)
    return ops._sparse_coo_tensor_unsafe(
        named.unsqueeze(0), rows, [num_weights, features]
    )


def gather_gradient(grad, shape, dim, index, sparse_grad):
    """What was picked, added at the places that it was picked from."""
    if not sparse_grad:
        zeros = ops.new_zeros(grad, shape)
        return changed_in_place(ops.scatter_add, zeros, dim, index, grad)
    ndim = len(shape)
    if not ndim:
        return ops._sparse_coo_tensor_unsafe(
            ops.new_empty(index, [0, 1]), grad.reshape([1]), []
        )
    rows = []
    for d in range(ndim):
        if d == wrap_dim(dim, ndim):
            rows.append(index.reshape([-1]))
            continue
        across = [1] * ndim
        across[d] = -1
        place = ops.arange(index.shape[d], device=index.device).reshape(across)
        rows.append(place.expand(list(index.shape)).reshape([-1]))
    return ops._sparse_coo_tensor_unsafe(
        ops.stack(rows), grad.reshape([-1]), list(shape)
    )
