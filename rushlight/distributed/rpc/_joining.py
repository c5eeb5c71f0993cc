"""How processes come to call each other."""

import os
from enum import Enum

from rushlight.distributed.rendezvous import rendezvous
from rushlight.distributed.rpc import api
from rushlight.distributed.rpc._agent import current
from rushlight.distributed.rpc.options import TensorPipeRpcBackendOptions
from rushlight.distributed.stores import PrefixStore
from rushlight.distributed.world import _meeting_host

_rounds = {"count": 0}


class BackendType(Enum):
    """What carries calls: sockets, under PyTorch's name."""

    TENSORPIPE = "TENSORPIPE"


def init_rpc(name, backend=None, rank=-1, world_size=None, rpc_backend_options=None):
    """Join the processes that call each other; returns once all have come.

    Args:
        name: this process's, which no other has.
        backend: ``BackendType.TENSORPIPE``.
        rank: its number, where the environment does not say it.
        world_size: the number of processes, where the environment does not say it.
        rpc_backend_options: a ``TensorPipeRpcBackendOptions``.

    Raises:
        RuntimeError: it has joined already, or a name comes twice.
    """
    if current["agent"] is not None:
        raise RuntimeError("RPC is already initialized")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    rank = int(os.environ["RANK"]) if rank < 0 and "RANK" in os.environ else rank
    size = -1 if world_size is None else world_size
    store, rank, size = next(rendezvous(options.init_method, rank, size))
    _rounds["count"] += 1
    below = PrefixStore(f"rpc_prefix_{_rounds['count']}", store)
    host = _meeting_host(store)
    api.start(below, name, rank, size, options.rpc_timeout, host)
