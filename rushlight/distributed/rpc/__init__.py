"""Calls from process to process.

``init_rpc`` joins processes by names; ``rpc_sync``, ``rpc_async`` and ``remote`` call functions
there. Arguments are what ``load`` reads without running a program; functions go by name.
"""

from __future__ import annotations

from rushlight.distributed.rpc import functions
from rushlight.distributed.rpc._agent import WorkerInfo
from rushlight.distributed.rpc._codec import allow_pickle
from rushlight.distributed.rpc.api import (
    RRef,
    get_worker_info,
    method_factory,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from rushlight.distributed.rpc._joining import BackendType, init_rpc
from rushlight.distributed.rpc.options import TensorPipeRpcBackendOptions

__all__ = [
    "BackendType",
    "RRef",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "allow_pickle",
    "functions",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "method_factory",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


def is_available():
    """Whether processes can call each other.

    >>> is_available()
    True
    """
    return True
