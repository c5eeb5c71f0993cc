"""Models made smaller: quantization, and modules of quantized models."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr


__getattr__ = _lazy_getattr(__name__, ("nn", "ns", "pruning", "quantization"))
