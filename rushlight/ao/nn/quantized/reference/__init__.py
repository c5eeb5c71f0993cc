"""Layers of numbers whose weights are rounded as layers of integers hold them."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

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


__getattr__ = _lazy_getattr(__name__, ("modules",))
