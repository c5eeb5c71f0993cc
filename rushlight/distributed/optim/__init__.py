"""Optimizers whose state several processes share: they need other processes."""

from rushlight.distributed import _no_group
from rushlight.optim.optimizer import Optimizer as _Optimizer

__all__ = [
    "DistributedOptimizer",
    "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer",
]


class ZeroRedundancyOptimizer(_Optimizer):
    """An optimizer whose state is split among the processes of a group.

    Raises:
        ValueError: this process has joined no others.
    """

    def __init__(self, params, optimizer_class, process_group=None, **defaults):
        _no_group()


class PostLocalSGDOptimizer(_Optimizer):
    """An optimizer that averages the parameters of all processes now and then.

    Raises:
        ValueError: this process has joined no others.
    """

    def __init__(self, optim, averager):
        _no_group()


class DistributedOptimizer:
    """An optimizer of parameters that are on other processes.

    Raises:
        ValueError: this process has joined no others.
    """

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        _no_group()
