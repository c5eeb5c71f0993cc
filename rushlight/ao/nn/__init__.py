"""Modules of quantized models, in PyTorch's places."""

from importlib import import_module

from rushlight.ao.nn import _aliases

__all__ = ["intrinsic", "qat", "quantizable", "quantized"]


def __getattr__(name):
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_aliases.register(__name__)
