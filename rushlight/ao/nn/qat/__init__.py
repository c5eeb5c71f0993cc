"""Modules whose weights are rounded as they train."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight.ao.nn.qat.modules import (
    Conv1d,
    Conv2d,
    Conv3d,
    Embedding,
    EmbeddingBag,
    Linear,
)


__getattr__ = _lazy_getattr(__name__, ("dynamic",))
