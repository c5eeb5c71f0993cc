"""Composites and derivatives of the views; the views themselves are compiled."""

from rushlight.core.dtype import INTEGER
from rushlight.core.dtypes import int64
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format, preserve_format
from rushlight.core.views import refuse_many, set_source
from rushlight.core.views import resize_ as resize_in_place
from rushlight.core.warning import warn_once
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import brief, changed, scalar_name
from rushlight.operators.shape.formats import format_of


def call_slice(tensor, dim, start, end, step):
    """The slice view under a name that Python's own ``slice`` doesn't hide."""
    return ops.slice(tensor, dim, start, end, step)


def lift_fresh_copy(tensor):
    """A copy of a tensor that was made of numbers."""
    return ops.clone(tensor)


def permute_back(grad, dims):
    """The permutation undone."""
    inverse = [0] * len(dims)
    for position, dim in enumerate(dims):
        inverse[dim] = position
    return grad.permute(inverse)


def narrow_range(shape, dim, start, length):
    """First and last-but-one position that ``narrow`` keeps."""
    if start < 0:
        start += shape[dim]
    return start, start + length


def select_backward(grad_output, input_sizes, dim, index):
    """Zeros, with the gradient at one position."""
    grad_input = ops.new_zeros(grad_output, input_sizes)
    ops.select(grad_input, dim, index).copy_(grad_output)
    return grad_input


def slice_backward(grad_output, input_sizes, dim, start, end, step):
    """Zeros, with the gradient at a range of positions."""
    grad_input = ops.new_zeros(grad_output, input_sizes)
    call_slice(grad_input, dim, start, end, step).copy_(grad_output)
    return grad_input


def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    """Zeros, with the gradient on a diagonal."""
    grad_input = ops.new_zeros(grad_output, input_sizes)
    ops.diagonal(grad_input, offset, dim1, dim2).copy_(grad_output)
    return grad_input


def unfold_backward(grad_in, input_sizes, dim, size, step):
    """Adds the gradient of each place in the window to where it came from.

    As many places at a time as windows are apart: none of those came from one element.
    """
    grad_input = ops.new_zeros(grad_in, input_sizes)
    if not input_sizes:
        return grad_input + ops.select(grad_in, -1, 0).sum()
    dim = wrap_dim(dim, len(input_sizes))
    windows = grad_in.shape[dim]
    for place in range(0, size, step):
        count = min(step, size - place)
        end = place + (windows - 1) * step + count
        part = call_slice(grad_input, dim, place, end, 1)
        target = ops.unfold(part, dim, count, step)
        target.add_(call_slice(grad_in, -1, place, place + count, 1))
    return grad_input


def defined(grads):
    """The first gradient that is there."""
    return next(grad for grad in grads if grad is not None)


def unbind_gradient(grads, shape, dtype, dim):
    """The gradients stacked; zeros for those that didn't arrive."""
    like = defined(grads)
    return ops.stack([g if g is not None else ops.zeros_like(like) for g in grads], dim)


def split_sizes_gradient(grads, shape, sizes, dim):
    """The gradients joined; zeros for those that didn't arrive."""
    like, dim = defined(grads), wrap_dim(dim, len(shape))
    parts = []
    for grad, size in zip(grads, sizes, strict=True):
        if grad is None:
            part = [*shape]
            part[dim] = size
            grad = ops.new_zeros(like, part)
        parts.append(grad)
    return ops.cat(parts, dim)


def split_gradient(grads, shape, size, dim):
    """``split_sizes_gradient`` for equal parts, the last of which may be smaller."""
    extent = shape[dim]
    sizes = [min(size, extent - i * size) for i in range(len(grads))]
    return split_sizes_gradient(grads, shape, sizes, dim)


def as_strided_gradient(grad, shape, strides, offset, size, stride, storage_offset):
    """Adds every element of the view to the memory that it looked at, then reads it.

    The flat buffer spans all the memory that either geometry reaches.
    """
    start = offset if storage_offset is None else storage_offset
    low = min(offset, start)
    reach = max(_reach(shape, strides, offset), _reach(size, stride, start))
    flat = ops.new_zeros(grad, [reach - low])
    positions = ops.arange(reach - low, device=grad.device)
    seen = ops.as_strided(positions, size, stride, start - low).reshape(-1)
    flat = ops.index_add(flat, 0, seen, grad.reshape(-1))
    if 0 in shape:
        return ops.new_zeros(grad, shape)
    own = ops.as_strided(positions, shape, strides, offset - low).reshape(-1)
    counts = ops.zeros_like(ops.real(flat))
    shared = ops.index_add(counts, 0, own, ops.ones_like(counts[own]))
    flat = flat / ops.clamp(shared, min=1)
    return ops.index_select(flat, 0, own).reshape(shape)


def _reach(sizes, strides, offset):
    """One past the last element that a geometry touches."""
    if 0 in sizes:
        return offset
    return offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def expand_as(self, other):
    """A view of the other tensor's shape."""
    return self.expand(other.shape)


def view_as(self, other):
    """A view of the other tensor's shape."""
    return self.view(other.shape)


def reshape_as(self, other):
    """The elements in the other tensor's shape."""
    return self.reshape(other.shape)


def broadcast_to(self, size):
    """A view of the given shape."""
    return self.expand(size)


def broadcast_tensors(tensors):
    """Every tensor expanded to the common shape; itself where it has that shape."""
    shape = tuple(broadcast_sizes([tensor.shape for tensor in tensors]))
    return [t if t.shape == shape else t.expand(shape) for t in tensors]


def reversed_dims(self):
    """The dimensions in the opposite order; deprecated but for matrices."""
    if self.dim() == 0:
        _warn_no_numbers("Tensor.T", "the tensor itself")
    elif self.dim() != 2:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape "
            "is deprecated. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*range(x.ndim - 1, -1, -1))` to reverse the dimensions"
        )
    return self.permute(tuple(range(self.dim() - 1, -1, -1)))


def _warn_no_numbers(name, instead):
    """Warns of transposing a tensor without dimensions."""
    message = f"{name} is deprecated on 0-D tensors. Consider using {instead}."
    warn_once(message)


def _refuse_vectors(x, name):
    if x.dim() == 1:
        raise RuntimeError(
            f"{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
        )


def transposed(self):
    """Matrices transposed; a number as it is.

    Raises:
        RuntimeError: the tensor is a vector.
    """
    _refuse_vectors(self, "tensor.mT")
    if not self.dim():
        _warn_no_numbers("Tensor.mT", "the tensor itself")
        return self
    return self.transpose(-2, -1)


def matrices_h(self):
    """Matrices transposed and conjugated.

    Raises:
        RuntimeError: the tensor is a vector.
    """
    _refuse_vectors(self, "tensor.mH")
    return _transposed_conjugate(self, "Tensor.mH")


def matrix_h(self):
    """A matrix transposed and conjugated.

    Raises:
        RuntimeError: the tensor is neither a matrix nor a number.
    """
    if self.dim() not in (0, 2):
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{self.dim()}-D tensor."
            + (
                ""
                if self.dim() < 3
                else " For batches of matrices, consider using tensor.mH"
            )
        )
    return _transposed_conjugate(self, "Tensor.H")


def adjoint(self):
    """The last two dimensions exchanged.

    Raises:
        RuntimeError: the tensor has exactly one dimension.
    """
    _refuse_vectors(self, "tensor.adjoint()")
    return _transposed_conjugate(self, "adjoint()")


def _transposed_conjugate(x, name):
    """Conjugated matrices transposed; the conjugate of a number, with a warning."""
    if not x.ndim:
        _warn_no_numbers(name, "x.conj()")
        return x.conj()
    return x.transpose(-2, -1).conj()


def point_at(self, source):
    """Sizes, strides and memory of another tensor; the graph is not followed.

    Raises:
        RuntimeError: the types of the elements differ.
    """
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {source.dtype.name} to a tensor of type "
            f"{self.dtype.name}"
        )
    self.data = source.detach()
    return self


def ravel(self):
    """All the elements in one dimension."""
    return self.contiguous().view(-1)


def unflatten(self, dim, sizes):
    """One dimension split into several; one of their sizes may be -1.

    Raises:
        RuntimeError: the sizes don't multiply to the dimension's.
    """
    if len(sizes):
        dim = wrap_dim(dim, self.ndim)
    if not self.ndim or len(sizes) == 0:
        raise RuntimeError("unflatten: sizes must be non-empty, and so must the shape")
    sizes, extent = list(sizes), self.shape[dim]
    known = 1
    for size in sizes:
        known *= size if size != -1 else 1
    if sizes.count(-1) == 1 and known and extent % known == 0:
        sizes[sizes.index(-1)] = extent // known
    elif known != extent or -1 in sizes:
        raise RuntimeError(
            f"unflatten: Provided sizes {sizes} don't multiply up to the size of dim "
            f"{dim} ({extent}) in the input tensor"
        )
    return self.view([*self.shape[:dim], *sizes, *self.shape[dim + 1 :]])


def chunk(self, chunks, dim):
    """Parts of the size that makes at most so many."""
    size = size_of_chunks(self, chunks, dim)
    if size == 0:
        return ops.split_with_sizes(self, [0] * chunks, dim)
    return ops.split(self, size, dim)


def unsafe_chunk(self, chunks, dim):
    """``chunk``, of parts that know nothing of each other."""
    size = size_of_chunks(self, chunks, dim)
    if size == 0:
        return ops.unsafe_split_with_sizes(self, [0] * chunks, dim)
    return ops.unsafe_split(self, size, dim)


def size_of_chunks(self, chunks, dim):
    """The size that makes at most so many parts.

    Raises:
        RuntimeError: there is no dimension, or not at least one chunk.
    """
    if self.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(
            f"chunk expects `chunks` to be greater than 0, got: {chunks}"
        )
    size = (self.shape[wrap_dim(dim, self.ndim)] + chunks - 1) // chunks
    if size == 0:
        refuse_many(chunks)
    return size


def tensor_split(self, sections, dim):
    """So many parts; the first ones are longer by one where it doesn't divide.

    Raises:
        RuntimeError: there is no dimension, or not at least one section.
    """
    if self.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor "
            "with 0 dims"
        )
    dim = wrap_dim(dim, self.ndim)
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    refuse_many(sections)
    small, longer = divmod(self.shape[dim], sections)
    parts, start = [], 0
    for section in range(sections):
        end = start + small + (section < longer)
        parts.append(call_slice(self, dim, start, end, 1))
        start = end
    return parts


def tensor_split_indices(self, indices, dim):
    """The parts between the indices."""
    if self.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor "
            "with 0 dims"
        )
    parts, start = [], 0
    for end in indices:
        parts.append(call_slice(self, dim, start, end, 1))
        start = end
    return [*parts, call_slice(self, dim, start, None, 1)]


def tensor_split_tensor(self, tensor_indices_or_sections, dim):
    """``tensor_split`` with the number or the indices in a tensor.

    Raises:
        RuntimeError: the tensor is no list of int64.
    """
    if tensor_indices_or_sections.dtype is not int64:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, "
            f"but got {scalar_name(tensor_indices_or_sections.dtype)}"
        )
    if tensor_indices_or_sections.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional "
            "or one-dimensional tensor, but got a tensor with "
            f"{tensor_indices_or_sections.ndim} dims"
        )
    value = tensor_indices_or_sections.tolist()
    if isinstance(value, int):
        return tensor_split(self, value, dim)
    return tensor_split_indices(self, value, dim)


def _split_at(self, name, where, dim, least):
    if self.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension,"
            f" but got a tensor with {self.ndim} dimensions!"
        )
    if not isinstance(where, int):
        return tensor_split_indices(self, where, dim)
    if where == 0 or self.shape[dim] % where:
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the "
            f"dimension {self.shape[dim]} is not divisible by the split_size {where}!"
        )
    return tensor_split(self, where, dim)


def hsplit(self, where):
    """Parts along the columns; along the only dimension of a vector."""
    return _split_at(self, "hsplit", where, 0 if self.ndim == 1 else 1, 1)


def vsplit(self, where):
    """Parts along the rows."""
    return _split_at(self, "vsplit", where, 0, 2)


def dsplit(self, where):
    """Parts along the third dimension."""
    return _split_at(self, "dsplit", where, 2, 3)


def real(self):
    """The real part: the tensor itself unless it is complex."""
    if not self.is_complex():
        return self
    plain = ops._conj(self) if self.is_conj() else self
    return ops.select(ops.view_as_real(plain), -1, 0)


def imag(self):
    """The imaginary part; of a lazy conjugate, a lazy negative.

    Raises:
        RuntimeError: the tensor is not complex.
    """
    if not self.is_complex():
        raise RuntimeError(
            "imag is not implemented for tensors with non-complex dtypes."
        )
    if self.is_conj():
        part = ops.select(ops.view_as_real(ops._conj(self)), -1, 1)
        return ops._neg_view(part)
    return ops.select(ops.view_as_real(self), -1, 1)


def linalg_diagonal(self, offset, dim1, dim2):
    """``diagonal`` of the last two dimensions."""
    return ops.diagonal(self, offset, dim1, dim2)


def narrow_tensor(self, dim, start, length):
    """``narrow`` from a position that a tensor tells."""
    if start.ndim or start.dtype.category != INTEGER:
        raise RuntimeError(
            f"start must be an 0-dim integral Tensor.\n  start: {brief(start)}"
        )
    return self.narrow(dim, int(start.item()), length)


def conj_physical(self):
    """The imaginary part's sign turned; real tensors as they are."""
    return ops._conj_physical(self) if self.is_complex() else self


def atleast_1d(self):
    """A number becomes a vector."""
    return self.reshape([1]) if self.ndim == 0 else self


def atleast_2d(self):
    """A vector becomes a row."""
    if self.ndim == 0:
        return self.reshape([1, 1])
    return self.unsqueeze(0) if self.ndim == 1 else self


def atleast_3d(self):
    """A matrix gets a last dimension of size one."""
    if self.ndim == 0:
        return self.reshape([1, 1, 1])
    if self.ndim == 1:
        return self.unsqueeze(0).unsqueeze(-1)
    return self.unsqueeze(-1) if self.ndim == 2 else self


def atleast_1d_each(tensors):
    """``atleast_1d`` of every tensor."""
    return tuple(map(atleast_1d, tensors))


def atleast_2d_each(tensors):
    """``atleast_2d`` of every tensor."""
    return tuple(map(atleast_2d, tensors))


def atleast_3d_each(tensors):
    """``atleast_3d`` of every tensor."""
    return tuple(map(atleast_3d, tensors))


def sum_to_size(self, size):
    """Sums the dimensions in which the tensor is larger than ``size``.

    Raises:
        RuntimeError: the shape doesn't expand to the tensor's.
    """
    size, shape = tuple(size), tuple(self.shape)
    lead = len(shape) - len(size)
    matched = zip(size, shape[lead:])
    if lead < 0 or any(a not in (1, b) for a, b in matched):
        raise RuntimeError(
            f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}."
        )
    if not size:
        return self.sum()
    dims = list(range(lead))
    dims += [lead + i for i, n in enumerate(size) if n == 1 and shape[lead + i] != 1]
    result = self.sum(dims, keepdim=True) if dims else self
    return result.reshape(size) if lead else result


def transpose_(self, dim0, dim1):
    """``transpose`` in place."""
    return set_source(self, ops.transpose(self, dim0, dim1))


def t_(self):
    """``t`` in place."""
    return set_source(self, ops.t(self))


def squeeze_(self):
    """``squeeze`` in place."""
    return set_source(self, ops.squeeze(self))


def squeeze_dims_(self, dim):
    """``squeeze`` of some dimensions in place."""
    return set_source(self, ops.squeeze(self, dim))


def unsqueeze_(self, dim):
    """``unsqueeze`` in place."""
    return set_source(self, ops.unsqueeze(self, dim))


def as_strided_(self, size, stride, storage_offset):
    """``as_strided`` in place."""
    return set_source(self, ops.as_strided(self, size, stride, storage_offset))


def resize_(self, size, memory_format=None):
    """New sizes, for tensors outside of graphs.

    Raises:
        RuntimeError: the tensor requires gradients.
    """
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    return resize_in_place(self, size, memory_format)


def resize_as_(self, the_template, memory_format):
    """The other tensor's sizes, in the format asked for; the same ones are no change."""
    if memory_format is None and self.shape == the_template.shape:
        if not self.requires_grad:
            return self
    if memory_format is preserve_format:
        memory_format = format_of(the_template) or contiguous_format
    return ops.resize_(self, the_template.shape, memory_format=memory_format)


def conj_physical_(self):
    """The values of real tensors stay as they are, and count as written."""
    if self.is_complex() or self.requires_grad:
        return ops._conj_physical_(self)
    changed([[self]])
    return self
