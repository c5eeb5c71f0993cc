"""Programs over several processes: not available yet.

``is_available()`` is False, so that programs which ask go the way of one process. The
names that they need for that are here; what would talk to another process raises.
"""

from __future__ import annotations

import enum
import os

from rushlight import _stubs

__all__ = [
    "Backend",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DeviceMesh",
    "DistStoreError",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "Work",
    "destroy_process_group",
    "get_backend",
    "get_node_local_rank",
    "get_rank",
    "get_world_size",
    "init_device_mesh",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]


class DistError(RuntimeError):
    """Something failed between processes."""


class DistBackendError(DistError):
    """The library below failed."""


class DistNetworkError(DistError):
    """The network failed."""


class DistStoreError(DistError):
    """The store that processes meet at failed."""


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class Backend(str):
    """The name of a library that processes talk through."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


class ProcessGroup:
    """Processes that talk to each other: there is no group."""

    def __init__(self, *args, **kwargs):
        _unavailable("ProcessGroup")


class Store:
    """Where processes meet: there is none."""

    def __init__(self, *args, **kwargs):
        _unavailable("Store")


class Work:
    """A transfer that goes on: there is none."""

    def __init__(self, *args, **kwargs):
        _unavailable("Work")


class GroupMember:
    """Names for the group of all processes."""

    WORLD = None
    NON_GROUP_MEMBER = -100


class group:
    """Names for the group of all processes."""

    WORLD = None


def is_available():
    """Whether programs over several processes can run: not yet.

    >>> is_available()
    False
    """
    return False


def is_initialized():
    """Whether this process has joined others: never."""
    return False


def is_nccl_available():
    """Whether NVIDIA's library is there."""
    return False


def is_gloo_available():
    """Whether Gloo is there."""
    return False


def is_mpi_available():
    """Whether MPI is there."""
    return False


def is_ucc_available():
    """Whether UCC is there."""
    return False


def is_xccl_available():
    """Whether Intel's library is there."""
    return False


def is_backend_available(backend):
    """Whether a library is there, by its name."""
    return False


def is_torchelastic_launched():
    """Whether a launcher of several processes started this one."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank=None):
    """This process's number on its machine, as its launcher says.

    Raises:
        RuntimeError: it does not, and there is nothing else to take.
    """
    found = os.environ.get("LOCAL_RANK", fallback_rank)
    if found is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to "
            "allow `get_node_local_rank` to work, assuming you are not running in a "
            "multi-device context and want the code to run locally instead."
        )
    return int(found)


def _unavailable(name):
    raise NotImplementedError(
        f"torch.distributed.{name}: programs over several processes are not available "
        "yet\n  remedy: run the program as one process; is_available() says which way"
    )


def _no_group(*args, **kwargs):
    raise ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


def get_rank(group=None):
    """This process's number among all.

    Raises:
        ValueError: it has joined none.
    """
    _no_group()


def get_world_size(group=None):
    """The number of processes.

    Raises:
        ValueError: this one has joined none.
    """
    _no_group()


def get_backend(group=None):
    """The name of the library that processes talk through.

    Raises:
        ValueError: this one has joined none.
    """
    _no_group()


def init_process_group(backend=None, init_method=None, *args, **kwargs):
    """Joins other processes.

    Raises:
        NotImplementedError: it is not available yet.
    """
    _unavailable("init_process_group")


def destroy_process_group(group=None):
    """Leaves the other processes: there are none."""
    if group is not None:
        raise ValueError("Invalid process group specified")


NO_OTHERS = "ValueError: this process has joined no others."
for _name in """
    all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all
    all_to_all_single barrier batch_isend_irecv broadcast broadcast_object_list gather
    gather_object get_global_rank get_group_rank get_process_group_ranks irecv isend
    monitored_barrier new_group recv reduce reduce_scatter reduce_scatter_tensor scatter
    scatter_object_list send
""".split():
    globals()[_name] = _stubs.refusing(__name__, _name, _no_group, NO_OTHERS)
    __all__.append(_name)


def __getattr__(name):
    if name in ("device_mesh", "nn", "optim", "rpc", "tensor"):
        from importlib import import_module

        return import_module(f"rushlight.distributed.{name}")
    if name in ("DeviceMesh", "init_device_mesh"):
        from rushlight.distributed import device_mesh

        return getattr(device_mesh, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
