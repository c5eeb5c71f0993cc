"""Choices of programs that spread modules in place: plain values."""

from dataclasses import dataclass

import rushlight as rl

__all__ = [
    "CPUOffloadPolicy",
    "DataParallelMeshDims",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The types in which parameters are gathered, gradients reduced, results given."""

    param_dtype: rl.dtype | None = None
    reduce_dtype: rl.dtype | None = None
    output_dtype: rl.dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing is moved off the devices."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait in the host's memory."""

    pin_memory: bool = True


@dataclass
class DataParallelMeshDims:
    """The dimensions of a mesh of processes that parameters are spread or copied over."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None
