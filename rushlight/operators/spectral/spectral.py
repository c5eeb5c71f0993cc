"""Fourier transforms: the shapes, norms and gradients of PyTorch's ``fft`` functions."""

import math

from rushlight.core.dtype import FLOATING, get_default_dtype
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import brief
from rushlight.operators.spectral.fft_schedule import transform_lines
from rushlight.operators.type_groups import COMPLEX, FLOATS, PRECISE

PLAIN, BY_ROOT, BY_SIZE = 0, 1, 2  # what a transform of n elements is divided by
NORMS = {
    (None, True): PLAIN, (None, False): BY_SIZE,
    ("backward", True): PLAIN, ("backward", False): BY_SIZE,
    ("forward", True): BY_SIZE, ("forward", False): PLAIN,
    ("ortho", True): BY_ROOT, ("ortho", False): BY_ROOT,
}  # fmt: skip


# What is below autograd: transforms along dimensions, in PyTorch's layouts.


def transform_complex(self, dim, normalization, forward):
    """Complex numbers to complex numbers."""
    check_lines("_fft_c2c", self, dim, True)
    if not dim:
        return ops.clone(self)
    order = layout_order(self, sorted_dims(self, dim))
    out = empty_in_order(self, self.shape, order, self.dtype)
    scale = scale_of(normalization, [self.shape[d] for d in dim])
    return along_all(self, out, order[-len(dim) :], forward, scale)


def along_all(source, out, dims, forward, scale):
    """One dimension after the other; the last one, whose elements lie together, first."""
    for dim in reversed(dims):
        transform_lines(source, out, dim, forward, scale)
        source, scale = out, 1.0
    return out


def transform_real(self, dim, normalization, onesided):
    """Real numbers to complex ones: the first half along the last of the dimensions."""
    check_lines("_fft_r2c", self, dim, False)
    last = dim[-1] % self.ndim
    dims = sorted_dims(self, dim[:-1])
    order = layout_order(self, [*dims, last])
    scale = scale_of(normalization, [self.shape[d] for d in dim])
    if not onesided:
        order = layout_order(self, sorted_dims(self, dim))
        dims, last = order[-len(dim) : -1], order[-1]
    sizes = list(self.shape)
    if onesided:
        sizes[last] = sizes[last] // 2 + 1
    out = empty_in_order(self, sizes, order, self.dtype.to_complex())
    transform_lines(self, out, last, True, scale)
    return along_all(out, out, dims, True, 1.0)


def transform_half(self, dim, normalization, last_dim_size):
    """Complex numbers, of which half are given, to real ones."""
    check_lines("_fft_c2r", self, dim, True)
    last = dim[-1] % self.ndim
    if last_dim_size < 1 or self.shape[last] <= last_dim_size // 2:
        raise RuntimeError(
            f"_fft_c2r: expected at least half of {last_dim_size} elements in dimension "
            f"{last}\n  self: {brief(self)}"
        )
    sizes = list(self.shape)
    sizes[last] = last_dim_size
    scale = scale_of(normalization, [sizes[d] for d in dim])
    source = self
    if len(dim) > 1:
        source = transform_complex(self, dim[:-1], PLAIN, False)
    order = layout_order(source, [last])
    out = empty_in_order(self, sizes, order, self.dtype.to_real())
    return transform_lines(source, out, last, False, scale, last_dim_size)


def check_lines(operator, self, dim, is_complex):
    """Refuses what is no signal, and dimensions that are not there or there twice."""
    kinds = COMPLEX if is_complex else PRECISE - COMPLEX
    if self.dtype.code not in kinds or (not dim and not is_complex):
        raise RuntimeError(
            f"{operator}: expected {'complex' if is_complex else 'real'} signals along "
            f"one dimension or more\n  self: {brief(self)}\n  dim: {list(dim)}"
        )
    if len({wrap_dim(one, self.ndim) for one in dim}) < len(dim):
        raise RuntimeError(f"{operator}: FFT dims must be unique, got {list(dim)}")


def scale_of(normalization, sizes):
    """What results are multiplied with."""
    if normalization == PLAIN:
        return 1.0
    count = math.prod(sizes) or 1
    return 1.0 / count if normalization == BY_SIZE else 1.0 / math.sqrt(count)


def sorted_dims(self, dims):
    """Dimensions by their strides, the widest first."""
    wrapped = [wrap_dim(dim, self.ndim) for dim in dims]
    return sorted(wrapped, key=lambda dim: -self.stride(dim))


def layout_order(self, dims):
    """All dimensions, outermost first: those given are the innermost."""
    rest = [dim for dim in range(self.ndim) if dim not in dims]
    if 1 in self.shape:
        rest = divided(self.ndim, dims)
    return sorted_dims(self, rest) + dims


def divided(ndim, dims):
    """The dimensions beside those given, in the order of PyTorch's partition.

    It exchanges the first that is given with the last that is not, and so on; of
    dimensions of one stride, of which all but one have a single element, the order shows.

    >>> divided(4, [0])
    [3, 1, 2]
    """
    positions, first, last = list(range(ndim)), 0, ndim
    while first < last:
        if positions[first] not in dims:
            first += 1
        elif positions[last - 1] in dims:
            last -= 1
        else:
            last -= 1
            positions[first], positions[last] = positions[last], positions[first]
            first += 1
    return positions[:first]


def empty_in_order(like, sizes, order, dtype):
    """A dense result whose dimensions lie in the given order."""
    strides, step = [0] * len(sizes), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return ops.empty_strided(sizes, strides, dtype=dtype, device=like.device)


def transform_real_gradient(grad, shape, dim, normalization, onesided):
    """The real part of the transform back; what the first half leaves out is zero."""
    if onesided:
        last = dim[-1]
        missing = shape[last] - grad.shape[last]
        axes_after = grad.ndim - 1 - last % grad.ndim
        grad = ops.constant_pad_nd(grad, [0, 0] * axes_after + [0, missing])
    return ops.real(ops._fft_c2c(grad, dim, normalization, False))


def transform_half_gradient(grad, dim, normalization):
    """Elements that stand for their conjugates as well count twice."""
    last = dim[-1] % grad.ndim
    result = ops._fft_r2c(grad, dim, normalization, True)
    mirrored = grad.shape[last] - result.shape[last]
    if mirrored <= 0:
        return result
    weight = ops.ones([result.shape[last]], dtype=grad.dtype, device=grad.device)
    weight[1 : 1 + mirrored] = 2
    return result * weight.reshape([-1] + [1] * (grad.ndim - 1 - last))


# What PyTorch's functions make of their arguments.


def norm_of(norm, forward):
    """The number of a norm.

    Raises:
        RuntimeError: the norm has no such name.
    """
    found = NORMS.get((norm, forward))
    if found is None:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return found


def promoted(self, to_complex):
    """The input in a type that is transformed.

    Raises:
        RuntimeError: half-precision types are not.
    """
    dtype = self.dtype
    if dtype.code not in COMPLEX and dtype.code not in FLOATS:
        dtype = get_default_dtype()
    if dtype.code not in PRECISE:
        name = TYPE_NAMES.get(dtype.name, dtype.name)
        raise RuntimeError(f"Unsupported dtype {name}\n  input: {brief(self)}")
    if to_complex:
        dtype = dtype.to_complex()
    return self if dtype is self.dtype else self.to(dtype)


def check_points(count):
    """Refuses transforms of nothing.

    Raises:
        RuntimeError: there are no data points.
    """
    if count < 1:
        raise RuntimeError(f"Invalid number of data points ({count}) specified")


def fitted(self, dims, sizes):
    """The input with the given sizes: shortened, or with zeros behind."""
    padding = [0] * (2 * self.ndim)
    for dim, size in zip(dims, sizes, strict=True):
        have = self.shape[dim]
        if have < size:
            padding[2 * (self.ndim - 1 - dim) + 1] = size - have
        elif have > size:
            self = ops.slice(self, dim, 0, size)
    return ops.constant_pad_nd(self, padding) if any(padding) else self


def refuse_complex(self, message):
    """Refuses complex inputs.

    Raises:
        RuntimeError: the input is complex.
    """
    if self.is_complex():
        raise RuntimeError(f"{message}{TYPE_NAMES[self.dtype.name]}")


def _to_complex(self, n, dim, norm, forward):
    dim = wrap_dim(dim, self.ndim, False)
    if n is not None:
        check_points(n)
    self = promoted(self, False)
    if n is not None:
        self = fitted(self, [dim], [n])
    check_points(self.shape[dim])
    mode = norm_of(norm, forward)
    if self.is_complex():
        return ops._fft_c2c(self, [dim], mode, forward)
    result = ops._fft_r2c(self, [dim], mode, False)
    return result if forward else ops.conj(result)


def fft(self, n, dim, norm):
    """The whole transform."""
    return _to_complex(self, n, dim, norm, True)


def ifft(self, n, dim, norm):
    """The whole inverse transform; of real numbers, the conjugate of the forward one."""
    return _to_complex(self, n, dim, norm, False)


def _to_half(self, n, dim, norm, forward, name):
    refuse_complex(self, f"{name} expects a real input tensor, but got ")
    self = promoted(self, False)
    dim = wrap_dim(dim, self.ndim, False)
    if n is not None:
        check_points(n)
        self = fitted(self, [dim], [n])
    check_points(self.shape[dim])
    result = ops._fft_r2c(self, [dim], norm_of(norm, forward), True)
    return result if forward else ops.conj(result)


def rfft(self, n, dim, norm):
    """The first half of the transform of real numbers."""
    return _to_half(self, n, dim, norm, True, "rfft")


def ihfft(self, n, dim, norm):
    """Conjugates of `rfft`, scaled as an inverse."""
    return _to_half(self, n, dim, norm, False, "ihfft")


def _to_real(self, n, dim, norm, forward):
    self = promoted(self, True)
    dim = wrap_dim(dim, self.ndim, False)
    if n is None:
        n = 2 * (self.shape[dim] - 1)
    check_points(n)
    self = fitted(self, [dim], [n // 2 + 1])
    if forward:
        self = ops.conj(self)
    return ops._fft_c2r(self, [dim], norm_of(norm, forward), n)


def irfft(self, n, dim, norm):
    """Real numbers whose transform's first half is given."""
    return _to_real(self, n, dim, norm, False)


def hfft(self, n, dim, norm):
    """The transform, which is real, of a signal of which the first half is given."""
    return _to_real(self, n, dim, norm, True)


def shape_and_dims(self, s, dim):
    """Sizes and dimensions of an n-dimensional transform.

    Raises:
        RuntimeError: they don't fit each other, or the input.
    """
    if s is not None and isinstance(s, int):
        s = [s]
    if dim is not None:
        dim = [dim] if isinstance(dim, int) else list(dim)
        dim = [wrap_dim(d, self.ndim, False) for d in dim]
        if len(set(dim)) != len(dim):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(s) != len(dim):
            raise RuntimeError(
                "When given, dim and shape arguments must have the same length"
            )
    elif s is not None:
        if len(s) > self.ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has "
                f"{self.ndim} dimensions."
            )
        dim = list(range(self.ndim - len(s), self.ndim))
    else:
        dim = list(range(self.ndim))
    sizes = [self.shape[d] for d in dim] if s is None else list(s)
    sizes = [self.shape[d] if n == -1 else n for n, d in zip(sizes, dim, strict=True)]
    for size in sizes:
        check_points(size)
    return sizes, dim


def _to_complex_nd(self, s, dim, norm, forward):
    sizes, dims = shape_and_dims(self, s, dim)
    self = fitted(promoted(self, True), dims, sizes)
    return ops._fft_c2c(self, dims, norm_of(norm, forward), forward)


def fftn(self, s, dim, norm):
    """The whole transform along several dimensions."""
    return _to_complex_nd(self, s, dim, norm, True)


def ifftn(self, s, dim, norm):
    """The whole inverse transform along several dimensions."""
    return _to_complex_nd(self, s, dim, norm, False)


def check_axes(dims, name):
    """Refuses to transform along no dimension.

    Raises:
        RuntimeError: there is none.
    """
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def rfftn(self, s, dim, norm):
    """The first half, along the last dimension, of a transform of real numbers."""
    refuse_complex(self, "rfftn expects a real-valued input tensor, but got ")
    sizes, dims = shape_and_dims(self, s, dim)
    check_axes(dims, "rfftn")
    self = fitted(promoted(self, False), dims, sizes)
    return ops._fft_r2c(self, dims, norm_of(norm, True), True)


def ihfftn(self, s, dim, norm):
    """The first half of an inverse transform of real numbers."""
    refuse_complex(self, "Only supports floating-point dtypes, but found: ")
    sizes, dims = shape_and_dims(self, s, dim)
    check_axes(dims, "ihfftn")
    self = fitted(promoted(self, False), dims, sizes)
    mode = norm_of(norm, False)
    result = ops._fft_r2c(self, dims[-1:], mode, True)
    if not dims[1:]:
        return ops.conj(result)
    return ops._fft_c2c(ops.conj_physical(result), dims[:-1], mode, False)


def _half_sizes(self, s, dim, name):
    sizes, dims = shape_and_dims_of_half(self, s, dim, name)
    last = sizes[-1]
    self = promoted(self, True)
    return fitted(self, dims, [*sizes[:-1], last // 2 + 1]), dims, last


def shape_and_dims_of_half(self, s, dim, name):
    """As `shape_and_dims`, the last size being that of the real result."""
    sizes, dims = shape_and_dims(self, s, dim)
    check_axes(dims, name)
    if s is None or (not isinstance(s, int) and s[-1] == -1):
        sizes[-1] = 2 * (self.shape[dims[-1]] - 1)
    check_points(sizes[-1])
    return sizes, dims


def irfftn(self, s, dim, norm):
    """Real numbers whose transform's first half is given."""
    half, dims, last = _half_sizes(self, s, dim, "irfftn")
    return ops._fft_c2r(half, dims, norm_of(norm, False), last)


def hfftn(self, s, dim, norm):
    """The real transform of a signal of which the first half is given."""
    half, dims, last = _half_sizes(self, s, dim, "hfftn")
    mode = norm_of(norm, True)
    if dims[1:]:
        half = ops._fft_c2c(half, dims[:-1], mode, True)
    return ops._fft_c2r(ops.conj(half), dims[-1:], mode, last)


def frequencies(n, dtype, name):
    """Refuses a type that frequencies don't have.

    Raises:
        RuntimeError: the type is of integers.
    """
    if dtype is not None and dtype.category < FLOATING:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {n}: [{n}]"
        )


def fftfreq(n, d, dtype, layout, device, pin_memory):
    """Zero, the positive ones, the negative ones; in cycles per unit of the spacing."""
    frequencies(n, dtype, "fftfreq")
    result = ops.arange(n, dtype=dtype or get_default_dtype(), device=device)
    half = (n + 1) // 2
    result[half:] = ops.arange(-(n // 2), 0, dtype=result.dtype, device=device)
    return result.mul_(1.0 / (n * d) if n * d else math.inf)


def rfftfreq(n, d, dtype, layout, device, pin_memory):
    """Zero and the positive ones."""
    frequencies(n, dtype, "rfftfreq")
    dtype = dtype or get_default_dtype()
    result = ops.arange(n // 2 + 1, dtype=dtype, device=device)
    return result.mul_(1.0 / (n * d) if n * d else math.inf)


def shift_dims(self, dim):
    """All dimensions, or the given ones."""
    if dim is None:
        return list(range(self.ndim))
    return [dim] if isinstance(dim, int) else list(dim)


def fftshift(self, dim):
    """Rolled by half of each size."""
    dims = shift_dims(self, dim)
    return ops.roll(self, [self.size(d) // 2 for d in dims], dims)


def ifftshift(self, dim):
    """Rolled back."""
    dims = shift_dims(self, dim)
    return ops.roll(self, [(self.size(d) + 1) // 2 for d in dims], dims)
