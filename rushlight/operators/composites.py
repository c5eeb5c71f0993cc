"""What PyTorch takes operators apart into, where handlers listen.

An operator that has a kernel here, or a composition of its own, may be a composition of
others in PyTorch. ``__torch_dispatch__`` sees those. Declarations name the functions
below; each takes all the operator's arguments, and gives ``NotImplemented`` where the
operator is to be seen whole.
"""

import math

from rushlight.core.dtype import FLOATING, finfo
from rushlight.core.dtypes import int64, uint8
from rushlight.core.geometry import infer_size
from rushlight.core.layout import contiguous_format, strided
from rushlight.core.state import is_grad_enabled
from rushlight.core.subclass import dispatched
from rushlight.core.tensor import Tensor
from rushlight.core.views import viewable
from rushlight.dispatch.guard import GradMode
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.functions import broadcast_shapes, result_type, tensor

# Sizes


def _plain(sizes):
    """Whether sizes are numbers that are known."""
    return all(type(size) is int for size in sizes)


def reshape(self, shape):
    """A view where there is one; else a copy, and a view of it that is no relative."""
    if self.layout is not strided:
        return NotImplemented
    if self.is_contiguous():
        return ops.view(self, shape)
    if not (_plain(shape) and _plain(self.shape)):
        return NotImplemented
    if viewable(self, shape):
        return ops.view(self, shape)
    sizes = infer_size(list(shape), self.numel())
    return ops._unsafe_view(ops.clone(self, memory_format=contiguous_format), sizes)


def narrow(self, dim, start, length):
    """A slice."""
    if self.dim() == 0 or not (type(start) is int and type(length) is int):
        return NotImplemented
    size = self.shape[dim]
    if length < 0 or not -size <= start <= size:
        return NotImplemented
    start += size if start < 0 else 0
    if start + length > size:
        return NotImplemented
    return ops.slice(self, dim, start, start + length, 1)


# Products


def linear(input, weight, bias=None):
    """A product with the transposed weight; with a bias, of all rows at once."""
    if weight.dim() != 2 or input.dim() == 0:
        return NotImplemented
    if bias is None:
        return matmul(input, weight.t())
    if input.dim() == 2:
        return ops.addmm(bias, input, weight.t())
    if bias.dim() > 1:
        if bias.dim() != 2 or bias.shape[0] != 1:
            return NotImplemented
        bias = ops.squeeze(bias)
    if not input.is_contiguous():
        made = matmul(input, weight.t())
        return made if made is NotImplemented else ops.add(made, bias)
    count = math.prod(input.shape[:-1])
    rows = ops.view(input, [count, input.shape[-1]])
    made = ops.addmm(bias, rows, weight.t())
    return ops.view(made, [*input.shape[:-1], weight.shape[0]])


def _needs_gradient(tensor):
    """Whether a product is to be of matrices for a gradient's sake."""
    return tensor.requires_grad


def _is_of_rows(self, other):
    """Whether the larger operand's batches are rows of one matrix.

    Gives the operands: the larger one, by itself or transposed, and whether it is first.
    """
    larger_first = self.dim() >= other.dim()
    large, small = (self, other) if larger_first else (other.mT, self)
    if large.dim() < 3 or small.dim() > 2:
        return False
    if _needs_gradient(small):
        return True
    if self.dim() == 2:
        return False
    if large.numel() == 0:
        return True
    sizes, strides = large.shape, large.stride()
    return all(
        strides[d] == strides[d + 1] * sizes[d + 1] for d in range(large.dim() - 2)
    )


def _as_rows(self, other):
    """A product with a matrix or a vector, the batches of the larger operand as rows."""
    larger_first = self.dim() >= other.dim()
    large = self if larger_first else other.mT
    small = other if larger_first else (self.t() if self.dim() == 2 else self)
    sizes = list(large.shape[:-1])
    rows = ops.reshape(large, [math.prod(sizes), large.shape[-1]])
    if small.dim() == 1:
        return ops._unsafe_view(ops.mv(rows, small), sizes)
    made = ops._unsafe_view(ops.mm(rows, small), [*sizes, small.shape[1]])
    return made if larger_first else made.mT.contiguous()


def _batched(self, other):
    """Products over broadcast batches."""
    if self.dim() == 3 and other.dim() == 3 and self.shape[0] != other.shape[0]:
        if self.shape[0] == 1 and (_needs_gradient(self) or dispatched(self)):
            return matmul(ops.squeeze(self, 0), other)
        if other.shape[0] == 1 and (_needs_gradient(other) or dispatched(other)):
            return matmul(self, ops.squeeze(other, 0))
    rows = self.shape[-2] if self.dim() > 1 else 1
    vector = other.dim() == 1
    inner = list(other.shape[-2:])
    batch = list(broadcast_shapes(self.shape[:-2], other.shape[:-2]))
    count = math.prod(batch)
    first = ops.expand(self, [*batch, rows, self.shape[-1]])
    first = ops.reshape(first, [count, rows, self.shape[-1]])
    second = ops.reshape(ops.expand(other, [*batch, *inner]), [count, *inner])
    if vector:
        second = ops.unsqueeze(second, 2)
    sizes = [
        *batch,
        *([rows] if self.dim() > 1 else []),
        *([] if vector else inner[-1:]),
    ]
    made = ops.bmm(first, second)
    return ops._unsafe_view(ops.squeeze(made, -1) if vector else made, sizes)


def matmul(self, other):
    """The product by numbers of dimensions: of vectors, matrices, batches."""
    n, m = self.dim(), other.dim()
    if n == 0 or m == 0 or not (_plain(self.shape) and _plain(other.shape)):
        return NotImplemented
    if n == 1 and m == 1:
        return ops.dot(self, other)
    if n == 2 and m == 1:
        return ops.mv(self, other)
    if n == 1 and m == 2:
        return ops.squeeze_(ops.mm(ops.unsqueeze(self, 0), other), 0)
    if n == 2 and m == 2:
        return ops.mm(self, other)
    if self.shape[-1] != other.shape[-2 if m > 1 else -1]:
        return NotImplemented
    return _as_rows(self, other) if _is_of_rows(self, other) else _batched(self, other)


def rmatmul(self, other):
    """The matrix product with the tensor on the right."""
    return ops.matmul(other, self)


def inner(self, other):
    """Sums of products along the last dimensions."""
    if self.dim() == 0 or other.dim() == 0:
        return ops.mul(self, other)
    return NotImplemented


def cross(self, other, dim):
    """Along the first dimension of size three unless one is given."""
    if dim is None:
        if 3 not in self.shape:
            return NotImplemented
        dim = list(self.shape).index(3)
    return ops.linalg_cross(self, other, dim=dim)


def bilinear(input1, input2, weight, bias):
    """Rows of both inputs with the weight between, in one operator."""
    ndim = input1.dim()
    fits = ndim > 0 and ndim == input2.dim() and weight.dim() == 3
    if not fits or input1.shape[:-1] != input2.shape[:-1]:
        return NotImplemented
    if (input1.shape[-1], input2.shape[-1]) != tuple(weight.shape[1:]):
        return NotImplemented
    left = ops.reshape(input1, [-1, input1.shape[-1]])
    right = ops.reshape(input2, [-1, input2.shape[-1]])
    made = ops._trilinear(left, weight, right, [1, 3], [0], [1, 2], [2, 3])
    made = ops.reshape(made, [*input1.shape[:-1], weight.shape[0]])
    return made if bias is None else ops.add(made, bias)


def cdist(x1, x2, p, compute_mode):
    """Differences are one operator, where no gradient is recorded."""
    if is_grad_enabled() and (x1.requires_grad or x2.requires_grad):
        return NotImplemented
    if x1.dim() < 2 or x1.shape[:-2] != x2.shape[:-2] or x1.dtype is not x2.dtype:
        return NotImplemented
    many = max(x1.shape[-2], x2.shape[-2]) > 25
    if p == 2 and (compute_mode == 1 or compute_mode != 2 and many):
        return NotImplemented
    if x1.shape[-1] != x2.shape[-1] or not x1.is_floating_point() or not p >= 0:
        return NotImplemented
    return ops._cdist_forward(x1, x2, float(p), compute_mode)


def outer(self, vec2):
    """Products of every pair."""
    if self.dim() != 1 or vec2.dim() != 1:
        return NotImplemented
    return ops.mul(ops.reshape(self, [self.shape[0], 1]), vec2)


# Elements


def square(self):
    """The second power."""
    return ops.pow(self, 2)


def rdiv(self, other):
    """A number over a tensor: its reciprocal, scaled."""
    return ops.mul(ops.reciprocal(self), other)


def rpow(self, other):
    """A number's powers."""
    return ops.pow(other, self)


def rremainder(self, other):
    """What is left of a number."""
    return ops.remainder(other, self)


def rfloor_divide(self, other):
    """How often a tensor's elements go into a number."""
    return ops.floor_divide(other, self)


def rbitwise_left_shift(self, other):
    """A number's bits, shifted to the left."""
    return ops.bitwise_left_shift(other, self)


def rbitwise_right_shift(self, other):
    """A number's bits, shifted to the right."""
    return ops.bitwise_right_shift(other, self)


def isfinite(self):
    """Neither infinite nor without a value."""
    if self.dtype.category < FLOATING or self.is_complex():
        return NotImplemented
    bounded = ops.ne(ops.abs(self), math.inf)
    return ops.mul(ops.eq(self, self), bounded)


def ndtr(self):
    """The normal distribution's function, by the error function."""
    scaled = ops.mul(self, math.sqrt(0.5))
    return ops.mul(ops.add(ops.erf(scaled), 1), 0.5)


def prelu(self, weight):
    """Slopes as many-dimensional as the input."""
    if weight.dim() > 1 or self.dim() == weight.dim() or self.dtype is not weight.dtype:
        return NotImplemented
    channels = self.shape[1] if self.dim() > 1 else 1
    if weight.numel() not in (1, channels):
        return NotImplemented
    sizes = [1] * self.dim()
    if len(sizes) > 1:
        sizes[1] = weight.numel()
    return ops._prelu_kernel(self, ops.reshape(weight, sizes))


def where(condition, self, other):
    """A number among the choices is a tensor first."""
    numbers = [not isinstance(one, Tensor) for one in (self, other)]
    if not any(numbers):
        return NotImplemented
    if all(numbers):
        return NotImplemented
    kind = result_type(self, other)
    choices = [
        ops.scalar_tensor(one, dtype=kind, device=condition.device) if plain else one
        for one, plain in zip((self, other), numbers)
    ]
    return ops.where(condition, *choices)


def kron(self, other):
    """Elementwise products over twice as many dimensions."""
    ndim = max(self.dim(), other.dim())
    left = [1] * (ndim - self.dim()) + list(self.shape)
    right = [1] * (ndim - other.dim()) + list(other.shape)
    if not (self.is_contiguous() and other.is_contiguous()):
        return NotImplemented
    wide = ops._unsafe_view(self, [n for size in left for n in (size, 1)])
    tall = ops._unsafe_view(other, [n for size in right for n in (1, size)])
    sizes = [a * b for a, b in zip(left, right)]
    return ops._unsafe_view(ops.mul(wide, tall), sizes)


def cosine_similarity(x1, x2, dim, eps):
    """Both over their lengths, which are both computed first."""
    same = x1.dtype is x2.dtype and x1.shape == x2.shape
    if not (same and x1.is_floating_point() and eps >= 0) or x1.is_complex():
        return NotImplemented
    first = ops.clone(ops.linalg_vector_norm(x1, 2, [dim], True))
    second = ops.clone(ops.linalg_vector_norm(x2, 2, [dim], True))
    with GradMode(False):
        least = ops.scalar_tensor(eps, dtype=x1.dtype, device=x1.device)
        ops.clamp_min_(first, least)
        ops.clamp_min_(second, least)
    return ops.sum(ops.mul(ops.div(x1, first), ops.div(x2, second)), [dim])


# Whether a batch norm is recorded as `native_batch_norm`.
_is_native = KernelTable(cpu=lambda _: True, cuda=lambda _: False, meta=lambda _: False)


def batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps,
    cudnn_enabled,
):  # fmt: skip
    """The normalized batch; room that the host's kernel keeps nothing in comes first."""
    if input.numel() == 0 or not _is_native(input.device):
        return NotImplemented
    if not training and (running_mean is None or running_var is None):
        return NotImplemented
    ops.empty([0], dtype=uint8, device=input.device)
    return ops.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def pad_in_circles(self, pad):
    """New memory, whose middle is the tensor and whose borders are the other ends.

    No step writes: what is recorded of a composition has to be without.
    """
    dims = [self.dim() - 1 - i for i in range(len(pad) // 2)]
    sides = list(zip(dims, pad[::2], pad[1::2]))
    sizes = list(self.shape)
    for dim, before, after in sides:
        sizes[dim] += before + after
    window, outer, source = self.new_empty(sizes), [], self
    for dim, before, after in reversed(sides):
        span = dim, max(before, 0), sizes[dim] - max(after, 0)
        outer.append((window, span))
        window = ops.slice(window, *span)
        end = self.shape[dim] - max(-after, 0)
        source = ops.slice(source, dim, max(-before, 0), end)
    whole = source
    for window, span in reversed(outer):
        whole = ops.slice_scatter(window, whole, *span)
    for dim, before, after in reversed(sides):
        size, left, right = sizes[dim], max(before, 0), max(after, 0)
        edges = (0, left, size - left - right), (size - right, size, left)
        for start, end, other in edges:
            if start < end:
                source = ops.slice(whole, dim, other, other + end - start)
                whole = ops.slice_scatter(whole, source, dim, start, end)
    return whole


def pad_around(self, pad, mode):
    """Padding by own elements, named by how many dimensions get a border."""
    if mode == "circular" and all(type(size) is int for size in pad):
        return pad_in_circles(self, pad)
    name = {"reflect": "reflection", "replicate": "replication"}.get(mode)
    if name is None or is_grad_enabled() and self.requires_grad:
        return NotImplemented
    return getattr(ops, f"{name}_pad{len(pad) // 2}d")(self, pad)


def diag(self, diagonal):
    """A matrix's diagonal is copied by one operator."""
    return NotImplemented if self.ndim != 2 else ops.diagonal_copy(self, diagonal)


# Rows


def argsort(self, dim, descending):
    """The places that sorting gives."""
    return ops.sort(self, dim, descending)[1]


def argsort_stable(self, stable, dim, descending):
    """The places that sorting gives, of equal elements in order."""
    return ops.sort(self, stable=stable, dim=dim, descending=descending)[1]


def take_along_dim(self, indices, dim):
    """Indices count around the dimension, once they are broadcast."""
    if dim is None or self.dim() != indices.dim() or indices.dtype is not int64:
        return NotImplemented
    if not -self.dim() <= dim < self.dim() or not self.shape[dim]:
        return NotImplemented
    dim %= self.dim()
    source, positions = list(self.shape), list(indices.shape)
    source[dim] = positions[dim] = 1
    rest = list(broadcast_shapes(source, positions))
    source, positions = list(rest), list(rest)
    source[dim], positions[dim] = self.shape[dim], indices.shape[dim]
    wide, indices = ops.expand(self, source), ops.expand(indices, positions)
    return ops.gather(wide, dim, ops.remainder(indices, self.shape[dim]))


def diff(self, n, dim, prepend, append):
    """Differences taken no times are a copy, into new memory."""
    if n or self.dim() == 0:
        return NotImplemented
    return ops.copy_(ops.zeros_like(self), self)


def linalg_eigvals(self):
    """The vectors are computed, too."""
    return ops.linalg_eig(self)[0]


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Rows over the root of their mean square."""
    if input.dtype.category < FLOATING or input.dim() < len(normalized_shape):
        return NotImplemented
    if input.is_complex() or not input.dtype.itemsize >= 4:
        return NotImplemented
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    if list(input.shape[dims[0] :]) != list(normalized_shape):
        return NotImplemented
    added = finfo(input.dtype).eps if eps is None else eps
    mean = ops.mean(ops.pow(input, 2), dims, True)
    made = ops.mul(input, ops.rsqrt(ops.add_(mean, added)))
    return made if weight is None else ops.mul(made, weight)


# Windows


def _along_row(given, first):
    """A window's number, or a list of one, as those of an image of one row."""
    return [first, *(given if isinstance(given, (list, tuple)) else [given])]


def avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    """Means of windows, of images of one row."""
    made = ops.avg_pool2d(
        ops.unsqueeze(self, -2),
        _along_row(kernel_size, 1),
        _along_row(stride or kernel_size, 1),
        _along_row(padding, 0),
        ceil_mode,
        count_include_pad,
    )
    return ops.squeeze(made, -2)


def adaptive_avg_pool1d(self, output_size):
    """Means of as many parts as are asked for, of images of one row."""
    if self.dim() not in (2, 3):
        return NotImplemented
    made = ops.adaptive_avg_pool2d(ops.unsqueeze(self, -2), [1, *output_size])
    return ops.squeeze(made, -2)


def max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest of windows and their places, of images of one row."""
    values, positions = ops.max_pool2d_with_indices(
        ops.unsqueeze(self, -2),
        [1, *kernel_size],
        [1, *(stride or kernel_size)],
        [0, *padding],
        [1, *dilation],
        ceil_mode,
    )
    return ops.squeeze(values, -2), ops.squeeze(positions, -2)


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """Images and volumes by operators of their own."""
    name = {4: "grid_sampler_2d", 5: "grid_sampler_3d"}.get(input.dim())
    if name is None or input.dim() != grid.dim():
        return NotImplemented
    sampler = getattr(ops, name)
    return sampler(input, grid, interpolation_mode, padding_mode, align_corners)


# Signals and places


_STFT = (
    "hop_length", "win_length", "window", "center", "pad_mode", "normalized", "onesided",
    "return_complex", "align_to_window",
)  # fmt: skip


def stft(self, n_fft, *rest, **kwargs):
    """Padding is a step of its own, on a signal of three dimensions."""
    given = {**dict(zip(_STFT, rest)), **kwargs}
    if not given.get("center", True) or given.get("align_to_window") is not None:
        return NotImplemented
    rank = self.dim()
    sizes = [1] * (3 - rank) + list(self.shape)
    sides = [n_fft // 2, n_fft // 2]
    padded = ops.pad(ops.view(self, sizes), sides, given.get("pad_mode", "reflect"))
    flat = ops.view(padded, list(padded.shape[-rank:]))
    values = [given.get(one) for one in ("hop_length", "win_length", "window")]
    values += [given.get("normalized", False)]
    values += [given.get(one) for one in ("onesided", "return_complex")]
    return ops.stft.overloads[1](flat, n_fft, *values)


def unravel_index(indices, shape):
    """Quotients by the steps of a flat tensor, and what is left of them."""
    if not shape:
        return NotImplemented
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, steps[0] * size)
    positions = ops.floor_divide(ops.unsqueeze(indices, -1), tensor(steps))
    return ops.unbind(ops.remainder(positions, tensor(list(shape))), -1)


# Gradients


def _as_one(function, *args):
    """An operator under PyTorch's name, where nothing is to be recorded."""
    if is_grad_enabled() and any(one.requires_grad for one in args[:2]):
        return NotImplemented
    return function(*args)


def threshold_backward(self, grad_output, threshold):
    """What passes where the input was above a threshold."""
    return _as_one(ops.threshold_backward, grad_output, self, threshold)


def leaky_relu_backward(self, grad_output, negative_slope):
    """What passes, all of it or a part, by the sign of the input."""
    return _as_one(ops.leaky_relu_backward, grad_output, self, negative_slope, False)
