"""PyTorch's place for ``DistributedDataParallel``."""

from rushlight.distributed.data_parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
