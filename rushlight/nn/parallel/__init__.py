"""Modules over several devices and processes."""

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


def __getattr__(name):
    if name in ("DistributedDataParallel", "distributed"):
        # with it come stores, groups, collectives
        from importlib import import_module

        found = import_module("rushlight.nn.parallel.distributed")
        return found if name == "distributed" else found.DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
