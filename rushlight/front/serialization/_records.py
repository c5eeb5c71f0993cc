"""The records of checkpoint archives, one by one."""

import builtins
import io
import os

from rushlight.core.storage import UntypedStorage
from rushlight.core.window import make_tensor
from rushlight.io import interop
from rushlight.io.serialization import Archive, Writer, fold


class PyTorchFileReader:
    """An archive that is open for reading.

    Args:
        name_or_buffer: a path, or a seekable file open in binary mode.

    Raises:
        RuntimeError: it is damaged, or no such archive.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.save(rl.ones(2), file)
    >>> rl.PyTorchFileReader(file).get_record("version")
    b'3\\n'
    """

    def __init__(self, name_or_buffer):
        if isinstance(name_or_buffer, (str, os.PathLike)):
            title = os.fspath(name_or_buffer)
            with open(name_or_buffer, "rb") as file:
                data = file.read()
        else:
            title = getattr(name_or_buffer, "name", "file object")
            name_or_buffer.seek(0)
            data = name_or_buffer.read()
        self._archive = Archive(io.BytesIO(data), title, needed=("version",))

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return [
            info.filename.partition("/")[2] for info in self._archive.records.values()
        ]

    def has_record(self, name: str) -> bool:
        """Whether there is a record of that name."""
        return self._archive.folder + fold(name) in self._archive.records

    def get_record(self, name: str) -> builtins.bytes:
        """A record's contents, its checksum verified.

        Raises:
            RuntimeError: there is none, or it is damaged.
        """
        return self._archive.read(name)

    def get_record_offset(self, name: str) -> int:
        """Where a record's contents begin in the file.

        Raises:
            RuntimeError: there is none.
        """
        return self._archive.find(name)[0]

    def get_storage_from_record(self, name: str, numel: int, dtype):
        """A record's contents as a vector.

        Raises:
            RuntimeError: there is none, or it has another size.
        """
        storage = self._archive.storage(name, numel * dtype.itemsize)
        return make_tensor(storage, (numel,), (1,), 0, dtype)


class PyTorchFileWriter:
    """An archive that is being written.

    Args:
        name_or_buffer: a path, or a file open for writing in binary mode.
        compute_crc32: whether every record has a checksum.
    """

    def __init__(self, name_or_buffer, compute_crc32=True, storage_alignment=64):
        self._target = name_or_buffer
        self._name = "archive"
        if isinstance(name_or_buffer, (str, os.PathLike)):
            base = os.path.basename(os.fspath(name_or_buffer))
            self._name = os.path.splitext(base)[0] or "archive"
        self._whole = io.BytesIO()
        self._writer = Writer(self._whole, self._name, compute_crc32)
        self._written: set[str] = set()

    def archive_name(self) -> str:
        """The folder that all records are in."""
        return self._name

    def write_record(self, name: str, data, size: int) -> None:
        """Adds a record.

        Args:
            name: of the record.
            data: bytes or a storage.
            size: how many of its bytes.
        """
        if isinstance(data, UntypedStorage):
            data = interop.storage_buffer(data)
        self._writer.record(name, memoryview(data).cast("B")[:size])
        self._written.add(name)

    def get_all_written_records(self) -> set[str]:
        """The names of the records so far."""
        return set(self._written)

    def write_end_of_file(self) -> None:
        """Completes the file: a path is replaced only now."""
        from rushlight.io.serialization import replacing

        if "version" not in self._written:
            self._writer.record("version", b"3\n")
            self._written.add("version")
        self._writer.close()
        if isinstance(self._target, (str, os.PathLike)):
            with replacing(self._target) as file:
                file.write(self._whole.getbuffer())
        else:
            self._target.write(self._whole.getbuffer())
