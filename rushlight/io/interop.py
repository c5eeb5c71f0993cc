"""Memory shared with other libraries, without a copy: buffers and NumPy."""

import math
import sys

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBuffer_FillInfo
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.rushlight.core.device import KIND_CUDA, Device
from cython.cimports.rushlight.core.dtype import DType
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_CONJUGATE,
    KEY_PYTHON,
    RECORDING,
)
from cython.cimports.rushlight.core.state import notify_readers, state
from cython.cimports.rushlight.core.storage import Storage, fetch, following
from cython.cimports.rushlight.core.tensor import Tensor

from rushlight.core.device import backend_for
from rushlight.core.dtype import TYPE_NAMES, all_dtypes
from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import strided
from rushlight.core.sparse import layout_of
from rushlight.core.storage import UntypedStorage, wrap_address
from rushlight.core.warning import warn_once
from rushlight.core.window import make_tensor

# rushlight's name -> NumPy's type string without its byte order.
NUMPY_KINDS = {
    "bool": "b1",
    "uint8": "u1",
    "int8": "i1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "uint32": "u4",
    "int64": "i8",
    "uint64": "u8",
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "complex64": "c8",
    "complex128": "c16",
}
_DTYPES = all_dtypes()
_BY_NUMPY_KIND = {kind: _DTYPES[name] for name, kind in NUMPY_KINDS.items()}


@cython.cclass
class Loan:
    """Keeps a storage alive, and its bytes where they are, for one who looks at them.

    The storage itself is held, not a tensor on it: a tensor may be given another.
    """

    storage: Storage

    def __dealloc__(self):
        if self.storage is not None:
            self.storage.lent -= 1
            self.storage.writes += 1  # the borrower may have, until now


@cython.cfunc
def lend(storage: Storage) -> Loan:
    loan: Loan = Loan.__new__(Loan)
    storage.lent += 1
    storage.writes += 1
    loan.storage = storage
    return loan


@cython.final
@cython.cclass
class Window:
    """A run of host memory as Python's buffer protocol shows it."""

    data: cython.p_char
    size: cython.Py_ssize_t
    loan: Loan

    def __getbuffer__(self, view: cython.pointer(Py_buffer), flags: cython.int):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


@cython.cfunc
def shown(data: cython.p_char, size: cython.Py_ssize_t, storage: Storage) -> Window:
    made: Window = Window.__new__(Window)
    made.data = data
    made.size = size
    made.loan = lend(storage)
    return made


@cython.cfunc
def window(data: cython.p_char, size: cython.Py_ssize_t, storage: Storage) -> object:
    return memoryview(shown(data, size, storage))


@cython.cfunc
@cython.exceptval(-1)
def check_on_host(storage: Storage, purpose: object) -> cython.int:
    if state().included & RECORDING:
        notify_readers()
    if following:
        fetch(storage)
    absent: cython.bint = storage.n_bytes != 0 and storage.data == cython.NULL
    # what a backend from outside points at is its own affair: it may lie on the host
    if absent or storage.device.kind == KIND_CUDA:
        raise TypeError(
            f"can't convert {storage.device} device type tensor to {purpose}. Use "
            "Tensor.cpu() to copy the tensor to host memory first."
        )
    return 0


def buffer_of(tensor: Tensor):
    """A writable view of a contiguous host tensor's bytes.

    Raises:
        ValueError: the tensor is not contiguous.
    """
    check_on_host(tensor.storage, "a buffer")
    if not tensor.row_major:
        raise ValueError(
            f"buffer_of: a tensor with strides {tuple(tensor.stride())} is not one run "
            "of bytes; call contiguous() first"
        )
    return window(
        tensor.pointer(), tensor.numel_ * tensor.dtype_.itemsize, tensor.storage
    )


def storage_buffer(storage: Storage):
    """A writable view of all bytes of a host storage."""
    check_on_host(storage, "a buffer")
    return window(storage.data, storage.n_bytes, storage)


def swap_bytes(storage: Storage, dtype):
    """Turns round the bytes of every element, in place; of complex ones, of both parts."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if width == 1 or not storage.device.has_memory or not storage.nbytes():
        return
    if storage.nbytes() % width:
        raise RuntimeError(
            f"byteswap: {storage.nbytes()} bytes are no whole number of {dtype} elements"
        )
    view = storage_buffer(storage)
    before = bytes(view)
    for i in range(width):
        view[i::width] = before[width - 1 - i :: width]


def row_major_strides(shape) -> list:
    """Element strides of a contiguous tensor of this shape.

    >>> row_major_strides((2, 3, 4))
    [12, 4, 1]
    """
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return strides


def from_buffer(buffer, dtype: DType, shape, offset=0):
    """A contiguous tensor over an object's memory from byte ``offset`` on."""
    count = math.prod(shape) * dtype.itemsize
    storage = UntypedStorage(0)
    if count:
        storage = UntypedStorage.over_buffer(buffer, offset=offset, count=count)
    return make_tensor(storage, shape, row_major_strides(shape), 0, dtype)


def of_storage(storage: Storage, dtype=None):
    """All of a storage's bytes as elements of a type; of int64 by default."""
    kind: DType = _DTYPES["int64"] if dtype is None else dtype
    count: cython.size_t = storage.n_bytes // cython.cast(cython.size_t, kind.itemsize)
    return make_tensor(storage, (count,), (1,), 0, kind)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A one-dimensional tensor over an object's memory, not a copy.

    Args:
        buffer: an object with the buffer protocol, such as ``bytearray`` or ``mmap``.
        dtype: what the bytes are.
        count: elements to use; all that are there if negative.
        offset: bytes to leave out at the start.

    Raises:
        ValueError: the buffer is empty or too small.

    >>> frombuffer(bytearray([1, 0, 2, 0]), dtype=rl.int16)
    tensor([1, 2], dtype=rushlight.int16)
    """
    view = memoryview(buffer)
    size = dtype.itemsize
    if view.nbytes == 0 or count == 0:
        raise ValueError(
            f"both buffer length ({view.nbytes}) and count ({count}) must not be 0"
        )
    if not 0 <= offset < view.nbytes:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer "
            f"length ({view.nbytes} bytes) minus 1"
        )
    left = view.nbytes - offset
    if count < 0 and left % size:
        raise ValueError(
            f"buffer length ({left} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({size})"
        )
    wanted = left // size if count < 0 else count
    if wanted * size > left:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({view.nbytes} "
            "bytes)"
        )
    if view.readonly:
        warn_not_writable("buffer")
    result = from_buffer(buffer, dtype, (wanted,), offset)
    return with_requires_grad(result, requires_grad)


def warn_not_writable(kind):
    """The warning for memory that a tensor could write to though it must not."""
    warn_once(
        f"The given {kind} is not writable, and tensors that are not writable are not "
        "supported. Writing to the tensor is undefined behavior. You may want to copy "
        f"the {kind} before converting it to a tensor."
    )


# -- NumPy -------------------------------------------------------------------------


def array_interface(tensor: Tensor) -> dict:
    """NumPy's description of a host tensor's memory.

    Raises:
        TypeError: NumPy has no such type, or the tensor is not on the host.
    """
    kind = NUMPY_KINDS.get(tensor.dtype_.name)
    if kind is None:
        raise TypeError(
            f"Got unsupported ScalarType {TYPE_NAMES[tensor.dtype_.name]}: NumPy has no such type; "
            "convert the tensor first, for instance with float()"
        )
    check_on_host(tensor.storage, "numpy")
    return {"version": 3, **described(tensor, kind)}


@cython.cfunc
def described(tensor: Tensor, kind: str) -> dict:
    """What both array interfaces say of a tensor's memory."""
    size: int64_t = tensor.dtype_.itemsize
    order = "|" if size == 1 else "<" if sys.byteorder == "little" else ">"
    return {
        "typestr": order + kind,
        "shape": tuple(tensor.shape),
        "strides": tuple([step * size for step in tensor.stride()]),
        "data": (cython.cast(uintptr_t, tensor.pointer()), False),
    }


def cuda_array_interface(tensor: Tensor) -> dict:
    """Numba's and CuPy's description of the memory of a tensor on a device.

    Raises:
        AttributeError: the tensor is on no device, or sparse.
        RuntimeError: it requires a gradient.
    """
    device: Device = tensor.storage.device
    if device.kind != KIND_CUDA:
        raise AttributeError(
            "Can't get __cuda_array_interface__ on non-CUDA tensor type: "
            f"{tensor.type()} If CUDA data is required use tensor.cuda() to copy tensor "
            "to device memory."
        )
    if tensor.layout is not strided:
        raise AttributeError(
            "Can't get __cuda_array_interface__ on sparse type: "
            f"{tensor.type()} Use Tensor.to_dense() to convert to a dense tensor first."
        )
    if tensor.wants_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If "
            "gradients aren't required, use var.detach() to get Variable that doesn't "
            "require grad."
        )
    backend_for(device).streams.current_stream(device)  # what waited is on its way now
    interface = described(tensor, NUMPY_KINDS.get(tensor.dtype_.name, "V2"))
    if tensor.row_major:  # of rows without gaps no strides are interface
        interface["strides"] = None
    return {"version": 2, **interface}


def over_cuda_array(array):
    """The tensor over memory of a device that another library describes.

    Raises:
        TypeError: tensors lack the elements' type.
        ValueError: a stride is negative, or no whole number of elements.
    """
    interface = array.__cuda_array_interface__
    dtype = _BY_NUMPY_KIND.get(interface["typestr"][1:])
    if dtype is None:
        raise TypeError(
            f"can't convert an array of type {interface['typestr']} of a card. The only "
            f"supported types are: {', '.join(NUMPY_KINDS)}."
        )
    shape = list(interface["shape"])
    steps = interface.get("strides") or [
        n * dtype.itemsize for n in row_major_strides(shape)
    ]
    address, where = (
        interface["data"][0],
        f"cuda:{backend_for('cuda').current_device()}",
    )
    return over_memory(address, shape, steps, dtype, array, where)


def _layout_name(layout):
    """How PyTorch's messages call a sparse layout: ``Sparse``, ``SparseCsr``."""
    return layout.name.title().replace("_", "").removesuffix("Coo")


def to_numpy(tensor: Tensor, force=False):
    """A NumPy array over the tensor's memory.

    Args:
        force: detach and copy to the host first where that is needed.

    Raises:
        RuntimeError: the tensor requires a gradient.
        TypeError: NumPy has no such type, or the tensor is not on the host.
    """
    if (tensor.keys >> KEY_BATCHED) & 1:
        return tensor._stand.read("numpy")
    if force:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    layout = layout_of(tensor, None)
    if layout is not None and layout is not strided:
        raise TypeError(
            f"can't convert {_layout_name(layout)} layout tensor to numpy. Use Tensor.to_dense() "
            "first."
        )
    if tensor.is_quantized:
        kind = tensor.dtype.name.replace("quint", "QUInt").replace("qint", "QInt")
        raise TypeError(f"Got unsupported ScalarType {kind}")
    if (tensor.keys >> KEY_PYTHON) & 1 or (tensor.keys >> KEY_ABSENT) & 1:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")
    if state().grad_mode and tensor.requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. "
            "Use tensor.detach().numpy() instead."
        )
    if tensor.keys & DEFERRED:
        bit = "conjugate" if tensor.keys & (1 << KEY_CONJUGATE) else "negative"
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {bit} bit set. Use "
            f"tensor.resolve_{bit[: 4 if bit[0] == 'c' else 3]}().numpy() instead."
        )
    kind = _ARRAY_TYPES.get(tensor.dtype_)
    if kind is None or tensor.numel_ == 0:
        return new_array_type(tensor)
    check_on_host(tensor.storage, "numpy")
    start: cython.p_char = tensor.pointer()
    tensor.storage.can_resize = False  # for good: nobody tells when the array is gone
    size: int64_t = tensor.dtype_.itemsize
    last: int64_t = 0
    d: cython.int
    for d in range(tensor.ndim_):
        last += (tensor.sizes[d] - 1) * tensor.strides[d]
    return _ARRAY(
        tuple([tensor.sizes[d] for d in range(tensor.ndim_)]),
        kind,
        shown(start, (last + 1) * size, tensor.storage),
        0,
        tuple([tensor.strides[d] * size for d in range(tensor.ndim_)]),
    )


_ARRAY = cython.declare(object, None)
_ARRAY_TYPES = cython.declare(dict, {})  # by data types, once they were asked for


@cython.cfunc
def new_array_type(tensor: Tensor) -> object:
    """The array where there is no element, or none of its type has been made yet."""
    global _ARRAY
    import numpy

    interface = array_interface(tensor)
    if tensor.numel_ == 0:
        return numpy.empty(interface["shape"], interface["typestr"])
    _ARRAY = numpy.ndarray
    _ARRAY_TYPES[tensor.dtype_] = numpy.dtype(interface["typestr"])
    return to_numpy(tensor)


def to_array(tensor: Tensor, dtype=None):
    """What ``numpy.asarray(tensor)`` gets: the memory itself if the type allows it."""
    array = to_numpy(tensor)
    return array if dtype is None else array.astype(dtype, copy=False)


def from_numpy(array):
    """A tensor over a NumPy array's memory.

    Args:
        array: the array.

    Raises:
        TypeError: not an array, or of a type that tensors do not have.
        ValueError: strides are negative or no multiple of the element's size, or the
            byte order is not this machine's.

    >>> import numpy
    >>> import rushlight as rl
    >>> array = numpy.zeros(2, dtype=numpy.float32)
    >>> x = rl.from_numpy(array)
    >>> array[0] = 3
    >>> x
    tensor([3., 0.])
    """
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    result = seen_array(array)
    if not array.flags.writeable:
        warn_not_writable("NumPy array")
    return result


def is_numpy_number(value):
    """Whether a value is one number of NumPy's, which shows an array of its own, too."""
    if not hasattr(value, "__array_interface__"):
        return False
    import numpy

    return isinstance(value, numpy.generic)


def has_buffer(value):
    """Whether a value shows others its bytes."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def seen_array(array):
    """A tensor over an array's memory, for who only reads it."""
    dtype = _BY_NUMPY_KIND.get(array.dtype.str[1:])
    if dtype is None:
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype}. The only supported types "
            f"are: {', '.join(NUMPY_KINDS)}."
        )
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported."
        )
    return over_array(array, dtype)


def equal_to_array(tensor, other):
    """``tensor == other`` for an array, which no other comparison takes."""
    import numpy

    if not isinstance(other, numpy.ndarray):
        return NotImplemented
    try:
        return tensor == from_numpy(other)
    except (TypeError, ValueError):
        return NotImplemented


def over_array(array, dtype: DType):
    """The tensor over an array whose type has been found."""
    address = array.__array_interface__["data"][0]
    return over_memory(address, array.shape, array.strides, dtype, array, None)


def over_memory(address, shape, steps, dtype: DType, owner, device):
    """The tensor over memory that another library owns, its strides in bytes."""
    size, filled = dtype.itemsize, 0 not in shape
    if filled and any(step < 0 for step in steps):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors "
            "with negative strides are not currently supported. (You can probably work "
            "around this by making a copy of your array with array.copy().)"
        )
    if any(step % size for step in steps):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. "
            "Copy the numpy array to reallocate the memory."
        )
    strides = [abs(step) // size for step in steps]
    reach = 0
    if filled:
        reach = 1 + sum([(n - 1) * step for n, step in zip(shape, strides)])
    storage = wrap_address(address, reach * size, owner, device)
    return make_tensor(storage, shape, strides, 0, dtype)
