"""Layers of integers."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn.quantized.activation import (
    ELU,
    BatchNorm2d,
    BatchNorm3d,
    Dropout,
    GroupNorm,
    Hardswish,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LeakyReLU,
    PReLU,
    ReLU6,
    Sigmoid,
    Softmax,
)
from rushlight.ao.nn.quantized.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from rushlight.ao.nn.quantized.embedding import Embedding, EmbeddingBag
from rushlight.ao.nn.quantized.functional_modules import (
    FloatFunctional,
    FXFloatFunctional,
    QFunctional,
)
from rushlight.ao.nn.quantized.linear import Linear

MaxPool2d = nn.MaxPool2d


__getattr__ = _lazy_getattr(
    __name__,
    ("dynamic", "functional", "modules", "reference"),
    {"LSTM": "rnn", "MultiheadAttention": "rnn"},
)


class Quantize(nn.Module):
    """Numbers as integers of a scale and a zero point.

    Args:
        scale, zero_point: the parameters.
        dtype: of the integers.
        factory_kwargs: ``device`` of the parameters.
    """

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        super().__init__()
        made = nn.factory_kwargs(factory_kwargs)
        self.register_buffer("scale", rl.tensor([scale], **made))
        self.register_buffer(
            "zero_point", rl.tensor([zero_point], dtype=rl.int64, **made)
        )
        self.dtype = dtype

    def forward(self, X):
        """The integers."""
        return rl.quantize_per_tensor(
            X, float(self.scale), int(self.zero_point), self.dtype
        )

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """A module made of a stub that was observed.

        Raises:
            AssertionError: nothing looked at it.
        """
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError("Quantize expects a stub with activation_post_process")
        scale, point = mod.activation_post_process.calculate_qparams()
        dtype = mod.activation_post_process.dtype
        return Quantize(float(scale), int(point), dtype)

    def extra_repr(self):
        """Scale, zero point and type."""
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Integers as the numbers that they stand for."""

    def forward(self, Xq):
        """The numbers."""
        return Xq.dequantize()

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """A module made of a stub."""
        return DeQuantize()
