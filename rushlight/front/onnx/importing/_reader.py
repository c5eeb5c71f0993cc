"""Files of ONNX: read, and checked before anything is made of them."""

import math
import os
from collections.abc import Sized

import numpy as np

import rushlight as rl
from rushlight.onnx._types import dtype_of
from rushlight.onnx.errors import OnnxLoadError

OLDEST = 7
_MOST_ELEMENTS = 2**40
# Where numbers are that are not raw bytes, by the type of elements.
_FIELDS = {
    1: "float_data", 11: "double_data", 7: "int64_data", 12: "uint64_data",
    13: "uint64_data", 14: "float_data", 15: "double_data",
}  # fmt: skip


class Source:
    """Where a model comes from: what messages call it, and the folder of its weights.

    Args:
        name: the path, or what stands for one.
        folder: the folder that external data lies in; None without one.
    """

    def __init__(self, name, folder=None):
        self.name, self.folder = name, folder

    def error(self, text, remedy=None):
        """An error that names the file."""
        remedy = f"\n  remedy: {remedy}" if remedy else ""
        return OnnxLoadError(f"onnx.load: {self.name}: {text}{remedy}")


def read(path):
    """A model's message, and where it comes from.

    Args:
        path: a path; a file open for bytes; or the message itself.

    Raises:
        OnnxLoadError: it is no model, or newer than what is known here.
        FileNotFoundError: there is no such file.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if isinstance(path, onnx.ModelProto):
        return checked(path, Source("<ModelProto>")), Source("<ModelProto>")
    if hasattr(path, "read"):
        source, raw = Source(getattr(path, "name", "<file>")), path.read()
    else:
        name = os.fspath(path)
        folder = os.path.dirname(os.path.abspath(name))
        source = Source(name, folder)
        with open(name, "rb") as file:
            raw = file.read()
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(raw)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise source.error(
            f"it is no model of ONNX, or part of it is missing ({error})",
            "write the file once more, or fetch it whole",
        ) from None
    return checked(proto, source), source


def checked(proto, source):
    """A message whose versions are known.

    Raises:
        OnnxLoadError: it has no graph, or its versions are newer, or too old.
    """
    import onnx

    if not proto.HasField("graph") or not proto.opset_import:
        raise source.error("it has no graph, or does not say of which operators")
    if proto.ir_version > onnx.IR_VERSION:
        raise source.error(
            f"IR version {proto.ir_version} is newer than {onnx.IR_VERSION}, the last "
            f"that onnx {onnx.__version__} knows",
            "install a newer onnx package, or write the model for an older version",
        )
    if not _is_text(proto):
        raise source.error(
            "names in it are no text", "write the file once more, or fetch it whole"
        )
    newest = onnx.defs.onnx_opset_version()
    for one in proto.opset_import:
        if one.domain in ("", "ai.onnx") and not OLDEST <= one.version <= newest:
            raise source.error(
                f"version {one.version} of ONNX's operators is not one of {OLDEST} to "
                f"{newest}",
                "convert the model with onnx.version_converter.convert_version",
            )
    return proto


def _is_text(message):
    """Whether all that should be text in a message is: protobuf gives bytes where not."""
    for field, value in message.ListFields():
        many = isinstance(value, Sized) and not isinstance(value, (str, bytes))
        if field.type == field.TYPE_STRING:
            if not all(isinstance(one, str) for one in (value if many else [value])):
                return False
        elif field.type == field.TYPE_MESSAGE:
            if not all(map(_is_text, value if many else [value])):
                return False
    return True


# -- tensors -----------------------------------------------------------------------------


def _external_bytes(proto, source, what):
    """The bytes of a tensor that lie in another file of the model's folder."""
    entries = {one.key: one.value for one in proto.external_data}
    location = entries.get("location", "")
    remedy = "keep the file of weights in the model's folder"
    if source.folder is None:
        raise source.error(f"{what} lies in {location!r}, but the model has no folder",
                           "load the model by its path")  # fmt: skip
    root = os.path.realpath(source.folder)
    path = os.path.realpath(os.path.join(root, location))
    if (
        not location
        or os.path.isabs(location)
        or os.path.commonpath([root, path]) != root
    ):
        raise source.error(
            f"{what} lies outside of the model's folder: {location!r}", remedy
        )
    try:
        offset, length = (int(entries.get(key, 0)) for key in ("offset", "length"))
        size = os.path.getsize(path)
    except (ValueError, OSError) as error:
        raise source.error(
            f"{what} cannot be read from {location!r}: {error}", remedy
        ) from None
    if not os.path.isfile(path):
        raise source.error(f"{what} lies in {location!r}, which is no file", remedy)
    length = length if "length" in entries else size - offset
    if offset < 0 or length < 0 or offset + length > size:
        raise source.error(
            f"{what} has bytes {offset} to {offset + length} of {location!r}, which ends "
            f"at {size}", "fetch the file of weights once more, whole",
        )  # fmt: skip
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def tensor_of(proto, source, what):
    """A tensor of a message.

    Args:
        proto: the message.
        source: where it comes from.
        what: what messages call it.

    Raises:
        OnnxLoadError: its bytes are not those of its sizes, or its type is not known.
    """
    dtype, sizes = dtype_of(proto.data_type), list(proto.dims)
    if dtype is None:
        raise source.error(f"{what} has elements of ONNX's type {proto.data_type}, which "
                           "are not there in Rushlight", "convert the model's weights")  # fmt: skip
    if any(size < 0 for size in sizes) or math.prod(sizes) > _MOST_ELEMENTS:
        raise source.error(f"{what} has sizes {sizes}")
    count = math.prod(sizes)
    if proto.data_location == proto.EXTERNAL:
        raw = _external_bytes(proto, source, what)
    elif proto.HasField("raw_data"):
        raw = proto.raw_data
    else:
        return _from_fields(proto, dtype, sizes, source, what)
    if len(raw) != count * dtype.itemsize:
        raise source.error(
            f"{what} of {sizes} {dtype} has {len(raw)} bytes in place of "
            f"{count * dtype.itemsize}", "write the model once more",
        )  # fmt: skip
    if not count:
        return rl.empty(sizes, dtype=dtype)
    return rl.frombuffer(bytearray(raw), dtype=dtype).reshape(sizes)


def _from_fields(proto, dtype, sizes, source, what):
    """A tensor whose numbers are listed."""
    numbers = np.array(list(getattr(proto, _FIELDS.get(proto.data_type, "int32_data"))))
    wide = 2 if dtype.is_complex else 1
    if len(numbers) != math.prod(sizes) * wide:
        raise source.error(f"{what} of {sizes} has {len(numbers)} numbers")
    if not len(numbers):
        return rl.empty(sizes, dtype=dtype)
    if dtype.itemsize == 2 and dtype.is_floating_point:  # their bits are listed
        bits = rl.from_numpy(numbers.astype(np.uint16).view(np.int16).copy())
        return bits.view(dtype).reshape(sizes)
    if dtype.itemsize == 1 and dtype.is_floating_point:
        bits = rl.from_numpy(numbers.astype(np.uint8).copy())
        return bits.view(dtype).reshape(sizes)
    if dtype.is_complex:
        pairs = rl.from_numpy(numbers.astype(np.float64)).reshape(-1, 2)
        return rl.view_as_complex(pairs).to(dtype).reshape(sizes)
    return rl.from_numpy(numbers).to(dtype).reshape(sizes)


def attribute_of(proto, source, what):
    """An attribute as Python has it.

    Raises:
        OnnxLoadError: its kind is not known.
    """
    kind = proto.AttributeType.Name(proto.type)
    if kind == "INT":
        return proto.i
    if kind == "FLOAT":
        return proto.f
    if kind == "STRING":
        return proto.s.decode("utf-8", "replace")
    if kind == "INTS":
        return list(proto.ints)
    if kind == "FLOATS":
        return list(proto.floats)
    if kind == "STRINGS":
        return [one.decode("utf-8", "replace") for one in proto.strings]
    if kind == "TENSOR":
        return tensor_of(proto.t, source, f"{what}'s {proto.name}")
    if kind == "TYPE_PROTO":
        return None
    raise source.error(f"{what}'s attribute {proto.name!r} is of kind {kind}, which is not "
                       "known", "write the model without it")  # fmt: skip
