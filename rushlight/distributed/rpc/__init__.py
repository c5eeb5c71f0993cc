"""Calls from process to process.

``init_rpc`` joins processes by names; ``rpc_sync``, ``rpc_async`` and ``remote`` call functions
there. Arguments are what ``load`` reads without running a program; functions go by name.
"""

from rushlight.distributed.rpc import functions
from rushlight.distributed.rpc._agent import WorkerInfo
from rushlight.distributed.rpc._codec import allow_pickle
from rushlight.distributed.rpc import api
from rushlight.distributed.rpc.api import *
from rushlight.distributed.rpc._joining import BackendType, init_rpc
from rushlight.distributed.rpc.options import TensorPipeRpcBackendOptions

__all__ = [
    "BackendType",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "allow_pickle",
    "functions",
    "init_rpc",
    "is_available",
]
__all__ += api.__all__


def is_available():
    """Whether processes can call each other.

    >>> is_available()
    True
    """
    return True
