"""Exceptions of programs over several processes."""

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
]


class DistError(RuntimeError):
    """Something failed between processes."""


class DistBackendError(DistError):
    """A process group failed."""


class DistNetworkError(DistError):
    """The network failed."""


class DistStoreError(DistError):
    """A store did not answer in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has no value, and the caller does not wait for one."""


for _each in (
    DistError,
    DistBackendError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
):
    _each.__module__ = "rushlight.distributed"
