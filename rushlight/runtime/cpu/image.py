"""Flat images of machine code: packed for the disk, and mapped to run.

A packed image is a header (magic, key digest, length, checksum) and a body: the
function table, the slots to fill in, the code. Nothing of a body is looked at before
its checksum holds, and memory is never writable and executable at once.
"""

import struct

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.posix import (
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_PRIVATE,
    PROT_EXEC,
    PROT_READ,
    PROT_WRITE,
    __builtin___clear_cache,
    dlsym,
    mmap,
    mprotect,
    munmap,
)
from cython.cimports.rushlight.runtime.cpu.launch import NativeKernel
from cython.cimports.rushlight.runtime.cpu.scratch import scratch

try:
    from _blake2 import blake2b  # hashlib's own; hashlib would load OpenSSL as well
except ImportError:
    from hashlib import blake2b

MAGIC = b"RLIMAGE1"
HEADER = struct.Struct("<8s16sQ16s")  # magic, key, length of the body, its checksum
COUNTS = struct.Struct("<IIII")  # bytes of code; symbols, relative, external
SYMBOL = struct.Struct("<IH")  # offset, length of the name
RELATIVE = struct.Struct("<Iq")  # slot, offset
EXTERNAL = struct.Struct("<IqH")  # slot, addend, length of the name


@cython.cfunc
def function_named(name: bytes) -> cython.p_void:
    """A function that generated code calls: the runtime's, or the C library's."""
    if name == b"rushlight_scratch":
        return cython.cast(cython.p_void, scratch)
    return dlsym(cython.NULL, name)


class ImageError(RuntimeError):
    """An image is damaged, foreign, or needs what this process doesn't have."""


def checksum(data) -> bytes:
    """16 bytes that change when any byte of ``data`` does."""
    return blake2b(data, digest_size=16).digest()


def pack(flat, key: bytes) -> bytes:
    """The bytes to keep on disk for a linked image (`link.Flat`)."""
    parts = [
        COUNTS.pack(
            len(flat.code), len(flat.symbols), len(flat.relative), len(flat.external)
        )
    ]
    for name, offset in flat.symbols.items():
        text = name.encode()
        parts += SYMBOL.pack(offset, len(text)), text
    for slot, offset in flat.relative:
        parts.append(RELATIVE.pack(slot, offset))
    for slot, addend, name in flat.external:
        text = name.encode()
        parts += EXTERNAL.pack(slot, addend, len(text)), text
    parts.append(bytes(flat.code))
    body = b"".join(parts)
    return HEADER.pack(MAGIC, key, len(body), checksum(body)) + body


def body_of(packed, key: bytes):
    """The verified body of a packed image.

    Raises:
        ImageError: it is damaged, or made under another key or by another version.
    """
    if len(packed) < HEADER.size:
        raise ImageError(f"image: {len(packed)} bytes are too few")
    magic, found, length, expected = HEADER.unpack_from(packed)
    body = memoryview(packed)[HEADER.size :]
    if magic != MAGIC or found != key or length != len(body):
        raise ImageError("image: foreign header")
    if checksum(body) != expected:
        raise ImageError("image: the checksum doesn't hold")
    return body


@cython.final
@cython.cclass
class Image:
    """Machine code mapped into the process, freed with the last kernel that uses it.

    Args:
        packed: what `pack` made.
        key: the digest it was made under.

    Raises:
        ImageError: the bytes are damaged or foreign, or a C function is missing.
        MemoryError: the system has no memory for the code.
    """

    base: cython.p_char
    size: cython.size_t
    symbols: dict
    slots: tuple

    def __init__(self, packed, key: bytes):
        body = body_of(packed, key)
        code_size, n_symbols, n_relative, n_external = COUNTS.unpack_from(body)
        at = COUNTS.size
        self.symbols = {}
        for _ in range(n_symbols):
            offset, length = SYMBOL.unpack_from(body, at)
            at += SYMBOL.size + length
            self.symbols[bytes(body[at - length : at]).decode()] = offset
        relative = [
            RELATIVE.unpack_from(body, at + i * RELATIVE.size)
            for i in range(n_relative)
        ]
        at += n_relative * RELATIVE.size
        external = []
        for _ in range(n_external):
            slot, addend, length = EXTERNAL.unpack_from(body, at)
            at += EXTERNAL.size + length
            external.append((slot, addend, bytes(body[at - length : at])))
        self.slots = relative, external
        self.map_code(bytes(body[at : at + code_size]), relative, external)

    def map_code(self, code: bytes, relative: list, external: list):
        """Copies the code to fresh pages, fills the slots in, makes it executable."""
        size: cython.size_t = max(len(code), 1)
        source: cython.p_char = code
        memory: cython.p_void = mmap(
            cython.NULL,
            size,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0,
        )
        if memory == MAP_FAILED:
            raise MemoryError(f"image: no memory for {size} bytes of code")
        self.base = cython.cast(cython.p_char, memory)
        self.size = size
        memcpy(self.base, source, len(code))
        for slot, offset in relative:
            start: uintptr_t = cython.cast(uintptr_t, self.base)
            self.fill(slot, start + cython.cast(int64_t, offset))
        for slot, addend, name in external:
            function: cython.p_void = function_named(name)
            if function == cython.NULL:
                raise ImageError(f"image: no function {name.decode()} in this process")
            start = cython.cast(uintptr_t, function)
            self.fill(slot, start + cython.cast(int64_t, addend))
        __builtin___clear_cache(self.base, self.base + size)
        if mprotect(memory, size, PROT_READ | PROT_EXEC) != 0:
            raise ImageError("image: the system refuses executable memory")

    @cython.cfunc
    @cython.exceptval(-1)
    def fill(self, slot: cython.size_t, value: uintptr_t) -> cython.int:
        if slot + 8 > self.size:
            raise ImageError(f"image: slot {slot} is outside {self.size} bytes of code")
        memcpy(self.base + slot, cython.address(value), 8)
        return 0

    def contents(self) -> tuple:
        """The code, with slots filled in, its symbols, and the slots as `link` has them."""
        code: bytes = self.base[: self.size]
        return code, dict(self.symbols), *self.slots

    def kernel(self, name: str) -> NativeKernel:
        """One of the image's functions.

        Raises:
            ImageError: it has no function of that name.
        """
        offset = self.symbols.get(name)
        if offset is None or offset >= self.size:
            raise ImageError(
                f"image: no function {name!r}, only {sorted(self.symbols)}"
            )
        start: uintptr_t = cython.cast(uintptr_t, self.base)
        return NativeKernel(name, start + cython.cast(int64_t, offset), self)

    def __dealloc__(self):
        if self.base != cython.NULL:
            munmap(self.base, self.size)
