"""The groups that this process is in: how it joins, asks and leaves."""

import atexit
import os
import sys
import warnings
from datetime import timedelta

from rushlight.core.device import Device
from rushlight.core.docstrings import describe_arguments
from rushlight.distributed.backends import (
    Backend,
    BackendConfig,
    backend_for,
    make_backend,
    patience_of,
)
from rushlight.distributed.errors import DistNetworkError
from rushlight.distributed.process_group import ProcessGroup
from rushlight.distributed.process_group_mpi import ProcessGroupMPI, find_processes
from rushlight.distributed.rendezvous import rendezvous
from rushlight.distributed.stores import PrefixStore

__all__ = [
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_initialized",
    "is_torchelastic_launched",
]


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


def is_torchelastic_launched():
    """Whether a launcher of several processes started this one."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


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

    Raises:
        ValueError: it has joined none.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    membership = world.membership(group)
    return membership.ranks.index(world.default.rank())


def get_world_size(group=None):
    """The number of processes in a group; -1 where this one is not in it.

    Raises:
        ValueError: it has joined none.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return len(world.membership(group).ranks)


def get_backend(group=None):
    """The name of a group's backend."""
    return Backend(world.membership(group).backend)


def get_backend_config(group=None):
    """The backend of each device, as text."""
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


def group_named(name):
    """The process group of that name.

    Raises:
        RuntimeError: there is none.
    """
    for joined in world.members:
        if joined.group_name == name:
            return joined
    raise RuntimeError(
        f"Could not resolve the process group registered under the name {name}"
    )


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


def _meeting_host(store):
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return getattr(store, "host", None)


def make_group(store, ranks, rank, backend, name, timeout, device=None, options=None):
    """Connect a group and note that this process is in it."""
    arguments = (
        PrefixStore(f"group/{name}", store),
        ranks.index(rank),
        len(ranks),
        patience_of(backend, timeout),
    )
    maker = Backend._plugins.get(backend)
    if backend == Backend.MPI:
        made = ProcessGroupMPI(ranks, arguments[-1])
    elif maker is not None:
        made = maker(*arguments)
    else:
        host = _meeting_host(store)
        try:
            made = make_backend(backend, arguments, host, device, options)
        except DistNetworkError as error:
            raise DistNetworkError(
                f"rank {rank}, group {name} of ranks {ranks}: the store where they meet "
                f"is lost: {error}"
            ) from error
    made.group_name = name
    if isinstance(made, ProcessGroup):
        made._join_record(made, ranks)
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
        backend: ``gloo``; ``nccl``, for tensors of devices; ``cpu:gloo,cuda:nccl``, for
            both; or ``mpi``, which knows the processes by itself.
        init_method: ``env://`` (the default), ``tcp://HOST:PORT`` or ``file:///PATH``.
        timeout: how long a collective may take, a ``timedelta``: 30 minutes,
            and 10 of NCCL's.
        world_size: the number of processes, where the environment does not say it.
        rank: this process's number, where the environment does not say it.
        store: where the processes meet, in place of ``init_method``.
        group_name: without effect, as in PyTorch.
        pg_options: options of a backend: a ``ProcessGroupNCCL.Options``.
        device_id: the device of this process: NCCL connects it at once.

    Raises:
        ValueError: it has joined already, or a number is missing.
        RuntimeError: the backend is not there.
    """
    if world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    _check_arguments(init_method, store, world_size, rank, timeout)
    chosen = backend_for(backend or Backend.UNDEFINED)
    patience = patience_of(chosen, timeout)
    device_id = _bound_device(device_id)
    if chosen == Backend.MPI:
        if (world_size, rank) != (-1, -1):
            warnings.warn(
                f"For MPI backend, world_size ({world_size}) and rank ({rank}) are "
                "ignored since they are assigned by the MPI runtime.",
                stacklevel=2,
            )
        store, rank, world_size = find_processes()
    elif store is None:
        found = rendezvous(init_method or "env://", rank, world_size, timeout=patience)
        store, rank, world_size = next(found)
        store.set_timeout(patience)
    world.joined += 1
    below = PrefixStore(f"default_pg/{world.joined}", store)
    _join(below, rank, world_size, chosen, (timeout, device_id, pg_options))
    if not world.listens:
        world.listens = True
        atexit.register(_leave_at_exit)


def _bound_device(given):
    """The device that a process says to be its own, or None.

    Raises:
        ValueError: it is none.
    """
    if given is None:
        return None
    if isinstance(given, int):
        return Device("cuda", given)
    found = Device(given) if isinstance(given, str) else given
    if found.type != "cuda" or found.index is None:
        raise ValueError(
            f"init_process_group device_id parameter must be an int or a device with an "
            f"index of an accelerator, got {given!r}"
        )
    return found


def _join(store, rank, world_size, backend, options):
    ranks = list(range(world_size))
    if rank not in ranks:
        raise ValueError(f"rank {rank} is not below the world size {world_size}")
    made = make_group(store, ranks, rank, backend, str(world.count), *options)
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


describe_arguments(globals(), group="the group; all processes without it.")
