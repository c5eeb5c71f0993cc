"""Where checkpoints are kept: what a writer and a reader must do."""

import abc
from dataclasses import dataclass
from typing import Any

from rushlight.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """What has been written, and where."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes what planners decide.

    ``reset`` and ``set_up_storage_writer`` begin, ``prepare_local_plan`` and
    ``write_data`` run on every rank, ``prepare_global_plan`` and ``finish`` on the
    coordinator.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Begin another checkpoint.

        Args:
            checkpoint_id: where it goes; as before without it.
        """

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Begin to write.

        Args:
            is_coordinator: whether this rank calls ``finish``.
        """

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """This rank's plan with what the storage adds.

        Args:
            plan: a ``SavePlan``.
        """

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """All ranks' plans with what the storage adds.

        Args:
            plans: a list of them.
        """

    @abc.abstractmethod
    def write_data(self, plan, planner):
        """Write a plan's items; a future of a list of ``WriteResult``.

        Args:
            plan: a ``SavePlan``.
            planner: it gives the values.
        """

    @abc.abstractmethod
    def finish(self, metadata, results):
        """Write the metadata: from now on it is a checkpoint.

        Args:
            metadata: the checkpoint's.
            results: each rank's list of ``WriteResult``.
        """

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether this storage can keep a checkpoint of that name.

        Args:
            checkpoint_id: the name.
        """

    def storage_meta(self):
        """What the storage says of itself, a ``StorageMeta``, or None."""
        return None


class StorageReader(abc.ABC):
    """Reads what planners decide."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Begin another checkpoint.

        Args:
            checkpoint_id: where it is; as before without it.
        """

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs):
        """The checkpoint's ``Metadata``."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Begin to read.

        Args:
            metadata: the checkpoint's.
            is_coordinator: whether this rank makes the global plan.
        """

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """This rank's plan with what the storage adds.

        Args:
            plan: a ``LoadPlan``.
        """

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """All ranks' plans with what the storage adds.

        Args:
            plans: a list of them.
        """

    @abc.abstractmethod
    def read_data(self, plan, planner):
        """Read a plan's items; a future that is done when they are there.

        Args:
            plan: a ``LoadPlan``.
            planner: it gives the places.
        """

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether this storage can have a checkpoint of that name.

        Args:
            checkpoint_id: the name.
        """
