"""Modules of quantized models, in PyTorch's places."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight.ao.nn import _aliases

__all__ = ["intrinsic", "qat", "quantizable", "quantized"]


__getattr__ = _lazy_getattr(__name__, __all__)


_aliases.register(__name__)
