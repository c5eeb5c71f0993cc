"""PyTorch's switches for its backends, which programs set and ask for.

Each says what it means here. Where bytes live and kernels run is `rushlight.runtime`.
"""

import sys
import types

from rushlight.backends._switches import GENERIC


class _Backends(types.ModuleType):
    """This package, whose precision is that of all backends that have none."""

    @property
    def fp32_precision(self):
        """``ieee``, ``tf32``, ``bf16`` or ``none``."""
        return GENERIC.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, word):
        GENERIC.fp32_precision = word


def disable_global_flags():
    """Nothing: the switches stay settable."""


def __getattr__(name):
    from importlib import import_module

    if name in ("Backend", "register_backend", "backend_for"):
        return getattr(import_module("rushlight.core.device"), name)
    known = """
        cpu cuda cudnn cusparselt mha mkl mkldnn mps nnpack openmp opt_einsum quantized
        xnnpack
    """
    if name in known.split():
        return import_module(f"rushlight.backends.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = _Backends
