"""``DistributedDataParallel``: a module in several processes, which are not there yet."""

from __future__ import annotations

from rushlight.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module whose gradients several processes share.

    Raises:
        RuntimeError: this process has joined no others.
    """

    def __init__(self, module, *args, **kwargs):
        super().__init__()
        raise RuntimeError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group.\n"
            "  remedy: without other processes, train the module itself"
        )
