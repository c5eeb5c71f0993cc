"""Modules over several devices: with the CPU alone, the module itself."""

from rushlight.nn.parallel.data_parallel import DataParallel, data_parallel
from rushlight.nn.parallel.distributed import DistributedDataParallel
from rushlight.nn.parallel.parallel_apply import parallel_apply
from rushlight.nn.parallel.replicate import replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
