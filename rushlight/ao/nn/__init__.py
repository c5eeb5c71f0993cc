"""Modules of quantized models, in PyTorch's places."""

from importlib import import_module

__all__ = ["intrinsic", "qat", "quantized"]


def __getattr__(name):
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
