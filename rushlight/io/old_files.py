"""Checkpoints from before PyTorch 1.6: pickled values one after another, then storages.

A magic number, a version, facts about the machine, the value itself, the keys of its
storages, and each storage as a count of elements and their bytes.
"""

import io
import sys

from rushlight.core.storage import UntypedStorage
from rushlight.io import interop
from rushlight.io.unpickler import Reader

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001


class OldFile:
    """A file being read, from its magic number on.

    Args:
        data: all of its bytes.
        title: what to call it in errors.

    Raises:
        RuntimeError: it is no such file, or another kind of machine wrote it.
    """

    def __init__(self, data, title):
        self.data = data
        self.title = title
        self.at = 0
        self.claimed = 0  # bytes of all storages that the value has named
        self.storages = {}  # key -> storage, bytes of an element
        if self.plain_value() != MAGIC:
            raise RuntimeError(self.damaged("Invalid magic number"))
        version = self.plain_value()
        if version != VERSION:
            raise RuntimeError(self.damaged(f"Invalid protocol version: {version!r}"))
        facts = self.plain_value()
        order = facts.get("little_endian") if isinstance(facts, dict) else None
        if order is not (sys.byteorder == "little"):
            raise RuntimeError(
                f"load: {title} was written by a machine of other byte order\n"
                f"  save it again on a {sys.byteorder}-endian machine"
            )

    def damaged(self, fact):
        """The text of the error for a damaged file."""
        return (
            f"load: {fact}; corrupt file?\n"
            f"  file: {self.title}, {len(self.data)} bytes, in the format from before "
            "PyTorch 1.6\n"
            "  it is damaged or was cut short while it was written or copied: "
            "fetch it again, or load an earlier checkpoint"
        )

    def plain_value(self):
        """The next pickled value, which may name nothing outside of it."""

        def refuse(*_name):
            raise RuntimeError(self.damaged("a header names something outside of it"))

        return self.value(refuse, lambda value: False, refuse)

    def value(self, find_global, may_call, persistent):
        """The next pickled value, by a reader that runs no program."""
        reader = Reader(self.data, find_global, may_call, persistent)
        reader.at = self.at
        found = reader.load()
        self.at = reader.at
        return found

    def trusted_value(self, make_unpickler):
        """The next pickled value, by Python's own unpickler."""
        file = io.BytesIO(self.data)
        file.seek(self.at)
        found = make_unpickler(file).load()
        self.at = file.tell()
        return found

    def storage(self, key, count, itemsize, put):
        """The storage of a key; its bytes come when the value has been read."""
        if key not in self.storages:
            n_bytes = count * itemsize
            self.claimed += n_bytes
            if self.claimed > len(self.data) - self.at:
                raise RuntimeError(
                    self.damaged(
                        f"storage {key} has {count} elements, more than there are"
                    )
                )
            self.storages[key] = put(UntypedStorage(n_bytes)), n_bytes, itemsize
        return self.storages[key][0]

    def fill_storages(self):
        """Reads the elements of all storages, which follow the value."""
        keys = self.plain_value()
        if not isinstance(keys, list) or set(keys) != set(self.storages):
            raise RuntimeError(self.damaged("the keys of its storages do not fit"))
        for key in keys:
            storage, n_bytes, itemsize = self.storages[key]
            start = self.at + 8
            count = int.from_bytes(self.data[self.at : start], "little", signed=True)
            end = start + n_bytes
            if count * itemsize != n_bytes or end > len(self.data):
                raise RuntimeError(
                    self.damaged(
                        f"storage {key} has {count} elements of {itemsize} bytes "
                        f"where its tensors want {n_bytes} bytes"
                    )
                )
            if storage.device.has_memory and n_bytes:
                interop.storage_buffer(storage)[:] = self.data[start:end]
            self.at = end
