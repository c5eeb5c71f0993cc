"""Fresh tensors: uninitialised ones, and ones filled from Python data."""

from __future__ import annotations

import cython
from cython.cimports.cpython.sequence import PySequence_Check
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.device import (
    CPU_DEVICE,
    Device,
    as_device,
    default_device,
)
from cython.cimports.rushlight.core.dtype import (
    DType,
    default_dtype,
    dtype_of,
    promote_codes,
)
from cython.cimports.rushlight.core.elements import write_item
from cython.cimports.rushlight.core.formats import format_strides
from cython.cimports.rushlight.core.geometry import is_dense
from cython.cimports.rushlight.core.iteration import Operand, output_strides
from cython.cimports.rushlight.core.tensor import MAX_DIMS, Tensor, new_empty
from cython.cimports.rushlight.core.window import read_sizes

from rushlight.core.dtype import all_dtypes
from rushlight.core.layout import contiguous_format, preserve_format, strided
from rushlight.core.state import notify_fill
from rushlight.core.views import bind_fill_of_tails
from rushlight.core.warning import warn_once


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_sequence(data: object) -> cython.bint:
    """Whether data has elements, in order: no tensor, mapping or number."""
    return not isinstance(data, Tensor) and PySequence_Check(data)


@cython.cfunc
@cython.exceptval(-1, check=False)
def find_shape(data: object, sizes: cython.pointer(int64_t)) -> cython.int:
    """Sizes along the first elements; returns how many dimensions."""
    n: cython.int = 0
    while is_sequence(data):
        if n == MAX_DIMS:  # where a text's first letter has a first letter, too
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        sizes[n] = len(data)
        n += 1
        if sizes[n - 1] == 0:
            return n
        data = data[0]
    return n


@cython.cfunc
@cython.exceptval(-1, check=False)
def code_of(item: object) -> cython.int:
    """The number of the dtype that one element asks for."""
    kind = type(item)
    if kind is float:
        return default_dtype().code
    if kind is int:
        return 4
    if kind is bool:
        return 11
    if isinstance(item, Tensor):
        return cython.cast(Tensor, item).dtype_.code
    given = getattr(item, "dtype", None)
    if given is not None and getattr(given, "name", None) in _KINDS:
        return _KINDS[given.name]
    if isinstance(item, bool):
        return 11
    if isinstance(item, int):
        return 4
    if isinstance(item, float):
        return default_dtype().code
    if isinstance(item, complex):
        return default_dtype().to_complex().code
    if isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    if given is not None and type(given).__module__.startswith("numpy"):
        raise TypeError(
            f"can't convert np.ndarray of type {kind.__module__}.{kind.__name__}: no "
            "tensor has elements of that type"
        )
    raise RuntimeError(f"Could not infer dtype of {kind.__name__}")


_KINDS = cython.declare(dict, {name: t.code for name, t in all_dtypes().items()})
_WIDE_FLOAT = cython.declare(object, all_dtypes()["float64"])
_WIDE_COMPLEX = cython.declare(object, all_dtypes()["complex128"])


@cython.cfunc
@cython.exceptval(-2, check=False)
def common_code(data: object, depth: cython.int) -> cython.int:
    """The number of the dtype that holds all leaves; -1 where there are none."""
    best: cython.int = -1
    code: cython.int
    kind = type(data)
    if kind is float or kind is int or isinstance(data, (Tensor, str, bytes)):
        return code_of(data)
    given = getattr(data, "dtype", None)
    if given is not None and getattr(given, "name", None) in _KINDS:
        return _KINDS[given.name]
    if not PySequence_Check(data):
        return code_of(data)
    if depth == MAX_DIMS:
        raise ValueError(f"too many dimensions '{kind.__name__}'")
    for item in data:
        code = common_code(item, depth + 1)
        if code < 0:  # an empty sequence is of the default type
            code = default_dtype().code
        if best < 0:
            best = code
        elif code != best:
            best = promote_codes(best, code)
    return best


@cython.cfunc
@cython.exceptval(-1, check=False)
def fill(
    data: object,
    dim: cython.int,
    ndim: cython.int,
    sizes: cython.pointer(int64_t),
    code: cython.int,
    itemsize: cython.int,
    at: cython.p_char,
    step: int64_t,
) -> cython.int:
    """Write nested data row by row; ``step`` is the bytes of one item of this level."""
    i: int64_t
    if dim == ndim:
        return write_item(code, at, data)
    if not isinstance(data, (list, tuple)):
        try:
            data = list(data)
        except TypeError:
            raise TypeError("not a sequence") from None
    if len(data) != sizes[dim]:
        raise ValueError(
            f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})"
        )
    step = step // sizes[dim] if sizes[dim] else 0
    i = 0
    for item in data:
        fill(item, dim + 1, ndim, sizes, code, itemsize, at + i * step, step)
        i += 1
    return 0


@cython.cfunc
def infer_dtype(data: object) -> DType:
    code: cython.int = common_code(data, 0)
    return default_dtype() if code < 0 else dtype_of(code)


@cython.cfunc
@cython.exceptval(-1, check=False)
def warn_of_arrays(data: object) -> cython.int:
    """Says that arrays in a list are read number by number."""
    while (type(data) is list or type(data) is tuple) and len(data):
        data = data[0]
    if type(data).__name__ == "ndarray":
        warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please "
            "consider converting the list to a single numpy.ndarray with numpy.array() "
            "before converting to a tensor."
        )
    return 0


def from_sequence(data, dtype, device):
    """A fresh tensor holding nested Python data, or one number.

    Raises:
        ValueError: sequences of one level differ in length.
    """
    sizes: int64_t[64]
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if type(data) is list or type(data) is tuple:
        warn_of_arrays(data)
    n: cython.int = find_shape(data, sizes)
    kind: DType = infer_dtype(data) if dtype is None else dtype
    target: Device = as_device(device)
    result: Tensor = new_empty(n, sizes, cython.NULL, kind, CPU_DEVICE)
    if result.numel_:
        fill(
            data,
            0,
            n,
            sizes,
            kind.code,
            kind.itemsize,
            result.storage.data,
            result.numel_ * kind.itemsize,
        )
    notify_fill(result)
    # nobody writes to it after: what it holds is on its way
    return result if target.on_host else result.to(target, non_blocking=True)


@cython.cfunc
@cython.exceptval(-1, check=False)
def read_size(size: object, sizes: cython.pointer(int64_t)) -> cython.int:
    n: cython.int = read_sizes(size, sizes)
    i: cython.int
    for i in range(n):
        if sizes[i] < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {sizes[i]}: {list(size)}"
            )
    return n


@cython.cfunc
def empty_in_format(
    n: cython.int,
    sizes: cython.pointer(int64_t),
    kind: DType,
    device: Device,
    memory_format: object,
) -> Tensor:
    strides: int64_t[64]
    if memory_format is None or memory_format is contiguous_format:
        return new_empty(n, sizes, cython.NULL, kind, device)
    format_strides(n, sizes, strides, memory_format)
    return new_empty(n, sizes, strides, kind, device)


_IN_PARTS = cython.declare(object, None)


def bind_layouts(function):
    """Name what makes tensors of other layouts: ``function(size, dtype, layout, device)``."""
    global _IN_PARTS
    _IN_PARTS = function


# What writes into new memory whose elements nobody chose; None where they stay undefined.
_FILL = cython.declare(object, None)
_OBSERVERS = cython.declare(list, [])


def bind_fill(function):
    """Have new memory written to by ``function(tensor)``, or by nobody: None."""
    global _FILL
    _FILL = function
    bind_fill_of_tails(function)
    for observer in _OBSERVERS:
        observer(function is not None)


def on_fill(observer):
    """Have ``observer(filled)`` called when new memory begins to be written to, or no more."""
    _OBSERVERS.append(observer)
    observer(_FILL is not None)


@cython.cfunc
@cython.inline
def undefined(made: Tensor) -> Tensor:
    if _FILL is not None:
        _FILL(made)
    return made


def empty(
    size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None
):
    """A tensor whose elements are whatever the memory held."""
    sizes: int64_t[64]
    if layout is not None and layout is not strided:
        return _IN_PARTS(size, dtype, layout, device)
    n: cython.int = read_size(size, sizes)
    return undefined(
        empty_in_format(
            n,
            sizes,
            default_dtype() if dtype is None else dtype,
            default_device() if device is None else as_device(device),
            memory_format,
        )
    )


def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    """An uninitialised tensor with chosen strides."""
    sizes: int64_t[64]
    strides: int64_t[64]
    n: cython.int = read_size(size, sizes)
    if read_sizes(stride, strides) != n:
        raise RuntimeError(
            f"mismatch in length of strides and shape: {list(stride)}, {list(size)}"
        )
    return undefined(
        new_empty(
            n,
            sizes,
            strides,
            default_dtype() if dtype is None else dtype,
            default_device() if device is None else as_device(device),
        )
    )


def empty_like(
    self: Tensor,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    memory_format=None,
):
    """An uninitialised tensor of the same sizes, its dense layout kept."""
    strides: int64_t[64]
    operand: Operand
    kind: DType = self.dtype_ if dtype is None else dtype
    target: Device = self.storage.device if device is None else as_device(device)
    if layout is not None and layout is not strided:
        raise NotImplementedError(
            f"Could not run 'aten::empty_strided' for layout {layout}\n  remedy: to_sparse"
        )
    if memory_format is not None and memory_format is not preserve_format:
        return undefined(
            empty_in_format(self.ndim_, self.sizes, kind, target, memory_format)
        )
    if self.row_major or is_dense(self.ndim_, self.sizes, self.strides):
        # where sizes of one leave a choice, it is kept
        return undefined(new_empty(self.ndim_, self.sizes, self.strides, kind, target))
    operand.ndim = self.ndim_
    operand.sizes = self.sizes
    operand.strides = self.strides
    operand.itemsize = kind.itemsize
    if output_strides(cython.address(operand), 1, self.ndim_, self.sizes, strides):
        return undefined(new_empty(self.ndim_, self.sizes, cython.NULL, kind, target))
    return undefined(new_empty(self.ndim_, self.sizes, strides, kind, target))


def wrapped_number(value):
    """A Python number as a 0-dim tensor, in full, that stays weak in promotion."""
    dtype: object = None
    if isinstance(value, float):
        dtype = _WIDE_FLOAT
    elif isinstance(value, complex):
        dtype = _WIDE_COMPLEX
    result: Tensor = from_sequence(value, dtype, None)
    result.wrapped_number = True
    return result


def is_wrapped_number(tensor):
    """Whether a tensor is a Python number made one, and so weak in promotion."""
    of: Tensor = tensor
    return bool(of.wrapped_number)
