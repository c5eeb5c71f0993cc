"""What a kind of device has beside memory, found by role: operators name no backend.

A backend's package has a module for each role it fills: ``launch`` runs kernels,
``code_cache`` keeps machine code, ``pool`` counts threads, ``matmul``, ``foreach`` and
``lapack`` are libraries of kernels. A role keeps its name in every backend, and who needs
one asks for the role: ``host.lapack.qr``. Which packages there are is handed in from above,
by `rushlight.runtime`.
"""

from importlib import import_module
from types import ModuleType

from rushlight.core.device import backend_for


class Roles:
    """The modules of one backend's package, imported when they are first asked for.

    Args:
        kind: the kind of device, for messages.
        package: where the modules are; None until it is known.

    >>> from rushlight.core.roles import host
    >>> host.launch.__name__
    'rushlight.runtime.cpu.launch'
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self._kind, self.package = kind, package

    def __getattr__(self, role: str) -> ModuleType:
        name = f"{self.package}.{role}"
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


host = Roles("cpu")
# What programs set where PyTorch has it: ``torch.backends.cudnn.benchmark``.
switches = Roles("switches")
# What libraries of a device compute beside their own routines: ``operators.call.arange``.
operators = Roles("operators")


def roles_for(device) -> Roles:
    """The modules of a device's backend; the host's where it has none of its own."""
    if device.on_host or not device.has_memory:
        return host
    found = backend_for(device).roles()
    return host if found is None else found
