"""Parameters spread over several processes: not available yet.

No module is spread, and programs may ask; policies are plain values.
"""

from __future__ import annotations

from dataclasses import dataclass

import rushlight as rl
from rushlight.distributed import _unavailable
from rushlight.nn import Module

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullyShardedDataParallel",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "fully_shard",
    "register_fsdp_forward_method",
]


class FSDPModule:
    """A module whose parameters are spread: there is none.

    Raises:
        NotImplementedError: always.
    """

    def __new__(cls, *args, **kwargs):
        _unavailable("fsdp.FSDPModule")


class FullyShardedDataParallel(Module):
    """A module around another one whose parameters are spread: there is none.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, module, *args, **kwargs):
        _unavailable("fsdp.FullyShardedDataParallel")


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


def fully_shard(module, **options):
    """Spread a module's parameters over the processes of a mesh.

    Raises:
        NotImplementedError: always.
    """
    _unavailable("fsdp.fully_shard")


def register_fsdp_forward_method(module, method_name):
    """Gather the parameters of a spread module for another method, too.

    For a module that is not spread there is nothing to do.

    >>> register_fsdp_forward_method(rl.nn.Linear(1, 1), "forward")
    """
