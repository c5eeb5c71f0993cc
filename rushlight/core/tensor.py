"""The tensor: a window (sizes, strides, offset) on a storage, and what autograd keeps."""

from __future__ import annotations

import warnings

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.rushlight.core import slots
from cython.cimports.rushlight.core._python import (
    PyObject_Vectorcall,
    PyType_Modified,
    PyTypeObject,
)
from cython.cimports.rushlight.core.device import CPU_DEVICE, Device
from cython.cimports.rushlight.core.dtype import DType, dtype_of
from cython.cimports.rushlight.core.elements import read_element
from cython.cimports.rushlight.core.geometry import (
    count_elements,
    is_channels_last,
    is_contiguous,
    multiply,
    row_major,
    span,
    wrap_dim,
)
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ABSENT,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_BATCHED,
    KEY_PLANNING,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.sizes import new_size
from cython.cimports.rushlight.core.state import ThreadState, state, tell_readers
from cython.cimports.rushlight.core.storage import (
    Storage,
    VersionCounter,
    allocate,
    any_shrunk,
    shared_counter,
)

from rushlight.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from rushlight.core.naming import NO_GRAD_OF_INNER_TENSORS
from rushlight.core.slots import PASS_BY, SLOT_NAMES
from rushlight.core.state import tell_of_making, tell_of_reading

_SLOTS = cython.declare(cython.pointer(PyObject)[64])
_KEEP = cython.declare(list, [None] * 64)


def bind_slots(table):
    """Point Python's operators on tensors at the callables in ``table``."""
    for name, function in table.items():
        i: cython.int = SLOT_NAMES.index(name)
        _KEEP[i] = function
        _SLOTS[i] = cython.cast(cython.pointer(PyObject), function)


@cython.cfunc
def unary(slot: cython.int, a: object) -> object:
    args: cython.pointer(PyObject)[2]
    if _SLOTS[slot] == cython.NULL:
        raise TypeError(f"no operator is bound to '{SLOT_NAMES[slot]}'")
    args[0] = cython.NULL
    args[1] = cython.cast(cython.pointer(PyObject), a)
    return PyObject_Vectorcall(_SLOTS[slot], cython.address(args[1]), 1, cython.NULL)


@cython.cfunc
def binary(slot: cython.int, a: object, b: object) -> object:
    args: cython.pointer(PyObject)[3]
    if _SLOTS[slot] == cython.NULL:
        return NotImplemented
    if not isinstance(b, Tensor) and type(b) is not float and type(b) is not int:
        return guarded(slot, a, b)
    args[0] = cython.NULL
    args[1] = cython.cast(cython.pointer(PyObject), a)
    args[2] = cython.cast(cython.pointer(PyObject), b)
    return PyObject_Vectorcall(_SLOTS[slot], cython.address(args[1]), 2, cython.NULL)


@cython.cfunc
def guarded(slot: cython.int, a: object, b: object) -> object:
    """A foreign operand gets its own chance: TypeError becomes NotImplemented."""
    try:
        return cython.cast(object, _SLOTS[slot])(a, b)
    except TypeError:
        return NotImplemented


@cython.cfunc
def taken(name: str, args: tuple) -> object:
    """What the tensor's type, or a mode, makes of a method."""
    if _SLOTS[slots.SLOT_TAKEN] == cython.NULL:
        return PASS_BY
    return cython.cast(object, _SLOTS[slots.SLOT_TAKEN])(name, args)


ONE = cython.declare(uint64_t, 1)
GRAPH = cython.declare(uint64_t, (ONE << KEY_AUTOGRAD) | (ONE << KEY_ADINPLACEORVIEW))


@cython.cfunc
@cython.exceptval(check=False)
def keys_for(device: Device) -> uint64_t:
    return (ONE << device.kind) | (0 if state().inference_mode else GRAPH)


@cython.cfunc
def refuse_strides(t: Tensor):
    """Strides of a tensor without elements have to be numbers of 64 bits, too."""
    step: int64_t = 1
    for d in range(t.ndim_ - 1, 0, -1):
        step = multiply(step, t.sizes[d] if t.sizes[d] > 1 else 1)


@cython.cfunc
def new_empty(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    dtype: DType,
    device: Device,
) -> Tensor:
    t: Tensor = Tensor.__new__(Tensor)
    i: cython.int
    n_bytes: int64_t = span(ndim, sizes, strides, 0, dtype.itemsize)
    t.reserve(ndim)
    for i in range(ndim):
        t.sizes[i] = sizes[i]
    if strides == cython.NULL:
        row_major(ndim, sizes, t.strides)
        t.row_major = True
        t.numel_ = n_bytes // dtype.itemsize
        if n_bytes == 0:
            refuse_strides(t)
    else:
        for i in range(ndim):
            t.strides[i] = strides[i]
        t.row_major = is_contiguous(ndim, sizes, strides)
        t.numel_ = count_elements(ndim, sizes)
    t.dtype_ = dtype
    t.storage = allocate(n_bytes, device)
    st: cython.pointer(ThreadState) = state()
    t.keys = keys_for(device)
    t.inference = st.inference_mode
    if st.included & PLANNED:
        tell_of_making(t)
    return t


# A thread with this bit writes down what a function does; see `dispatch.notes`.
PLANNED = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PLANNING)
# A tensor with this bit has sizes and strides, but no memory of its own.
STANDS_APART = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_ABSENT)
# Calls with this bit go to ``__torch_dispatch__``, of a type or of a mode.
DISPATCHED = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PYTHON)
# A tensor with this bit stands for another, under a transformation of functions.
STAND_IN = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_BATCHED)


@cython.cfunc
def alias(
    source: Tensor,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    offset: int64_t,
) -> Tensor:
    t: Tensor = Tensor.__new__(Tensor)
    look_at(t, source)
    t.set_geometry(ndim, sizes, strides, offset)
    return t


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def look_at(t: Tensor, source: Tensor) -> cython.void:
    """Makes a tensor one of another's relatives: all but sizes and strides."""
    t.storage = source.storage
    t.dtype_ = source.dtype_
    t.keys = source.keys
    t.inference = source.inference
    t.counter = source.counter


@cython.cfunc
def same_window(source: Tensor) -> Tensor:
    """An alias of all of a tensor, which stands for what the tensor stands for."""
    if source.keys & DISPATCHED and type(source) is not Tensor:
        return typed_window(source)
    t: Tensor = alias(source, source.ndim_, source.sizes, source.strides, source.offset)
    if source.keys & STAND_IN:
        t._stand = source._stand
    return t


@cython.cfunc
def typed_window(source: Tensor) -> Tensor:
    """The same of a type that takes operators: with all that its instances hold."""
    t: Tensor = Tensor.__new__(type(source))
    look_at(t, source)
    t.set_geometry(source.ndim_, source.sizes, source.strides, source.offset)
    vars(cython.cast(object, t)).update(vars(cython.cast(object, source)))
    return t


# What a tensor that has not been filled in is.
HOST_KEYS = cython.declare(uint64_t, keys_for(CPU_DEVICE))
NOWHERE = cython.declare(Storage, allocate(0, CPU_DEVICE))
NOWHERE.can_resize = False
FLOAT32 = cython.declare(DType, dtype_of(6))


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_allocated(t: Tensor) -> cython.int:
    """Refuses a tensor whose storage has become too small for it."""
    if any_shrunk and t.storage.n_bytes < cython.cast(
        cython.size_t, span(t.ndim_, t.sizes, t.strides, t.offset, t.dtype_.itemsize)
    ):
        raise RuntimeError(
            "The tensor has a non-zero number of elements, but its data is not allocated "
            f"yet: {t.dtype_.name}{list(t.shape)} with strides {list(t.stride())} from "
            f"element {t.offset} is out of bounds for storage of size "
            f"{t.storage.n_bytes}, which has been made smaller"
        )
    return 0


@cython.cfunc
def size_of(tensor: Tensor) -> object:
    return new_size(tensor.sizes, tensor.ndim_)


@cython.freelist(256)
@cython.trashcan(True)
@cython.cclass
class Tensor:
    """A multi-dimensional array of one data type, strided over a storage.

    Made by ``rushlight.tensor``, ``zeros``, ``rand`` and the other creation functions.

    >>> import rushlight as rl
    >>> t = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> t.t().stride()
    (1, 2)
    """

    def __cinit__(self):
        # until it is filled in: a vector of no elements, fit for every method
        self.sizes = self.inline_sizes
        self.strides = self.inline_strides
        self.sizes[0] = 0
        self.strides[0] = 1
        self.ndim_ = 1
        self.row_major = True
        self.storage = NOWHERE
        self.dtype_ = FLOAT32
        self.keys = HOST_KEYS

    def __init__(self, *args, **kwargs):
        if self.storage is NOWHERE:
            cython.cast(object, _SLOTS[slots.SLOT_LEGACY])(self, *args, **kwargs)

    def __dealloc__(self):
        if self.sizes != self.inline_sizes:
            free(self.sizes)

    @cython.cfunc
    def reserve(self, ndim: cython.int):
        """Make room for ``ndim`` dimensions."""
        room: cython.pointer(int64_t) = self.inline_sizes
        if ndim > MAX_DIMS:
            raise RuntimeError(
                f"tensors have at most {MAX_DIMS} dimensions, not {ndim}"
            )
        if ndim > INLINE_DIMS:
            room = cython.cast(
                cython.pointer(int64_t), malloc(2 * ndim * cython.sizeof(int64_t))
            )
            if room == cython.NULL:
                raise MemoryError("no memory for a tensor's sizes")
        if self.sizes != self.inline_sizes:
            free(self.sizes)
        self.sizes = room
        self.strides = self.inline_strides
        if ndim > INLINE_DIMS:
            self.strides = room + ndim
        self.ndim_ = ndim

    @cython.cfunc
    @cython.exceptval(check=False)
    def pointer(self) -> cython.p_char:
        return self.storage.data + self.offset * self.dtype_.itemsize

    @cython.cfunc
    @cython.exceptval(check=False)
    def version(self) -> int64_t:
        if self.counter is not None:
            return self.counter.value
        if self.storage.counter is not None:
            return self.storage.counter.value
        return self.storage.version

    @cython.cfunc
    @cython.exceptval(check=False)
    def bump_version(self) -> cython.void:
        if self.counter is not None:
            self.counter.value += 1
        elif self.storage.counter is not None:
            self.storage.counter.value += 1
        else:
            self.storage.version += 1

    @cython.cfunc
    def own_counter(self) -> VersionCounter:
        """The count that the tensor keeps, with its relatives, on other storages."""
        if self.counter is None:
            self.counter = shared_counter(self.storage)
        return self.counter

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def set_geometry(
        self,
        ndim: cython.int,
        sizes: cython.pointer(cython.const[int64_t]),
        strides: cython.pointer(cython.const[int64_t]),
        offset: int64_t,
    ) -> cython.int:
        """Take new sizes and strides; ``sizes`` must not be this tensor's own array."""
        count: int64_t = count_elements(ndim, sizes)
        i: cython.int
        self.reserve(ndim)
        for i in range(ndim):
            self.sizes[i] = sizes[i]
            self.strides[i] = strides[i]
        self.numel_ = count
        self.offset = offset
        self.row_major = is_contiguous(ndim, sizes, strides)
        return 0

    # -- geometry --------------------------------------------------------------

    @property
    def shape(self):
        """The sizes, as ``rushlight.Size``."""
        return size_of(self)

    @property
    def ndim(self):
        """The number of dimensions."""
        return self.ndim_

    def dim(self):
        """The number of dimensions."""
        return self.ndim_

    def size(self, dim=None):
        """All sizes, or the size of one dimension."""
        if dim is None:
            return size_of(self)
        return self.sizes[wrap_dim(dim, self.ndim_, False)]

    def stride(self, dim=None):
        """All strides in elements, or the stride of one dimension."""
        if dim is None:
            return tuple([self.strides[i] for i in range(self.ndim_)])
        return self.strides[wrap_dim(dim, self.ndim_, False)]

    def numel(self):
        """The number of elements."""
        return self.numel_

    def storage_offset(self):
        """Elements between the storage's start and the first element."""
        return self.offset

    def is_contiguous(self, memory_format=contiguous_format):
        """Whether elements lie row by row (or in ``memory_format``)."""
        if memory_format is contiguous_format or memory_format is preserve_format:
            return self.row_major
        if memory_format is channels_last:
            return self.ndim_ == 4 and is_channels_last(4, self.sizes, self.strides)
        if memory_format is channels_last_3d:
            return self.ndim_ == 5 and is_channels_last(5, self.sizes, self.strides)
        raise RuntimeError(
            f"is_contiguous does not support memory format {memory_format}"
        )

    def element_size(self):
        """Bytes of one element."""
        return self.dtype_.itemsize

    @property
    def itemsize(self):
        """Bytes of one element."""
        return self.dtype_.itemsize

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return self.numel_ * self.dtype_.itemsize

    @property
    def dtype(self):
        """The data type."""
        return self.dtype_

    @property
    def device(self):
        """Where the storage lives."""
        return self.storage.device

    @property
    def layout(self):
        """How elements are laid out; strided where they are in memory."""
        if self.keys & STANDS_APART:
            return cython.cast(object, self.storage).layout
        return strided

    @property
    def is_cuda(self):
        """Whether the storage lives on an NVIDIA GPU."""
        return self.storage.device.kind == 1

    @property
    def is_cpu(self):
        """Whether the storage lives in host memory."""
        return self.storage.device.kind == 0

    @property
    def is_meta(self):
        """Whether there are sizes only, no elements."""
        return self.storage.device.kind == 2

    @property
    def is_sparse(self):
        """Whether the elements that are not zero are held with coordinates."""
        return (self.keys & STANDS_APART) != 0 and self.layout is sparse_coo

    @property
    def is_sparse_csr(self):
        """Whether the elements that are not zero are held row by row."""
        return (self.keys & STANDS_APART) != 0 and self.layout is sparse_csr

    @property
    def is_quantized(self):
        """Whether the elements are integers that stand for other numbers."""
        return (self.keys & STANDS_APART) != 0 and 12 <= self.dtype_.code <= 14

    def get_device(self):
        """The device's index; -1 on the CPU."""
        index = self.storage.device.index
        return -1 if index is None else index

    def is_floating_point(self):
        """Whether the data type is a real floating-point type."""
        return self.dtype_.category == 2

    def is_complex(self):
        """Whether the data type is complex."""
        return self.dtype_.category == 3

    def is_signed(self):
        """Whether the data type has negative values."""
        return self.dtype_.is_signed

    def is_inference(self):
        """Whether the tensor was made in inference mode."""
        return self.inference

    def data_ptr(self):
        """The address of the first element; 0 where there is none."""
        if state().included & 128:  # DispatchKey.Recording: what waits has no memory
            tell_readers()
        there: cython.bint = self.storage.data != cython.NULL and self.numel_ != 0
        return cython.cast(uintptr_t, self.pointer()) if there else 0

    def untyped_storage(self):
        """The bytes underneath."""
        return self.storage

    def is_set_to(self, tensor: Tensor):
        """Whether both are the same window on the same storage."""
        return (
            self.storage is tensor.storage
            and self.offset == tensor.offset
            and self.shape == tensor.shape
            and self.stride() == tensor.stride()
        )

    # -- autograd --------------------------------------------------------------

    @property
    def requires_grad(self):
        """Whether gradients flow to this tensor."""
        return self.wants_grad or (self.base is not None and self.base.wants_grad)

    @requires_grad.setter
    def requires_grad(self, value):
        if type(value) is not bool:
            raise RuntimeError(
                f"requires_grad must be a bool, not {type(value).__name__}"
            )
        set_requires_grad(self, value)

    def requires_grad_(self, requires_grad=True):
        """Switch recording for this tensor on or off, in place."""
        set_requires_grad(self, requires_grad)
        return self

    @property
    def is_leaf(self):
        """Whether the user made the tensor, not a recorded operator."""
        return self.grad_fn is None

    @property
    def grad_fn(self):
        """The graph node that made this tensor, or None for a leaf."""
        if self.base is None or not self.base.wants_grad:
            return self.grad_fn_
        return unary(slots.SLOT_GRAD_FN, self)

    @property
    def grad(self):
        """The gradient accumulated by ``backward``, or None."""
        if self.grad_ is None and self.grad_fn_ is not None and self.hooks is None:
            warnings.warn(NO_GRAD_OF_INNER_TENSORS, UserWarning, stacklevel=1)
        return self.grad_

    @grad.setter
    def grad(self, value):
        set_grad(self, value)

    @grad.deleter
    def grad(self):
        self.grad_ = None

    @property
    def output_nr(self):
        """Which of its node's outputs this tensor is."""
        return self.output_number

    @property
    def _version(self):
        if self.inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self.version()

    @property
    def _base(self):
        return self.base

    def _is_view(self):
        return self.base is not None

    @property
    def data(self):
        """The same elements without history, with a version counter of its own."""
        t: Tensor = same_window(self)
        t.counter = VersionCounter.__new__(VersionCounter)
        return t

    @data.setter
    def data(self, value: Tensor):
        set_data(self, value)

    # -- values ----------------------------------------------------------------

    def item(self):
        """The one element as a Python number.

        Raises:
            RuntimeError: there is not exactly one element.
        """
        if self.numel_ != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel_} elements cannot be converted to Scalar"
            )
        if self.keys & STAND_IN:
            return self._stand.read("item")
        if (self.keys | state().included) & DISPATCHED:
            return unary(slots.SLOT_ITEM, self)
        if self.storage.data == cython.NULL and self.storage.device.kind == 2:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        if self.keys & DEFERRED:
            return self.clone().item()
        if self.keys & STANDS_APART:
            return cython.cast(object, self.storage).item(self)
        check_allocated(self)
        if state().included:
            tell_of_reading(self)
        return read_element(self.dtype_.code, self.pointer())

    def tolist(self):
        """Nested lists of Python numbers; a number for no dimensions."""
        if self.keys & STAND_IN:
            return self._stand.read("tolist")
        if self.keys & (DISPATCHED | STANDS_APART):
            raise RuntimeError(
                ".tolist() is not supported for tensor subclasses, got "
                f"{type(self).__name__}"
            )
        if self.storage.device.kind == 2 and self.numel_:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if self.ndim_ == 0 or self.keys & DEFERRED:
            return self.clone().tolist() if self.ndim_ else self.item()
        check_allocated(self)
        tell_readers()
        return nested_list(self, 0, self.pointer())

    def __bool__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__bool__", (self,))
            if answer is not PASS_BY:
                return answer
        if self.numel_ == 1:
            return bool(self.item())
        if self.numel_ == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError(
            "Boolean value of Tensor with more than one value is ambiguous"
        )

    def __float__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__float__", (self,))
            if answer is not PASS_BY:
                return answer
        return float(self.item())

    def __int__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__int__", (self,))
            if answer is not PASS_BY:
                return answer
        return int(self.item())

    def __complex__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__complex__", (self,))
            if answer is not PASS_BY:
                return answer
        return complex(self.item())

    def __index__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__index__", (self,))
            if answer is not PASS_BY:
                return answer
        if self.dtype_.category > 1:
            raise TypeError(
                "only integer tensors of a single element can be converted to an index"
            )
        if self.numel_ != 1:
            raise TypeError(
                "only integer tensors of a single element can be converted to an index"
            )
        return int(self.item())

    def __len__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__len__", (self,))
            if answer is not PASS_BY:
                return answer
        if self.ndim_ == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.sizes[0]

    def __hash__(self):
        return cython.cast(uintptr_t, cython.cast(cython.p_void, self)) >> 4

    def __getitem__(self, index):
        if type(self) is not Tensor or state().modes:
            answer = taken("__getitem__", (self, index))
            if answer is not PASS_BY:
                return answer
        return binary_slot(slots.SLOT_GETITEM, self, index)

    def __setitem__(self, index, value):
        if type(self) is not Tensor or type(value) is not Tensor or state().modes:
            if taken("__setitem__", (self, index, value)) is not PASS_BY:
                return
        cython.cast(object, _SLOTS[slots.SLOT_SETITEM])(self, index, value)

    def __iter__(self):
        return unary(slots.SLOT_ITER, self)

    def __contains__(self, element):
        if type(self) is not Tensor or state().modes:
            answer = taken("__contains__", (self, element))
            if answer is not PASS_BY:
                return answer
        return binary_slot(slots.SLOT_CONTAINS, self, element)

    def __repr__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__repr__", (self,))
            if answer is not PASS_BY:
                return answer
        return unary(slots.SLOT_REPR, self)

    def __format__(self, spec):
        if type(self) is not Tensor or state().modes:
            answer = taken("__format__", (self, spec))
            if answer is not PASS_BY:
                return answer
        if self.ndim_ == 0 and type(self) is Tensor and not self.is_meta:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __reduce_ex__(self, protocol):
        if type(self) is not Tensor or state().modes:
            answer = taken("__reduce_ex__", (self, protocol))
            if answer is not PASS_BY:
                return answer
        return unary(slots.SLOT_REDUCE, self)

    def __deepcopy__(self, memo):
        if type(self) is not Tensor or state().modes:
            answer = taken("__deepcopy__", (self, memo))
            if answer is not PASS_BY:
                return answer
        return binary_slot(slots.SLOT_DEEPCOPY, self, memo)

    def __array__(self, dtype=None, copy=None):
        if type(self) is not Tensor or state().modes:
            answer = taken("__array__", (self, dtype))
            if answer is not PASS_BY:
                return answer
        return binary_slot(slots.SLOT_ARRAY, self, dtype)

    # -- Python's operators ------------------------------------------------------

    def __add__(self, other):
        return binary(slots.SLOT_ADD, self, other)

    def __radd__(self, other):
        return binary(slots.SLOT_RADD, self, other)

    def __sub__(self, other):
        return binary(slots.SLOT_SUB, self, other)

    def __rsub__(self, other):
        return binary(slots.SLOT_RSUB, self, other)

    def __mul__(self, other):
        return binary(slots.SLOT_MUL, self, other)

    def __rmul__(self, other):
        return binary(slots.SLOT_RMUL, self, other)

    def __truediv__(self, other):
        return binary(slots.SLOT_TRUEDIV, self, other)

    def __rtruediv__(self, other):
        return binary(slots.SLOT_RTRUEDIV, self, other)

    def __floordiv__(self, other):
        return binary(slots.SLOT_FLOORDIV, self, other)

    def __rfloordiv__(self, other):
        return binary(slots.SLOT_RFLOORDIV, self, other)

    def __mod__(self, other):
        return binary(slots.SLOT_MOD, self, other)

    def __rmod__(self, other):
        return binary(slots.SLOT_RMOD, self, other)

    def __matmul__(self, other):
        return binary(slots.SLOT_MATMUL, self, other)

    def __rmatmul__(self, other):
        return binary(slots.SLOT_RMATMUL, self, other)

    def __and__(self, other):
        return binary(slots.SLOT_AND, self, other)

    def __rand__(self, other):
        return binary(slots.SLOT_RAND, self, other)

    def __or__(self, other):
        return binary(slots.SLOT_OR, self, other)

    def __ror__(self, other):
        return binary(slots.SLOT_ROR, self, other)

    def __xor__(self, other):
        return binary(slots.SLOT_XOR, self, other)

    def __rxor__(self, other):
        return binary(slots.SLOT_RXOR, self, other)

    def __lshift__(self, other):
        return binary(slots.SLOT_LSHIFT, self, other)

    def __rlshift__(self, other):
        return binary(slots.SLOT_RLSHIFT, self, other)

    def __rshift__(self, other):
        return binary(slots.SLOT_RSHIFT, self, other)

    def __rrshift__(self, other):
        return binary(slots.SLOT_RRSHIFT, self, other)

    def __lt__(self, other):
        return binary(slots.SLOT_LT, self, other)

    def __le__(self, other):
        return binary(slots.SLOT_LE, self, other)

    def __eq__(self, other):
        return binary(slots.SLOT_EQ, self, other)

    def __ne__(self, other):
        return binary(slots.SLOT_NE, self, other)

    def __gt__(self, other):
        return binary(slots.SLOT_GT, self, other)

    def __ge__(self, other):
        return binary(slots.SLOT_GE, self, other)

    def __iadd__(self, other):
        return binary(slots.SLOT_IADD, self, other)

    def __isub__(self, other):
        return binary(slots.SLOT_ISUB, self, other)

    def __imul__(self, other):
        return binary(slots.SLOT_IMUL, self, other)

    def __itruediv__(self, other):
        return binary(slots.SLOT_ITRUEDIV, self, other)

    def __ifloordiv__(self, other):
        return binary(slots.SLOT_IFLOORDIV, self, other)

    def __imod__(self, other):
        return binary(slots.SLOT_IMOD, self, other)

    def __iand__(self, other):
        return binary(slots.SLOT_IAND, self, other)

    def __ior__(self, other):
        return binary(slots.SLOT_IOR, self, other)

    def __ixor__(self, other):
        return binary(slots.SLOT_IXOR, self, other)

    def __ilshift__(self, other):
        return binary(slots.SLOT_ILSHIFT, self, other)

    def __irshift__(self, other):
        return binary(slots.SLOT_IRSHIFT, self, other)

    def __pow__(self, other, modulo):
        return binary(slots.SLOT_POW, self, other)

    def __rpow__(self, other, modulo):
        return binary(slots.SLOT_RPOW, self, other)

    def __ipow__(self, other):
        return binary(slots.SLOT_IPOW, self, other)

    def __neg__(self):
        return unary(slots.SLOT_NEG, self)

    def __invert__(self):
        return unary(slots.SLOT_INVERT, self)

    def __abs__(self):
        return unary(slots.SLOT_ABS, self)

    def __pos__(self):
        return unary(slots.SLOT_POS, self)


@cython.cfunc
def binary_slot(slot: cython.int, a: object, b: object) -> object:
    args: cython.pointer(PyObject)[3]
    args[0] = cython.NULL
    args[1] = cython.cast(cython.pointer(PyObject), a)
    args[2] = cython.cast(cython.pointer(PyObject), b)
    return PyObject_Vectorcall(_SLOTS[slot], cython.address(args[1]), 2, cython.NULL)


@cython.cfunc
def nested_list(t: Tensor, dim: cython.int, data: cython.p_char) -> list:
    step: int64_t = t.strides[dim] * t.dtype_.itemsize
    code: cython.int = t.dtype_.code
    i: int64_t
    if dim == t.ndim_ - 1:
        return [read_element(code, data + i * step) for i in range(t.sizes[dim])]
    return [nested_list(t, dim + 1, data + i * step) for i in range(t.sizes[dim])]


@cython.cfunc
def set_requires_grad(t: Tensor, value: cython.bint):
    if t.wants_grad == value:
        return
    if t.grad_fn_ is not None:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to "
            "use a computed variable in a subgraph that doesn't require differentiation "
            "use var_no_grad = var.detach()."
        )
    if value and t.inference and not state().inference_mode:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is "
            "not allowed."
        )
    if value and t.dtype_.category not in (2, 3):
        raise RuntimeError(
            "only Tensors of floating point dtype can require gradients, "
            f"not {t.dtype_!r}"
        )
    t.wants_grad = value


@cython.cfunc
def set_grad(t: Tensor, value: object):
    if value is None:
        t.grad_ = None
        return
    if not isinstance(value, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(value).__name__}"
        )
    g: Tensor = value
    if g is t:
        raise RuntimeError("can't assign Variable as its own grad")
    kept = t.dtype_
    if g.dtype_ is not kept:
        kept = vars(cython.cast(object, t)).get("_grad_dtype", kept)
    if g.dtype_ is not kept and kept is not None:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{g.dtype_.name}' to a tensor "
            f"with dtype '{t.dtype_.name}'. The gradient must match the tensor's dtype."
        )
    if g.shape != t.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(g.shape)}' to a tensor of "
            f"size '{list(t.shape)}'. Please ensure that the gradient and the tensor are "
            "the same size"
        )
    if g.storage.device != t.storage.device:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{g.storage.device.type}' "
            f"to a tensor with device type '{t.storage.device.type}'. Please ensure that "
            "the gradient and the tensor are on the same device"
        )
    t.grad_ = g


@cython.cfunc
def set_data(t: Tensor, value: Tensor):
    if value.dtype_.category < 2 and t.wants_grad:
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    t.own_counter()
    t.storage = value.storage
    t.dtype_ = value.dtype_
    t.keys = value.keys
    if value is not t:
        t.set_geometry(value.ndim_, value.sizes, value.strides, value.offset)


def install(name, value, kind=Tensor):
    """Add a method to the compiled ``Tensor`` type, or to another one."""
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(cython.pointer(PyObject), kind)
    )
    if kind is Tensor:
        # programs may assign, too; of other types CPython's short cuts stay in place
        body.tp_flags &= ~(cython.cast(cython.ulong, 1) << 8)
    cython.cast(dict, cython.cast(object, body.tp_dict))[name] = value
    PyType_Modified(body)
