"""Names from before dtypes: ``FloatTensor`` and its kind, and storages with a type."""

import functools

from rushlight.core.device import Device
from rushlight.core.dtype import (
    TYPE_NAMES,
    DType,
    all_dtypes,
    get_default_dtype,
    set_default_dtype,
)
from rushlight.core.layout import Size, strided
from rushlight.core.state import is_grad_enabled
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn, warn_once
from rushlight.core.window import make_tensor
from rushlight.operators import call
from rushlight.operators.functions import tensor

# The part of the old names that stands for a dtype.
WORDS = {
    name: TYPE_NAMES[name]
    for name in """
    float32 float64 float16 bfloat16 uint8 int8 int16 int32 int64 bool
    complex32 complex64 complex128 uint16 uint32 uint64
    """.split()
}
TENSORS = [name for name in list(WORDS)[:10]]
STORAGES = [*TENSORS, "complex64", "complex128"]


def type_name(tensor):
    """What ``Tensor.type()`` answers: ``"torch.FloatTensor"``."""
    name = tensor.dtype.name
    word = TYPE_NAMES[name]
    device = tensor.device.type
    where = "" if device == "cpu" else f"{device}."
    where += "sparse." if tensor.is_sparse else ""
    if tensor.is_quantized:
        where += "quantized."
    return f"torch.{where}{word}Tensor"


def dtype_of_type(kind):
    """The dtype that ``Tensor.type(kind)`` converts to.

    Raises:
        ValueError: there is no such type.
    """
    if isinstance(kind, DType):
        return kind
    if isinstance(kind, tensortype):
        return kind.dtype
    if isinstance(kind, type) and issubclass(kind, Tensor):
        return all_dtypes()["float32"]
    word = kind.rpartition(".")[2] if isinstance(kind, str) else None
    for name, known in WORDS.items():
        if word == known + "Tensor":
            return all_dtypes()[name]
    raise ValueError(f"invalid type: {kind!r}")


def construct(dtype, args, tensor, device=None):
    """The old constructor: sizes, a sequence, a tensor or a storage of the type.

    Args:
        tensor: makes a tensor of a sequence.

    Raises:
        TypeError: the argument is a number that is no size, or of another type.
    """
    if not args:
        return call.empty((0,), dtype=dtype, device=device)
    first = args[0]
    if len(args) == 1 and isinstance(first, (TypedStorage, UntypedStorage)):
        return _over(first, dtype)
    if len(args) == 1 and isinstance(first, Tensor):
        if first.dtype is not dtype:
            raise TypeError(
                f"expected a tensor of type {dtype} (got {type_name(first)})\n"
                "  remedy: convert it with .to(...)"
            )
        return call.alias(first.detach())
    if len(args) == 1 and isinstance(first, Size):
        return call.empty(first, dtype=dtype, device=device)
    if all(isinstance(size, int) for size in args):
        return call.empty(args, dtype=dtype, device=device)
    if len(args) == 1 and hasattr(first, "__len__"):
        return tensor(first, dtype=dtype, device=device)
    raise TypeError(
        f"new(): data must be a sequence (got {type(first).__name__})\n"
        "  remedy: tensor(...) makes a tensor of a number"
    )


def _over(storage, dtype):
    """A vector over a storage's memory."""
    if isinstance(storage, TypedStorage):
        if storage.dtype is not dtype:
            raise RuntimeError(
                f"Expected a Storage of type {WORDS[dtype.name]} or an UntypedStorage, "
                f"but got type {WORDS[storage.dtype.name]} for argument 1 'storage'"
            )
        storage = storage._untyped_storage
    count = storage.nbytes() // dtype.itemsize
    return make_tensor(storage, (count,), (1,), 0, dtype)


class tensortype(type):
    """The type of ``FloatTensor`` and its kind: a dtype seen as a class."""

    def __instancecheck__(cls, value):
        return isinstance(value, Tensor) and (
            value.dtype is cls.dtype
            and value.device.type == "cpu"
            and value.layout is cls.layout
        )

    def __call__(cls, *args):
        return construct(cls.dtype, args, tensor)

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"


def _tensor_type(name):
    body = {
        "__doc__": f"Tensors of {name}; called, an old constructor.",
        "__module__": "rushlight",
        "dtype": all_dtypes()[name],
        "layout": strided,
        "is_cuda": False,
        "is_sparse": False,
    }
    return tensortype(WORDS[name] + "Tensor", (), body)


def set_default_tensor_type(t):
    """Choose the type of tensors made from Python floats, by an old name.

    Args:
        t: one of the floating-point types, or its name.

    Raises:
        TypeError: it is not a floating-point type.

    >>> import rushlight as rl
    >>> rl.set_default_tensor_type("torch.DoubleTensor")
    >>> rl.tensor(1.0).dtype
    rushlight.float64
    >>> rl.set_default_tensor_type(rl.FloatTensor)
    """
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives."
    )
    if isinstance(t, DType):
        raise TypeError(f"invalid type object: {t!r}")
    dtype = dtype_of_type(t)
    if not dtype.is_floating_point:
        raise TypeError(
            "only floating-point types are supported as the default type, "
            f"but got {dtype!r}"
        )
    set_default_dtype(dtype)


_LEGACY_STORAGE = """{cls}.__new__ received an invalid combination of arguments. Expected one of:
 * no arguments
 * (int size)
 * (Sequence data)
 * (*, UntypedStorage wrap_storage)"""


class _LegacyStorageMeta(type):
    """Lets ``FloatStorage`` and its kind ask for a typed storage's dtype."""

    def __instancecheck__(cls, value):
        dtype = cls.__dict__.get("dtype")
        if not isinstance(dtype, DType):
            return type.__instancecheck__(cls, value)
        return type(value) is TypedStorage and value.dtype is dtype

    def __call__(cls, *args, **options):
        dtype = cls.__dict__.get("dtype")
        if not isinstance(dtype, DType):
            return type.__call__(cls, *args, **options)
        memory = options.get("wrap_storage")
        if len(args) + len(options) > 1 or not options.keys() <= {"wrap_storage"}:
            raise RuntimeError(_LEGACY_STORAGE.format(cls=cls))
        if options and not isinstance(memory, UntypedStorage):
            raise TypeError(
                _LEGACY_STORAGE.format(cls=cls)
                + "\nArgument type not recognized: "
                + str(type(memory))
            )
        return TypedStorage(*args, dtype=dtype, **options)

    def __repr__(cls):
        known = isinstance(cls.__dict__.get("dtype"), DType)
        return f"<class 'torch.{cls.__name__}'>" if known else type.__repr__(cls)


class TypedStorage(metaclass=_LegacyStorageMeta):
    """Memory seen as elements of one dtype.

    >>> import rushlight as rl
    >>> rl.TypedStorage([1, 2], dtype=rl.int8).tolist()
    [1, 2]
    """

    _is_typed_storage = True

    def __init__(
        self, *args, wrap_storage=None, dtype=None, device=None, _internal=False
    ):
        dtype = all_dtypes()["float32"] if dtype is None else dtype
        data = wrap_storage
        if (
            data is None
            and args
            and isinstance(args[0], (TypedStorage, UntypedStorage))
        ):
            data = args[0]
        if data is None:
            made = construct(dtype, args, tensor, device)
            data = made.untyped_storage()
        if isinstance(data, TypedStorage):
            data = data._untyped_storage
        self._untyped_storage = data
        self._dtype = dtype

    @property
    def dtype(self):
        """The type of the elements."""
        return self._dtype

    @property
    def device(self):
        """Where the memory is."""
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        """Whether the memory is a GPU's."""
        return self.device.type == "cuda"

    def untyped(self):
        """The memory without a type."""
        return self._untyped_storage

    def _tensor(self):
        return _over(self._untyped_storage, self._dtype)

    def __len__(self):
        return self._untyped_storage.nbytes() // self._dtype.itemsize

    size = __len__

    def nbytes(self):
        """The number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self):
        """The bytes of one element."""
        return self._dtype.itemsize

    def data_ptr(self):
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    def tolist(self):
        """The elements as Python numbers."""
        return self._tensor().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError(
                "slices are only supported in UntypedStorage.__getitem__\n"
                "  remedy: slice a tensor over the storage"
            )
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"index {index} out of range for storage of size {len(self)}"
            )
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        self._tensor()[index] = value

    def fill_(self, value):
        """Every element becomes the value."""
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """The elements of another storage, converted."""
        if isinstance(source, TypedStorage):
            self._tensor().copy_(source._tensor())
        else:
            self._untyped_storage.copy_(source)
        return self

    def resize_(self, size):
        """Room for so many elements."""
        self._untyped_storage.resize_(size * self._dtype.itemsize)
        return self

    def clone(self):
        """A copy with memory of its own."""
        return TypedStorage(
            wrap_storage=self._untyped_storage.clone(), dtype=self._dtype
        )

    def cpu(self):
        """Itself on the CPU."""
        return self

    def type(self, dtype=None, non_blocking=False):
        """The old name of the type, or a copy with another one."""
        if dtype is None:
            return f"torch.{WORDS[self._dtype.name]}Storage"
        return self._to(dtype_of_type(dtype.replace("Storage", "Tensor")))

    def _to(self, dtype):
        made = self._tensor().to(dtype, copy=True)
        return TypedStorage(wrap_storage=made.untyped_storage(), dtype=dtype)

    def is_pinned(self, device=None):
        """Whether the memory is pinned for a GPU's copies."""
        return self._tensor().is_pinned(device)

    def is_shared(self):
        """Whether other processes see the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self):
        """Moves the memory to where other processes can map it."""
        self._untyped_storage.share_memory_()
        return self

    @property
    def filename(self):
        """The path of the file whose memory it shares; None where there is none."""
        return self._untyped_storage.filename

    @classmethod
    def from_file(cls, filename, shared, size):
        """Elements whose memory is a file's: ``FloatStorage.from_file`` and its kind."""
        dtype = cls.__dict__.get("dtype")
        if not isinstance(dtype, DType):
            raise RuntimeError("from_file can only be called on derived classes")
        memory = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        return TypedStorage(wrap_storage=memory, dtype=dtype)

    @classmethod
    def _from_buffer(cls, *args, dtype=None, device=None, **kwargs):
        """A copy of an object's bytes: ``FloatStorage.from_buffer`` and its kind."""
        own = cls.__dict__.get("dtype")
        if isinstance(own, DType):
            given = {"dtype": dtype is not None or len(args) == 5, "device": device}
            for name, value in given.items():
                if value:
                    raise RuntimeError(
                        f"from_buffer: '{name}' can only be specified in "
                        "UntypedStorage.from_buffer and TypedStorage.from_buffer"
                    )
            dtype = own
        elif device is not None and Device(device).type != "cpu":
            raise RuntimeError(
                f"TypedStorage.from_buffer: Not available for device {Device(device).type}"
            )
        dtype = get_default_dtype() if dtype is None else dtype
        memory = UntypedStorage.from_buffer(*args, dtype=dtype, **kwargs)
        return TypedStorage(wrap_storage=memory, dtype=dtype)

    from_buffer = _from_buffer

    def pickle_storage_type(self):
        """The name that files have for the type."""
        return f"{WORDS[self._dtype.name]}Storage"

    def __eq__(self, other):
        if not isinstance(other, TypedStorage):
            return NotImplemented
        same = self.dtype is other.dtype and len(self) == len(other)
        return same and self.data_ptr() == other.data_ptr()

    __hash__ = object.__hash__

    def __repr__(self):
        values = "".join(f" {value}\n" for value in self.tolist())
        return (
            f"{values}[torch.storage.TypedStorage(dtype=torch.{self._dtype.name}, "
            f"device={self.device}) of size {len(self)}]"
        )

    def __reduce__(self):
        return _typed, (self._untyped_storage, self._dtype)


def _typed(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def _converter(name):
    def convert(self):
        return self._to(all_dtypes()[name])

    convert.__doc__ = f"A copy with elements of {name}."
    return convert


for _name in STORAGES:
    _method = WORDS[_name].lower()
    setattr(TypedStorage, _method, _converter(_name))


def memory_of(tensor):
    """The memory of a tensor.

    Raises:
        NotImplementedError: it is sparse, and has none of its own.
    """
    if tensor.layout is not strided:
        kind = "Sparse" if tensor.is_sparse else "SparseCsr"
        raise NotImplementedError(f"Cannot access storage of {kind}TensorImpl")
    return tensor.untyped_storage()


def typed_storage(tensor):
    """The memory of a tensor, with its dtype."""
    return TypedStorage(wrap_storage=memory_of(tensor), dtype=tensor.dtype)


_warned = False


def warn_of_removal():
    """Says once, whatever ``set_warn_always`` asks, that typed storages will go."""
    global _warned
    if not _warned:
        _warned = True
        warn(
            "TypedStorage is deprecated. It will be removed in the future and "
            "UntypedStorage will be the only storage class. To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()"
        )


def storage(tensor):
    """The same, for programs that call ``Tensor.storage()``."""
    warn_of_removal()
    return typed_storage(tensor)


def _storage_type(name):
    body = {
        "__doc__": f"Storages of {name}; called, one of them.",
        "__module__": "rushlight",
        "dtype": all_dtypes()[name],
        "from_file": classmethod(TypedStorage.from_file.__func__),
        "from_buffer": classmethod(TypedStorage.from_buffer.__func__),
        "_from_buffer": classmethod(TypedStorage.from_buffer.__func__),
    }
    return _LegacyStorageMeta(WORDS[name] + "Storage", (), body)


@functools.cache
def names():
    """Every old name with its class."""
    found = {WORDS[name] + "Tensor": _tensor_type(name) for name in TENSORS}
    found |= {WORDS[name] + "Storage": _storage_type(name) for name in STORAGES}
    return {**found, "StorageBase": UntypedStorage}


def _row_major(size):
    strides, step = [], 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


def _old_name(dtype):
    return WORDS[dtype.name].lower()


def _refuse_span(size, stride):
    raise RuntimeError(
        f"Storage size calculation overflowed with sizes={list(size)} and "
        f"strides={list(stride)}"
    )


def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Makes a tensor the window on another's memory, or on a storage, that is asked for.

    Args:
        source: a tensor or a storage; None for no elements.
        storage_offset: the first element's place in the storage.
        size: the new sizes; default all of the source.
        stride: the new strides; default row-major ones.

    Raises:
        RuntimeError: the tensor requires gradients, the source has another dtype, or
            the window does not exist.
        TypeError: the source is neither a tensor nor a storage.

    >>> import rushlight as rl
    >>> rl.empty(0).set_(rl.arange(6.0), 1, (2, 2), (1, 2))
    tensor([[1., 3.],
            [2., 4.]])
    """
    if self.requires_grad and is_grad_enabled():
        leaf = "a leaf Variable" if self.is_leaf else "a Variable"
        raise RuntimeError(
            f"{leaf} that requires grad is being used in an in-place operation."
        )
    if isinstance(source, Tensor):
        if source.dtype != self.dtype:
            found, own = _old_name(source.dtype), _old_name(self.dtype)
            raise RuntimeError(
                f"Could not set tensor of type {found} to a tensor of type {own}"
            )
        if size is None:
            return call.set_(self, source)
        memory = source.untyped_storage()
        storage_offset += source.storage_offset()
    elif isinstance(source, TypedStorage):
        if source.dtype != self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {_old_name(self.dtype)} or an "
                f"UntypedStorage, but got type {WORDS[source.dtype.name]} for argument "
                "1 'storage'"
            )
        memory = source.untyped()
    elif isinstance(source, UntypedStorage):
        memory = source
    elif source is None:
        memory, size = UntypedStorage(0), (0,)
    else:
        raise TypeError(
            "set_() received an invalid combination of arguments - got "
            f"({type(source).__name__})"
        )
    width = self.dtype.itemsize
    size = (memory.nbytes() // width,) if size is None else tuple(size)
    stride = _row_major(size) if stride is None else tuple(stride)
    if storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    if len(size) != len(stride):
        raise RuntimeError(
            f"unequal size length ({len(size)}) and stride length ({len(stride)})"
        )
    if min((*size, *stride), default=0) < 0:
        _refuse_span(size, stride)
    last = storage_offset + sum((n - 1) * step for n, step in zip(size, stride))
    if 0 not in size and (last + 1) * width >= 1 << 63:
        _refuse_span(size, stride)
    if 0 not in size and (last + 1) * width > memory.nbytes():
        memory.resize_((last + 1) * width)
    window = make_tensor(memory, size, stride, storage_offset, self.dtype)
    return call.set_(self, window)
