"""Optimizers whose state or parameters several processes share."""

from rushlight.distributed.optim.optimizer import DistributedOptimizer
from rushlight.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from rushlight.distributed.optim.zero_redundancy_optimizer import (
    ZeroRedundancyOptimizer,
)

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
