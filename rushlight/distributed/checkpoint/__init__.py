"""Checkpoints of several ranks: each writes and reads its part, in PyTorch's files.

``save`` and ``load`` work on values by name. A checkpoint of four ranks can be read by two,
or by one, and by PyTorch; whoever reads it runs no program.
"""

from rushlight.distributed.checkpoint.api import CheckpointException
from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
)
from rushlight.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
)
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from rushlight.distributed.checkpoint.state_dict_loader import load, load_state_dict
from rushlight.distributed.checkpoint.state_dict_saver import (
    async_save,
    save,
    save_state_dict,
)
from rushlight.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "LoadPlan",
    "LoadPlanner",
    "Metadata",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "StorageReader",
    "StorageWriter",
    "TensorStorageMetadata",
    "WriteItem",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]
