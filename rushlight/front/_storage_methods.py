"""What storages do beside hold bytes: convert them, share them, map them from files."""

from __future__ import annotations

import os
import sys

from rushlight._typed_storage import WORDS, TypedStorage, memory_of
from rushlight.core import naming
from rushlight.core.device import Device
from rushlight.core.dtype import DType, all_dtypes, get_default_dtype
from rushlight.core.facts import with_requires_grad
from rushlight.core.naming import wrong_kind
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor, install
from rushlight.core.window import make_tensor
from rushlight.dispatch.overridable import method as overridable_method
from rushlight.io import interop

# The method of a storage -> the dtype that its bytes become elements of.
CONVERSIONS = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "complex_double": "complex128",
    "complex_float": "complex64",
    "float8_e5m2": "float8_e5m2",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
}


# -- mapped memory -------------------------------------------------------------------


def _pages_type():
    """A mapping that keeps its descriptor; made on demand, for ``mmap`` takes time."""
    import mmap

    class Pages(mmap.mmap):
        """Memory of a file, with what other processes need to map it too."""

        path: str | None
        shared: bool
        descriptor: int

        def __del__(self):
            if getattr(self, "descriptor", -1) >= 0:
                os.close(self.descriptor)
                self.descriptor = -1

    return Pages


_made: dict = {}


def map_pages(descriptor, size, shared=True, path=None):
    """The pages of an open file, whose descriptor they keep.

    Args:
        descriptor: of the file; it belongs to the pages from here on.
        size: how many bytes.
        shared: changes go to the file; otherwise they stay with this process.
        path: the file's name, where it has one.
    """
    import mmap

    if "type" not in _made:
        _made["type"] = _pages_type()
    access = mmap.ACCESS_DEFAULT if shared else mmap.ACCESS_COPY
    pages = _made["type"](descriptor, size, access=access)
    pages.path, pages.shared, pages.descriptor = path, shared, descriptor
    return pages


def pages_of(storage):
    """The mapping that a storage rests on; None where it has memory of its own."""
    owner = storage._memory_owner()
    return owner if "type" in _made and isinstance(owner, _made["type"]) else None


def share(storage):
    """Moves a storage to memory that other processes can map; itself again."""
    if storage.device.type != "cpu" or is_shared(storage):
        return storage
    if storage.nbytes() == 0:
        return storage
    descriptor = os.memfd_create("rushlight-storage", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, storage.nbytes())
        pages = map_pages(descriptor, storage.nbytes())
    except BaseException:
        os.close(descriptor)
        raise
    storage._rest_on(pages)
    return storage


def tensor_is_shared(self):
    """Whether the tensor's memory is shared with other processes."""
    return is_shared(memory_of(self))


def is_shared(storage):
    """Whether other processes see, or can see, the storage's memory."""
    return pages_of(storage) is not None


def from_file(filename, shared=False, nbytes=0):
    """A storage whose memory is a file's.

    Args:
        filename: the path.
        shared: changes go to the file, which is made, or made longer, where it is too
            short; otherwise they stay with this process.
        nbytes: how many bytes of the file.

    Raises:
        RuntimeError: the file cannot be opened, or has fewer bytes.
    """
    path = os.fspath(filename)
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"unable to open file <{path}> in {mode} mode: {error.strerror} "
            f"({error.errno})"
        ) from None
    try:
        found = os.fstat(descriptor).st_size
        if nbytes < 0:
            raise RuntimeError(
                f"unable to mmap {nbytes} bytes from file <{path}>: Cannot allocate "
                "memory (12)"
            )
        if nbytes > found:
            if not shared:
                raise RuntimeError(
                    f"file <{path}> size <{found}> is smaller than the required mapping "
                    f"size <{nbytes}>"
                )
            os.ftruncate(descriptor, nbytes)
        if nbytes == 0:
            os.close(descriptor)
            return UntypedStorage(0)
        pages = map_pages(descriptor, nbytes, shared, path)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError):
            raise RuntimeError(
                f"unable to mmap {nbytes} bytes from file <{path}>: {error.strerror} "
                f"({error.errno})"
            ) from None
        raise
    return UntypedStorage.over_buffer(pages)


def tensor_from_file(
    filename,
    shared=None,
    size=0,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """A vector whose memory is a file's.

    Args:
        filename: the path.
        shared: changes go to the file, which is made where it is too short; otherwise
            they stay with this process.
        size: how many elements.
        dtype: their type; the default dtype if None.
        layout: strided, the only one there is.
        device: the CPU.
        pin_memory: must be False.
        requires_grad: whether gradients are wanted.

    Raises:
        RuntimeError: the file cannot be opened, or is too short.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "numbers")
    >>> _ = rl.from_file(path, shared=True, size=2).fill_(3)
    >>> rl.from_file(path, size=2)
    tensor([3., 3.])
    >>> folder.cleanup()
    """
    if pin_memory:
        raise RuntimeError("tensors constructed from a file cannot be pinned")
    if not isinstance(shared, bool | None):
        raise wrong_kind("from_file", "shared", "bool", shared)
    if size is not None and not hasattr(size, "__index__"):
        raise wrong_kind("from_file", "size", "int", size)
    if not isinstance(dtype, DType | None):
        raise wrong_kind("from_file", "dtype", f"{naming.package}.dtype", dtype)
    dtype = get_default_dtype() if dtype is None else dtype
    size = int(size or 0)
    storage = from_file(filename, bool(shared), size * dtype.itemsize)
    result = make_tensor(storage, (size,), (1,), 0, dtype)
    return with_requires_grad(result, requires_grad)


# -- methods -------------------------------------------------------------------------


def _type(self, dtype=None, non_blocking=False):
    """The class's name, or the bytes as elements of another type.

    Args:
        dtype: the name of a storage class.
        non_blocking: kept for programs that pass it.
    """
    own = f"{naming.package}.storage.UntypedStorage"
    if dtype is None:
        return own
    if dtype in (own, UntypedStorage):
        return self
    word = str(dtype).rpartition(".")[2].removesuffix("Storage")
    for name, known in WORDS.items():
        if known == word:
            return _convert(self, name)
    raise ValueError(f"invalid type: {dtype!r}")


def _convert(storage, name):
    bytes_ = make_tensor(storage, (storage.nbytes(),), (1,), 0, all_dtypes()["uint8"])
    made = bytes_.to(all_dtypes()[name], copy=True)
    return TypedStorage(wrap_storage=made.untyped_storage(), dtype=made.dtype)


def _converter(name):
    def convert(self):
        return _convert(self, name)

    convert.__doc__ = f"Every byte as an element of {name}."
    return convert


def _byteswap(self, dtype):
    """Turns round the bytes of every element of a type, in place."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if self.nbytes() % width:
        raise RuntimeError(f"the length of data is not a multiple of {width}")
    if width > 1 and self.nbytes():
        view = interop.storage_buffer(self)
        before = bytes(view)
        for i in range(width):
            view[i::width] = before[width - 1 - i :: width]


def _to(self, *, device, non_blocking=False):
    """The storage on a device: itself where it is there already."""
    device = Device(device) if not isinstance(device, Device) else device
    if device.type == self.device.type:
        return self
    if device.type == "meta":
        return UntypedStorage(self.nbytes(), device="meta")
    raise RuntimeError(
        f"Cannot access accelerator device when none is available: {device}"
    )


def _cuda(self, device=None, non_blocking=False):
    """A copy in a GPU's memory.

    Raises:
        RuntimeError: always: there is none.
    """
    return _to(self, device="cuda")


def _pin_memory(self, device=None):
    """Page-locked memory for copies to a GPU.

    Raises:
        RuntimeError: always: there is none.
    """
    raise RuntimeError("Cannot access accelerator device when none is available.")


def _new(self):
    """An empty storage on the same device."""
    return UntypedStorage(0, device=self.device)


def _filename(self):
    """The path of the file whose memory it shares; None where there is none."""
    pages = pages_of(self)
    return pages.path if pages is not None and pages.shared else None


def storage_from_buffer(
    buffer, byte_order=None, count=-1, offset=0, dtype=None, *, device=None
):
    """A storage with a copy of an object's bytes, in this machine's order.

    Args:
        buffer: an object with the buffer protocol.
        byte_order: ``"native"``, ``"big"`` or ``"little"``; of bytes alone it may be None.
        count: elements; all that are left if negative.
        offset: bytes to leave out at the start.
        dtype: what the bytes are.
        device: the host's, or None.

    Raises:
        RuntimeError: there is no dtype, or no order of its bytes.
        ValueError: the bytes asked for are not all in the buffer.

    >>> import rushlight as rl
    >>> rl.UntypedStorage.from_buffer(b"abc", offset=1, dtype=rl.uint8).tolist()
    [98, 99]
    """
    if not isinstance(dtype, DType):
        raise RuntimeError("argument 'dtype' cannot be None")
    if byte_order is None and dtype.name not in ("uint8", "int8"):
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    if byte_order not in (None, "native", "big", "little"):
        raise ValueError(
            f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
        )
    data, width = memoryview(buffer).cast("B"), dtype.itemsize
    if not 0 <= offset <= len(data):
        raise ValueError(
            "offset must be non-negative and no greater than buffer length "
            f"({len(data)}), but got {offset}"
        )
    if count < 0 and (len(data) - offset) % width:
        raise ValueError(
            f"buffer size ({len(data)}) must be a multiple of element size ({width})"
        )
    count = (len(data) - offset) // width if count < 0 else count
    if count * width > len(data) - offset:
        raise ValueError(
            f"buffer has only {len(data) - offset} bytes after offset {offset}, but "
            f"{count} elements of {width} bytes were specified"
        )
    bytes_of_it = data[offset : offset + count * width]
    storage = UntypedStorage.over_buffer(bytearray(bytes_of_it))
    if byte_order in ("big", "little") and byte_order != sys.byteorder:
        interop.swap_bytes(storage, dtype)
    return storage.clone()


def _install():
    install("from_buffer", staticmethod(storage_from_buffer), UntypedStorage)
    for method, name in CONVERSIONS.items():
        install(method, _converter(name), UntypedStorage)
    methods = {
        "byteswap": _byteswap,
        "cuda": _cuda,
        "filename": property(_filename),
        "from_file": staticmethod(from_file),
        "is_pinned": lambda self, device=None: False,
        "is_shared": is_shared,
        "is_sparse": False,
        "is_sparse_csr": False,
        "new": _new,
        "pin_memory": _pin_memory,
        "share_memory_": lambda self, *args, **kwargs: share(self),
        "to": _to,
        "type": _type,
        "untyped": lambda self: self,
    }
    for method, value in methods.items():
        install(method, value, UntypedStorage)
    install("share_memory_", overridable_method("share_memory_", _share_tensor))
    install("is_shared", overridable_method("is_shared", tensor_is_shared))


def _share_tensor(self):
    """Moves the tensor's memory to where other processes can map it; itself again."""
    share(memory_of(self))
    return self


_install()


# -- tensors on their way to another process -----------------------------------------

_known: dict = {"storages": None}


def reduce_storage(storage):
    """How a storage goes to another process: as a descriptor of memory that both map."""
    from multiprocessing.reduction import DupFd

    if storage.device.type != "cpu" or storage.nbytes() == 0:
        return UntypedStorage, (storage.nbytes(),)
    share(storage)
    pages = pages_of(storage)
    if not pages.shared:
        return _rebuild_copy, (storage.bytes(),)
    return _rebuild_storage, (DupFd(pages.descriptor), storage.nbytes())


def _rebuild_copy(contents):
    return UntypedStorage(contents)


def _rebuild_storage(descriptor, size):
    """The storage of a descriptor: the same one whenever the same memory comes."""
    import weakref

    if _known["storages"] is None:
        _known["storages"] = weakref.WeakValueDictionary()
    own = descriptor.detach()
    facts = os.fstat(own)
    key = facts.st_dev, facts.st_ino, size
    storage = _known["storages"].get(key)
    if storage is not None:
        os.close(own)
        return storage
    storage = UntypedStorage.over_buffer(map_pages(own, size))
    _known["storages"][key] = storage
    return storage


def reduce_tensor(tensor):
    """How a tensor goes to another process: its memory is shared, not copied.

    Raises:
        RuntimeError: it was computed, and its graph cannot go along.
    """
    from rushlight.io import pickling

    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since "
            "autograd does not support crossing process boundaries.  If you just want to "
            "transfer the data, call detach() on the tensor before serializing (e.g., "
            "putting it on the queue)."
        )
    if tensor.device.type != "cpu":
        return tensor.__reduce_ex__(2)
    return pickling.reduce_tensor(tensor)


def init_reductions():
    """Teaches ``multiprocessing`` how tensors and storages travel."""
    from multiprocessing.reduction import ForkingPickler

    from rushlight.nn.parameter import Parameter

    ForkingPickler.register(UntypedStorage, reduce_storage)
    for kind in Tensor, Parameter:
        ForkingPickler.register(kind, reduce_tensor)
