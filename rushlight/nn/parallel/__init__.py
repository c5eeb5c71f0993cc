"""Modules over several devices and processes."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
from rushlight.nn.parallel.data_parallel import DataParallel, data_parallel
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


__getattr__ = _lazy_getattr(
    __name__, ("distributed",), {"DistributedDataParallel": "distributed"}
)
