"""``save``: a value in PyTorch's terms, in an archive or in the format before it."""

import collections
import io
import os
import pickle
import struct
import sys

import rushlight as rl
from rushlight._typed_storage import TypedStorage
from rushlight.core.dtype import DType
from rushlight.core.sparse import parts_of
from rushlight.core.storage import UntypedStorage
from rushlight.core.subclass import is_absent
from rushlight.io import interop
from rushlight.io.old_files import MAGIC, VERSION
from rushlight.io.pickling import own_attributes, warn_of_hooks
from rushlight.io.serialization import DTYPES, Writer, replacing
from rushlight.serialization._locations import location_tag, on_host
from rushlight.serialization._names import QUANTIZED_STORAGES, SCHEMES, TYPED_STORAGES
from rushlight.serialization._settings import choices


class _Foreign:
    """A function or class that only the reader of the file knows, by its name there."""

    def __init__(self, module, name):
        self.module = module
        self.name = name

    def __call__(self):
        raise TypeError(f"{self.module}.{self.name} is a name, not a function")


_REBUILD = "torch._utils"
_NESTED = "torch.nested._internal.nested_tensor"
_names = {
    key: _Foreign(*key)
    for key in [
        (_REBUILD, "_rebuild_tensor_v2"),
        (_REBUILD, "_rebuild_tensor_v3"),
        (_REBUILD, "_rebuild_parameter"),
        (_REBUILD, "_rebuild_parameter_with_state"),
        ("torch._tensor", "_rebuild_from_type_v2"),
        (_NESTED, "_rebuild_njt"),
        (_NESTED, "NestedTensor"),
        (_REBUILD, "_rebuild_nested_tensor"),
        (_REBUILD, "_rebuild_sparse_tensor"),
        (_REBUILD, "_rebuild_qtensor"),
        (_REBUILD, "_rebuild_meta_tensor_no_storage"),
        (_REBUILD, "_rebuild_wrapper_subclass"),
        ("torch.serialization", "_get_layout"),
        ("torch.storage", "UntypedStorage"),
        ("torch", "device"),
        ("torch", "Size"),
        ("torch", "Tensor"),
        *(("torch", name) for name in SCHEMES),
        *(("torch", name) for name in TYPED_STORAGES.values()),
        *(("torch", name) for name in QUANTIZED_STORAGES.values()),
        *(("torch", name) for name in DTYPES),
    ]
}


# How a class of tensors is taken apart where it has no way of its own.
_OWN_REDUCTIONS = (rl.Tensor.__reduce_ex__, rl.nn.Parameter.__reduce_ex__)


class _StorageId:
    """A storage's place in the pickled value: its number and how it is declared."""

    def __init__(self, number, kind, location, count):
        self.number = number
        self.kind = kind
        self.location = location
        self.count = count


# The pickler in Python, for the one in C writes only names that it can import.
class _Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Pickles a value in PyTorch's terms and keeps the storages that it meets.

    Args:
        old: the format from before PyTorch 1.6, whose ids have one item more.
    """

    def __init__(self, file, protocol, old=False):
        super().__init__(file, protocol)
        self.storages: dict[int, tuple] = {}
        self.types: dict[int, str] = {}  # of the elements of each storage
        self.more = (None,) if old else ()

    def save_foreign(self, name):
        text = f"c{name.module}\n{name.name}\n"
        self.write(text.encode())
        self.memoize(name)

    def save_dtype(self, named):
        self.save(_names["torch", named.name])

    dispatch = {
        **pickle._Pickler.dispatch,  # type: ignore[attr-defined]
        _Foreign: save_foreign,
        DType: save_dtype,
        type(rl.per_tensor_affine): save_dtype,
    }

    def persistent_id(self, value):
        if isinstance(value, TypedStorage):
            value = self.place_of(value._untyped_storage, value.dtype)
        elif isinstance(value, UntypedStorage):
            value = self.place_of(value, None)
        elif not isinstance(value, _StorageId):
            return None
        facts = "storage", value.kind, value.number, value.location, value.count
        return facts + self.more

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
        """With its class and what programs set on it, where it is more than a tensor."""
        kind, hooks = type(tensor), collections.OrderedDict()
        if tensor.is_nested and tensor.layout is rl.strided:
            facts = "size", "strides", "storage_offsets"
            facts = [getattr(tensor, f"_nested_tensor_{name}")() for name in facts]
            whole = tensor.values().detach(), *facts
            return _names[_REBUILD, "_rebuild_nested_tensor"], whole
        if tensor.is_nested:
            parts = tensor.__reduce_ex__(self.proto)[1]
            kind, build = (
                _names[_NESTED, "NestedTensor"],
                _names[_NESTED, "_rebuild_njt"],
            )
            whole = build, kind, parts, {}
            return _names["torch._tensor", "_rebuild_from_type_v2"], whole
        if kind.__reduce_ex__ not in _OWN_REDUCTIONS:
            return tensor.__reduce_ex__(self.proto)
        warn_of_hooks(tensor)
        attributes = own_attributes(tensor)
        if isinstance(tensor, rl.nn.Parameter):
            arguments = tensor.detach(), tensor.requires_grad, hooks
            if attributes:
                name = "_rebuild_parameter_with_state"
                return _names[_REBUILD, name], (*arguments, attributes)
            return _names[_REBUILD, "_rebuild_parameter"], arguments
        build, arguments = self.reduce_plain(tensor, hooks)
        if kind is rl.Tensor:
            if not attributes:
                return build, arguments
            kind = _names["torch", "Tensor"]
        whole = build, kind, arguments, attributes
        return _names["torch._tensor", "_rebuild_from_type_v2"], whole

    def reduce_plain(self, tensor, hooks):
        if tensor.is_quantized:
            return _names[_REBUILD, "_rebuild_qtensor"], self.quantized(tensor, hooks)
        if tensor.layout is not rl.strided:
            return _names[_REBUILD, "_rebuild_sparse_tensor"], sparse_parts(tensor)
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        if is_absent(tensor) and type(tensor) is not rl.Tensor:
            facts = shape, strides, tensor.storage_offset(), tensor.layout
            whole = type(tensor), tensor.dtype, *facts, tensor.device
            name = "_rebuild_wrapper_subclass"
            return _names[_REBUILD, name], (*whole, tensor.requires_grad)
        if not tensor.device.has_memory:
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
        marks = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
        marks = {name: True for name, present in marks.items() if present}
        more = (marks,) if marks else ()
        if tensor.dtype.name in TYPED_STORAGES:
            return _names[_REBUILD, "_rebuild_tensor_v2"], (*arguments, *more)
        arguments = *arguments, tensor.dtype, *more
        return _names[_REBUILD, "_rebuild_tensor_v3"], arguments

    def quantized(self, tensor, hooks):
        """The integers of a quantized tensor, and what they stand for."""
        parts = parts_of(tensor)
        integers = parts.integers
        place = self.place(integers)
        place.kind = _names["torch", QUANTIZED_STORAGES[integers.dtype.name]]
        if parts.axis is None:
            scheme = (_names["torch", "per_tensor_affine"],)
            facts = float(parts.scale), int(parts.zero_point)
        else:
            scheme = (_names["torch", "per_channel_affine"],)
            facts = parts.scale, parts.zero_point, parts.axis
        shape, strides = tuple(integers.shape), tuple(integers.stride())
        offset = integers.storage_offset()
        return place, offset, shape, strides, (*scheme, *facts), False, hooks

    def place(self, tensor):
        """The persistent id of the tensor's storage; views of one storage share it."""
        return self.place_of(tensor.untyped_storage(), tensor.dtype)

    def place_of(self, storage, dtype):
        """The persistent id of a storage whose elements have a type, or none.

        Raises:
            RuntimeError: elsewhere in the value they have another one, which no reader
                of PyTorch's would heed.
        """
        typed = dtype and TYPED_STORAGES.get(dtype.name)
        width, named = (dtype.itemsize, dtype.name) if typed else (1, "uint8")
        if storage.nbytes() and self.types.setdefault(id(storage), named) != named:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as "
                "different types"
            )
        number, _, _ = self.storages.setdefault(
            id(storage), (str(len(self.storages)), storage, width)
        )
        location = location_tag(storage)
        if typed is None:
            kind = _names["torch.storage", "UntypedStorage"]
            return _StorageId(number, kind, location, storage.nbytes())
        count = storage.nbytes() // width
        return _StorageId(number, _names["torch", typed], location, count)


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol=2,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
):
    """Writes a value with its tensors to a file that PyTorch reads as well.

    A path is replaced only once the new file is complete and on the disk, so a program
    killed at any moment leaves the last good checkpoint.

    Args:
        obj: tensors, modules' state, and containers of them.
        f: a path, or a file open for writing in binary mode.
        pickle_module: kept for programs that pass it.
        pickle_protocol: the version of the pickled part.
        _use_new_zipfile_serialization: an archive; otherwise the format from before
            PyTorch 1.6.

    Raises:
        RuntimeError: the folder does not exist.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.save({"weight": rl.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> rl.load(file)
    {'weight': tensor([1., 1.])}
    """
    with_order = not _disable_byteorder_record
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a "
                f"'write' attribute, not {type(f).__name__}"
            )
        # An archive is written with steps back, which not every file can do.
        whole = io.BytesIO()
        if _use_new_zipfile_serialization:
            _write(obj, whole, "archive", pickle_protocol, with_order)
        else:
            _write_old(obj, whole, pickle_protocol)
        f.write(whole.getbuffer())
        return
    folder = os.path.dirname(os.path.abspath(f))
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    title = os.path.splitext(os.path.basename(f))[0] or "archive"
    with replacing(f) as file:
        if _use_new_zipfile_serialization:
            _write(obj, file, title, pickle_protocol, with_order)
        else:
            _write_old(obj, file, pickle_protocol)


def _write(obj, file, folder, protocol, with_order):
    body = io.BytesIO()
    pickler = _Pickler(body, protocol)
    pickler.dump(obj)
    writer = Writer(file, folder, choices.checksums)
    try:
        writer.record("data.pkl", body.getbuffer())
        writer.record(".format_version", b"1")
        writer.record(".storage_alignment", b"64")
        if with_order:
            writer.record("byteorder", sys.byteorder.encode())
        for number, storage, _ in pickler.storages.values():
            writer.record(f"data/{number}", _contents(storage))
        writer.record("version", b"3\n")
        writer.close()
    except BaseException:
        writer.abandon()
        raise


def _contents(storage):
    """A storage's bytes, or as many zeros where they are not wanted."""
    if choices.skips or not storage.device.has_memory:
        return bytes(storage.nbytes())
    storage = on_host(storage)
    return interop.storage_buffer(storage.cpu())


def _write_old(obj, file, protocol):
    """Pickled values one after another, then the storages: ``io.old_files`` reads it."""
    if choices.skips:
        raise RuntimeError(
            "Cannot use skip_data=True with _use_new_zipfile_serialization=False"
        )
    facts = {
        "protocol_version": VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for value in MAGIC, VERSION, facts:
        pickle.dump(value, file, protocol=protocol)
    pickler = _Pickler(file, protocol, old=True)
    pickler.dump(obj)
    stored = {number: rest for number, *rest in pickler.storages.values()}
    pickle.dump(sorted(stored), file, protocol=protocol)
    for number in sorted(stored):
        storage, width = stored[number]
        file.write(struct.pack("<q", storage.nbytes() // width))
        file.write(interop.storage_buffer(on_host(storage)))


def sparse_parts(tensor):
    """Layout and parts of a sparse tensor, as files hold them."""
    tensor, size = tensor.detach(), rl.Size(tensor.shape)
    if tensor.layout is rl.sparse_coo:
        parts = tensor._indices(), tensor._values(), size, tensor.is_coalesced()
        return tensor.layout, parts
    rows = tensor.layout in (rl.sparse_csr, rl.sparse_bsr)
    names = ("crow", "col") if rows else ("ccol", "row")
    indices = (getattr(tensor, f"{name}_indices")() for name in names)
    return tensor.layout, (*indices, tensor.values(), size)
