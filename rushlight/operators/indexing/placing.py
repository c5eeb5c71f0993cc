"""Small operators that say where elements are, or put them elsewhere."""

import math

from rushlight.core.dtypes import bool_, complex32, int32, int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.warning import warn, warn_once
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.functions import broadcast_shapes
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.loop_calls import fresh

# ---- positions


def nonzero_static(self, size, fill_value):
    """The first positions, and rows of the fill value where there are too few.

    Raises:
        RuntimeError: the number of rows is negative.
    """
    rows = nonzero_static_shape(self, size, fill_value)
    if not rows.numel():
        return rows
    found = ops.nonzero(self)
    count = min(found.shape[0], size)
    if count < size:
        rows.fill_(fill_value)
    rows.narrow(0, 0, count).copy_(found.narrow(0, 0, count))
    return rows


def nonzero_static_shape(self, size, fill_value):
    """The result, not yet written."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    return fresh(self, [size, self.ndim], int64)


def unravel_index(indices, shape):
    """Quotients by the elements after each dimension, wrapped around its size."""
    if not shape:
        return ()
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    steps, sizes = (
        make_tensor(list(numbers), dtype=int64, device=indices.device)
        for numbers in (steps, shape)
    )
    positions = ops.floor_divide(ops.unsqueeze(indices, -1), steps)
    return tuple(ops.unbind(ops.remainder(positions, sizes), -1))


def masked_index(self, mask, indices, fill):
    """Positions are held within bounds; what the mask leaves out is not read."""
    if not self.numel():  # nothing to read, wherever positions are
        shape = broadcast_shapes(
            mask.shape, *(i.shape for i in indices if i is not None)
        )
        return ops.new_full(self, shape, fill)
    taken = ops.index(self, _held(self, indices))
    return ops.masked_fill(taken, ops.logical_not(mask), fill)


def masked_index_put(self, mask, indices, values):
    """Values that the mask leaves out add nothing."""
    if not self.numel():
        return self.clone()
    kept = ops.masked_fill(values, ops.logical_not(mask), 0)
    return ops.index_put(self, _held(self, indices), kept, True)


def _held(self, indices):
    """Positions within the sizes; those are left out by the mask that are not."""
    if not indices:
        raise IndexError("at least one index must be provided")
    if len(indices) > self.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {self.ndim} (got {len(indices)})"
        )
    held = []
    for dim, index in enumerate(indices):
        if index is not None:
            if index.dtype.name not in ("int64", "int32"):
                raise RuntimeError(
                    "_unsafe_masked_index found unexpected index type "
                    f"{TYPE_NAMES.get(index.dtype.name, index.dtype.name)}"
                )
            size = self.shape[dim]
            index = ops.where(index < 0, index + size, index)
            index = ops.clamp(index, 0, max(size - 1, 0))
        held.append(index)
    return held


# ---- shapes


def is_same_size(self, other):
    """Sizes are compared, nothing else."""
    return self.shape == other.shape


def resize(self, size, memory_format):
    """A view or copy of the elements, which must be as many.

    Raises:
        RuntimeError: the new shape has more or fewer elements.
    """
    warn("non-inplace resize is deprecated")
    return _resized(self, size)


def resize_as(self, the_template, memory_format):
    """`resize` to another tensor's shape."""
    warn("non-inplace resize_as is deprecated")
    return _resized(self, the_template.shape)


def _resized(self, size):
    count = math.prod(size)
    if count != self.numel():
        wanted, own = ("x".join(map(str, sizes)) for sizes in (size, self.shape))
        raise RuntimeError(
            f"requested resize to {wanted} ({count} elements in total), but the given "
            f"tensor has a size of {own} ({self.numel()} elements). autograd's resize "
            "can only change the shape of a given tensor, while preserving the number "
            "of elements. "
        )
    return self.contiguous().view(list(size))


def slice_inverse(self, src, dim, start, end, step):
    """A window of the source's sizes and strides on this tensor's memory."""
    dim = wrap_dim(dim, src.ndim)
    begin = 0 if start is None else start
    begin = max(begin + src.shape[dim], 0) if begin < 0 else begin
    offset = self.storage_offset() - begin * src.stride(dim)
    return ops.as_strided(self, list(src.shape), list(src.stride()), offset)


def chalf(self, memory_format):
    """A conversion; real numbers get an imaginary part of zero."""
    warn_once(
        "ComplexHalf support is experimental and many operators don't support it yet."
    )
    return self.to(complex32, memory_format=memory_format)


def native_channel_shuffle(self, groups):
    """The channels' groups and their places within groups change roles.

    Raises:
        RuntimeError: there are no channels, or groups of different sizes.
    """
    return ops.channel_shuffle(self, groups)


def chunk_cat(tensors, dim, num_chunks):
    """Each tensor is padded to full chunks; a row for each chunk's number.

    Raises:
        RuntimeError: the tensors don't go together.
    """
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    first = tensors[0]
    for tensor in tensors:
        if tensor.numel() == 0:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if tensor.dtype is not first.dtype:
            raise RuntimeError(
                "_chunk_cat expects all input tensors with the same dtype"
            )
    if dim < 0:
        if any(tensor.ndim != first.ndim for tensor in tensors):
            raise RuntimeError(
                "_chunk_cat expects non-negative dim when input tensors have different "
                "ndims"
            )
        dim = wrap_dim(dim, first.ndim)
    if not 0 <= dim < min(tensor.ndim for tensor in tensors):
        raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
    parts = []
    for tensor in tensors:
        if tensor.shape[:dim] != first.shape[:dim]:
            raise RuntimeError(
                "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
            )
        size = tensor.shape[dim]
        missing = -size % num_chunks
        if missing:
            gap = [*tensor.shape]
            gap[dim] = missing
            tensor = ops.cat([tensor, ops.new_zeros(tensor, gap)], dim)
        parts.append(tensor.reshape([*tensor.shape[:dim], num_chunks, -1]))
    return ops.cat(parts, dim + 1)


# ---- numbers under older names


def native_norm(self, p):
    """The norm of all elements."""
    return ops.linalg_vector_norm(self, p)


def native_norm_along(self, p, dim, keepdim, dtype):
    """Norms along the dimensions, computed in the given type."""
    order = 2 if p is None else p
    return ops.linalg_vector_norm(self, order, dim, keepdim, dtype=dtype)


def batch_norm_update_stats(input, running_mean, running_var, momentum):
    """The batch's mean and variance, mixed into the running ones where these are there."""
    axes = [d for d in range(input.ndim) if d != 1]
    wide = input.float() if input.dtype.itemsize == 2 else input
    mean = ops.mean(wide, axes)
    var = ops.var(wide, axes, correction=0)
    count = input.numel() // max(input.shape[1], 1)
    if running_mean is not None:
        running_mean.copy_((1 - momentum) * running_mean + momentum * mean)
    if running_var is not None:
        unbiased = var * (count / (count - 1)) if count > 1 else var * math.nan
        running_var.copy_((1 - momentum) * running_var + momentum * unbiased)
    return mean.to(input.dtype), var.to(input.dtype)


def conv_tbc(self, weight, bias, pad):
    """A one-dimensional convolution with its dimensions in another order.

    Raises:
        RuntimeError: the operands' dimensions don't go together.
    """
    if self.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if self.shape[2] != weight.shape[1]:
        raise RuntimeError(
            "Input dim 2 (input channels) is not == dim 1 in the weight tensor"
        )
    if bias.shape[0] != weight.shape[2]:
        raise RuntimeError(
            "Bias size must equal dim 2 in the weight tensor (output channels)."
        )
    size = self.shape[0] + 2 * pad - weight.shape[0] + 1
    if size < 0:
        shape = [size, self.shape[1], weight.shape[2]]
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {size}: {shape}"
        )
    rows = ops.conv1d(
        self.permute([1, 2, 0]), weight.permute([2, 1, 0]), bias, padding=[pad]
    )
    return rows.permute([2, 0, 1]).contiguous()


def embedding_renorm(self, indices, max_norm, norm_type):
    """Each named row once, scaled to just below the largest norm.

    Raises:
        RuntimeError: the table is no matrix, or the indices are no integers.
    """
    if self.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor for "
            "argument #1 'self' (while checking arguments for embedding_renorm_)"
        )
    if indices.dtype not in (int32, int64):
        raise RuntimeError(
            "Expected tensor for argument #2 'indices' to have one of the following "
            f"scalar types: Long, Int; but got {TYPE_NAMES[indices.dtype.name]} instead "
            "(while checking arguments for embedding_renorm_)"
        )
    rows = _distinct(indices)
    chosen = ops.index_select(self, 0, rows)
    lengths = ops.linalg_vector_norm(chosen, norm_type, [1], True)
    factor = ops.where(lengths > max_norm, max_norm / (lengths + 1e-7), 1.0)
    return ops.index_copy_(self, 0, rows, (chosen * factor).to(self.dtype))


def embedding_renorm_meta(self, indices, max_norm, norm_type):
    """No row has a length."""
    return self


def _distinct(indices):
    flat, _ = ops.sort(indices.reshape([-1]).to(int64))
    if flat.numel() < 2:
        return flat
    fresh = ops.cat([ops.ones_like(flat[:1], dtype=bool_), ops.diff(flat) != 0])
    return ops.masked_select(flat, fresh)
