"""Checkpoint files: an archive of named records, written whole or not at all."""

import contextlib
import fcntl
import io
import math
import mmap
import os
import struct
import time
import zlib

from rushlight.core.dtype import all_dtypes
from rushlight.core.storage import UntypedStorage
from rushlight.core.window import make_tensor
from rushlight.io import interop

ALIGNMENT = 64  # of every record, so that a file can be mapped and used in place
LOCAL_HEADER = 30  # bytes of a zip record's own header, before its name
DTYPES = all_dtypes()
LARGEST = 2**62
OLDEST, NEWEST = 1, 10  # versions of the format that can be read
PATIENCE = 5  # seconds from a draft's last change until it may be found abandoned
WIDEST = 16  # bytes of an element: where it lies is a multiple of them
STORED = 0  # a zip record's way of compression: none


@contextlib.contextmanager
def replacing(path):
    """A file that takes the place of ``path`` once it is complete and on the disk.

    Whatever stops the writing, ``path`` holds either all of the old contents or all of
    the new.
    """
    target = os.path.realpath(os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:  # a device or a pipe cannot be replaced
            yield file
        return
    folder, name = os.path.split(target)
    remove_drafts(folder, name)
    draft = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.draft")
    try:
        with open(draft, "xb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until this process ends, however it does
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(draft, os.stat(target).st_mode & 0o7777)
        os.replace(draft, target)
        sync_folder(folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def remove_drafts(folder, name):
    """Removes what killed savings of this file have left: drafts that nobody writes."""
    start, now = f".{name}.", time.time()
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if not entry.name.startswith(start) or not entry.name.endswith(".draft"):
                continue
            with contextlib.suppress(OSError):
                if now - entry.stat().st_mtime < PATIENCE:
                    continue  # its writer may not have locked it yet
                with open(entry.path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)


def sync_folder(folder):
    """Makes a renaming in ``folder`` last through a loss of power."""
    descriptor = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Writer:
    """Writes records to an archive that PyTorch reads: a zip file, not compressed."""

    def __init__(self, file, folder, checksums=True):
        import zipfile  # takes longer to import than the rest of this module

        self.archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.checksums = checksums
        self.new_record = zipfile.ZipInfo
        self.folder = folder

    def record(self, name, data):
        """Adds one record; its first byte lies at a multiple of 64."""
        info = self.new_record(f"{self.folder}/{name}")
        start = self.archive.fp.tell() + LOCAL_HEADER + len(info.filename.encode()) + 4
        padding = -start % ALIGNMENT
        info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        self.archive.writestr(info, data)
        if not self.checksums:
            self.forget_checksum(info)

    def forget_checksum(self, info):
        """Makes a record's checksum none, in its header and in the directory."""
        info.CRC = 0
        file = self.archive.fp
        end = file.tell()
        file.seek(info.header_offset + 14)
        file.write(bytes(4))
        file.seek(end)

    def identity(self):
        """Forty digits that go by the names and the checksums of all records."""
        names = checksums = 0
        for info in sorted(self.archive.infolist(), key=lambda info: info.filename):
            names = zlib.crc32(info.filename.partition("/")[2].encode(), names)
            checksums = zlib.crc32(info.CRC.to_bytes(4, "little"), checksums)
        return f"{names:020}{checksums:020}".encode()

    def close(self):
        """Writes what tells the archive from others, and the directory of the records."""
        if f"{self.folder}/{_IDENTITY}" not in self.archive.NameToInfo:
            self.record(_IDENTITY, self.identity())
        self.archive.close()

    def abandon(self):
        """Writes nothing more: the file cannot take it, or nobody wants it."""
        self.archive.fp = None


def fold(name):
    """A name as readers compare it: capital letters of ASCII are small ones."""
    return name.translate(_SMALL)


_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def index_records(infos):
    """Records by folded name; of several with one name the one that PyTorch finds.

    It sorts the directory by the heap and halves its way to a name, so which of equal
    names it finds follows from where they all stand.
    """
    names = [fold(info.filename) for info in infos]
    records = dict(zip(names, infos))
    if len(records) == len(infos):
        return records
    keys = [name.encode("utf-8", "surrogateescape") for name in names]
    order = heap_order(keys)
    for name in records:
        wanted = name.encode("utf-8", "surrogateescape")
        low, high = 0, len(order) - 1
        while low <= high:
            middle = (low + high) // 2
            if keys[order[middle]] == wanted:
                records[name] = infos[order[middle]]
                break
            if keys[order[middle]] < wanted:
                low = middle + 1
            else:
                high = middle - 1
    return records


def heap_order(keys):
    """Places in ascending order of their keys, equal ones as a heap leaves them.

    >>> heap_order(["b", "a", "c"])
    [1, 0, 2]
    """
    order = list(range(len(keys)))

    def sink(root, end):
        while (child := 2 * root + 1) < end:
            if child + 1 < end and keys[order[child]] < keys[order[child + 1]]:
                child += 1
            if not keys[order[root]] < keys[order[child]]:
                break
            order[root], order[child] = order[child], order[root]
            root = child

    for root in range((len(keys) - 2) // 2, -1, -1):
        sink(root, len(keys))
    for end in range(len(keys) - 1, 0, -1):
        order[0], order[end] = order[end], order[0]
        sink(0, end)
    return order


_IDENTITY = ".data/serialization_id"
_VERSION = ".data/version"  # where exported programs have the format's version


class Archive:
    """The records of a checkpoint file, by name.

    Args:
        file: a seekable binary file.
        title: what to call it in errors.
        mapped: map the file and lend its pages, in place of reading records.
        shared: let what is written to those pages go to the file.
        needed: the records that must be there.
    """

    def __init__(
        self, file, title, mapped=False, shared=False, needed=("version", "data.pkl")
    ):
        import zipfile

        self.file = file
        self.title = title
        self.size = file.seek(0, io.SEEK_END)
        try:
            infos = zipfile.ZipFile(file).infolist()
        except (
            zipfile.BadZipFile,
            ValueError,
            struct.error,
            EOFError,
            NotImplementedError,
            OSError,
            OverflowError,
        ) as error:
            raise RuntimeError(
                self.unreadable(f"no directory of records ({error})")
            ) from error
        self.folder = self.common_folder([info.filename for info in infos])
        self.records = index_records(infos)
        self.claimed = 0  # bytes of all storages that have been read
        self.refuse_programs()
        for name in needed:
            if name == "version" and self.folder + _VERSION in self.records:
                continue  # exported programs have it there
            if self.folder + name not in self.records:
                raise RuntimeError(self.unreadable(f"it has no record {name}"))
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        self.map = mmap.mmap(file.fileno(), 0, access=access) if mapped else None
        self.check_version()

    def refuse_programs(self):
        """Refuses archives whose programs would be all that makes sense of them."""
        if self.folder + "constants.pkl" in self.records:
            raise RuntimeError(
                f"load: {self.title} is a TorchScript archive, which holds a program. "
                "Cannot use ``weights_only=True`` with TorchScript archives"
            )
        if self.folder + ".data/extern_modules" in self.records:
            raise RuntimeError(
                f"load: {self.title} was written by package.PackageExporter: it holds "
                "the source of modules, which would have to run\n"
                "  remedy: save the state_dict() of its model with save"
            )

    def unreadable(self, fact):
        """The text of the error for a damaged file."""
        return (
            f"PytorchStreamReader failed reading zip archive: {fact}\n"
            f"  file: {self.title}, {self.size} bytes\n"
            "  it is damaged or was cut short while it was written or copied: "
            "fetch it again, or load an earlier checkpoint"
        )

    def common_folder(self, names):
        """The folder that all records are in, its slash and all, in small letters.

        Raises:
            RuntimeError: there is none.
        """
        folder, slash, _ = (names[0] if names else "").partition("/")
        strangers = [name for name in names if not name.startswith(folder + slash)]
        if not slash or strangers:
            raise RuntimeError(
                self.unreadable(
                    "file in archive is not in a subdirectory: "
                    f"{[*strangers, *names, 'present is none'][0]}"
                )
            )
        return fold(folder + slash)

    def check_version(self):
        """Refuses versions of the format that are not known."""
        name = "version" if self.folder + "version" in self.records else _VERSION
        version = self.read(name).strip()
        if not version.isdigit() or not OLDEST <= int(version) <= NEWEST:
            raise RuntimeError(
                f"load: {self.title} has version {version!r}; versions {OLDEST} to "
                f"{NEWEST} can be read"
            )

    @property
    def byteorder(self):
        """Which end of a number comes first, as the file says; None if it does not."""
        if self.folder + "byteorder" not in self.records:
            return None
        return self.read("byteorder").decode("latin-1")

    def has(self, name):
        """Whether there is a record of that name."""
        return self.folder + fold(name) in self.records

    def find(self, name):
        """A record's first byte in the file and its size.

        Raises:
            RuntimeError: there is no such record, or it does not lie inside the file.
        """
        info = self.records.get(self.folder + fold(name))
        if info is None:
            raise RuntimeError(self.unreadable(f"it has no record {name}"))
        if info.compress_type != STORED or info.flag_bits & 1:
            raise RuntimeError(
                self.unreadable(f"record {name} is compressed or encrypted")
            )
        self.file.seek(max(info.header_offset, 0))
        header = self.file.read(LOCAL_HEADER)
        whole = len(header) == LOCAL_HEADER and header[:4] == b"PK\x03\x04"
        if info.header_offset < 0 or not whole:
            raise RuntimeError(self.unreadable(f"record {name} has no header"))
        start = (
            info.header_offset + LOCAL_HEADER + sum(struct.unpack("<HH", header[26:30]))
        )
        if info.file_size != info.compress_size or start + info.file_size > self.size:
            raise RuntimeError(self.unreadable(f"record {name} goes beyond its end"))
        return start, info.file_size

    def check(self, name, data):
        """Compares a record with the checksum that was written with it."""
        wanted = self.records[self.folder + fold(name)].CRC
        # Zero is what there is where the writer was told to compute none.
        if wanted and zlib.crc32(data) != wanted:
            raise RuntimeError(self.unreadable(f"record {name} has a wrong checksum"))

    def read(self, name):
        """A whole record, its checksum verified."""
        start, size = self.find(name)
        self.file.seek(start)
        data = self.file.read(size)
        if len(data) != size:
            raise RuntimeError(self.unreadable(f"record {name} goes beyond its end"))
        self.check(name, data)
        return data

    def storage(self, name, n_bytes, skip=False):
        """A record as a storage of ``n_bytes``: read and verified, or mapped.

        Args:
            name: the record's.
            n_bytes: how many bytes its tensors want.
            skip: zeros in place of what it holds.
        """
        start, size = self.find(name)
        if size != n_bytes:
            raise RuntimeError(
                self.unreadable(
                    f"record {name} has {size} bytes where its tensors want {n_bytes}"
                )
            )
        if size == 0:
            return UntypedStorage(0)
        self.claimed += size
        if self.claimed > self.size:
            raise RuntimeError(
                self.unreadable(
                    f"record {name} lies over others, which share its bytes"
                )
            )
        if skip:
            return UntypedStorage(size).fill_(0)
        if self.map is not None and start % WIDEST == 0:
            return UntypedStorage.over_buffer(self.map, offset=start, count=size)
        storage = UntypedStorage(size)
        view = interop.storage_buffer(storage)
        self.file.seek(start)
        filled = 0
        while filled < size:
            count = self.file.readinto(view[filled:])
            if not count:
                raise RuntimeError(
                    self.unreadable(f"record {name} goes beyond its end")
                )
            filled += count
        self.check(name, view)
        return storage


def window(storage, offset, sizes, strides, dtype):
    """A tensor over a storage from numbers that nobody has vouched for.

    Raises:
        RuntimeError: they are no integers, or do not fit into the storage.
    """
    numbers = [offset, *sizes, *strides]
    if not all(type(number) is int and 0 <= number < LARGEST for number in numbers):
        raise RuntimeError(
            f"load: a tensor has impossible sizes {sizes}, strides {strides} or "
            f"offset {offset}"
        )
    if math.prod(sizes) >= LARGEST:
        raise RuntimeError(f"load: a tensor has impossible sizes {sizes}")
    return make_tensor(storage, sizes, strides, offset, dtype)
