"""Layers of numbers whose weights are rounded as layers of integers hold them."""

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
