"""What a checkpoint says of itself: its tensors, their chunks, where each is."""

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import rushlight as rl

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor: where it begins, and its sizes."""

    offsets: rl.Size
    sizes: rl.Size


class _MEM_FORMAT_ENCODING(Enum):
    """The memory formats by the numbers that files have for them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: rl.contiguous_format,
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: rl.channels_last,
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: rl.preserve_format,
}


@dataclass
class TensorProperties:
    """What a tensor is made with, beyond its sizes."""

    dtype: rl.dtype = field(default_factory=rl.get_default_dtype)
    layout: rl.layout = field(default=rl.strided)
    requires_grad: bool = False
    memory_format: rl.memory_format = field(default=rl.contiguous_format)
    pin_memory: bool = False

    def __getstate__(self):
        encodings = {value: key for key, value in _FORMATS.items()}
        if self.memory_format not in encodings:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        return (
            self.dtype,
            self.layout,
            self.requires_grad,
            encodings[self.memory_format],
            self.pin_memory,
        )

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory = state
        if encoding not in _FORMATS:
            raise RuntimeError(f"Invalid torch.memory_format encoding: {encoding}")
        self.memory_format = _FORMATS[encoding]

    @staticmethod
    def create_from_tensor(tensor):
        """The properties of a tensor.

        Args:
            tensor: any tensor.
        """
        return TensorProperties(
            dtype=tensor.dtype,
            layout=tensor.layout,
            requires_grad=tensor.requires_grad,
            memory_format=rl.contiguous_format,
            pin_memory=tensor.is_pinned(),
        )


@dataclass
class TensorStorageMetadata:
    """A tensor: its properties, its sizes, and the chunks that are stored."""

    properties: TensorProperties
    size: rl.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is stored as octets."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, Any]


@dataclass
class StorageMeta:
    """Which checkpoint it is, and who wrote and reads it."""

    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """A whole checkpoint: its values by name, and what planners and storages need."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A value of a checkpoint, or one chunk of it.

    Args:
        fqn: the value's name.
        offset: where the chunk begins, for a tensor.
        index: its number in the list of chunks, where that is known: a hint.
    """

    fqn: str
    offset: rl.Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn, offset=None, index=None):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", rl.Size(offset))
