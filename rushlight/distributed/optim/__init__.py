"""Optimizers whose state several processes share."""

from rushlight.distributed import _no_group
from rushlight.distributed.optim.optimizer import DistributedOptimizer
from rushlight.distributed.optim.zero_redundancy_optimizer import (
    ZeroRedundancyOptimizer,
)
from rushlight.optim.optimizer import Optimizer as _Optimizer

__all__ = [
    "DistributedOptimizer",
    "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer",
]


class PostLocalSGDOptimizer(_Optimizer):
    """An optimizer that averages the parameters of all processes now and then.

    Raises:
        ValueError: this process has joined no others.
    """

    def __init__(self, optim, averager):
        _no_group()
