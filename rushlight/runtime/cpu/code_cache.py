"""Finds a kernel's machine code: in memory, in the pack, in its own file, or builds it.

A kernel is known by what it computes: a digest of its LLVM IR, the LLVM release and
this CPU. Notes lead there from what is known before anything is compiled: the kernel's
specialisation, a digest of all that describes it, and the compiler's sources. The
directory is ``$RUSHLIGHT_CACHE``, else ``rushlight/<cpu>`` in the user's cache
directory; one that others may write is not used. What it does not have may have come
with the package, in packs for processors of a level. Where single files take more than
``$RUSHLIGHT_CACHE_LIMIT`` bytes (1 GiB), the oldest go. Entries are written to a temporary
file and renamed, so processes may fill the cache side by side; an entry whose header or
checksum does not hold is replaced, never run.

``python -m rushlight.runtime.cpu.code_cache pack`` joins the single files into one pack
that is mapped once; ``list`` and ``clear`` do what they say.
"""

import functools
import os
import struct
import sys

from rushlight.core import logs, spans
from rushlight.core.launch_args import FIELD_OFFSETS
from rushlight.core.progress import Progress
from rushlight.runtime.cpu.image import (
    Image,
    ImageError,
    blake2b,
    body_of,
    checksum,
    pack,
)

FORMAT = 3  # part of every key; raised, all is forgotten
PACK_MAGIC = b"RLPACK01"
PACK_HEADER = struct.Struct("<8sQ16s")  # magic, entries, checksum of the index
PACK_ENTRY = struct.Struct("<16sQQ")  # key, offset, length
SUFFIX = ".kernel"
NOTE_SUFFIX = ".note"
DEVICE_SUFFIX = ".cubin"  # of devices' machine code, which is not packed
BUNDLE_SUFFIX = ".bundle"  # and of what a program needs of that, linked
DEVICE_SUFFIXES = (DEVICE_SUFFIX, BUNDLE_SUFFIX)
NOTE_MAGIC = b"RLNOTE01"  # then the note's own key, the kernel's, and a checksum
NOTE_SIZE = 56

counts = {"built": 0, "loaded": 0, "refused": 0}
_kernels: dict = {}
by_address: dict = {}  # all that were ever found, by where their machine code starts


def load_or_build(key: tuple, entry: str, build):
    """The kernel for ``key``, from the cache where it is there.

    Args:
        key: name, specialisation, source digest; its ``repr`` tells kernels apart.
        entry: the function in the object file.
        build: called without arguments on a miss; returns the object file's bytes.

    Returns:
        A `NativeKernel`; the same one for the same key.
    """
    digest = key_digest(key, entry)
    kernel = _kernels.get(digest)
    if kernel is None:
        kernel = _stored(digest, entry) or _built(digest, entry, build)
        kernel = _keep(digest, kernel)
    return kernel


def native(name: str, digest: str, lower):
    """The kernel of a loop-IR function.

    Args:
        name: what the function is called, which also tells its specialisations apart.
        digest: of all that decides what it computes but the sources of the compiler and
            of `kernels`, which are in every key (see `codegen.fingerprint`).
        lower: called without arguments on a miss; returns the function.
    """
    note = key_digest((name, digest), name)
    kernel = _kernels.get(note)
    if kernel is None:
        key = _noted(note)
        if key is not None:
            kernel = _kernels.get(key) or _stored(key, name)
        if kernel is None:
            kernel = _shipped_kernel(name, digest)
        if kernel is None:
            kernel = _lowered(name, note, lower)
        kernel = _keep(note, kernel)
    return kernel


def _lowered(name, note, lower):
    """The kernel of a function that no note knows."""
    from rushlight.codegen.emit.llvm import emit

    if logs.caching.active:
        logs.caching.say(
            f"{name}: lowered: no note in {directory()} knows it", line=True
        )
    token = spans.begin(f"kernel_cache::lower {name}")
    try:
        text = emit(lower())
    finally:
        spans.end(token)
    kernel = native_text(name, text)
    _write_note(note, text_digest(text))
    return kernel


def native_text(name: str, text: str):
    """The kernel of a module of LLVM IR; the same one for the same text."""

    def build():
        from rushlight.codegen.toolchain import compile_ir

        return compile_ir(text).object

    key = text_digest(text)
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _stored(key, name) or _built(key, name, build)
        kernel = _keep(key, kernel)
    return kernel


def _keep(key, kernel):
    """The kernel that everybody has for a key: the first one, if several threads made it.

    Plans keep the address of a kernel alone: code that one of them may have must stay.
    """
    kernel = _kernels.setdefault(key, kernel)
    by_address[kernel.address] = kernel
    return kernel


def text_digest(text: str) -> bytes:
    """The 16 bytes that name what a module of LLVM IR is compiled to."""
    target = f"{FORMAT}\0{llvm_release()}\0{toolchain_digest()}\0{cpu_identity()}\0"
    return blake2b((target + text).encode(), digest_size=16).digest()


def key_digest(key: tuple, entry: str) -> bytes:
    """The 16 bytes that name a kernel on this machine."""
    text = f"{key!r}\0{entry}\0".encode()
    return blake2b(text + _environment(), digest_size=16).digest()


def _stored(digest, entry):
    """The kernel from the disk, or None; damaged files are removed."""
    packed = _packed_entries().get(digest)
    if packed is not None:
        kernel = _opened(packed, digest, entry)
        if kernel is not None:
            return kernel
        _damaged.add(digest)
    path = _path(digest)
    packed = _read(path) if path else None
    if packed is None:
        return None
    kernel = _opened(packed, digest, entry)
    if kernel is None:
        _remove(path)
    return kernel


def _opened(packed, digest, entry):
    """The kernel of a packed image, or None where it is damaged."""
    token = spans.begin(f"kernel_cache::load {entry}")
    try:
        kernel = Image(packed, digest).kernel(entry)
    except ImageError as error:
        counts["refused"] += 1
        if logs.caching.active:
            logs.caching.say(f"{entry}: refused, and made again: {error}")
        return None
    finally:
        spans.end(token)
    counts["loaded"] += 1
    if logs.caching.active:
        logs.caching.say(f"{entry}: read, {len(packed)} bytes")
    return kernel


# Shown while a kernel is compiled, on a terminal, once that has happened for a while.
_compiling = Progress("compiling kernels", after=2.0)
_damaged: set = set()  # entries of the pack that are to be replaced


def _built(digest, entry, build):
    from rushlight.runtime.cpu.link import link

    token = spans.begin(f"kernel_cache::compile {entry}")
    _compiling.add(1, f"compiling kernels: {entry}")
    try:
        packed = pack(link(build()), digest)
        kernel = Image(packed, digest).kernel(entry)
    finally:
        _compiling.erase()
        spans.end(token)
    path = _path(digest)
    if logs.caching.active:
        place = path or "nowhere: the cache has no folder"
        logs.caching.say(f"{entry}: compiled: nothing with its digest; kept in {place}")
    if path and write_atomically(path, packed) and digest in _damaged:
        _damaged.discard(digest)
        merge()
    counts["built"] += 1
    if path and counts["built"] % CHECKED_EVERY == 1:
        trim(_limit())
    return kernel


# Notes: the key that a kernel was found to have.


def _noted(note):
    """The key that a note leads to, or None."""
    for data in (_packed_entries().get(note), _read(_path(note, NOTE_SUFFIX))):
        if data is not None and _is_note(data, note):
            return bytes(data[24:40])
    return None


# Packs that came with the package: kernels for a level of processors, not this one.

PACKS = os.path.join(os.path.dirname(__file__), "packs")


@functools.cache
def _shipped():
    """The level that this processor is of, and its pack; None where there is none."""
    from rushlight.codegen.target import current, level_of

    level = level_of(current())
    path = level and os.path.join(PACKS, f"{level.name}.pack")
    return (level, Pack(path)) if path and os.path.exists(path) else None


def _shipped_kernel(name, digest):
    """A kernel that came with the package, or None."""
    found = _shipped()
    if found is None:
        return None
    from rushlight.codegen.target import using

    level, entries = found
    with using(level):
        note = key_digest((name, digest), name)
    data = entries.get(note)
    if data is None or not _is_note(data, note):
        return None
    key = bytes(data[24:40])
    packed = entries.get(key)
    return None if packed is None else _opened(packed, key, name)


def ship(kernels: dict, target, path: str) -> int:
    """Compiles kernels for a target into a pack; returns the pack's bytes.

    Args:
        kernels: name to a pair of the description's digest and what lowers it, as
            `native` is given them.
    """
    from rushlight.codegen.emit.llvm import emit
    from rushlight.codegen.target import using
    from rushlight.codegen.toolchain import compile_ir
    from rushlight.runtime.cpu.link import link

    images = {}
    with using(target):
        for name, (digest, lower) in kernels.items():
            text = emit(lower())
            key, note = text_digest(text), key_digest((name, digest), name)
            images[key] = pack(link(compile_ir(text).object), key)
            images[note] = _note(note, key)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = joined(images)
    with open(path, "wb") as file:
        file.write(data)
    return len(data)


def _is_note(data, note):
    data = bytes(data)
    return (
        len(data) == NOTE_SIZE
        and data[:24] == NOTE_MAGIC + note
        and checksum(data[:40]) == data[40:]
    )


def _write_note(note, key):
    path = _path(note, NOTE_SUFFIX)
    if path:
        write_atomically(path, _note(note, key))


def _note(note, key):
    data = NOTE_MAGIC + note + key
    return data + checksum(data)


# What a key depends on besides the kernel's own sources.


def _environment() -> bytes:
    text = f"{FORMAT}\0{llvm_release()}\0{compiler_digest()}\0{cpu_identity()}"
    return text.encode()


def cpu_identity() -> str:
    """What the code in the cache runs on: the processor's model and instruction sets."""
    from rushlight.codegen.target import current

    return current().identity


@functools.cache
def llvm_release() -> str:
    """llvmlite's version, read without importing it."""
    for folder in sys.path:
        try:
            with open(
                os.path.join(folder, "llvmlite", "_version.py"), encoding="utf-8"
            ) as file:
                return file.read()
        except OSError:
            continue
    return "none"


def _package() -> str:
    return os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))


@functools.cache
def toolchain_digest() -> str:
    """A digest of what asks LLVM for machine code, by which a text becomes other code."""
    return source_digest(os.path.join(_package(), "codegen", "toolchain.py"))


@functools.cache
def compiler_digest() -> str:
    """A digest of every source file of the compiler package, and of the records of launches."""
    package = _package()
    joined = blake2b(repr(FIELD_OFFSETS).encode(), digest_size=16)
    for room in ("codegen", "ir", "kernels", "tensor_expressions"):
        for folder, folders, files in os.walk(os.path.join(package, room)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    joined.update(source_digest(os.path.join(folder, name)).encode())
    _known_sources().save()
    return joined.hexdigest()


def source_digest(path: str) -> str:
    """A digest of a file's contents, remembered while its size and time stay."""
    return _known_sources().digest(path)


@functools.cache
def _known_sources():
    return _Sources()


class _Sources:
    """Digests of source files, kept in the cache directory between processes."""

    def __init__(self):
        self.rows = {}
        self.changed = False
        place = directory()
        self.path = place and os.path.join(place, "sources")
        data = _read(self.path) if self.path else None
        if data and checksum(data[16:]) == data[:16]:
            for line in data[16:].decode().splitlines():
                path, time, size, digest = line.split("\t")
                self.rows[path] = (int(time), int(size), digest)

    def digest(self, path):
        facts = os.stat(path)
        row = self.rows.get(path)
        if row is None or row[:2] != (facts.st_mtime_ns, facts.st_size):
            with open(path, "rb") as file:
                digest = blake2b(file.read(), digest_size=16).hexdigest()
            row = self.rows[path] = (facts.st_mtime_ns, facts.st_size, digest)
            self.changed = True
        return row[2]

    def save(self):
        if self.changed and self.path:
            text = "\n".join(
                "\t".join(map(str, (path, *row))) for path, row in self.rows.items()
            ).encode()
            write_atomically(self.path, checksum(text) + text)
        self.changed = False


# Files.


@functools.cache
def directory() -> str | None:
    """Where entries are kept, made if needed; None where that isn't possible."""
    place = os.environ.get("RUSHLIGHT_CACHE")
    chosen = bool(place)
    if not chosen:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        cpu = blake2b(cpu_identity().encode(), digest_size=6).hexdigest()
        place = os.path.join(home, "rushlight", cpu)
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        facts = os.stat(place)
    except OSError:
        return None
    # Code is run from here: nobody else may be able to put it here.
    others_write = facts.st_mode & 0o022 or facts.st_uid not in (0, os.getuid())
    if not others_write:
        return place
    if chosen:
        import warnings

        warnings.warn(
            f"RUSHLIGHT_CACHE={place} is not used: other users may write there, and "
            "compiled kernels would be run from it. Nothing is kept between processes."
            f"\n  remedy: chmod go-w {place}, or choose a directory of your own",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def _path(digest, suffix=SUFFIX):
    place = directory()
    return place and os.path.join(place, digest.hex() + suffix)


def _read(path):
    if path is None:
        return None
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return None


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def write_atomically(path: str, data: bytes) -> bool:
    """Puts a whole file in place at once; False where the directory refuses."""
    import threading

    folder, name = os.path.split(path)
    temporary = os.path.join(
        folder, f".{name}.{os.getpid()}.{threading.get_ident()}.new"
    )
    try:
        # For the owner alone, whatever the mask: nobody else may change code.
        mode = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(temporary, mode, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        return False
    return True


# The pack: an index of keys, then the images behind one another.


class Pack:
    """A pack file mapped into memory; a damaged one has no entries."""

    def __init__(self, path):
        self.rows = {}
        self.data = b""
        if path is None or not os.path.exists(path):
            return
        import mmap

        try:
            with open(path, "rb") as file:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return
        if len(self.data) >= PACK_HEADER.size:
            self.read_index()

    def read_index(self):
        magic, count, expected = PACK_HEADER.unpack_from(self.data)
        end = PACK_HEADER.size + count * PACK_ENTRY.size
        index = self.data[PACK_HEADER.size : end]
        if magic != PACK_MAGIC or end > len(self.data) or checksum(index) != expected:
            counts["refused"] += 1
            return
        for key, offset, length in PACK_ENTRY.iter_unpack(index):
            self.rows[key] = (offset, length)

    def get(self, digest):
        """The packed image of a key, or None."""
        row = self.rows.get(digest)
        if row is None:
            return None
        offset, length = row
        return memoryview(self.data)[offset : offset + length]


@functools.cache
def _packed_entries():
    place = directory()
    return Pack(place and os.path.join(place, "pack"))


def merge() -> int:
    """Joins the pack and the single files into a new pack; returns its entries."""
    place = directory()
    if place is None:
        return 0
    old = Pack(os.path.join(place, "pack"))
    images = {key: bytes(old.get(key)) for key in old.rows}
    names = [n for n in os.listdir(place) if n.endswith((SUFFIX, NOTE_SUFFIX))]
    for name in names:
        key = bytes.fromhex(name.partition(".")[0])
        data = _read(os.path.join(place, name)) or b""
        if _is_sound(data, key):
            images[key] = data
    images = {
        key: packed for key, packed in sorted(images.items()) if _is_sound(packed, key)
    }
    if write_atomically(os.path.join(place, "pack"), joined(images)):
        for name in names:
            _remove(os.path.join(place, name))
    _packed_entries.cache_clear()
    return sum(len(packed) != NOTE_SIZE for packed in images.values())


def joined(images) -> bytes:
    """The file of a pack: header, index, and the images in the order of their keys."""
    index, offset = [], PACK_HEADER.size + PACK_ENTRY.size * len(images)
    images = dict(sorted(images.items()))
    for key, packed in images.items():
        index.append(PACK_ENTRY.pack(key, offset, len(packed)))
        offset += len(packed)
    rows = b"".join(index)
    header = PACK_HEADER.pack(PACK_MAGIC, len(images), checksum(rows))
    return b"".join([header, rows, *images.values()])


# The limit: what single files may take together.

LIMIT, CHECKED_EVERY = 1 << 30, 256


def _limit() -> int:
    try:
        return int(os.environ.get("RUSHLIGHT_CACHE_LIMIT", LIMIT))
    except ValueError:
        return LIMIT


def trim(limit: int) -> int:
    """Deletes the oldest single files until they take three quarters of a limit.

    Nothing happens where they take less than the limit. Returns how many are gone.
    """
    place, files = directory(), []
    if place is None:
        return 0
    for entry in os.scandir(place):
        if entry.name.endswith((SUFFIX, NOTE_SUFFIX, *DEVICE_SUFFIXES)):
            try:
                facts = entry.stat()
            except OSError:
                continue  # another process took it away
            files.append((facts.st_mtime_ns, facts.st_blocks * 512, entry.path))
    total, gone = sum(size for _, size, _ in files), 0
    if total <= limit:
        return 0
    for _, size, path in sorted(files):
        if total <= limit * 3 // 4:
            break
        _remove(path)
        total, gone = total - size, gone + 1
    return gone


def _is_sound(packed, key):
    if _is_note(packed, key):
        return True
    try:
        body_of(packed, key)
    except ImageError:
        return False
    return True


def clear() -> int:
    """Deletes every entry of the directory; returns how many files that were."""
    place = directory()
    names = (
        []
        if place is None
        else [
            name
            for name in os.listdir(place)
            if name.endswith((SUFFIX, NOTE_SUFFIX, *DEVICE_SUFFIXES, ".new"))
            or name in ("pack", "sources")
        ]
    )
    for name in names:
        _remove(os.path.join(place, name))
    _packed_entries.cache_clear()
    _known_sources.cache_clear()
    return len(names)


def forget() -> None:
    """Drops the kernels found so far, so that the next call asks the disk where it is now."""
    _kernels.clear()
    for found in (directory, _packed_entries, _shipped):
        found.cache_clear()


def main(arguments: list) -> int:
    """Runs ``pack``, ``list`` or ``clear``."""
    command = arguments[0] if len(arguments) == 1 else ""
    if command == "pack":
        print(f"{merge()} kernels in {os.path.join(directory() or '', 'pack')}")
    elif command == "list":
        place = directory()
        single = [n for n in os.listdir(place) if n.endswith(SUFFIX)] if place else []
        print(f"{place}: {len(_packed_entries().rows)} packed, {len(single)} single")
    elif command == "clear":
        print(f"{clear()} files deleted from {directory()}")
    else:
        print("usage: python -m rushlight.runtime.cpu.code_cache pack|list|clear")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
