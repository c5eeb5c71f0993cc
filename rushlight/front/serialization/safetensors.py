"""Files in the safetensors format: a header of names and places, then plain numbers.

Eight bytes say how long the header is, which is JSON: a dtype, sizes and two ends in
the bytes that follow for every tensor, and text under ``__metadata__``.
"""

import json
import math
import mmap
import os
import struct

import rushlight as rl
from rushlight.core.storage import UntypedStorage
from rushlight.core.window import make_tensor
from rushlight.io import interop
from rushlight.io.serialization import replacing

LONGEST_HEADER = 100_000_000
ALIGNMENT = 8
METADATA = "__metadata__"
NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}
CODES = {name: code for code, name in NAMES.items()}


# -- writing -------------------------------------------------------------------------


def _header(tensors, metadata):
    """The header, and the tensors in the order of their bytes."""
    if not isinstance(tensors, dict):
        raise ValueError(
            f"Expected a dict of [str, Tensor] but received {type(tensors)}"
        )
    entries: dict = {}
    if metadata is not None:
        if any(not isinstance(v, str) for item in metadata.items() for v in item):
            raise TypeError("safetensors: metadata is a dict from text to text")
        entries[METADATA] = metadata
    for name, tensor in tensors.items():
        if not isinstance(tensor, rl.Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected Tensor but received {type(tensor)}"
            )
        if tensor.dtype.name not in CODES:
            raise ValueError(f"safetensors: {tensor.dtype} cannot be written")
    _refuse_shared(tensors)
    # Wider elements first, so that every tensor starts at a multiple of its own.
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    at = 0
    for name in names:
        tensor = tensors[name]
        end = at + tensor.numel() * tensor.itemsize
        entries[name] = {
            "dtype": CODES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text, [tensors[name] for name in names]


def _refuse_shared(tensors):
    """Refuses tensors that share memory: the format could not say so."""
    owners: dict = {}
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.device.has_memory:
            owners.setdefault(id(tensor.untyped_storage()), []).append(name)
    shared = [names for names in owners.values() if len(names) > 1]
    if shared:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on disk and "
            f"potential differences when loading them again: {shared}.\n"
            "  remedy: leave all but one of them out, or save a clone() of each"
        )


def _bytes_of(tensor):
    return interop.buffer_of(tensor.detach().resolve_conj().resolve_neg().contiguous())


def save(tensors, metadata=None) -> bytes:
    """A dict of tensors as the bytes of a safetensors file.

    Args:
        tensors: from names to tensors that share no memory.
        metadata: from text to text.

    Raises:
        RuntimeError: two of the tensors share memory.
        ValueError: something is no tensor, or its dtype has no place in the format.

    >>> from rushlight.serialization import safetensors
    >>> safetensors.load(safetensors.save({"a": rl.ones(2)}))
    {'a': tensor([1., 1.])}
    """
    header, ordered = _header(tensors, metadata)
    return b"".join([header, *(_bytes_of(tensor) for tensor in ordered)])


def save_file(tensors, filename, metadata=None) -> None:
    """Writes a dict of tensors to a safetensors file, whole or not at all.

    Args:
        tensors: from names to tensors that share no memory.
        filename: the path.
        metadata: from text to text.

    Raises:
        RuntimeError: two of the tensors share memory.
        ValueError: something is no tensor, or its dtype has no place in the format.
    """
    header, ordered = _header(tensors, metadata)
    with replacing(filename) as file:
        file.write(header)
        for tensor in ordered:
            file.write(_bytes_of(tensor))


# -- reading -------------------------------------------------------------------------


class _Entry:
    """One tensor's place in a file, every number of it looked at."""

    def __init__(self, name, facts, room):
        if not isinstance(facts, dict) or set(facts) != {
            "dtype",
            "shape",
            "data_offsets",
        }:
            raise ValueError(f"the entry of {name[:80]!r} is not that of a tensor")
        code, self.shape, ends = facts["dtype"], facts["shape"], facts["data_offsets"]
        if not isinstance(code, str) or code not in NAMES:
            raise ValueError(f"the dtype of {name[:80]!r} is not known")
        numbers = isinstance(self.shape, list) and isinstance(ends, list)
        if (
            not numbers
            or len(ends) != 2
            or not all(type(n) is int and 0 <= n < 2**62 for n in (*self.shape, *ends))
        ):
            raise ValueError(f"the sizes or the place of {name[:80]!r} are no numbers")
        self.dtype = getattr(rl, NAMES[code])
        self.start, self.end = ends
        wanted = math.prod(self.shape) * self.dtype.itemsize
        if not self.start <= self.end <= room or self.end - self.start != wanted:
            raise ValueError(
                f"{name[:80]!r} has {self.end - self.start} bytes from {self.start} "
                f"where its sizes want {wanted} and the file has {room}"
            )


def _unique(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("a name stands twice in its header")
    return dict(pairs)


def _parse(data, title):
    """The metadata, the entries by name, and where the numbers begin.

    Raises:
        RuntimeError: the file is damaged.
    """
    try:
        if len(data) < 8:
            raise ValueError("header too small")
        (length,) = struct.unpack_from("<Q", data)
        if length > LONGEST_HEADER:
            raise ValueError(f"header too large: {length} bytes")
        begin = 8 + length
        if begin > len(data):
            raise ValueError(f"a header of {length} bytes goes beyond its end")
        text = bytes(data[8:begin])
        if text[:1] != b"{":
            raise ValueError("its header does not start with a brace")
        found = json.loads(text.decode(), object_pairs_hook=_unique)
        metadata = found.pop(METADATA, None)
        if metadata is not None and not (
            isinstance(metadata, dict)
            and all(isinstance(value, str) for value in metadata.values())
        ):
            raise ValueError("its metadata is not text")
        room = len(data) - begin
        entries = {name: _Entry(name, facts, room) for name, facts in found.items()}
        at = 0
        for entry in sorted(entries.values(), key=lambda entry: entry.start):
            if entry.start != at:
                raise ValueError("its tensors overlap, or leave bytes between them")
            at = entry.end
        if at != room:
            raise ValueError(f"its tensors have {at} bytes of the {room} that follow")
    except (ValueError, RecursionError) as error:
        raise RuntimeError(
            f"Error while deserializing header: {error}\n  file: {title}, {len(data)} "
            "bytes\n  it is damaged or was cut short: fetch it again"
        ) from None
    return metadata or {}, entries, begin


def _tensors(data, title, device):
    _, entries, begin = _parse(data, title)
    found = {}
    for name, entry in entries.items():
        count = entry.end - entry.start
        if count == 0:
            found[name] = rl.empty(entry.shape, dtype=entry.dtype, device=device)
            continue
        if rl.device(device).type == "meta":
            found[name] = rl.empty(entry.shape, dtype=entry.dtype, device="meta")
            continue
        start = begin + entry.start
        if isinstance(data, mmap.mmap) and start % entry.dtype.itemsize == 0:
            storage = UntypedStorage.over_buffer(data, offset=start, count=count)
        else:
            storage = UntypedStorage(count)
            interop.storage_buffer(storage)[:] = data[start : start + count]
        strides, step = [], 1
        for size in reversed(entry.shape):
            strides.append(step)
            step *= size
        found[name] = make_tensor(
            storage, tuple(entry.shape), tuple(strides[::-1]), 0, entry.dtype
        ).to(device)
    return {name: found[name] for name in sorted(found)}


def load(data) -> dict:
    """The tensors of a safetensors file's bytes, by name.

    Raises:
        RuntimeError: the bytes are damaged.
    """
    return _tensors(memoryview(data).cast("B"), "bytes", "cpu")


def load_file(filename, device="cpu", mapped=True) -> dict:
    """The tensors of a safetensors file, by name.

    Args:
        filename: the path.
        device: where to put them.
        mapped: lend the file's pages, which come as they are used, to the tensors;
            changes stay with the program. Otherwise the file is read.

    Raises:
        RuntimeError: the file is damaged.
    """
    with open(filename, "rb") as file:
        if mapped and os.fstat(file.fileno()).st_size:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            return _tensors(pages, os.fspath(filename), device)
        return _tensors(memoryview(file.read()), os.fspath(filename), device)


def read_metadata(filename) -> dict[str, str]:
    """The text that a safetensors file holds beside its tensors.

    Raises:
        RuntimeError: the file is damaged.
    """
    with open(filename, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return _parse(b"", os.fspath(filename))[0]
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            return _parse(pages, os.fspath(filename))[0]
