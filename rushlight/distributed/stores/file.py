"""A store in a file that several processes read and append to."""

import fcntl
import os
import struct
import time
from contextlib import contextmanager

from rushlight.distributed.stores.base import Store, as_bytes, as_count, as_key
from rushlight.distributed.stores.memory import Table

SET, DELETE = 0, 1
RECORD = struct.Struct("<BII")
POLL_SECONDS = 0.01


class FileStore(Store):
    """A store in a file: a log of what was set, read on by every process.

    Args:
        file_name: the file; it is made if it is not there.
        world_size: the number of processes; the last that leaves deletes the file.

    >>> import tempfile
    >>> store = FileStore(tempfile.mktemp(), 1)
    >>> store.set("key", "value")
    >>> store.get("key")
    b'value'
    """

    __module__ = "rushlight.distributed"

    def __init__(self, file_name, world_size=-1):
        super().__init__()
        self._path = os.fspath(file_name)
        self._count = world_size
        self._table, self._position = Table(), 0
        self._users = self.add("efcount/", 1)

    @property
    def path(self):
        """The file."""
        return self._path

    @contextmanager
    def _locked(self, way=fcntl.LOCK_EX):
        """The file, read to its end, with other processes kept out."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, way)
            self._read(file)
            yield file
        finally:
            os.close(file)

    def _read(self, file):
        os.lseek(file, self._position, os.SEEK_SET)
        data = b""
        while piece := os.read(file, 1 << 20):
            data += piece
        start = 0
        while start < len(data):
            kind, key_size, size = RECORD.unpack_from(data, start)
            start += RECORD.size
            key = data[start : start + key_size].decode()
            start += key_size
            if kind == SET:
                self._table.values[key] = data[start : start + size]
            else:
                self._table.delete(key)
            start += size
        self._position += len(data)

    def _write(self, file, kind, key, value=b""):
        name = key.encode()
        record = RECORD.pack(kind, len(name), len(value)) + name + value
        os.lseek(file, 0, os.SEEK_END)
        while record:
            record = record[os.write(file, record) :]
        self._read(file)

    def set(self, key, value):
        """Set a key."""
        key, value = as_key(key, "set"), as_bytes(value)
        with self._locked() as file:
            self._write(file, SET, key, value)

    def wait(self, keys, timeout=None):
        """Wait until all keys are set.

        Raises:
            RuntimeError: they are not in time.
        """
        if not self._has_in_time(keys, self._patience(timeout)):
            raise RuntimeError("Wait timeout")

    def _has_in_time(self, keys, patience):
        last = time.monotonic() + patience
        while not self.check(keys):
            if time.monotonic() >= last:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def get(self, key):
        """The value of a key, waited for.

        Raises:
            RuntimeError: it is not set in time.
        """
        patience = self._patience(None)
        if not self._has_in_time([as_key(key)], patience):
            raise RuntimeError(
                f"Timeout waiting for key: {key} after {patience * 1000:.0f} ms"
            )
        return self._table.values[key]

    def add(self, key, amount):
        """Add to the integer that a key has; the sum."""
        key, amount = as_key(key, "add"), as_count(amount)
        with self._locked() as file:
            total = self._table.add(key, amount)
            self._write(file, SET, key, str(total).encode())
            return total

    def compare_set(self, key, expected_value, desired_value):
        """Set a key that has the expected value; the value that it has then."""
        expected, desired = as_bytes(expected_value), as_bytes(desired_value)
        with self._locked() as file:
            found = self._table.compare_set(as_key(key), expected, desired)
            if found == desired:
                self._write(file, SET, key, desired)
            return found

    def append(self, key, value):
        """Put a value behind the one that a key has, or set it."""
        value = as_bytes(value, "append")
        with self._locked() as file:
            whole = self._table.values.get(as_key(key), b"") + value
            self._write(file, SET, key, whole)

    def has_extended_api(self):
        """Whether each call of the longer interface is one step: no, as in PyTorch."""
        return False

    def check(self, keys):
        """Whether all keys are set."""
        with self._locked(fcntl.LOCK_SH):
            return self._table.has(keys)

    def delete_key(self, key):
        """Take a key away; whether it was set."""
        with self._locked() as file:
            found = self._table.delete(as_key(key))
            if found:
                self._write(file, DELETE, key)
            return found

    def num_keys(self):
        """The number of keys, the file's own count of its users among them."""
        return len(self.list_keys())

    def list_keys(self):
        """All keys."""
        with self._locked(fcntl.LOCK_SH):
            return list(self._table.values)

    def clone(self):
        """Another store over the same file."""
        return FileStore(self._path, -1)

    def __del__(self):
        if getattr(self, "_count", 0) < 1 or not os.path.exists(self._path):
            return
        if self.add("efcount/", -1) <= 0:
            os.unlink(self._path)
