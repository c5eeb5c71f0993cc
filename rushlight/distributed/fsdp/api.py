"""Choices of programs that spread parameters over processes: plain values."""

from dataclasses import dataclass
from enum import Enum, auto

import rushlight as rl
from rushlight.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(Enum):
    """What is spread: parameters, gradients, states of optimizers, or nothing."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are gathered in a backward pass."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """Whether states are whole, each process's own, or spread."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class MixedPrecision:
    """The types of parameters, gradients that are summed, and buffers."""

    param_dtype: rl.dtype | None = None
    reduce_dtype: rl.dtype | None = None
    buffer_dtype: rl.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: tuple = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters wait in the host's memory."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How states of modules are made."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """The same of whole states, maybe in the first process only."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """The same of each process's own."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """The same of spread states."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How states of optimizers are made."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """The same of whole states, maybe in the first process only."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """The same of each process's own."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """The same of spread states."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """All three choices about states."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
