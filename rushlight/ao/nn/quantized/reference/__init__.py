"""Layers of numbers whose weights are rounded as layers of integers hold them."""

from importlib import import_module

from rushlight.ao.nn.quantized.reference.layers import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Embedding,
    EmbeddingBag,
    Linear,
    ReferenceQuantizedModule,
)


def __getattr__(name):
    if name == "modules":
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
