"""Kernels as a card's machine code, kept on disk between processes.

PTX is assembled by the driver, which takes milliseconds for each kernel. What comes out
is kept where the host's kernels are (`rushlight.runtime.cpu.code_cache`), under a digest of
their description, the card's architecture and the driver's version, with a checksum that is
verified before it is loaded.
"""

from __future__ import annotations

import os
import threading

from rushlight.runtime.cpu import code_cache
from rushlight.runtime.cpu.image import blake2b, checksum

MAGIC = b"RLCUBIN1"
SUFFIX = code_cache.DEVICE_SUFFIX
TARGET_FROM_CONTEXT = 8  # numbers of the driver's options and kinds of input
PTX = 1
# A function's attributes: threads of a block, and shared memory that a launch may ask for
THREADS_PER_BLOCK, OPTIN_SHARED_BYTES = 0, 8

counts = {"assembled": 0, "loaded": 0, "refused": 0}


class Modules:
    """The kernels that were loaded on a card."""

    def __init__(self, card):
        self.card = card
        self.lock = threading.Lock()
        self.functions: dict = {}
        self.modules: list = []

    def function(self, key, entry, build):
        """The driver's handle of a kernel.

        Args:
            key: the bytes that its description is known by.
            entry: the kernel's name in its text.
            build: returns the text, PTX, where its machine code is not on disk.
        """
        found = self.functions.get((key, entry))
        if found is not None:
            return found
        with self.lock:
            found = self.functions.get((key, entry))
            if found is None:
                found = self.load(key, entry, build)
                self.functions[key, entry] = found
        return found

    def load(self, key, entry, build):
        """Has the driver load a kernel, from its machine code on disk if that is there."""
        digest = self.digest(key)
        code = stored(digest)
        if code is not None:
            failed, values = self.card.ask("cuModuleLoadData", code)
            if not failed:
                counts["loaded"] += 1
                return self.find(values[0], entry)
            counts["refused"] += 1
        code = self.assemble(build(), entry)
        found = self.find(self.card.call("cuModuleLoadData", code), entry)
        keep(digest, code)
        return found

    def find(self, module, entry):
        """A kernel of a loaded module."""
        self.modules.append(module)
        return self.card.call("cuModuleGetFunction", module, entry.encode())

    def digest(self, key):
        """What the machine code of a description is known by, for this card."""
        card = self.card
        facts = f"{MAGIC} {card.driver.version} {card.architecture} ".encode()
        return blake2b(facts + key, digest_size=16).digest()

    def assemble(self, text, entry):
        """The machine code of a text, for this card."""
        counts["assembled"] += 1
        kind = self.card.driver.bindings.CUjitInputType(PTX)
        data = text.encode() + b"\0"
        state = self.card.call("cuLinkCreate", 0, [], [])
        try:
            self.card.call(
                *("cuLinkAddData", state, kind, data, len(data)),
                *(entry.encode(), 0, [], []),
            )
            address, size = self.card.call("cuLinkComplete", state)
            return bytes_at(int(address), int(size))
        finally:
            self.card.call("cuLinkDestroy", state)


def allow_shared(card, function, bytes):
    """Lets launches of a kernel ask for more shared memory than any card gives.

    It is not in the machine code, so that the driver is told whenever that is loaded.
    """
    which = card.driver.bindings.CUfunction_attribute(OPTIN_SHARED_BYTES)
    card.call("cuFuncSetAttribute", function, which, bytes)


def most_threads(card, function):
    """How many threads a block of a kernel may have: its registers tell."""
    which = card.driver.bindings.CUfunction_attribute(THREADS_PER_BLOCK)
    return int(card.call("cuFuncGetAttribute", which, function))


def bytes_at(address, size):
    """A copy of what lies at an address of the host's."""
    import ctypes

    return ctypes.string_at(address, size)


def path_of(digest):
    """The file of a digest; None where nothing is kept."""
    place = code_cache.directory()
    return place and os.path.join(place, digest.hex() + SUFFIX)


def stored(digest):
    """Machine code that was kept; None where there is none, or it is damaged."""
    path = path_of(digest)
    if path is None:
        return None
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return None
    head = len(MAGIC) + 32
    sound = (
        data[: len(MAGIC)] == MAGIC
        and data[len(MAGIC) : len(MAGIC) + 16] == digest
        and data[len(MAGIC) + 16 : head] == checksum(data[head:])
    )
    if not sound:
        counts["refused"] += 1
        return None
    return data[head:]


def keep(digest, code):
    """Keeps machine code for the next process."""
    path = path_of(digest)
    if path is not None:
        code_cache.write_atomically(path, MAGIC + digest + checksum(code) + code)
