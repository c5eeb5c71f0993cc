"""The groups that this process is in: how it joins, asks and leaves."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from datetime import timedelta
from importlib.util import find_spec

from rushlight.distributed import constants
from rushlight.distributed.errors import DistNetworkError
from rushlight.distributed.process_group import ProcessGroup, ProcessGroupGloo
from rushlight.distributed.process_group_mpi import ProcessGroupMPI, find_processes
from rushlight.distributed.rendezvous import rendezvous
from rushlight.distributed.stores import PrefixStore

__all__ = [
    "Backend",
    "BackendConfig",
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]


class Backend(str):
    """The name of what processes talk through.

    >>> Backend("GLOO"), Backend.GLOO
    ('gloo', 'gloo')
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}
    _plugins: dict = {}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        """Name one more backend.

        Args:
            name: its name.
            func: called with store, rank, size and timeout; gives a process group.
            extended_api: whether ``func`` takes two objects with all of these.
            devices: the devices whose tensors it takes.

        Raises:
            RuntimeError: there is one of that name.
        """
        if hasattr(cls, name.upper()):
            raise RuntimeError(
                f"{name.lower()} c10d backend already exist"
                if name.lower() not in cls._plugins
                else f"{name.upper()} c10d backend creator function already exist"
            )
        setattr(cls, name.upper(), name.lower())
        cls.backend_list.append(name.lower())
        cls._plugins[name.lower()] = func


class BackendConfig:
    """The backend of each device, from ``gloo`` or ``cpu:gloo,cuda:nccl``.

    Args:
        backend: the text.

    >>> str(BackendConfig("gloo"))
    'cpu:gloo,cuda:gloo'
    """

    def __init__(self, backend):
        text = str(backend)
        if ":" in text:
            pairs = [each.split(":") for each in text.lower().split(",")]
            if any(len(pair) != 2 for pair in pairs):
                raise ValueError(
                    f"The custom backend string argument is invalid: {backend}.\n  "
                    "remedy: write cpu:gloo,cuda:nccl"
                )
            self.device_backend_map = {device: name for device, name in pairs}
        else:
            name = "gloo" if text == Backend.UNDEFINED else text
            self.device_backend_map = {device: name for device in ("cpu", "cuda")}

    def __repr__(self):
        pairs = self.device_backend_map.items()
        return ",".join(f"{device}:{backend}" for device, backend in pairs)

    def get_device_backend_map(self):
        """Device -> backend."""
        return self.device_backend_map


class Membership:
    """A group that this process is in.

    Args:
        ranks: the global rank of each of its ranks.
        backend: the name of its backend.
        name: its own.
    """

    def __init__(self, ranks, backend, name):
        self.ranks, self.backend, self.name = list(ranks), backend, name


class World:
    """All groups of this process."""

    def __init__(self):
        self.default, self.store = None, None
        self.members: dict = {}
        self.count = 0  # of groups made, in which all processes agree
        self.joined = 0  # how often: a store may still have keys of the last time
        self.listens = False

    def membership(self, group=None):
        """What is known of a group.

        Raises:
            ValueError: there is no default group, or the group is not this process's.
        """
        chosen = self.default if group is None else group
        if chosen is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to "
                "call init_process_group."
            )
        if chosen not in self.members:
            raise ValueError("Invalid process group specified")
        return self.members[chosen]


world = World()


class _GroupNames(type):
    @property
    def WORLD(cls):
        return world.default

    @WORLD.setter
    def WORLD(cls, value):
        world.default = value


class group(metaclass=_GroupNames):
    """``group.WORLD`` is the group of all processes; None before they are joined."""


class GroupMember(metaclass=_GroupNames):
    """``GroupMember.NON_GROUP_MEMBER`` stands for a group that this process is not in."""

    NON_GROUP_MEMBER = -100


def is_initialized():
    """Whether this process has joined others.

    >>> is_initialized()
    False
    """
    return world.default is not None


def is_gloo_available():
    """Whether groups of processes on hosts are there: yes."""
    return True


def is_nccl_available():
    """Whether NVIDIA's library of collectives is used: not yet."""
    return False


def is_mpi_available():
    """Whether groups over MPI are there: where mpi4py is installed."""
    return find_spec("mpi4py") is not None


def is_ucc_available():
    """Whether UCC is used: no."""
    return False


def is_xccl_available():
    """Whether Intel's library is used: no."""
    return False


def is_backend_available(backend):
    """Whether a backend is there, by its name.

    Args:
        backend: as ``gloo``.
    """
    name = backend.lower()
    if name == Backend.MPI:
        return is_mpi_available()
    return name == Backend.GLOO or name in Backend._plugins


def is_torchelastic_launched():
    """Whether a launcher of several processes started this one."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device):
    """The backend that tensors of a device go through.

    Args:
        device: a device or its name.
    """
    kind = str(getattr(device, "type", device)).partition(":")[0]
    found = Backend.default_device_backend_map.get(kind)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return found


def get_node_local_rank(fallback_rank=None):
    """This process's number on its machine, as its launcher says.

    Args:
        fallback_rank: what to take where it does not.

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


def get_rank(group=None):
    """This process's number in a group; -1 where it is not in it.

    Args:
        group: the group; all processes without it.

    Raises:
        ValueError: it has joined none.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    membership = world.membership(group)
    return membership.ranks.index(world.default.rank())


def get_world_size(group=None):
    """The number of processes in a group; -1 where this one is not in it.

    Args:
        group: the group; all processes without it.

    Raises:
        ValueError: it has joined none.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return len(world.membership(group).ranks)


def get_backend(group=None):
    """The name of a group's backend.

    Args:
        group: the group; all processes without it.
    """
    return Backend(world.membership(group).backend)


def get_backend_config(group=None):
    """The backend of each device, as text.

    Args:
        group: the group; all processes without it.
    """
    return str(BackendConfig(world.membership(group).backend))


def get_pg_count():
    """The number of groups that this process is in."""
    return len(world.members)


def describe_groups():
    """A dictionary for each group of this process, as traces and logs show it."""
    return [
        {
            "pg_name": joined.name,
            "pg_desc": joined_group.group_desc,
            "backend_config": str(BackendConfig(joined.backend)),
            "pg_size": len(joined.ranks),
            "ranks": list(joined.ranks),
        }
        for joined_group, joined in world.members.items()
    ]


def get_process_group_ranks(group):
    """The global rank of each rank of a group.

    Args:
        group: the group; None for all processes.
    """
    return list(world.membership(group).ranks)


def get_global_rank(group, group_rank):
    """The rank among all processes of a rank of a group.

    Args:
        group: the group.
        group_rank: the rank in it.

    Raises:
        ValueError: it has no such rank.
    """
    ranks = world.membership(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group, global_rank):
    """The rank in a group of a rank among all processes.

    Args:
        group: the group.
        global_rank: the rank among all.

    Raises:
        ValueError: it is not in the group.
    """
    ranks = world.membership(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def backend_for(backend):
    """The one backend that host tensors go through, which must be there."""
    name = BackendConfig(backend).device_backend_map.get("cpu", str(backend))
    if name == Backend.MPI:
        find_processes()
    if name in (Backend.NCCL, Backend.UCC, Backend.XCCL):
        raise RuntimeError(
            f"Distributed package doesn't have {name.upper()} built in\n  remedy: "
            'backend="gloo", which takes tensors of the host and copies those of devices'
        )
    if not is_backend_available(name):
        raise ValueError(f"Unknown c10d backend type {name.upper()}")
    return name


def _meeting_host(store):
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return getattr(store, "host", None)


def make_group(store, ranks, rank, backend, name, timeout):
    """Connect a group and note that this process is in it."""
    own = ranks.index(rank)
    below = PrefixStore(f"group/{name}", store)
    host = _meeting_host(store)
    maker = Backend._plugins.get(backend)
    if backend == Backend.MPI:
        made = ProcessGroupMPI(ranks, timeout)
    elif maker is not None:
        made = maker(below, own, len(ranks), timeout)
    else:
        try:
            made = ProcessGroupGloo(below, own, len(ranks), timeout, host)
        except DistNetworkError as error:
            raise DistNetworkError(
                f"rank {rank}, group {name} of ranks {ranks}: the store where they meet "
                f"is lost: {error}"
            ) from error
    made.group_name = name
    if isinstance(made, ProcessGroup):
        made._executor.recorder.join(made, ranks)
    world.members[made] = Membership(ranks, backend, name)
    return made


def _check_arguments(init_method, store, world_size, rank, timeout):
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    if store is None:
        return
    if init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if not world_size > 0:
        raise AssertionError("world_size must be positive if using store")
    if not rank >= 0:
        raise AssertionError("rank must be non-negative if using store")


def init_process_group(
    backend=None,
    init_method=None,
    timeout=None,
    world_size=-1,
    rank=-1,
    store=None,
    group_name="",
    pg_options=None,
    device_id=None,
    _ranks=None,
):
    """Join all processes of a program: returns once every one has come.

    Args:
        backend: ``gloo``, a text such as ``cpu:gloo,cuda:gloo``, or ``mpi``, which knows
            the processes by itself.
        init_method: ``env://`` (the default), ``tcp://HOST:PORT`` or ``file:///PATH``.
        timeout: how long a collective may take, a ``timedelta``: 30 minutes.
        world_size: the number of processes, where the environment does not say it.
        rank: this process's number, where the environment does not say it.
        store: where the processes meet, in place of ``init_method``.
        group_name: without effect, as in PyTorch.
        pg_options: options of a backend; this one has none.
        device_id: without effect on the host.

    Raises:
        ValueError: it has joined already, or a number is missing.
        RuntimeError: the backend is not there.
    """
    if world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    _check_arguments(init_method, store, world_size, rank, timeout)
    chosen = backend_for(backend or Backend.UNDEFINED)
    timeout = constants.default_pg_timeout if timeout is None else timeout
    if chosen == Backend.MPI:
        if (world_size, rank) != (-1, -1):
            warnings.warn(
                f"For MPI backend, world_size ({world_size}) and rank ({rank}) are "
                "ignored since they are assigned by the MPI runtime.",
                stacklevel=2,
            )
        store, rank, world_size = find_processes()
    elif store is None:
        found = rendezvous(init_method or "env://", rank, world_size, timeout=timeout)
        store, rank, world_size = next(found)
        store.set_timeout(timeout)
    world.joined += 1
    below = PrefixStore(f"default_pg/{world.joined}", store)
    _join(below, rank, world_size, chosen, timeout)
    if not world.listens:
        world.listens = True
        atexit.register(_leave_at_exit)


def _join(store, rank, world_size, backend, timeout):
    ranks = list(range(world_size))
    if rank not in ranks:
        raise ValueError(f"rank {rank} is not below the world size {world_size}")
    made = make_group(store, ranks, rank, backend, str(world.count), timeout)
    made.group_desc = "default_pg"
    world.default, world.store = made, store
    world.count += 1


def _leave_at_exit():
    """Tell the other processes whether this one is done, or has failed."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    failure = None if error is None else f"it raised {type(error).__name__}: {error}"
    for each in list(world.members):
        each.shutdown(failure)


def destroy_process_group(group=None):
    """Leave a group, or all of them.

    Args:
        group: the group; all without it.

    Raises:
        ValueError: this process is not in it.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    if group is None and world.default is None:
        raise AssertionError("Process group cannot be None")
    chosen = world.default if group is None else group
    if chosen not in world.members:
        raise ValueError("Invalid process group specified")
    every = chosen is world.default
    for each in list(reversed(world.members)) if every else [chosen]:
        each.shutdown()
        del world.members[each]
    if every:
        world.default = world.store = None
        world.count = 0


def default_group():
    """The group of all processes.

    Raises:
        ValueError: this process has joined none.
    """
    world.membership()
    return world.default


def default_store():
    """Where all processes met.

    Raises:
        ValueError: this process has joined none.
    """
    world.membership()
    return world.store
