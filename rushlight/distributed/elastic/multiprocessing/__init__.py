"""Processes of a launcher, how they fail, and where their output goes."""

from rushlight.distributed.elastic.multiprocessing import errors
from rushlight.distributed.elastic.multiprocessing.api import (
    ChildFailedError,
    ProcessFailure,
    SignalException,
    Std,
    record,
    to_map,
)

__all__ = [
    "ChildFailedError",
    "ProcessFailure",
    "SignalException",
    "Std",
    "errors",
    "record",
    "to_map",
]
