"""Plans of what is written and read, and who makes them."""

import abc
import io
import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import rushlight as rl
from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """Whether a whole tensor, a chunk of one, or octets are written."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """Whether a tensor or octets are read."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many octets are written."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """The box of a tensor that is written, with the tensor's properties and sizes."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: rl.Size


@dataclass(frozen=True)
class WriteItem:
    """One value, or a chunk of a tensor, that a rank writes."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self):
        """The octets of the whole tensor; None of other values."""
        if self.tensor_data is None:
            return None
        itemsize = self.tensor_data.properties.dtype.itemsize
        return math.prod(self.tensor_data.size) * itemsize


@dataclass(frozen=True)
class ReadItem:
    """One box that a rank reads: from a stored chunk into a place of a tensor."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: rl.Size
    storage_index: MetadataIndex
    storage_offsets: rl.Size
    lengths: rl.Size


@dataclass(frozen=True)
class SavePlan:
    """What one rank writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one rank reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what each rank writes.

    ``set_up_planner`` and ``create_local_plan`` run on every rank, ``create_global_plan``
    on the coordinator, ``finish_plan`` on every rank again; then the storage asks for
    each value by ``resolve_data``.
    """

    _cached_save_plan: dict[str, SavePlan] = {}
    _cached_final_save_plan: dict[str, SavePlan] = {}
    _cached_all_plans: dict[str, list[SavePlan]] = {}
    _cached_global_plan: dict[str, list[SavePlan]] = {}
    _cached_metadata: dict[str, Any] = {}

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Begin.

        Args:
            state_dict: what is saved.
            storage_meta: what the storage says of itself.
            is_coordinator: whether this rank makes the global plan.
        """

    @abc.abstractmethod
    def create_local_plan(self):
        """The ``SavePlan`` of this rank."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans):
        """The plans of all ranks, and the checkpoint's ``Metadata``.

        Args:
            all_plans: what each rank would write.
        """

    @abc.abstractmethod
    def finish_plan(self, new_plan):
        """This rank's plan, once all is known.

        Args:
            new_plan: what the coordinator made of it.
        """

    @abc.abstractmethod
    def resolve_data(self, write_item):
        """The tensor or the octets of an item.

        Args:
            write_item: a ``WriteItem``.
        """


class LoadPlanner:
    """Decides what each rank reads, and where it goes."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Begin.

        Args:
            state_dict: what is filled.
            metadata: the checkpoint's ``Metadata``.
            is_coordinator: whether this rank makes the global plan.
        """

    @abc.abstractmethod
    def create_local_plan(self):
        """The ``LoadPlan`` of this rank."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan):
        """The plans of all ranks.

        Args:
            global_plan: what each rank would read.
        """

    @abc.abstractmethod
    def finish_plan(self, central_plan):
        """This rank's plan, once all is known.

        Args:
            central_plan: what the coordinator made of it.
        """

    @abc.abstractmethod
    def load_bytes(self, read_item, value):
        """Take a value's octets.

        Args:
            read_item: a ``ReadItem``.
            value: a stream of them.
        """

    def resolve_bytes(self, read_item) -> io.BytesIO:
        """A stream to read octets into.

        Args:
            read_item: a ``ReadItem``.
        """
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def resolve_tensor(self, read_item):
        """The part of a tensor that an item fills.

        Args:
            read_item: a ``ReadItem``.
        """

    @abc.abstractmethod
    def commit_tensor(self, read_item, tensor):
        """Take note that a part has been filled.

        Args:
            read_item: a ``ReadItem``.
            tensor: the part.
        """
