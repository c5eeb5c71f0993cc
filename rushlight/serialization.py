"""``save`` and ``load``: PyTorch's checkpoint files, read without running a program.

A checkpoint is a pickled value in which every storage is a persistent id, beside the
storages' bytes. ``load`` reads the pickled part with a parser that knows containers and
tensors; only ``weights_only=False`` hands it to Python's pickle.
"""

import collections
import contextlib
import io
import os
import pickle
import sys
import threading

import rushlight as rl
from rushlight.core import interop
from rushlight.core.dtype import DType
from rushlight.core.old_files import OldFile
from rushlight.core.pickled import Reader
from rushlight.core.serialization import DTYPES, Archive, Writer, replacing, window
from rushlight.core.storage import UntypedStorage
from rushlight.legacy import TypedStorage

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]

# rushlight's dtype -> the class that names it in a persistent id.
TYPED_STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
STORAGE_DTYPES = {name: dtype for dtype, name in TYPED_STORAGES.items()}


# -- writing -----------------------------------------------------------------------


class _Foreign:
    """A function or class that only the reader of the file knows, by its name there."""

    def __init__(self, module, name):
        self.module = module
        self.name = name

    def __call__(self):
        raise TypeError(f"{self.module}.{self.name} is a name, not a function")


_REBUILD = "torch._utils"
_names = {
    key: _Foreign(*key)
    for key in [
        (_REBUILD, "_rebuild_tensor_v2"),
        (_REBUILD, "_rebuild_tensor_v3"),
        (_REBUILD, "_rebuild_parameter"),
        (_REBUILD, "_rebuild_meta_tensor_no_storage"),
        ("torch.serialization", "_get_layout"),
        ("torch.storage", "UntypedStorage"),
        ("torch", "device"),
        ("torch", "Size"),
        *(("torch", name) for name in TYPED_STORAGES.values()),
        *(("torch", name) for name in DTYPES),
    ]
}


class _StorageId:
    """A storage's place in the pickled value: its number and how it is declared."""

    def __init__(self, number, kind, count):
        self.number = number
        self.kind = kind
        self.count = count


# The pickler in Python, for the one in C writes only names that it can import.
class _Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Pickles a value in PyTorch's terms and keeps the storages that it meets."""

    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.storages: dict[int, tuple] = {}

    def save_foreign(self, name):
        text = f"c{name.module}\n{name.name}\n"
        self.write(text.encode())
        self.memoize(name)

    def save_dtype(self, dtype):
        self.save(_names["torch", dtype.name])

    dispatch = {
        **pickle._Pickler.dispatch,  # type: ignore[attr-defined]
        _Foreign: save_foreign,
        DType: save_dtype,
    }

    def persistent_id(self, value):
        if isinstance(value, TypedStorage):
            value = self.place_of(value._untyped_storage, value.dtype)
        elif isinstance(value, UntypedStorage):
            value = self.place_of(value, None)
        elif not isinstance(value, _StorageId):
            return None
        return "storage", value.kind, value.number, "cpu", value.count

    def reducer_override(self, value):
        if isinstance(value, rl.Tensor):
            return self.reduce_tensor(value)
        kind = type(value)
        if kind is rl.Size:
            return _names["torch", "Size"], (tuple(value),)
        if kind is rl.device:
            index = () if value.index is None else (value.index,)
            return _names["torch", "device"], (value.type, *index)
        if kind is type(rl.strided):
            return _names["torch.serialization", "_get_layout"], (
                f"torch.{value.name}",
            )
        return NotImplemented

    def reduce_tensor(self, tensor):
        hooks: dict = collections.OrderedDict()
        if isinstance(tensor, rl.nn.Parameter):
            arguments = tensor.detach(), tensor.requires_grad, hooks
            return _names[_REBUILD, "_rebuild_parameter"], arguments
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        if tensor.device.type == "meta":
            arguments = tensor.dtype, shape, strides, tensor.requires_grad
            return _names[_REBUILD, "_rebuild_meta_tensor_no_storage"], arguments
        place = self.place(tensor)
        arguments = (
            place,
            tensor.storage_offset(),
            shape,
            strides,
            tensor.requires_grad,
            hooks,
        )
        if tensor.dtype.name in TYPED_STORAGES:
            return _names[_REBUILD, "_rebuild_tensor_v2"], arguments
        return _names[_REBUILD, "_rebuild_tensor_v3"], (*arguments, tensor.dtype)

    def place(self, tensor):
        """The persistent id of the tensor's storage; views of one storage share it."""
        return self.place_of(tensor.untyped_storage(), tensor.dtype)

    def place_of(self, storage, dtype):
        """The persistent id of a storage whose elements have a type, or none."""
        number, _ = self.storages.setdefault(
            id(storage), (str(len(self.storages)), storage)
        )
        typed = dtype and TYPED_STORAGES.get(dtype.name)
        if typed is None:
            kind = _names["torch.storage", "UntypedStorage"]
            return _StorageId(number, kind, storage.nbytes())
        count = storage.nbytes() // dtype.itemsize
        return _StorageId(number, _names["torch", typed], count)


def save(
    obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True
):
    """Writes a value with its tensors to a file that PyTorch reads as well.

    A path is replaced only once the new file is complete and on the disk, so a program
    killed at any moment leaves the last good checkpoint.

    Args:
        obj: tensors, modules' state, and containers of them.
        f: a path, or a file open for writing in binary mode.

    Raises:
        RuntimeError: the folder does not exist.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.save({"weight": rl.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> rl.load(file)
    {'weight': tensor([1., 1.])}
    """
    if not _use_new_zipfile_serialization:
        raise ValueError("save: the format from before PyTorch 1.6 is not written")
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a "
                f"'write' attribute, not {type(f).__name__}"
            )
        # An archive is written with steps back, which not every file can do.
        whole = io.BytesIO()
        _write(obj, whole, "archive", pickle_protocol)
        f.write(whole.getbuffer())
        return
    folder = os.path.dirname(os.path.abspath(f))
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    title = os.path.splitext(os.path.basename(f))[0] or "archive"
    with replacing(f) as file:
        _write(obj, file, title, pickle_protocol)


def _write(obj, file, folder, protocol):
    body = io.BytesIO()
    pickler = _Pickler(body, protocol)
    pickler.dump(obj)
    writer = Writer(file, folder)
    try:
        writer.record("data.pkl", body.getbuffer())
        writer.record(".format_version", b"1")
        writer.record(".storage_alignment", b"64")
        writer.record("byteorder", sys.byteorder.encode())
        for number, storage in pickler.storages.values():
            writer.record(f"data/{number}", interop.storage_buffer(storage))
        writer.record("version", b"3\n")
        writer.close()
    except BaseException:
        writer.abandon()
        raise


# -- names that a checkpoint may use -------------------------------------------------

_allowed = threading.local()


def _user_globals() -> dict:
    if not hasattr(_allowed, "names"):
        _allowed.names = {}
    return _allowed.names


def add_safe_globals(safe_globals: list) -> None:
    """Lets ``load`` build objects of these classes, or call these functions.

    Args:
        safe_globals: the objects, or pairs of an object and its full name in the file.
    """
    for item in safe_globals:
        if isinstance(item, tuple):
            value, name = item
        else:
            value, name = item, f"{item.__module__}.{item.__qualname__}"
        _user_globals()[name] = value


def get_safe_globals() -> list:
    """What ``add_safe_globals`` has been given."""
    return list(_user_globals().values())


def clear_safe_globals() -> None:
    """Forgets what ``add_safe_globals`` has been given."""
    _user_globals().clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list):
    """``add_safe_globals`` for the length of a ``with`` block."""
    before = dict(_user_globals())
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _user_globals().clear()
        _user_globals().update(before)


# -- reading -----------------------------------------------------------------------


class _StorageName:
    """A storage class in a persistent id: it says what its elements are."""

    def __init__(self, dtype):
        self.dtype = dtype


class _Placed(TypedStorage):
    """A storage that has been read, and the type that its persistent id named."""

    def __init__(self, storage, dtype, start=0):
        super().__init__(wrap_storage=storage, dtype=dtype)
        self.start = start  # elements before it, where it is part of another

    @property
    def storage(self):
        """The memory."""
        return self._untyped_storage


def _plain(value):
    """A value that is a storage and nothing else, as programs know it."""
    if type(value) is _Placed:
        return TypedStorage(wrap_storage=value.storage, dtype=value.dtype)
    return value


def _rebuild_tensor(
    place,
    offset,
    sizes,
    strides,
    requires_grad=False,
    hooks=None,
    dtype=None,
    metadata=None,
):
    start = place.start
    if start and type(offset) is int:
        offset += start
    tensor = window(place.storage, offset, sizes, strides, dtype or place.dtype)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_untyped(
    place, offset, sizes, strides, requires_grad, hooks, dtype, metadata=None
):
    return _rebuild_tensor(place, offset, sizes, strides, requires_grad, hooks, dtype)


def _rebuild_parameter(data, requires_grad, hooks, state=None):
    parameter = rl.nn.Parameter(data, requires_grad)
    if isinstance(state, dict):
        parameter.__dict__.update(state)
    return parameter


def _rebuild_meta(dtype, sizes, strides, requires_grad):
    tensor = rl.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return tensor.requires_grad_() if requires_grad else tensor


def _encode(text, encoding):
    """How protocol 2 spells bytes."""
    if encoding != "latin1" or not isinstance(text, str):
        raise pickle.UnpicklingError(f"bytes cannot be encoded as {encoding!r}")
    return text.encode("latin1")


def _get_layout(name):
    if name != "torch.strided":
        raise pickle.UnpicklingError(f"layout {name!r} is not supported")
    return rl.strided


def _bytearray(*arguments):
    """A ``bytearray`` of bytes that are there; a mere number would be a size."""
    if any(not isinstance(argument, (bytes, str)) for argument in arguments):
        raise pickle.UnpicklingError(f"bytearray cannot be made of {arguments!r}")
    return bytearray(*arguments)


def _callables() -> dict:
    """What a checkpoint may call, by its name there."""
    names = {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": collections.Counter,
        "collections.defaultdict": collections.defaultdict,
        "torch.Size": rl.Size,
        "torch.device": rl.device,
        "torch.nn.parameter.Parameter": rl.nn.Parameter,
        "torch._utils._rebuild_tensor": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v3": _rebuild_untyped,
        "torch._utils._rebuild_parameter": _rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
        "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta,
        "torch.serialization._get_layout": _get_layout,
        "_codecs.encode": _encode,
    }
    for module in "builtins", "__builtin__":
        names.update((f"{module}.{k.__name__}", k) for k in (set, frozenset, complex))
        names[f"{module}.bytearray"] = _bytearray
    return names


def _values() -> dict:
    """What a checkpoint may name but not call."""
    names: dict = {
        "torch.Tensor": rl.Tensor,
        "torch.storage.UntypedStorage": _StorageName(DTYPES["uint8"]),
    }
    for module in "builtins", "__builtin__":
        kinds = int, float, str, bool, list, dict
        names.update((f"{module}.{kind.__name__}", kind) for kind in kinds)
        names[f"{module}.long"] = int
    names.update((f"torch.{name}", dtype) for name, dtype in DTYPES.items())
    for name, dtype in STORAGE_DTYPES.items():
        names[f"torch.{name}"] = _StorageName(DTYPES[dtype])
    return names


class _Globals:
    """The names that one load may use, and what it may call of them."""

    def __init__(self):
        may_call = {**_callables(), **_user_globals()}
        self.names = {**_values(), **may_call}
        self.callable = {id(value) for value in may_call.values()}

    def find(self, module, name):
        full = f"{module}.{name}"
        if full not in self.names:
            raise pickle.UnpicklingError(
                f"Weights only load failed. Unsupported global: GLOBAL {full} was not "
                "an allowed global by default.\n"
                "  If you trust it, call rushlight.serialization.add_safe_globals("
                f"[{name}]) first, or use `with safe_globals([...])`.\n"
                "  If you trust the whole file, pass weights_only=False: it may then "
                "run any program it holds."
            )
        return self.names[full]

    def may_call(self, value):
        return id(value) in self.callable


class _Storages:
    """The storages of one file, each read once and put where the caller wants it."""

    def __init__(self, archive, map_location):
        self.archive = archive
        self.map_location = map_location
        self.found: dict[str, object] = {}

    def __call__(self, persistent):
        kind, key, location, count = _check_persistent(persistent)
        if key not in self.found:
            n_bytes = count * kind.dtype.itemsize
            self.found[key] = self.put(
                self.archive.storage(f"data/{key}", n_bytes), location
            )
        return _Placed(self.found[key], kind.dtype)

    def put(self, storage, location):
        wanted = self.map_location
        if callable(wanted):
            moved = wanted(storage, location)
            return storage if moved is None else moved
        if isinstance(wanted, dict):
            wanted = wanted.get(location, location)
        device = rl.device(location if wanted is None else wanted)
        if device.type == "cpu":
            return storage
        if device.type == "meta":
            return UntypedStorage(storage.nbytes(), device="meta")
        raise RuntimeError(
            f"Attempting to deserialize object on {device.type} device, which is not "
            "available here.\n"
            "  Use load with map_location='cpu' to put its tensors in host memory."
        )


def _check_persistent(persistent):
    """The kind, key, device and length of a storage that a file names."""
    if not isinstance(persistent, tuple) or len(persistent) < 5:
        raise pickle.UnpicklingError(f"unknown persistent id {persistent!r}")
    tag, kind, key, location, count = persistent[:5]
    proper = isinstance(kind, _StorageName) and isinstance(key, str)
    if tag != "storage" or not proper or type(count) is not int or count < 0:
        raise pickle.UnpicklingError(f"unknown persistent id {persistent!r}")
    return kind, key, location, count


class _OldStorages(_Storages):
    """The storages of a file from before 1.6; its bytes come after the value."""

    def __call__(self, persistent):
        kind, key, location, count = _check_persistent(persistent)
        storage = self.archive.storage(
            key, count, kind.dtype.itemsize, lambda made: self.put(made, location)
        )
        part = persistent[5] if len(persistent) > 5 else None
        start = 0
        if part is not None:
            if (
                not isinstance(part, tuple)
                or len(part) != 3
                or type(part[1]) is not int
            ):
                raise pickle.UnpicklingError(f"unknown persistent id {persistent!r}")
            start = part[1]
        return _Placed(storage, kind.dtype, start)


class _TrustingUnpickler(pickle.Unpickler):
    """Python's own unpickler, with PyTorch's names standing for ours."""

    def __init__(self, file, persistent):
        super().__init__(file)
        self.persistent_load = persistent
        self.names = _Globals().names

    def find_class(self, module, name):
        known = self.names.get(f"{module}.{name}")
        if known is not None:
            return known
        if module == "torch" or module.startswith("torch."):
            module = "rushlight" + module[len("torch") :]
        return super().find_class(module, name)


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None):
    """Reads what ``save``, or PyTorch's, has written.

    Args:
        f: a path, or a seekable file open for reading in binary mode.
        map_location: a device for the tensors, a dict from the file's device names,
            or a function of a storage and its device name.
        weights_only: read containers and tensors only; otherwise the file may hold, and
            run, any program.
        mmap: map the file in place of reading it; pages come as they are used, and
            checksums are not verified.

    Raises:
        RuntimeError: the file is damaged or cut short.
        UnpicklingError: its contents are damaged, or more than containers and tensors.
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _read(file, os.fspath(f), map_location, weights_only, bool(mmap))
    if mmap:
        raise ValueError("f must be a string or filename in order to use mmap argument")
    missing = [name for name in ("read", "seek", "tell") if not hasattr(f, name)]
    if missing:
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute '{missing[0]}'. You can "
            "only load from a file that is seekable. Please pre-load the data into a "
            "buffer like io.BytesIO and try to load from it instead."
        )
    return _read(
        _from_here(f),
        getattr(f, "name", "file object"),
        map_location,
        weights_only,
        False,
    )


def _from_here(file):
    """The rest of a file as a file of its own that can fill buffers."""
    return io.BytesIO(file.read())


def _read(file, title, map_location, weights_only, mapped):
    start = file.read(4)
    if not start:
        raise EOFError(f"Ran out of input: {title} is empty")
    if start[:1] == b"\x80":
        return _read_old(start + file.read(), title, map_location, weights_only)
    archive = Archive(file, title, mapped)
    storages = _Storages(archive, map_location)
    program = archive.read("data.pkl")
    if weights_only:
        names = _Globals()
        return _plain(Reader(program, names.find, names.may_call, storages).load())
    return _plain(_TrustingUnpickler(io.BytesIO(program), storages).load())


def _read_old(data, title, map_location, weights_only):
    """A file from before PyTorch 1.6."""
    file = OldFile(data, title)
    storages = _OldStorages(file, map_location)
    if weights_only:
        names = _Globals()
        value = file.value(names.find, names.may_call, storages)
    else:
        value = file.trusted_value(lambda part: _TrustingUnpickler(part, storages))
    file.fill_storages()
    return _plain(value)


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """The names in a checkpoint that ``load`` would refuse."""
    refused = []
    allowed = _Globals()

    def find(module, name):
        full = f"{module}.{name}"
        if full not in allowed.names and full not in refused:
            refused.append(full)
        return _Anything

    with open(f, "rb") as file:
        archive = Archive(file, os.fspath(f))
        Reader(
            archive.read("data.pkl"), find, lambda value: True, lambda name: None
        ).load()
    return refused


class _Anything(dict):
    """Stands for whatever a refused name would have made."""

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        super().__init__()

    def __setstate__(self, state):
        pass
