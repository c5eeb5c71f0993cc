"""Views: new sizes and strides on the same storage, no element touched."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.core.dtype import COMPLEX, DType
from cython.cimports.rushlight.core.formats import format_strides
from cython.cimports.rushlight.core.geometry import (
    __builtin_mul_overflow,
    multiply,
    span,
    view_strides,
    wrap_dim,
)
from cython.cimports.rushlight.core.keys import KEY_CONJUGATE, KEY_NEGATIVE
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.storage import (
    Storage,
    VersionCounter,
    resize_storage,
)
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.core.tensor import alias as make_alias
from cython.cimports.rushlight.core.window import (
    check_window,
    read_sizes,
    refuse_negative,
)

from rushlight.core.geometry import infer_size


@cython.cfunc
@cython.exceptval(-1, check=False)
def fit_sizes(self: Tensor, size: object, into: cython.pointer(int64_t)) -> cython.int:
    """Target sizes with a ``-1`` resolved; errors where the count does not fit."""
    n: cython.int = read_sizes(size, into)
    i: cython.int
    count: int64_t = 1
    fits: cython.bint = True
    for i in range(n):
        if into[i] < 0:
            return read_sizes(infer_size(size, self.numel_), into)
        if __builtin_mul_overflow(count, into[i], cython.address(count)):
            fits = False
    if not fits or count != self.numel_:
        raise RuntimeError(
            f"shape '{list(size)}' is invalid for input of size {self.numel_}"
        )
    return n


def view(self: Tensor, size):
    """The same elements with other sizes, never copied."""
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = fit_sizes(self, size, sizes)
    if not view_strides(self.ndim_, self.sizes, self.strides, n, sizes, strides):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least "
            "one dimension spans across two contiguous subspaces). Use .reshape(...) "
            f"instead.\n  self: {self.dtype_.name}{list(self.shape)} with strides "
            f"{list(self.stride())}\n  size: {list(size)}"
        )
    return make_alias(self, n, sizes, strides, self.offset)


def unsafe_view(self: Tensor, size):
    """``view`` of a tensor that nothing else will look at: no relative of its source.

    Of the same sizes, it keeps the strides, even of dimensions of one element.
    """
    d: cython.int
    same: cython.bint = len(size) == self.ndim_
    if same:
        for d in range(self.ndim_):
            same = same and size[d] == self.sizes[d]
    result: Tensor = alias(self) if same else view(self, size)
    counter: VersionCounter = VersionCounter.__new__(VersionCounter)
    counter.value = 0
    result.own_extra().counter = counter
    return result


def reshape(self: Tensor, shape):
    """The same elements with other sizes: a view where possible, else a copy."""
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = fit_sizes(self, shape, sizes)
    if not view_strides(self.ndim_, self.sizes, self.strides, n, sizes, strides):
        return view(self.contiguous(), shape)
    return make_alias(self, n, sizes, strides, self.offset)


def viewable(self: Tensor, shape) -> bool:
    """Whether a tensor's elements may be looked at with other sizes, without a copy.

    Raises:
        RuntimeError: the sizes are of another number of elements.
    """
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = fit_sizes(self, shape, sizes)
    return view_strides(self.ndim_, self.sizes, self.strides, n, sizes, strides) != 0


def flatten(self: Tensor, start_dim, end_dim):
    """Joins the dimensions from the first through the last given.

    Raises:
        RuntimeError: the first comes after the last.
    """
    start: cython.int = wrap_dim(start_dim, self.ndim_)
    end: cython.int = wrap_dim(end_dim, self.ndim_)
    sizes: list = []
    joined: int64_t = 1
    d: cython.int
    if self.ndim_ == 0:
        return cython.cast(object, self).reshape((1,))
    if start > end:
        raise RuntimeError(
            "flatten() has invalid args: start_dim cannot come after end_dim"
        )
    if start == end:
        return self
    for d in range(self.ndim_):
        if d < start or d > end:
            sizes.append(self.sizes[d])
            continue
        joined *= self.sizes[d]
        if d == end:
            sizes.append(joined)
    return cython.cast(object, self).reshape(sizes)


def movedim_one(self: Tensor, source, destination):
    """``movedim`` of a single dimension."""
    return movedim(self, (source,), (destination,))


def movedim(self: Tensor, source, destination):
    """The permutation that puts each source dimension at its destination.

    Raises:
        RuntimeError: the lists differ in length, or name a dimension twice.
    """
    moved: cython.int[64]  # for each place the dimension that goes there, or -1
    taken: cython.bint[64]
    order: list = []
    d: cython.int
    k: cython.int = 0
    ndim: cython.int = self.ndim_
    if len(source) != len(destination):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(source)} dims) should contain the same number of dims as "
            f"destination ({list(destination)} dims)"
        )
    source_dims: list = [wrap_dim(dim, ndim) for dim in source]
    positions: list = [wrap_dim(dim, ndim) for dim in destination]
    _refuse_repeated("source", source, source_dims)
    _refuse_repeated("destination", destination, positions)
    for d in range(ndim):
        moved[d], taken[d] = -1, False
    for dim, place in zip(source_dims, positions) if ndim else ():
        moved[cython.cast(cython.int, place)] = dim
        taken[cython.cast(cython.int, dim)] = True
    for d in range(ndim):
        if moved[d] < 0:
            while taken[k]:
                k += 1
            moved[d] = k
            k += 1
        order.append(moved[d])
    return cython.cast(object, self).permute(order)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _refuse_repeated(name: str, given: object, dims: list) -> cython.int:
    if len(dims) > 1 and len(set(dims)) != len(dims):
        raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    return 0


def view_dtype(self: Tensor, dtype: DType):
    """The same bytes read as another data type."""
    sizes: int64_t[64]
    strides: int64_t[64]
    i: cython.int
    last: cython.int = self.ndim_ - 1
    old: int64_t = self.dtype_.itemsize
    new: int64_t = dtype.itemsize
    offset: int64_t = self.offset
    refuse_deferred(self, dtype)
    for i in range(self.ndim_):
        sizes[i] = self.sizes[i]
        strides[i] = self.strides[i]
    if old != new:
        if self.ndim_ == 0:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {self.dtype_!r} as {dtype!r} "
                "(different element sizes)"
            )
        if self.strides[last] != 1:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {self.dtype_!r} as {dtype!r} "
                f"(different element sizes), but got {self.strides[last]}"
            )
        for i in range(self.ndim_):
            if multiply(sizes[last] if i == last else strides[i], old) % new:
                raise RuntimeError(
                    f"self.size(-1) and the strides must be divisible by {new // old} to "
                    f"view {self.dtype_!r} as {dtype!r} (different element sizes)"
                )
            if i != last:
                strides[i] = multiply(strides[i], old) // new
        if multiply(offset, old) % new:
            raise RuntimeError(
                f"self.storage_offset() must be divisible by {new // old} to view "
                f"{self.dtype_!r} as {dtype!r} (different element sizes)"
            )
        sizes[last] = sizes[last] * old // new
        offset = offset * old // new
    result: Tensor = make_alias(self, self.ndim_, sizes, strides, offset)
    result.dtype_ = dtype
    return result


@cython.cfunc
def toggled(self: Tensor, key: cython.int) -> Tensor:
    """The same window, with what a key puts off put off or taken back."""
    one: uint64_t = 1
    result: Tensor = alias(self)
    result.keys ^= one << key
    return result


def lazy_conj(self: Tensor):
    """The conjugate, to be computed where a kernel wants numbers."""
    return toggled(self, KEY_CONJUGATE)


def lazy_neg(self: Tensor):
    """The negative, to be computed where a kernel wants numbers."""
    return toggled(self, KEY_NEGATIVE)


def refuse_deferred(self: Tensor, dtype: DType):
    """Refuses to read bytes of numbers that are not what the tensor stands for."""
    one: uint64_t = 1
    if self.dtype_ is not dtype and self.keys & (one << KEY_CONJUGATE):
        raise RuntimeError(
            "torch.Tensor.view is not supported for conjugate view tensors when "
            "converting to a different dtype.\n  remedy: self.resolve_conj()"
        )
    if self.dtype_ is not dtype and self.keys & (one << KEY_NEGATIVE):
        raise RuntimeError(
            "torch.Tensor.view is not supported for tensors with negative bit set when "
            "converting to a different dtype.\n  remedy: self.resolve_neg()"
        )


def view_as_real(self: Tensor):
    """Real and imaginary parts side by side, as one more dimension of size two."""
    sizes: int64_t[65]
    strides: int64_t[65]
    one: uint64_t = 1
    i: cython.int
    if self.dtype_.category != COMPLEX:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if self.keys & (one << KEY_CONJUGATE):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve "
            "the conjugate tensor so you can view it as real, use self.resolve_conj(); "
            "however, be warned that the resulting tensor will NOT alias the original."
        )
    for i in range(self.ndim_):
        sizes[i] = self.sizes[i]
        strides[i] = self.strides[i] * 2
    sizes[self.ndim_] = 2
    strides[self.ndim_] = 1
    result: Tensor = make_alias(self, self.ndim_ + 1, sizes, strides, self.offset * 2)
    result.dtype_ = self.dtype_.to_real()
    return result


def view_as_complex(self: Tensor):
    """Pairs along the last dimension as complex numbers."""
    strides: int64_t[64]
    i: cython.int
    last: cython.int = self.ndim_ - 1
    if self.dtype_.name not in ("float16", "float32", "float64"):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but "
            f"got a tensor of scalar type: {self.dtype_.name}"
        )
    if self.ndim_ == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if self.sizes[last] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if self.strides[last] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    for i in range(last):
        if self.sizes[i] != 1 and self.strides[i] % 2:
            raise RuntimeError(
                "Tensor must have a stride divisible by 2 for all but last dimension"
            )
        strides[i] = self.strides[i] // 2
    if self.offset % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    result: Tensor = make_alias(self, last, self.sizes, strides, self.offset // 2)
    result.dtype_ = self.dtype_.to_complex()
    return result


def transpose(self: Tensor, dim0, dim1):
    """Two dimensions exchanged."""
    sizes: int64_t[64]
    strides: int64_t[64]
    a: cython.int = wrap_dim(dim0, self.ndim_)
    b: cython.int = wrap_dim(dim1, self.ndim_)
    i: cython.int
    for i in range(self.ndim_):
        sizes[i] = self.sizes[i]
        strides[i] = self.strides[i]
    if self.ndim_:
        sizes[a] = self.sizes[b]
        strides[a] = self.strides[b]
        sizes[b] = self.sizes[a]
        strides[b] = self.strides[a]
    return make_alias(self, self.ndim_, sizes, strides, self.offset)


def t(self: Tensor):
    """A matrix transposed; fewer dimensions as they are."""
    if self.ndim_ > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim_}D"
        )
    if self.ndim_ < 2:
        return alias(self)
    return transpose(self, 0, 1)


def permute(self: Tensor, dims):
    """Dimensions in a new order."""
    sizes: int64_t[64]
    strides: int64_t[64]
    seen: cython.ulonglong = 0
    one: cython.ulonglong = 1
    i: cython.int
    d: cython.int
    if len(dims) != self.ndim_:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match "
            "the length of the desired ordering of dimensions i.e. input.dim() = "
            f"{self.ndim_} is not equal to len(dims) = {len(dims)}"
        )
    for i in range(self.ndim_):
        d = wrap_dim(dims[i], self.ndim_)
        if (seen >> d) & 1:
            raise RuntimeError("permute(): duplicate dims are not allowed.")
        seen |= one << d
        sizes[i] = self.sizes[d]
        strides[i] = self.strides[d]
    return make_alias(self, self.ndim_, sizes, strides, self.offset)


def expand(self: Tensor, size, implicit=False):
    """Dimensions of size one repeated, with stride zero."""
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = read_sizes(size, sizes)
    shift: cython.int = n - self.ndim_
    i: cython.int
    own: int64_t
    if shift < 0:
        raise RuntimeError(
            f"expand({self.dtype_.name}{list(self.shape)}, size={list(size)}): the number "
            f"of sizes provided ({n}) must be greater or equal to the number of "
            f"dimensions in the tensor ({self.ndim_})"
        )
    for i in range(n - 1, -1, -1):
        if i < shift:
            if sizes[i] < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({sizes[i]}) isn't allowed in a "
                    f"leading, non-existing dimension {i}"
                )
            # a new dimension of one element continues the next one, as it costs nothing
            strides[i] = 0
            if sizes[i] == 1 and self.ndim_:
                strides[i] = multiply(sizes[i + 1], strides[i + 1])
            continue
        own = self.sizes[i - shift]
        strides[i] = self.strides[i - shift]
        if sizes[i] == -1:
            sizes[i] = own
        elif sizes[i] != own:
            if own != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({sizes[i]}) must match the existing "
                    f"size ({own}) at non-singleton dimension {i}.  Target sizes: "
                    f"{list(size)}.  Tensor sizes: {list(self.shape)}"
                )
            strides[i] = 0
    return make_alias(self, n, sizes, strides, self.offset)


def squeeze(self: Tensor):
    """Without dimensions of size one."""
    return squeeze_dims(self, range(self.ndim_))


def squeeze_dims(self: Tensor, dim):
    """Without those of the given dimensions that have size one."""
    sizes: int64_t[64]
    strides: int64_t[64]
    drop: cython.ulonglong = 0
    one: cython.ulonglong = 1
    n: cython.int = 0
    i: cython.int
    for d in dim:
        i = wrap_dim(d, self.ndim_)
        if (drop >> i) & 1:
            raise RuntimeError(f"dim {i} appears multiple times in the list of dims")
        drop |= one << i
    for i in range(self.ndim_):
        if self.sizes[i] != 1 or not (drop >> i) & 1:
            sizes[n] = self.sizes[i]
            strides[n] = self.strides[i]
            n += 1
    return make_alias(self, n, sizes, strides, self.offset)


def unsqueeze(self: Tensor, dim):
    """With one more dimension, of size one."""
    sizes: int64_t[65]
    strides: int64_t[65]
    at: cython.int = wrap_dim(dim, self.ndim_ + 1)
    i: cython.int
    for i in range(at):
        sizes[i] = self.sizes[i]
        strides[i] = self.strides[i]
    sizes[at] = 1
    strides[at] = 1
    if at < self.ndim_:
        strides[at] = self.sizes[at] * self.strides[at]
    for i in range(at, self.ndim_):
        sizes[i + 1] = self.sizes[i]
        strides[i + 1] = self.strides[i]
    return make_alias(self, self.ndim_ + 1, sizes, strides, self.offset)


@cython.cfunc
def copy_geometry(
    self: Tensor, sizes: cython.pointer(int64_t), strides: cython.pointer(int64_t)
) -> cython.void:
    i: cython.int
    for i in range(self.ndim_):
        sizes[i] = self.sizes[i]
        strides[i] = self.strides[i]


def select(self: Tensor, dim, index):
    """One index of a dimension, which goes away."""
    sizes: int64_t[64]
    strides: int64_t[64]
    if self.ndim_ == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d: cython.int = wrap_dim(dim, self.ndim_)
    at: int64_t = index
    i: cython.int
    n: cython.int = 0
    if at < -self.sizes[d] or at >= self.sizes[d]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size "
            f"{list(self.shape)} at dimension {d}"
        )
    if at < 0:
        at += self.sizes[d]
    for i in range(self.ndim_):
        if i != d:
            sizes[n] = self.sizes[i]
            strides[n] = self.strides[i]
            n += 1
    return make_alias(self, n, sizes, strides, self.offset + at * self.strides[d])


def slice(self: Tensor, dim, start, end, step):
    """Every ``step``-th index of a dimension from ``start`` up to ``end``."""
    sizes: int64_t[64]
    strides: int64_t[64]
    if self.ndim_ == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    d: cython.int = wrap_dim(dim, self.ndim_)
    length: int64_t = self.sizes[d]
    first: int64_t = 0
    last: int64_t = length
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    if start is not None:
        first = max(min(start + length if start < 0 else start, length), 0)
    if end is not None:
        last = max(min(end + length if end < 0 else end, length), first)
    copy_geometry(self, sizes, strides)
    wide: int64_t = step
    sizes[d] = (last - first - 1) // wide + 1 if last > first else 0
    strides[d] = multiply(self.strides[d], wide)
    return make_alias(
        self, self.ndim_, sizes, strides, self.offset + first * self.strides[d]
    )


def narrow(self: Tensor, dim, start, length):
    """``length`` indices of a dimension from ``start`` on."""
    if self.ndim_ == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d: cython.int = wrap_dim(dim, self.ndim_)
    size: int64_t = self.sizes[d]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if start < -size or start > size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got "
            f"{start})"
        )
    if start < 0:
        start += size
    if start + length > size:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({size})."
        )
    return slice(self, d, start, start + length, 1)


def unfold(self: Tensor, dimension, size, step):
    """Windows of a dimension, as one more dimension at the end."""
    sizes: int64_t[65]
    strides: int64_t[65]
    d: cython.int = wrap_dim(dimension, self.ndim_)
    length: int64_t = self.sizes[d] if self.ndim_ else 1
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(
            f"maximum size for tensor at dimension {d} is {length} but size is {size}"
        )
    copy_geometry(self, sizes, strides)
    sizes[self.ndim_] = size
    strides[self.ndim_] = self.strides[d] if self.ndim_ else 1
    if self.ndim_:
        sizes[d] = (length - cython.cast(int64_t, size)) // cython.cast(
            int64_t, step
        ) + 1
        strides[d] = multiply(self.strides[d], step)
    return make_alias(self, self.ndim_ + 1, sizes, strides, self.offset)


def diagonal(self: Tensor, offset, dim1, dim2):
    """The diagonals of the matrices in two dimensions, as the last dimension."""
    sizes: int64_t[64]
    strides: int64_t[64]
    a: cython.int = wrap_dim(dim1, self.ndim_)
    b: cython.int = wrap_dim(dim2, self.ndim_)
    n: cython.int = 0
    i: cython.int
    length: int64_t
    start: int64_t = self.offset
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if offset >= 0:
        length = max(min(self.sizes[a], self.sizes[b] - offset), 0)
    else:
        length = max(min(self.sizes[a] + offset, self.sizes[b]), 0)
    if length:
        start += offset * self.strides[b] if offset >= 0 else -offset * self.strides[a]
    for i in range(self.ndim_):
        if i != a and i != b:
            sizes[n] = self.sizes[i]
            strides[n] = self.strides[i]
            n += 1
    sizes[n] = length
    strides[n] = self.strides[a] + self.strides[b]
    return make_alias(self, n + 1, sizes, strides, start)


MANY = 1 << 28


def refuse_many(count):
    """Refuses to make more tensors than memory holds, before the first is made.

    Args:
        count: how many are to be made.

    Raises:
        RuntimeError: they are too many.
    """
    if count > MANY:
        raise RuntimeError(
            f"std::bad_alloc: {count} tensors at once are more than {MANY}"
        )


def unbind(self: Tensor, dim):
    """One view for each index of a dimension."""
    if self.ndim_ == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    d: cython.int = wrap_dim(dim, self.ndim_)
    i: int64_t
    refuse_many(self.sizes[d])
    return [select(self, d, i) for i in range(self.sizes[d])]


def split(self: Tensor, split_size, dim):
    """Pieces of ``split_size`` along a dimension; the last may be shorter."""
    if self.ndim_ == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d: cython.int = wrap_dim(dim, self.ndim_)
    length: int64_t = self.sizes[d]
    if split_size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size}"
        )
    if split_size == 0:
        if length:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension "
                f"size of {length}"
            )
        return [alias(self)]
    if length == 0:
        return [alias(self)]
    refuse_many((length - 1) // split_size + 1)
    return [
        slice(self, d, at, at + split_size, 1) for at in range(0, length, split_size)
    ]


def unsafe_split(self: Tensor, split_size, dim):
    """`split` into parts that know nothing of each other."""
    return [unsafe_view(part, part.shape) for part in split(self, split_size, dim)]


def unsafe_split_with_sizes(self: Tensor, split_sizes, dim):
    """`split_with_sizes` into parts that know nothing of each other."""
    parts = split_with_sizes(self, split_sizes, dim)
    return [unsafe_view(part, part.shape) for part in parts]


def split_with_sizes(self: Tensor, split_sizes, dim):
    """Pieces of the given sizes along a dimension."""
    if self.ndim_ == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d: cython.int = wrap_dim(dim, self.ndim_)
    if sum(split_sizes) != self.sizes[d] or any(size < 0 for size in split_sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {self.sizes[d]} "
            f"(input tensor's size at dimension {d}), but got split_sizes="
            f"{list(split_sizes)}"
        )
    pieces = []
    at = 0
    for size in split_sizes:
        pieces.append(slice(self, d, at, at + size, 1))
        at += size
    return pieces


def as_strided(self: Tensor, size, stride, storage_offset=None):
    """Any sizes and strides that stay inside the storage."""
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = read_sizes(size, sizes)
    offset: int64_t = self.offset if storage_offset is None else storage_offset
    if read_sizes(stride, strides) != n:
        raise RuntimeError(
            f"mismatch in length of strides and shape: {list(stride)}, {list(size)}"
        )
    refuse_negative(n, strides)
    check_window(self.storage, n, sizes, strides, offset, self.dtype_.itemsize)
    return make_alias(self, n, sizes, strides, offset)


def detach(self: Tensor):
    """The same window without history."""
    return make_alias(self, self.ndim_, self.sizes, self.strides, self.offset)


def alias(self: Tensor):
    """The same window as a new tensor."""
    return make_alias(self, self.ndim_, self.sizes, self.strides, self.offset)


# What writes into memory that a tensor has grown by; None where it stays undefined.
_FILL = cython.declare(object, None)


def bind_fill_of_tails(function):
    """Have the memory that `resize_` adds written to by ``function(tensor)``."""
    global _FILL
    _FILL = function


@cython.cfunc
def fill_tail(self: Tensor, before: int64_t):
    """Writes to the elements of a storage that had ``before`` bytes."""
    sizes: int64_t[1]
    strides: int64_t[1]
    item: int64_t = self.dtype_.itemsize
    first: int64_t = (before + item - 1) // item
    sizes[0] = cython.cast(int64_t, self.storage.n_bytes) // item - first
    strides[0] = 1
    if sizes[0] > 0:
        _FILL(make_alias(self, 1, sizes, strides, first))


def resize_(self: Tensor, size, memory_format=None):
    """New sizes, row by row, on storage grown where it must be; elements undefined."""
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = read_sizes(size, sizes)
    storage: Storage = self.storage
    same: cython.bint = n == self.ndim_
    for i in range(n if same else 0):
        same = same and sizes[i] == self.sizes[i]
    if same and memory_format is None:
        return self
    for i in range(n):
        if sizes[i] < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {sizes[i]}: {list(size)}"
            )
    need: int64_t = span(n, sizes, cython.NULL, self.offset, self.dtype_.itemsize)
    format_strides(n, sizes, strides, memory_format)
    before: int64_t = storage.n_bytes
    if need > before:
        resize_storage(storage, need)
    self.set_geometry(n, sizes, strides, self.offset)
    if need > before and _FILL is not None:
        fill_tail(self, before)
    return self


def set_source(self: Tensor, source: Tensor):
    """Make ``self`` the window that ``source`` is, sharing its storage."""
    self.storage = source.storage
    self.dtype_ = source.dtype_
    self.keys = source.keys
    self.inference = source.inference
    if source is not self:
        self.set_geometry(source.ndim_, source.sizes, source.strides, source.offset)
    return self


def stand_in(self: Tensor, keys: uint64_t, without: cython.int = -1):
    """A tensor of the same window for interpreters to know by its keys.

    Args:
        keys: dispatch keys that it carries beside the window's own.
        without: a dimension of which it shows the first place only; -1 for none.
    """
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = 0
    d: cython.int
    for d in range(self.ndim_):
        if d != without:
            sizes[n] = self.sizes[d]
            strides[n] = self.strides[d]
            n += 1
    result: Tensor = make_alias(self, n, sizes, strides, self.offset)
    result.keys |= keys
    result.inference = state().inference_mode  # whatever the value was made in
    return result


def take_window(self: Tensor, other: Tensor, without: cython.int = -1):
    """Shows from now on what another tensor shows, on its storage."""
    shown: Tensor = stand_in(other, 0, without)
    self.storage = shown.storage
    self.set_geometry(shown.ndim_, shown.sizes, shown.strides, shown.offset)
