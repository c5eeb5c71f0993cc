"""Kernels as a device's machine code, kept on disk between processes.

PTX is assembled by the driver, which takes milliseconds for each kernel. What comes out
is kept where the host's kernels are (`rushlight.runtime.cpu.code_cache`), under a digest of
their description, the device's architecture and the driver's version, with a checksum that is
verified before it is loaded.

A program does not know which kernel it needs next, so that the first run of it has a module
for each. One that loaded more than a few has their texts linked into one module when it ends,
a *bundle*, and loads that the next time. Machine code cannot be linked again, so that
the text is kept beside it.
"""

import contextlib
import os
import threading
import zlib

from rushlight.runtime.cpu import code_cache
from rushlight.runtime.cpu.image import blake2b, checksum

MAGIC = b"RLCUBIN2"
SUFFIX, BUNDLE_SUFFIX = code_cache.DEVICE_SUFFIX, code_cache.BUNDLE_SUFFIX
SEPARATE = 4  # modules that a program may load before it leaves a bundle
MOST_BUNDLES = 16  # that are kept: the newest
PTX = 1  # a kind of input, by the driver's number
PACKS = os.path.join(os.path.dirname(__file__), "packs")  # what came with the package
COMMON = bytes(16)  # under which a pack has the keys of what is linked into one module
# A function's attributes: threads of a block, and shared memory that a launch may ask for
THREADS_PER_BLOCK, OPTIN_SHARED_BYTES = 0, 8

counts = {"assembled": 0, "loaded": 0, "refused": 0}


class Modules:
    """The kernels that were loaded on a device.

    Attributes:
        functions: the driver's handles, by description and entry.
        used: the entries of those, by digest.
        bundled: pairs of a bundle's digest and machine code, by the digests of what is
            in them; None until somebody looks.
    """

    def __init__(self, ctx):
        self.ctx = ctx
        self.lock = threading.Lock()
        self.functions: dict = {}
        self.modules: list = []
        self.used: dict = {}
        self.bundled: dict | None = None
        self.opened: dict = {}  # modules of bundles
        self.shipped: code_cache.Pack | None = None

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
                digest = self.digest(key)
                module = self.bundle(digest) or self.link_common(key)
                if module is None:
                    found = self.load(
                        digest, entry, lambda: self.text_of(key) or build().encode()
                    )
                else:
                    found = self.find(module, entry)
                self.functions[key, entry] = found
                self.used[digest] = entry
        return found

    def load(self, digest, entry, build):
        """A kernel in a module of its own, from its machine code if that is on disk."""
        kept = stored(digest)
        if kept is not None:
            module = self.open(kept[1])
            if module is not None:
                counts["loaded"] += 1
                return self.find(module, entry)
            counts["refused"] += 1
        text = build()
        code = self.assemble([text])
        self.modules.append(self.ctx.call("cuModuleLoadData", code))
        found = self.find(self.modules[-1], entry)
        keep(digest, zlib.compress(text), code)
        return found

    def find(self, module, entry):
        """A kernel of a loaded module."""
        return self.ctx.call("cuModuleGetFunction", module, entry.encode())

    def open(self, code):
        """A module of machine code from the disk; None where the driver refuses it."""
        failed, values = self.ctx.ask("cuModuleLoadData", code)
        if failed:
            return None
        self.modules.append(values[0])
        return values[0]

    def bundle(self, digest):
        """The module of the bundle that a kernel is in, or None."""
        if self.bundled is None:
            self.bundled = {}
            for name, (rows, code) in stored_bundles():
                if self.digest(rows) == name:  # of this driver, and such a device
                    each = (rows[at : at + 16] for at in range(0, len(rows), 16))
                    self.bundled |= dict.fromkeys(each, (name, code))
        name, code = self.bundled.get(digest, (None, None))
        if name is not None and name not in self.opened:
            self.opened[name] = self.open(code)
        return self.opened.get(name)

    def link(self, texts):
        """The name and the machine code of a bundle of compressed texts, which is kept.

        Args:
            texts: by digest.
        """
        rows = b"".join(texts)
        code = self.assemble([zlib.decompress(text) for text in texts.values()])
        name = self.digest(rows)
        keep(name, rows, code, BUNDLE_SUFFIX)
        return name, code

    def text_of(self, key):
        """The text of a kernel that came with the package, or None."""
        if self.shipped is None:
            self.shipped = code_cache.Pack(pack_path(self.ctx.target.name))
        try:
            return zlib.decompress(self.shipped.get(key) or b"") or None
        except zlib.error:
            counts["refused"] += key in self.shipped.rows
            return None

    def link_common(self, key):
        """The module of what came with the package for most programs; None where a kernel
        is not among it."""
        if self.text_of(key) is None:
            return None
        rows = bytes(self.shipped.get(COMMON))
        keys = [rows[at : at + 16] for at in range(0, len(rows), 16)]
        if key not in keys:
            return None
        sound = [key for key in keys if self.text_of(key) is not None]
        texts = {self.digest(key): bytes(self.shipped.get(key)) for key in sound}
        self.bundled |= dict.fromkeys(texts, self.link(texts))
        return self.bundle(self.digest(key))

    def join(self):
        """Leaves a bundle of what was used, where that came from too many modules.

        Returns whether it did.
        """
        with self.lock:
            if len(self.modules) <= SEPARATE or folder() is None:
                return False
            kept = ((digest, stored(digest)) for digest in self.used)
            self.link({digest: file[0] for digest, file in kept if file is not None})
            for path in bundle_paths()[:-MOST_BUNDLES]:
                with contextlib.suppress(OSError):  # another process took it away
                    os.unlink(path)
            return True

    def digest(self, key):
        """What the machine code of a description is known by, for this device."""
        ctx = self.ctx
        facts = f"{MAGIC} {ctx.driver.version} {ctx.architecture} ".encode()
        return blake2b(facts + key, digest_size=16).digest()

    def assemble(self, texts):
        """The machine code of texts, for this device: one module."""
        counts["assembled"] += len(texts)
        kind = self.ctx.driver.bindings.CUjitInputType(PTX)
        state = self.ctx.call("cuLinkCreate", 0, [], [])
        try:
            for n, text in enumerate(texts):
                data = text + b"\0"
                self.ctx.call(
                    *("cuLinkAddData", state, kind, data, len(data)),
                    *(b"%d" % n, 0, [], []),
                )
            address, size = self.ctx.call("cuLinkComplete", state)
            return bytes_at(int(address), int(size))
        finally:
            self.ctx.call("cuLinkDestroy", state)


def allow_shared(ctx, function, bytes):
    """Lets launches of a kernel ask for more shared memory than any device gives.

    It is not in the machine code, so that the driver is told whenever that is loaded.

    Raises:
        RuntimeError: the device has not so much.
    """
    most = ctx.properties.shared_memory_per_block_optin
    if bytes > most:
        raise RuntimeError(
            f"a block would take {bytes} bytes of shared memory; {ctx.properties.name} "
            f"has {most}\n  remedy: smaller tiles"
        )
    which = ctx.driver.bindings.CUfunction_attribute(OPTIN_SHARED_BYTES)
    ctx.call("cuFuncSetAttribute", function, which, bytes)


def most_threads(ctx, function):
    """How many threads a block of a kernel may have: its registers tell."""
    which = ctx.driver.bindings.CUfunction_attribute(THREADS_PER_BLOCK)
    return int(ctx.call("cuFuncGetAttribute", which, function))


def bytes_at(address, size):
    """A copy of what lies at an address of the host's."""
    import ctypes

    return ctypes.string_at(address, size)


def folder():
    """Where machine code is kept; None where nothing is."""
    return code_cache.directory()


def path_of(digest, suffix=SUFFIX):
    """The file of a digest; None where nothing is kept."""
    place = folder()
    return place and os.path.join(place, digest.hex() + suffix)


def pack_path(target, place=None):
    """The file of what comes with the package for a target, by the target's name."""
    return os.path.join(place or PACKS, f"{target}.pack")


def bundle_paths():
    """The files of bundles, the newest last."""
    place = folder()
    names = os.listdir(place) if place else ()
    paths = [os.path.join(place, n) for n in names if n.endswith(BUNDLE_SUFFIX)]
    return sorted(paths, key=os.path.getmtime)


def stored_bundles():
    """Digests of the bundles that were kept, and what is in them, the newest last."""
    digests = [bytes.fromhex(os.path.basename(p)[:32]) for p in bundle_paths()]
    found = [(digest, stored(digest, BUNDLE_SUFFIX)) for digest in digests]
    return [(digest, kept) for digest, kept in found if kept is not None]


def stored(digest, suffix=SUFFIX):
    """What `keep` was given; None where there is none, or it is damaged."""
    path = path_of(digest, suffix)
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
    size = int.from_bytes(data[head : head + 8], "little")
    return data[head + 8 : head + 8 + size], data[head + 8 + size :]


def keep(digest, source, code, suffix=SUFFIX):
    """Keeps machine code for the next process.

    Args:
        digest: what it is known by.
        source: what it was made of: a compressed text, or a bundle's digests.
        code: the machine code.
        suffix: of the file.
    """
    path = path_of(digest, suffix)
    if path is not None:
        body = len(source).to_bytes(8, "little") + source + code
        code_cache.write_atomically(path, MAGIC + digest + checksum(body) + body)
