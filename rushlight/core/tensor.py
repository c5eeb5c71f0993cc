"""The tensor: a window (sizes, strides, offset) on a storage, and what autograd keeps."""

from __future__ import annotations

import warnings

import cython
import cython.cimports.rushlight.core.slots as slots
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.rushlight.core._python import (
    Py_XDECREF,
    PyObject_GC_Track,
    PyObject_GC_UnTrack,
    PyType_Modified,
    PyTypeObject,
    destructor,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.descriptors import Py_TYPE
from cython.cimports.rushlight.core.device import CPU_DEVICE, KIND_CUDA, Device
from cython.cimports.rushlight.core.dtype import (
    CODE_FLOAT32,
    INTEGER,
    DType,
    dtype_of,
)
from cython.cimports.rushlight.core.elements import read_element
from cython.cimports.rushlight.core.geometry import (
    count_elements,
    is_contiguous,
    multiply,
    refuse_window,
    row_major,
    span,
    wrap_dim,
)
from cython.cimports.rushlight.core.guard import guarding
from cython.cimports.rushlight.core.keys import (
    BELOW_AUTOGRAD,
    DEFERRED,
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_PLANNING,
    KEY_PYTHON,
    KEY_QUANTIZED,
    RECORDING,
)
from cython.cimports.rushlight.core.sizes import new_size
from cython.cimports.rushlight.core.slots import (
    binary_slot,
    bound,
    taken,
    unary,
)
from cython.cimports.rushlight.core.state import ThreadState, notify_readers, state
from cython.cimports.rushlight.core.storage import (
    Storage,
    VersionCounter,
    allocate,
    emptied,
    fetch,
    fill_again,
    shared_counter,
)

from rushlight.core import naming
from rushlight.core.elements import converted
from rushlight.core.layout import sparse_coo, sparse_csr, strided
from rushlight.core.slots import PASS_BY
from rushlight.core.state import notify_allocation, notify_read


@cython.cfunc
def binary(slot: cython.int, a: object, b: object) -> object:
    """A slot's answer; where it raises `TypeError`, the other operand is asked."""
    try:
        return binary_slot(slot, a, b)
    except TypeError:
        if isinstance(b, Tensor) or not hasattr(type(b), "__array__"):
            return NotImplemented
        if slot == slots.SLOT_RTRUEDIV:
            return a.reciprocal() * b
        return a._equal_to_array(b) if slot == slots.SLOT_EQ else NotImplemented


@cython.cfunc
def binary_seen(name: str, slot: cython.int, a: object, b: object) -> object:
    """`binary`, for operators that handlers see by their own name, not a method's."""
    plain: cython.bint = type(b) is Tensor or type(b) is float or type(b) is int
    if type(a) is not Tensor or not plain or state().modes:
        try:
            answer = taken(name, (a, b))
        except TypeError:
            return NotImplemented
        if answer is not PASS_BY:
            return answer
    return binary(slot, a, b)


@cython.cfunc
@cython.exceptval(check=False)
def foreign(index: object) -> cython.bint:
    """Whether an index, or one of its items, is of a type that may take the call."""
    if isinstance(index, (int, Tensor, slice)) or index is None or index is Ellipsis:
        return False
    if type(index) is not tuple:
        return not isinstance(index, list)
    for item in cython.cast(tuple, index):
        if type(item) is not int and type(item) is not slice and foreign(item):
            return True
    return False


@cython.cfunc
def ask(name: str, args: tuple, slot: cython.int) -> object:
    """What the tensor's type, or a mode, makes of a method; else what the slot does."""
    self: object = args[0]
    if type(self) is not Tensor or state().modes:
        answer = taken(name, args)
        if answer is not PASS_BY:
            return answer
    if len(args) == 1 or slot == slots.SLOT_REDUCE:
        return unary(slot, self)
    return binary_slot(slot, self, args[1])


@cython.cfunc
def as_number(self: Tensor, name: str, kind: object) -> object:
    """The one element, as a number of one of Python's types."""
    if type(self) is not Tensor or state().modes:
        answer = taken(name, (self,))
        if answer is not PASS_BY:
            return answer
    return converted(self, kind)


ONE = cython.declare(uint64_t, 1)


@cython.cfunc
@cython.exceptval(check=False)
def keys_for(device: Device) -> uint64_t:
    return (ONE << device.kind) | (0 if state().inference_mode else BELOW_AUTOGRAD)


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
    i: cython.int
    n_bytes: int64_t = span(ndim, sizes, strides, 0, dtype.itemsize)
    t: Tensor = filled(n_bytes, device)
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
    st: cython.pointer(ThreadState) = state()
    t.inference = st.inference_mode
    t.keys = (ONE << device.kind) | (0 if t.inference else BELOW_AUTOGRAD)
    if st.included & PLANNED:
        notify_allocation(t)
    return t


# A thread with this bit writes down what a function does; see `dispatch.trace`.
PLANNED = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PLANNING)
# A tensor with this bit has sizes and strides, but no memory of its own.
OWN_LAYOUT = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_ABSENT)
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
    t: Tensor = blank()
    look_at(t, source)
    t.set_geometry(ndim, sizes, strides, offset)
    return t


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def look_at(t: Tensor, source: Tensor) -> cython.int:
    """Makes a tensor one of another's relatives: all but sizes and strides."""
    t.storage = source.storage
    t.dtype_ = source.dtype_
    t.keys = source.keys
    t.inference = source.inference
    if source.extra is not None and source.extra.counter is not None:
        t.own_extra().counter = source.extra.counter
    return 0


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
FLOAT32 = cython.declare(DType, dtype_of(CODE_FLOAT32))

# Bodies of tensors that were let go, for the next ones: with a storage to fill, or without.
ROOM = cython.declare(cython.int, 0 if guarding else 256)
_FILLABLE = cython.declare(p_object[256])
_BARE = cython.declare(p_object[256])
_n_fillable = cython.declare(cython.int, 0)
_n_bare = cython.declare(cython.int, 0)
# Where in a tensor its attributes and its weak references are; NULL where it has none.
_ATTRIBUTES = cython.declare(cython.Py_ssize_t, 0)
_WEAK = cython.declare(cython.Py_ssize_t, 0)
_base_dealloc = cython.declare(destructor, cython.NULL)  # what Cython made of the type


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def pointer_in(body: p_object, place: cython.Py_ssize_t) -> pp_object:
    """The address of a pointer within an object."""
    return cython.cast(pp_object, cython.cast(cython.p_char, body) + place)


@cython.cfunc
@cython.exceptval(check=False)
def let_go(body: p_object) -> cython.void:
    """Ends a tensor that nobody holds; a plain one's body is kept for the next."""
    if Py_TYPE(body) == cython.cast(p_object, Tensor) and not (
        pointer_in(body, _ATTRIBUTES)[0] != cython.NULL
        or pointer_in(body, _WEAK)[0] != cython.NULL
        or cython.cast(Tensor, body).sizes != cython.cast(Tensor, body).inline_sizes
    ):
        keep_body(body)
    else:
        _base_dealloc(body)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def keep_body(body: p_object) -> cython.void:
    global _n_fillable, _n_bare
    PyObject_GC_UnTrack(body)
    if cython.cast(Tensor, body).grad_fn_ is not None:
        cython.cast(Tensor, body).grad_fn_ = None
    if cython.cast(Tensor, body).base is not None:
        cython.cast(Tensor, body).base = None
    if cython.cast(Tensor, body).extra is not None:
        cython.cast(Tensor, body).extra = None
    cython.cast(Tensor, body).offset = 0
    cython.cast(Tensor, body).wants_grad = False
    cython.cast(Tensor, body).wrapped_number = False
    cython.cast(Tensor, body).output_number = 0
    cython.cast(Tensor, body).view_creation = VIEW_DEFAULT
    cython.cast(Tensor, body).view_version = 0
    if emptied(cython.cast(p_object, cython.cast(Tensor, body).storage)):
        if _n_fillable < ROOM:
            _FILLABLE[_n_fillable] = body
            _n_fillable += 1
            return
    else:
        cython.cast(Tensor, body).storage = NOWHERE
        if _n_bare < ROOM:
            _BARE[_n_bare] = body
            _n_bare += 1
            return
    PyObject_GC_Track(body)  # ending the last one's belongings has filled the shelf
    _base_dealloc(body)


@cython.cfunc
@cython.inline
def bare(body: p_object) -> Tensor:
    """A body that was kept, in use again."""
    PyObject_GC_Track(body)
    return cython.cast(Tensor, body)


@cython.cfunc
def blank() -> Tensor:
    global _n_bare
    t: Tensor
    attributes: p_object
    place: pp_object
    if _n_bare:
        _n_bare -= 1
        return bare(_BARE[_n_bare])
    t = Tensor.__new__(Tensor)
    place = pointer_in(cython.cast(p_object, t), _ATTRIBUTES)
    attributes = place[0]
    place[0] = cython.NULL
    Py_XDECREF(attributes)
    return t


@cython.cfunc
@cython.inline
def filled(n_bytes: int64_t, device: Device) -> Tensor:
    """The same, with so many bytes of memory."""
    global _n_fillable
    t: Tensor
    if _n_fillable and n_bytes and device is CPU_DEVICE:
        _n_fillable -= 1
        t = bare(_FILLABLE[_n_fillable])
        fill_again(t.storage, n_bytes)
        return t
    t = blank()
    t.storage = allocate(n_bytes, device)
    return t


@cython.cfunc
@cython.exceptval(check=False)
def exceeds_storage(t: Tensor) -> cython.bint:
    """Whether some element lies outside of a storage that was resized since."""
    last: int64_t = span(t.ndim_, t.sizes, t.strides, t.offset, t.dtype_.itemsize)
    has_memory: cython.bint = t.storage.device.has_memory and not t.keys & OWN_LAYOUT
    return has_memory and t.storage.n_bytes < cython.cast(cython.size_t, last)


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_allocated(t: Tensor) -> cython.int:
    """Refuses a tensor of which some element lies outside of its storage."""
    n_bytes: cython.size_t = t.storage.n_bytes
    if exceeds_storage(t) and n_bytes == 0:
        raise RuntimeError(naming.NOT_ALLOCATED)
    if exceeds_storage(t):
        refuse_window(t.ndim_, t.sizes, t.strides, t.offset, t.dtype_.itemsize, n_bytes)
    return 0


@cython.cfunc
def size_of(tensor: Tensor) -> object:
    return new_size(tensor.sizes, tensor.ndim_)


@cython.trashcan(True)
@cython.cclass
class Extra:
    """What autograd keeps of a few tensors only."""


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
        if self.storage is NOWHERE:  # `Tensor()`: no elements, of the default type
            source: Tensor = bound(slots.SLOT_LEGACY)(type(self))
            look_at(self, source)

    def __dealloc__(self):
        if self.sizes != self.inline_sizes:
            free(self.sizes)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, ndim: cython.int) -> cython.int:
        """Make room for ``ndim`` dimensions."""
        room: cython.pointer(int64_t) = self.inline_sizes
        if ndim > MAX_DIMS:
            most = f"tensors have at most {MAX_DIMS} dimensions"
            raise RuntimeError(f"{most}, not {ndim}")
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
        return 0

    @cython.cfunc
    def own_extra(self) -> Extra:
        """Where the tensor keeps what few tensors have."""
        if self.extra is None:
            self.extra = Extra.__new__(Extra)
        return self.extra

    @cython.cfunc
    @cython.exceptval(check=False)
    def version(self) -> int64_t:
        if self.extra is not None and self.extra.counter is not None:
            return self.extra.counter.value
        if self.storage.counter is not None:
            return self.storage.counter.value
        return self.storage.version

    @cython.cfunc
    @cython.exceptval(check=False)
    def bump_version(self) -> cython.void:
        self.storage.writes += 1
        if self.extra is not None and self.extra.counter is not None:
            self.extra.counter.value += 1
        elif self.storage.counter is not None:
            self.storage.counter.value += 1
        else:
            self.storage.version += 1

    @cython.cfunc
    def own_counter(self) -> VersionCounter:
        """The count that the tensor keeps, with its relatives, on other storages."""
        extra: Extra = self.own_extra()
        extra.counter = extra.counter or shared_counter(self.storage)
        return extra.counter

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
        return self.sizes[wrap_dim(naming.checked("size", dim), self.ndim_, False)]

    def numel(self):
        """The number of elements."""
        return self.numel_

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
        if self.keys & OWN_LAYOUT:
            return cython.cast(object, self.storage).layout
        return strided

    @property
    def is_cuda(self):
        """Whether the storage lives on an NVIDIA GPU."""
        return self.storage.device.kind == KIND_CUDA

    @property
    def is_cpu(self):
        """Whether the storage lives in host memory."""
        return self.storage.device.on_host

    @property
    def is_meta(self):
        """Whether there are sizes only, no elements."""
        return not self.storage.device.has_memory

    @property
    def is_sparse(self):
        """Whether the elements that are not zero are held with coordinates."""
        return (self.keys & OWN_LAYOUT) != 0 and self.layout is sparse_coo

    @property
    def is_sparse_csr(self):
        """Whether the elements that are not zero are held row by row."""
        return (self.keys & OWN_LAYOUT) != 0 and self.layout is sparse_csr

    @property
    def is_quantized(self):
        """Whether the elements are integers that stand for other numbers."""
        return (self.keys >> KEY_QUANTIZED & 1) != 0

    def data_ptr(self):
        """The address of the first element; 0 where there is none."""
        if self.keys & STAND_IN:
            self._stand.refuse_address()
        if state().included & RECORDING:  # what waits has no memory
            notify_readers()
        fetch(self.storage)
        self.storage.writes += 1  # whoever has the address may
        nonempty: cython.bint = self.storage.data != cython.NULL and self.numel_ != 0
        start: uintptr_t = cython.cast(uintptr_t, self.storage.data)
        return start + self.offset * self.dtype_.itemsize if nonempty else 0

    def untyped_storage(self):
        """The bytes underneath."""
        if self.keys & STAND_IN:
            self._stand.refuse_storage()
        return self.storage

    # -- autograd --------------------------------------------------------------

    @property
    def requires_grad(self):
        """Whether gradients flow to this tensor."""
        return self.wants_grad or (self.base is not None and self.base.wants_grad)

    @requires_grad.setter
    def requires_grad(self, value):
        if type(value) is not bool:
            kind = type(value).__name__
            raise RuntimeError(f"requires_grad must be a bool, not {kind}")
        if self.wants_grad != value:
            binary_slot(slots.SLOT_REQUIRE_GRAD, self, value)

    def requires_grad_(self, requires_grad=True):
        """Switch recording for this tensor on or off, in place."""
        naming.checked("requires_grad_", requires_grad, "requires_grad", bool)
        if (state().included >> KEY_BATCHED) & 1:
            raise naming.refused_in_transforms("requires_grad_")
        if self.wants_grad != cython.cast(cython.bint, requires_grad):
            binary_slot(slots.SLOT_REQUIRE_GRAD, self, requires_grad)
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
        grad = grad_of(self)
        if grad is None and self.grad_fn_ is not None and hooks_of(self) is None:
            warnings.warn(naming.NO_GRAD_OF_INNER_TENSORS, UserWarning, stacklevel=1)
        return grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            binary_slot(slots.SLOT_SET_GRAD, self, value)
        elif self.extra is not None:
            self.extra.grad = None

    @grad.deleter
    def grad(self):
        self.grad = None

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

    @property
    def data(self):
        """The same elements without history, with a version counter of its own."""
        t: Tensor = same_window(self)
        if (self.keys | state().included) & (DISPATCHED | STAND_IN):
            t = unary(slots.SLOT_DATA, t)  # listeners see an operator
        t.own_extra().counter = VersionCounter.__new__(VersionCounter)
        return t

    @data.setter
    def data(self, value):
        binary_slot(slots.SLOT_SET_DATA, self, value)

    # -- values ----------------------------------------------------------------

    def item(self):
        """The one element as a Python number.

        Raises:
            RuntimeError: there is not exactly one element.
        """
        if self.numel_ != 1:
            many = f"a Tensor with {self.numel_} elements"
            raise RuntimeError(f"{many} cannot be converted to Scalar")
        if self.keys & STAND_IN:
            return self._stand.read("item")
        if (self.keys | state().included) & DISPATCHED:
            return unary(slots.SLOT_ITEM, self)
        if self.storage.data == cython.NULL and not self.storage.device.has_memory:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        if self.keys & DEFERRED:
            return self.clone().item()
        if self.keys & OWN_LAYOUT:
            return cython.cast(object, self.storage).item(self)
        if not self.storage.device.on_host:
            return cython.cast(object, self).cpu().item()
        if state().included:
            notify_read(self)
        fetch(self.storage)
        return read_element(self.dtype_.code, self.pointer())

    def __bool__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__bool__", (self,))
            if answer is not PASS_BY:
                if isinstance(answer, bool):
                    return answer
                kind = type(answer).__name__
                raise TypeError(f"__bool__ should return bool, returned {kind}")
        if self.numel_ == 1:
            return bool(
                self._stand.read("bool") if self.keys & STAND_IN else self.item()
            )
        many = "more than one value" if self.numel_ else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")

    def __float__(self):
        return as_number(self, "__float__", float)

    def __int__(self):
        return as_number(self, "__int__", int)

    def __complex__(self):
        return as_number(self, "__complex__", complex)

    def __index__(self):
        if type(self) is not Tensor or state().modes:
            answer = taken("__index__", (self,))
            if answer is not PASS_BY:
                return answer
        if self.dtype_.category > INTEGER or self.numel_ != 1:
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
        return cython.cast(uintptr_t, cython.cast(cython.p_void, self))

    def __getitem__(self, index):
        if type(self) is not Tensor or state().modes or foreign(index):
            answer = taken("__getitem__", (self, index))
            if answer is not PASS_BY:
                return answer
        return binary_slot(slots.SLOT_GETITEM, self, index)

    def __setitem__(self, index, value):
        if type(self) is not Tensor or type(value) is not Tensor or state().modes:
            if taken("__setitem__", (self, index, value)) is not PASS_BY:
                return
        bound(slots.SLOT_SETITEM)(self, index, value)

    def __delitem__(self, index):
        raise TypeError("Tensor does not support deleting items")

    def __iter__(self):
        return unary(slots.SLOT_ITER, self)

    def __contains__(self, element):
        return bool(ask("__contains__", (self, element), slots.SLOT_CONTAINS))

    def __repr__(self):
        return ask("__repr__", (self,), slots.SLOT_REPR)

    def __format__(self, spec):
        if type(self) is not Tensor or state().modes:
            answer = taken("__format__", (self, spec))
            if answer is not PASS_BY:
                return answer
        if self.ndim_ == 0 and type(self) is Tensor and not self.is_meta:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __reduce_ex__(self, protocol):
        return ask("__reduce_ex__", (self, protocol), slots.SLOT_REDUCE)

    def __deepcopy__(self, memo):
        return ask("__deepcopy__", (self, memo), slots.SLOT_DEEPCOPY)

    def __array__(self, dtype=None, copy=None):
        return ask("__array__", (self, dtype), slots.SLOT_ARRAY)

    # -- Python's operators ------------------------------------------------------

    def __add__(self, other):
        return binary(slots.SLOT_ADD, self, other)

    def __radd__(self, other):
        return binary(slots.SLOT_RADD, self, other)

    def __sub__(self, other):
        return binary(slots.SLOT_SUB, self, other)

    def __rsub__(self, other):
        return binary_seen("__rsub__", slots.SLOT_RSUB, self, other)

    def __mul__(self, other):
        return binary(slots.SLOT_MUL, self, other)

    def __rmul__(self, other):
        return binary(slots.SLOT_RMUL, self, other)

    def __truediv__(self, other):
        return binary(slots.SLOT_TRUEDIV, self, other)

    def __rtruediv__(self, other):
        return binary_seen("__rdiv__", slots.SLOT_RTRUEDIV, self, other)

    def __floordiv__(self, other):
        return binary_seen("__floordiv__", slots.SLOT_FLOORDIV, self, other)

    def __rfloordiv__(self, other):
        return binary_seen("__rfloordiv__", slots.SLOT_RFLOORDIV, self, other)

    def __mod__(self, other):
        return binary(slots.SLOT_MOD, self, other)

    def __rmod__(self, other):
        return binary_seen("__rmod__", slots.SLOT_RMOD, self, other)

    def __matmul__(self, other):
        return binary(slots.SLOT_MATMUL, self, other)

    def __rmatmul__(self, other):
        return binary_seen("__rmatmul__", slots.SLOT_RMATMUL, self, other)

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
        return binary_seen("__rlshift__", slots.SLOT_RLSHIFT, self, other)

    def __rshift__(self, other):
        return binary(slots.SLOT_RSHIFT, self, other)

    def __rrshift__(self, other):
        return binary_seen("__rrshift__", slots.SLOT_RRSHIFT, self, other)

    def __lt__(self, other):
        return binary(slots.SLOT_LT, self, other)

    def __le__(self, other):
        return binary(slots.SLOT_LE, self, other)

    def __eq__(self, other):
        if type(self) is Tensor and not state().modes:
            return binary(slots.SLOT_EQ, self, other)
        return binary_seen("__eq__", slots.SLOT_EQ, self, other)

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

    def __pow__(self, other, mod):
        return binary(slots.SLOT_POW, self, other) if mod is None else NotImplemented

    def __rpow__(self, other, mod):
        if mod is not None:
            return NotImplemented
        return binary_seen("__rpow__", slots.SLOT_RPOW, self, other)

    def __ipow__(self, other):
        return binary(slots.SLOT_IPOW, self, other)

    def __neg__(self):
        return unary(slots.SLOT_NEG, self)

    def __invert__(self):
        plain = type(self) is Tensor and not state().modes
        if plain and self.dtype_.category > INTEGER:
            raise TypeError(
                "~ (operator.invert) is only implemented on integer and Boolean-type "
                f"tensors\n  self: {self.dtype_.name}{list(self.shape)}"
            )
        return ask("__invert__", (self,), slots.SLOT_INVERT)

    def __abs__(self):
        return unary(slots.SLOT_ABS, self)

    def __pos__(self):
        return unary(slots.SLOT_POS, self)


def install(name, value, kind=Tensor):
    """Add a method to the compiled ``Tensor`` type, or to another one."""
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, kind)
    )
    if kind is Tensor:
        # programs may assign, too; of other types CPython's short cuts stay in place
        body.tp_flags &= ~(cython.cast(cython.ulong, 1) << 8)
    cython.cast(dict, cython.cast(object, body.tp_dict))[name] = value
    PyType_Modified(body)


def _add_in_place(self, other):
    return binary(slots.SLOT_IADD, self, other)


# Not the slot's own wrapper: a subclass would take it for a sequence's `+=`, too, whose
# NotImplemented CPython gives to the program.
_add_in_place.__name__ = _add_in_place.__qualname__ = "__iadd__"
install("__iadd__", _add_in_place)


def _keep_bodies():
    """Has the type's instances end by ``let_go``."""
    global _base_dealloc, _ATTRIBUTES, _WEAK
    kind: object = Tensor
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, kind)
    )
    _ATTRIBUTES, _WEAK = kind.__dictoffset__, kind.__weakrefoffset__
    _base_dealloc = body.tp_dealloc
    body.tp_dealloc = let_go


_keep_bodies()
