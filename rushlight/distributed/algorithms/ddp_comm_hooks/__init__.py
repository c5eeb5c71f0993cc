"""Communication hooks of ``DistributedDataParallel``, by name."""

from enum import Enum
from functools import partial

from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks that have names."""

    ALLREDUCE = partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(default_hooks.bf16_compress_hook)
    POWER_SGD = partial(powerSGD_hook.powerSGD_hook)
    BATCHED_POWER_SGD = partial(powerSGD_hook.batched_powerSGD_hook)


def register_ddp_comm_hook(comm_hook_type, model, state=None):
    """Have a model reduce its gradients by one of the named hooks.

    Args:
        comm_hook_type: a ``DDPCommHookType``.
        model: a ``DistributedDataParallel``.
        state: the hook's state.
    """
    model.register_comm_hook(state, comm_hook_type.value)
