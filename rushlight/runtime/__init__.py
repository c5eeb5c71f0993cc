"""Devices: memory, streams, launches, machine code on disk, libraries.

Each kind of device has a package here; what they fill is named in `rushlight.core.roles`.
"""

from __future__ import annotations

import os
from importlib import import_module

from rushlight.core import device, roles

__all__ = ["has_cuda"]

roles.host.package = "rushlight.runtime.cpu"
device.register_late("cuda", "rushlight.runtime.cuda")


def has_cuda() -> bool:
    """Whether tensors can live on a GPU: it is asked for, and the driver finds one."""
    if os.environ.get("RUSHLIGHT_CUDA") != "1":
        return False
    return import_module("rushlight.runtime.cuda.contexts").count() > 0
