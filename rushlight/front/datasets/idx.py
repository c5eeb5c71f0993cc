"""Files in the IDX format: a header with type and sizes, then the numbers."""

import math
import os
import struct

import rushlight as rl
from rushlight.io import interop

UNSIGNED_BYTE = 8


def read_idx(path, dims: int):
    """The numbers of an IDX file as a tensor of unsigned bytes.

    Args:
        path: the file, not compressed.
        dims: how many dimensions it must have.

    Raises:
        RuntimeError: it is not such a file, or has more or fewer bytes than it says.
    """
    with open(path, "rb") as file:
        data = file.read()
    fault = _fault(data, dims)
    if fault:
        raise RuntimeError(
            f"read_idx: {fault}\n  file: {os.fspath(path)}, {len(data)} bytes\n"
            "  delete it and pass download=True to fetch it again"
        )
    sizes = struct.unpack_from(f">{dims}I", data, 4)
    header = 4 + 4 * dims
    return interop.from_buffer(bytearray(data[header:]), rl.uint8, sizes)


def _fault(data: bytes, dims: int) -> str | None:
    """What is wrong with the bytes of a file, or ``None``."""
    if len(data) < 4:
        return "the file is too short for a header"
    zeros, kind, found = struct.unpack_from(">HBB", data)
    if zeros:
        packed = " (it is still compressed)" if data[:2] == b"\x1f\x8b" else ""
        return f"the first two bytes are {zeros:#06x}, not zero: no IDX file{packed}"
    if kind != UNSIGNED_BYTE:
        return f"the elements' type is {kind:#04x}, not {UNSIGNED_BYTE:#04x} for bytes"
    if found != dims:
        return f"the file has {found} dimensions where {dims} are wanted"
    header = 4 + 4 * dims
    if len(data) < header:
        return "the file ends inside its header"
    sizes = struct.unpack_from(f">{dims}I", data, 4)
    wanted = math.prod(sizes)
    if len(data) - header != wanted:
        change = "truncated" if len(data) - header < wanted else "too long"
        return (
            f"the file is {change}: sizes {list(sizes)} want {wanted} bytes after the "
            f"header, and there are {len(data) - header}"
        )
    return None
