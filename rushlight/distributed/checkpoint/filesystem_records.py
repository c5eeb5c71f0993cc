"""Where a value is in the files of a checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__: list[str] = []


@dataclass
class _StorageInfo:
    """The file of a value, and its octets in it."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass
class _StoragePrefix:
    """How the names of a rank's files begin."""

    prefix: str
