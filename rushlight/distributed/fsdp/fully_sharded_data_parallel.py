"""Modules around others whose parameters are spread: not available yet."""

from __future__ import annotations

from enum import Enum, auto

from rushlight.distributed import _unavailable
from rushlight.distributed.fsdp._flat_param import FlatParameter as FlatParameter
from rushlight.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from rushlight.nn import Module

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class OptimStateKeyType(Enum):
    """Whether states of optimizers go by parameters' names or numbers."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


class FullyShardedDataParallel(Module):
    """A module around another one whose parameters are spread: there is none.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, module, *args, **kwargs):
        _unavailable("fsdp.FullyShardedDataParallel")

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The spread modules within a module: none.

        >>> import rushlight as rl
        >>> FullyShardedDataParallel.fsdp_modules(rl.nn.Linear(1, 1))
        []
        """
        return []
