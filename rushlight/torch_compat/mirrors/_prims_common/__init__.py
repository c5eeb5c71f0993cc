"""What PyTorch's decompositions are written with: types of arguments, sizes, strides.

>>> import rushlight as rl
>>> from rushlight._prims_common import canonicalize_dims, make_contiguous_strides_for
>>> make_contiguous_strides_for((2, 3, 4)), canonicalize_dims(3, (-1, 0))
((12, 4, 1), (2, 0))
"""

import rushlight as rl
from rushlight.core.dtype import BOOLEAN, COMPLEX, FLOATING, INTEGER, get_default_dtype

ShapeType = rl.Size | list[int] | tuple[int, ...]
StrideType = list[int] | tuple[int, ...]
DimsSequenceType = list[int] | tuple[int, ...]
DimsType = int | list[int] | tuple[int, ...]
DeviceLikeType = str | rl.device | int
NumberType = bool | int | float | complex
Number = (bool, int, float, complex, rl.SymInt, rl.SymFloat, rl.SymBool)
IntLike = (int, rl.SymInt)
FloatLike = (float, rl.SymFloat)
IntWithoutSymInt = int
TensorLike = rl.Tensor
TensorLikeType = rl.Tensor
TensorSequenceType = list[rl.Tensor] | tuple[rl.Tensor, ...]

_KINDS = {BOOLEAN: bool, INTEGER: int, FLOATING: float, COMPLEX: complex}


def is_boolean_dtype(dtype):
    """Whether elements are truth values."""
    return dtype.category == BOOLEAN


def is_integer_dtype(dtype):
    """Whether elements are whole numbers."""
    return dtype.category == INTEGER


def is_float_dtype(dtype):
    """Whether elements are real numbers with a point."""
    return dtype.category == FLOATING


def is_complex_dtype(dtype):
    """Whether elements are complex numbers."""
    return dtype.category == COMPLEX


def dtype_to_type(dtype):
    """Python's type of a tensor's elements."""
    return _KINDS[dtype.category]


def type_to_dtype(typ):
    """The type of tensors made of Python's numbers of a type."""
    defaults = {bool: rl.bool, int: rl.int64, float: get_default_dtype()}
    return defaults.get(typ) or corresponding_complex_dtype(get_default_dtype())


def dtype_or_default(dtype):
    """A type, or the default one."""
    return get_default_dtype() if dtype is None else dtype


def device_or_default(device):
    """A device, or the default one."""
    return rl.get_default_device() if device is None else rl.device(device)


def corresponding_real_dtype(dtype):
    """The type of a complex type's parts."""
    return dtype.to_real()


def corresponding_complex_dtype(dtype):
    """The complex type whose parts are of a type."""
    return dtype.to_complex()


def get_computation_dtype(dtype):
    """The type that kernels compute in: single precision for halves."""
    wider = {
        rl.float16: rl.float32,
        rl.bfloat16: rl.float32,
        rl.complex32: rl.complex64,
    }
    return wider.get(dtype, dtype)


def canonicalize_dim(rank, idx, wrap_scalar=True):
    """A dimension counted from the front.

    Args:
        rank: how many there are.
        idx: the dimension; below zero it counts from the end.
        wrap_scalar: whether a number has one.

    Raises:
        IndexError: there is no such dimension.
    """
    if rank < 0:
        raise IndexError(f"Rank cannot be negative but got {rank}")
    if rank == 0 and not wrap_scalar:
        raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
    rank = rank or 1
    if not -rank <= idx < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], "
            f"but got {idx})"
        )
    return idx % rank


def canonicalize_dims(rank, indices, wrap_scalar=True):
    """One dimension or several, counted from the front.

    Args:
        rank: how many there are.
        indices: the dimensions.
        wrap_scalar: whether a number has one.

    Raises:
        IndexError: there is no such dimension.
    """
    if isinstance(indices, IntLike):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, one, wrap_scalar) for one in indices)


def make_contiguous_strides_for(shape, row_major=True):
    """The strides of dense memory.

    Args:
        shape: the sizes.
        row_major: whether the last dimension changes fastest, not that before it.
    """
    order = [*reversed(range(len(shape)))]
    if not row_major and len(order) > 1:
        order[:2] = order[1::-1]
    strides, step = [0] * len(shape), 1
    for at in order:
        strides[at] = step
        step = step * shape[at] if shape[at] != 0 else step
    return tuple(strides)


def suggest_memory_format(x):
    """The format that a tensor's strides have."""
    for rank, layout in ((4, rl.channels_last), (5, rl.channels_last_3d)):
        if x.ndim == rank and not x.is_contiguous():
            if x.is_contiguous(memory_format=layout):
                return layout
    return rl.contiguous_format


def is_contiguous(a, false_if_dde=False):
    """Whether a tensor is dense, its last dimension changing fastest."""
    return a.numel() < 2 or a.is_contiguous()


def is_contiguous_or_false(a):
    """The same; False where sizes do not tell."""
    return is_contiguous(a, True)


def compute_required_storage_length(shape, strides, storage_offset):
    """How many elements of memory a view reaches over.

    Args:
        shape: its sizes.
        strides: its strides.
        storage_offset: where it begins.
    """
    if 0 in shape:
        return 0
    return storage_offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides))
