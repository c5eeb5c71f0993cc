"""Modules whose weights are rounded as they train."""

from importlib import import_module

from rushlight.ao.nn.qat.modules import (
    Conv1d,
    Conv2d,
    Conv3d,
    Embedding,
    EmbeddingBag,
    Linear,
)


def __getattr__(name):
    if name == "dynamic":
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
