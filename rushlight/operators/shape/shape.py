"""Joining, repeating, reordering and padding tensors."""

import itertools
import math

from rushlight.core.dtype import FLOATING, promote_types
from rushlight.core.dtypes import int64
from rushlight.core.facts import storage_of
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import channels_last_3d, contiguous_format
from rushlight.core.views import unsafe_view
from rushlight.core.warning import warn_once
from rushlight.dispatch import python_key
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.kernels import promoted_type, run_pointwise
from rushlight.operators import call as ops
from rushlight.operators.assertions import refuse_unless
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.indexing.gather import shares_storage
from rushlight.operators.loop_calls import brief, require, scalar_name
from rushlight.operators.shape.conversion import copy
from rushlight.operators.shape.formats import format_of, laid_out
from rushlight.operators.shape.joining import cat
from rushlight.operators.shape.view import call_slice
from rushlight.operators.shared import readable, written

MOST_CHOSEN = 2**60  # places that memory has addresses for


def cat_gradient(grad, shapes, dim):
    """The part of the gradient that belongs to each tensor."""
    if tuple(grad.shape) == (0,):  # joined along any dimension
        return [ops.new_zeros(grad, shape) for shape in shapes]
    dim, start, grads = wrap_dim(dim, grad.ndim), 0, []
    for shape in shapes:
        if tuple(shape) == (0,) and grad.ndim != 1:
            grads.append(ops.new_zeros(grad, shape))
            continue
        part = grad.narrow(dim, start, shape[dim])
        grads.append(part)
        start += shape[dim]
    return grads


def stack(tensors, dim):
    """Copies every tensor to its place along the new dimension.

    Raises:
        RuntimeError: no tensors, or shapes that differ.
    """
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].shape
    dim = wrap_dim(dim, len(first) + 1)
    for number, tensor in enumerate(tensors):
        if tensor.shape != first:
            raise RuntimeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(first)} at entry 0 and {list(tensor.shape)} at entry {number}"
            )
    if dim == len(first):
        return cat([tensor.unsqueeze(dim) for tensor in tensors], dim)
    sizes = [*first[:dim], len(tensors), *first[dim:]]
    return unsafe_view(cat(tensors, dim), sizes)  # strides as those of what is joined


def unstack_gradient(grad, dim):
    """The gradient's slices; handlers see one after the other."""
    if python_key.listening(grad):
        return [ops.select(grad, dim, place) for place in range(grad.shape[dim])]
    return list(grad.unbind(dim))


def require_tensors(name, tensors):
    """Refuses an empty list.

    Raises:
        RuntimeError: there are no tensors.
    """
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")


def hstack(tensors):
    """Along the columns; vectors along their only dimension."""
    require_tensors("hstack", tensors)
    tensors = ops.atleast_1d(list(tensors))
    return ops.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


def vstack(tensors):
    """Along the rows."""
    require_tensors("vstack", tensors)
    return ops.cat(ops.atleast_2d(list(tensors)), 0)


def dstack(tensors):
    """Along the third dimension."""
    require_tensors("dstack", tensors)
    return ops.cat(ops.atleast_3d(list(tensors)), 2)


def column_stack(tensors):
    """Vectors become columns first."""
    columns = [t.reshape([t.numel(), 1]) if t.ndim <= 1 else t for t in tensors]
    return hstack(columns)


def cartesian_prod(tensors):
    """Grids of the vectors, side by side."""
    if len(tensors) == 1:
        return tensors[0]
    grids = ops.meshgrid(tensors, indexing="ij")
    return ops.stack([ops.flatten(grid) for grid in grids], 1)


def _type_of_all(tensors):
    """The type of arithmetic on any number of tensors: those of no dimension yield."""
    kinds = {}
    for one in tensors:
        kinds[one.ndim > 0] = promote_types(
            kinds.get(one.ndim > 0, one.dtype), one.dtype
        )
    return promoted_type(
        [ops.empty([0] if ranked else [], dtype=kind) for ranked, kind in kinds.items()]
    )


def block_diag(tensors):
    """Zeros, with every matrix below and right of the one before.

    Raises:
        RuntimeError: a tensor has more than two dimensions.
    """
    for number, tensor in enumerate(tensors):
        if tensor.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {number} has {tensor.ndim} dimensions"
            )
    if not tensors:
        return ops.empty([1, 0])
    blocks = [atleast_row(tensor) for tensor in tensors]
    width = sum(block.shape[1] for block in blocks)
    dtype = _type_of_all(tensors)
    rows, left = [], 0
    for block in blocks:
        right = width - left - block.shape[1]
        rows.append(ops.constant_pad_nd(block.to(dtype), [left, right]))
        left += block.shape[1]
    return ops.cat(rows, 0)


def atleast_row(tensor):
    """A tensor of fewer than two dimensions as one row."""
    return tensor if tensor.ndim == 2 else tensor.reshape([1, tensor.numel()])


def _repeated_shape(shape, repeats):
    """``repeats`` and sizes in turn, with leading ones where there are more repeats."""
    sizes = [1] * (len(repeats) - len(shape)) + list(shape)
    return sizes, [n for pair in zip(repeats, sizes) for n in pair]


def repeat(self, repeats):
    """Copies through a view in which every repetition is a dimension.

    Raises:
        RuntimeError: there are fewer repeats than dimensions, or a negative one.
    """
    if len(repeats) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of "
            "dimensions of tensor"
        )
    sizes, interleaved = _repeated_shape(self.shape, repeats)
    repeated = [count * size for count, size in zip(repeats, sizes)]
    for size in repeated:
        if not 0 <= size < 1 << 63:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {size}: {repeated}"
            )
    result = ops.empty(repeated, dtype=self.dtype, device=self.device)
    if result.numel():
        source = self.reshape([n for size in sizes for n in (1, size)])
        target = result.view(interleaved)
        run_pointwise(copy, (source,), (target,), compute=self.dtype.name)
    return result


def repeat_gradient(grad, shape, repeats):
    """The sum over the repetitions."""
    if 0 in repeats:
        return ops.new_zeros(grad, shape)
    if not repeats:
        return grad
    _, interleaved = _repeated_shape(shape, repeats)
    total = grad.reshape(interleaved).sum(list(range(0, len(interleaved), 2)))
    return total.reshape(shape)


def tile(self, dims):
    """``repeat`` with ones for the dimensions that aren't named."""
    return self.repeat([1] * (self.ndim - len(dims)) + list(dims))


def repeat_interleave_int(self, repeats, dim, output_size):
    """Every position so many times, next to each other.

    Raises:
        RuntimeError: the number of repeats is negative.
    """
    if repeats < 0:
        raise RuntimeError(f"Repeats must be non-negative, got {repeats}")
    if dim is None:
        self, dim = self.flatten(), 0
    elif self.ndim == 0:
        raise IndexError(
            f"Dimension out of range: a tensor without dimensions has no {dim} to repeat"
            " along\n  remedy: leave dim out"
        )
    dim = wrap_dim(dim, self.ndim)
    if output_size is not None and output_size != self.shape[dim] * repeats:
        raise RuntimeError(
            "repeat_interleave: Invalid output_size, expected "
            f"{self.shape[dim] * repeats} but got {output_size}"
        )
    wide = self.unsqueeze(dim + 1)
    sizes = list(wide.shape)
    sizes[dim + 1] = repeats
    return wide.expand(sizes).clone(memory_format=contiguous_format).flatten(
        dim, dim + 1
    )  # fmt: skip


def repeat_interleave_tensor(self, repeats, dim, output_size):
    """Every position its own number of times."""
    if dim is None:
        self, dim = self.flatten(), 0
    dim = wrap_dim(dim, self.ndim)
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if self.ndim == 0:
        self = self.reshape([1])
    if repeats.ndim == 0 or repeats.numel() == 1:
        require("repeat_interleave_cpu", repeats.dtype, (3, 4), repeats)
        return repeat_interleave_int(self, _of_every_example(repeats), dim, output_size)
    if repeats.numel() != self.shape[dim]:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got "
            f"repeats.size(0) = {repeats.numel()} and input.size({dim}) = "
            f"{self.shape[dim]}"
        )
    positions = ops.repeat_interleave(repeats, output_size=output_size)
    return ops.index_select(self, dim, positions)


def repeat_interleave_positions(repeats, output_size):
    """Every position as many times as its element says.

    Raises:
        RuntimeError: the repeats aren't a vector of non-negative integers.
    """
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    require("repeat_interleave_cpu", repeats.dtype, (3, 4), repeats)
    if not repeats.numel():
        return ops.empty_like(repeats)
    return _positions(repeats.device, repeats, output_size)


def _positions_without_numbers(_, repeats, output_size):
    if output_size is None:
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    return ops.new_empty(repeats, [output_size])


def _positions_by_numbers(_, repeats, output_size):
    if bool((_numbers_of(repeats) < 0).any()):
        raise RuntimeError(f"repeats can not be negative\n  repeats: {brief(repeats)}")
    ends = ops.cumsum(repeats, 0)
    total = _of_every_example(ends[-1])
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"allocated size does not match required size: output_size is {output_size},"
            f" the repeats sum to {total}"
        )
    positions = ops.arange(total, device=repeats.device)
    return ops.searchsorted(ends, positions, right=True).to(repeats.dtype)


_positions = KernelTable(cpu=_positions_by_numbers, meta=_positions_without_numbers)


def _numbers_of(tensor):
    """The numbers of all examples, where a tensor is one of a batch."""
    while tensor._stand is not None:
        tensor = tensor._stand.value
    return tensor


def _of_every_example(tensor):
    """One integer, which has to be the same for every example of a batch.

    Raises:
        RuntimeError: it is not: the results would differ in size.
    """
    first, *others = _numbers_of(tensor).reshape([-1]).tolist()
    for at, other in enumerate(others):
        if other != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got [{first}] at entry "
                f"0 and [{other}] at entry {at + 1}"
            )
    return int(first)


def fliplr(self):
    """The second dimension reversed."""
    if self.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return self.flip([1])


def flipud(self):
    """The first dimension reversed."""
    if self.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return self.flip([0])


def rot90(self, k, dims):
    """Quarter turns in the plane of two dimensions.

    Raises:
        RuntimeError: the dimensions aren't two different ones.
    """
    if len(dims) != 2:
        raise RuntimeError(
            f"expected total rotation dims == 2, but got dims = {len(dims)}"
        )
    if self.ndim < 2:
        raise RuntimeError(
            f"expected total dims >= 2, but got total dims = {self.ndim}"
        )
    first, second = (wrap_dim(dim, self.ndim) for dim in dims)
    if first == second:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and "
            f"dim1 = {dims[1]}"
        )
    quarters = k % 4
    if quarters == 2:
        return self.flip([first, second])
    if quarters == 0:
        return ops.clone(self, memory_format=contiguous_format)
    rotated = self.flip([second if quarters == 1 else first]).transpose(first, second)
    return ops._unsafe_view(rotated, rotated.shape)


def plain_meshgrid(tensors):
    """Each vector along a dimension of its own, in their order."""
    warn_once(
        "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
        "argument."
    )
    return meshgrid(tensors, "ij")


def meshgrid(tensors, indexing):
    """Each vector along a dimension of its own, expanded over the others'.

    Raises:
        RuntimeError: a tensor has more than one dimension, types or devices differ, or the
            indexing is unknown.
    """
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: '
            f"{indexing}"
        )
    if any(tensor.ndim > 1 for tensor in tensors):
        raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensors")
    if any(tensor.dtype is not tensors[0].dtype for tensor in tensors):
        raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    if any(tensor.device != tensors[0].device for tensor in tensors):
        raise RuntimeError("meshgrid expects all tensors to have the same device")
    swapped = indexing == "xy" and len(tensors) >= 2
    vectors = list(tensors)
    if swapped:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape = [vector.numel() for vector in vectors]
    grids = []
    for axis, vector in enumerate(vectors):
        lone = [1] * len(shape)
        lone[axis] = shape[axis]
        grids.append(vector.reshape(lone).expand(shape))
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def combinations_autocast(self, r, with_replacement):
    """As for `stack`, which joins what is chosen on PyTorch."""
    return "widest" if r else None


def combinations(self, r, with_replacement):
    """All choices of ``r`` elements, in order.

    Raises:
        RuntimeError: the input isn't a vector, or ``r`` is negative or beyond memory.
    """
    if self.ndim != 1:
        raise RuntimeError("Expect a 1D vector, but got shape " + str(self.shape))
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return ops.new_empty(self, [0])
    if r > MOST_CHOSEN:
        raise RuntimeError(
            f"cannot create choices of {r} elements: that many have no room"
        )
    choose = itertools.combinations_with_replacement if with_replacement else (
        itertools.combinations
    )  # fmt: skip
    choices = list(choose(range(len(self)), r))
    if not choices:  # of any type
        return ops.clone(ops.narrow(self, 0, 0, 0).unsqueeze(1).expand([0, r]))
    flat = list(itertools.chain(*choices))
    positions = make_tensor(flat, dtype=int64, device=self.device)
    return ops._unsafe_view(ops.index_select(self, 0, positions), [len(choices), r])


def diag(self, diagonal):
    """A matrix from a vector, the diagonal from a matrix.

    Raises:
        RuntimeError: neither a vector nor a matrix.
    """
    if self.ndim == 1:
        return ops.diag_embed(self, diagonal)
    if self.ndim == 2:
        return ops.diagonal(self, diagonal).clone(memory_format=contiguous_format)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")


def diag_embed(self, offset, dim1, dim2):
    """Zeros, with the last dimension along a diagonal of two new ones.

    Raises:
        RuntimeError: the two dimensions are the same.
    """
    ndim = self.ndim + 1
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    extent = self.shape[-1] + abs(offset)
    if extent >= 1 << 63:
        raise RuntimeError(
            f"IntArrayRef contains an int that cannot be represented as a SymInt: {extent}"
        )
    sizes = list(self.shape[:-1])
    for dim in sorted((first, second)):
        sizes.insert(dim, extent)
    result = ops.new_zeros(self, sizes)
    ops.diagonal(result, offset, first, second).copy_(self)
    return result


def diagflat(self, offset):
    """``diag`` of all the elements."""
    return ops.diag_embed(self.contiguous().view(-1), offset)


def _with_room(x):
    """A copy with the very strides, so that it can be written like its model."""
    if any(not step and size > 1 for step, size in zip(x.stride(), x.shape)):
        return ops.clone(x)
    room = ops.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    return ops.copy_(room, x)


def diagonal_scatter(self, src, offset, dim1, dim2):
    """A copy with its diagonal overwritten."""
    result = _with_room(self)
    _written(ops.diagonal(result, offset, dim1, dim2), src, "diagonal")
    return result


def select_scatter(self, src, dim, index):
    """A copy with one position overwritten."""
    result = _with_room(self)
    _written(ops.select(result, dim, index), src, "select")
    return result


def slice_scatter(self, src, dim, start, end, step):
    """A copy with a range of positions overwritten."""
    result = _with_room(self)
    _written(call_slice(result, dim, start, end, step), src, "slice")
    return result


def as_strided_scatter(self, src, size, stride, storage_offset):
    """A copy with a strided view overwritten.

    Raises:
        RuntimeError: a gradient is wanted and the input is not row-major: the
            gradient knows one numbering of the elements only.
    """
    if self.requires_grad and not self.is_contiguous():
        raise RuntimeError(
            "as_strided_scatter is currently only supported for contiguous inputs, "
            f"got strides {self.stride()} for sizes {list(self.shape)}"
        )
    result = ops.clone(self)
    if not any(n > 1 and not step for n, step in zip(self.shape, self.stride())):
        # the window may reach what the tensor itself leaves out of its memory
        count = storage_of(self).nbytes() // self.element_size()
        whole = ops.clone(ops.as_strided(self, (count,), (1,), 0))
        place = self.storage_offset()
        result = ops.as_strided(whole, self.shape, self.stride(), place)
    _written(ops.as_strided(result, size, stride, storage_offset), src, "slice")
    return result


def as_strided_window(grad, size, stride, storage_offset):
    """What PyTorch says of the overwritten input: the window of the gradient alone."""
    grad = grad.contiguous()
    result = ops.zeros_like(grad)
    window = ops.as_strided(grad, size, stride, storage_offset)
    ops.as_strided(result, size, stride, storage_offset).copy_(window)
    return result


def _written(view, src, name):
    if src.requires_grad and view.dtype.category < FLOATING:
        raise RuntimeError(f"Autograd not support dtype: {scalar_name(view.dtype)}")
    if view.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the {name} of self. src size = "
            f"{list(src.shape)}, {name} size = {list(view.shape)}"
        )
    view.copy_(src)


def constant_pad_nd(self, pad, value):
    """A border of one value; negative widths cut off.

    Raises:
        RuntimeError: an odd number of widths, or more than the dimensions have.
    """
    if len(pad) % 2 or len(pad) > 2 * self.ndim:
        raise RuntimeError(
            f"Length of pad must be even and at most twice the number of dimensions of "
            f"the input, got pad of length {len(pad)} for {self.ndim} dimensions"
        )
    widths = [(0, 0)] * (self.ndim - len(pad) // 2)
    widths += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    sizes = [n + before + after for n, (before, after) in zip(self.shape, widths)]
    for dim, (before, after) in enumerate(widths):
        if not 0 <= sizes[dim] < 2**63:
            raise RuntimeError(
                f"The input size {self.shape[dim]}, plus negative padding {before} and "
                f"{after} resulted in a negative output size, which is invalid. Check "
                f"dimension {dim} of your input."
            )
    source, window = self, []
    for dim, (before, after) in enumerate(widths):
        start = min(max(-before, 0), self.shape[dim])
        stop = max(self.shape[dim] - max(-after, 0), start)
        if (start, stop) != (0, self.shape[dim]):
            source = source.narrow(dim, start, stop - start)
        if before > 0 or after > 0:
            window.append((dim, max(before, 0), stop - start))
    if not window:
        return source.clone()
    result = ops.empty(sizes, dtype=self.dtype, device=self.device)
    format = format_of(self)
    if format is not None:
        result = ops.empty_like(result, memory_format=format)
    inside = result.fill_(value)
    for dim, start, length in window:
        inside = inside.narrow(dim, min(start, inside.shape[dim]), length)
    inside.copy_(source)
    return result


def grad_without_padding(grad, pad):
    """The gradient with the border cut off, and zeros where the forward pass cut."""
    return ops.constant_pad_nd(grad, [-width for width in pad])


FEW = 1024  # elements of a small result


def sym_size(self, dim):
    """The size of a dimension."""
    return self.shape[wrap_dim(dim, self.ndim)]


def sym_sizes(self):
    """The sizes."""
    return list(self.shape)


def sym_numel(self):
    """The number of elements."""
    return self.numel()


def _negative_class(at):
    return RuntimeError("Class values must be non-negative.")


def _large_class(at):
    return RuntimeError("Class values must be smaller than num_classes.")


def one_hot(self, num_classes):
    """One at each class's number, zero elsewhere.

    Raises:
        RuntimeError: the input isn't int64, or a class is out of range.
    """
    if self.dtype.name != "int64":
        raise RuntimeError(
            "one_hot is only applicable to index tensor of type LongTensor."
        )
    if self.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if self.numel() and not readable(self):  # of no single example, or of no numbers
        if num_classes <= 0:
            raise RuntimeError(
                "When vmap-ing torch.nn.functional.one_hot, please provide an explicit "
                "positive num_classes argument."
            )
    elif self.numel():
        refuse_unless(self >= 0, "one_hot", _negative_class)
        if num_classes == -1:
            num_classes = int(self.max().item()) + 1
        else:
            refuse_unless(self < num_classes, "one_hot", _large_class)
    if 0 < self.numel() * num_classes <= FEW:  # a comparison is over sooner than a copy
        classes = ops.arange(num_classes, dtype=int64, device=self.device)
        found = self.unsqueeze(-1) == classes
        return found.to(int64, memory_format=contiguous_format)
    result = ops.zeros([*self.shape, num_classes], dtype=int64, device=self.device)
    if not self.numel():
        return result
    return written("scatter", result, -1, self.unsqueeze(-1), 1)


def _check_image(name, self, factor_name, factor):
    if self.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{self.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {factor_name}, but got {factor}")


def _moved(blocks, order, sizes, like):
    """The blocks in another order, in the memory format of ``like``."""
    result = blocks.permute(order).reshape(sizes)
    if shares_storage(result, like):
        result = result.clone(memory_format=contiguous_format)
    return laid_out(result, format_of(like))


def _refuse_volumes(self):
    if format_of(self) is channels_last_3d:
        raise RuntimeError(
            "Unsupported memory format. Supports only ChannelsLast, Contiguous"
        )


def pixel_shuffle(self, upscale_factor):
    """``(*, C r r, H, W)`` to ``(*, C, H r, W r)``.

    Raises:
        RuntimeError: the channels aren't divisible by the factor's square.
    """
    r = upscale_factor
    _check_image("pixel_shuffle", self, "upscale_factor", r)
    *lead, channels, height, width = self.shape
    if r * r >= 2**63:
        raise ValueError(
            "upscale factor is too large, (upscale_factor)^2 overflowed: "
            f"upscale_factor={r}"
        )
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by "
            f"the square of upscale_factor, but input.size(-3)={channels} is not "
            f"divisible by {r * r}"
        )
    _refuse_volumes(self)
    n = len(lead)
    blocks = self.reshape([*lead, channels // (r * r), r, r, height, width])
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    sizes = [*lead, channels // (r * r), height * r, width * r]
    return _moved(blocks, order, sizes, self)


def pixel_unshuffle(self, downscale_factor):
    """``(*, C, H r, W r)`` to ``(*, C r r, H, W)``.

    Raises:
        RuntimeError: height or width isn't divisible by the factor.
    """
    r = downscale_factor
    _check_image("pixel_unshuffle", self, "downscale_factor", r)
    *lead, channels, height, width = self.shape
    if height % r or width % r:
        raise RuntimeError(
            "pixel_unshuffle expects height and width to be divisible by "
            f"downscale_factor, but input of size {height}x{width} is not divisible "
            f"by {r}"
        )
    if self.numel() == 0:  # PyTorch leaves these as they are
        return self.clone()
    _refuse_volumes(self)
    n = len(lead)
    blocks = self.reshape([*lead, channels, height // r, r, width // r, r])
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    sizes = [*lead, channels * r * r, height // r, width // r]
    return _moved(blocks, order, sizes, self)


def channel_shuffle(self, groups):
    """The channels of all groups, one of each in turn.

    Raises:
        RuntimeError: the channels aren't divisible by the number of groups.
    """
    if self.ndim < 3:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(self.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            "Number of groups to divide channels in must be positive. Value of "
            f"groups:{groups}"
        )
    batch, channels, *rest = self.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels "
            f"and {groups} groups."
        )
    if self.numel() == 0:
        return self.view(self.shape)
    blocks = self.reshape([batch, groups, channels // groups, *rest])
    order = [0, 2, 1, *range(3, blocks.ndim)]
    return _moved(blocks, order, self.shape, self)
