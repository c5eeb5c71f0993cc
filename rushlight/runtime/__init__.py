"""Devices: memory, streams, launches, machine code on disk, libraries.

Each kind of device has a package here; what they fill is named in `rushlight.core.roles`.
"""

import os
from importlib import import_module

from rushlight.core import device, roles

__all__ = ["has_cuda", "pinned"]

roles.host.package = "rushlight.runtime.cpu"
device.register_late("cuda", "rushlight.runtime.cuda")


def has_cuda() -> bool:
    """Whether tensors can live on a GPU: it is asked for, and the driver finds one."""
    if os.environ.get("RUSHLIGHT_CUDA") != "1":
        return False
    return import_module("rushlight.runtime.cuda.contexts").count() > 0


def pinned(made):
    """A tensor that was made with ``pin_memory=True``, in page-locked memory.

    Raises:
        RuntimeError: there is no GPU to lock it for, or the tensor is on one.
    """
    if not made.device.has_memory:
        return made
    if not has_cuda():
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned "
            "memory allocator is available on this system."
        )
    return made.pin_memory()
