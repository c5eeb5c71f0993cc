"""What a kind of device has beside memory, found by role: operators name no backend.

A backend's package has a module for each role it fills: ``launch`` runs kernels, ``cache``
keeps machine code, ``pool`` counts threads, ``contraction``, ``foreach`` and ``lapack`` are
libraries of kernels. A role keeps its name in every backend, and operators ask for the
role: ``host.lapack.qr``.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from rushlight.core.device import backend_for


class Roles:
    """The modules of one backend's package, imported when they are first asked for.

    Args:
        kind: the kind of device, for messages.
        package: where the modules are.

    >>> from rushlight.backends.roles import host
    >>> host.launch.__name__
    'rushlight.backends.cpu.launch'
    """

    def __init__(self, kind: str, package: str) -> None:
        self._kind, self._package = kind, package

    def __getattr__(self, role: str) -> ModuleType:
        name = f"{self._package}.{role}"
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise AttributeError(
                f"the backend of '{self._kind}' has no '{role}': there is no {name}"
            ) from None
        setattr(self, role, module)
        return module


host = Roles("cpu", "rushlight.backends.cpu")


def has_cuda() -> bool:
    """Whether tensors can live on a GPU: it is asked for, and the driver finds one."""
    if os.environ.get("RUSHLIGHT_CUDA") != "1":
        return False
    return import_module("rushlight.backends.nvidia.contexts").count() > 0


def roles_for(device) -> Roles:
    """The modules of a device's backend; the host's where it has none of its own."""
    if device.on_host or not device.has_memory:
        return host
    found = backend_for(device).roles()
    return host if found is None else found
