"""Layers of integers."""

from importlib import import_module

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


def __getattr__(name):
    if name in ("dynamic", "functional", "modules", "reference"):
        return import_module(f"{__name__}.{name}")
    if name in ("LSTM", "MultiheadAttention"):  # which look at this module's parts
        return getattr(import_module(f"{__name__}.rnn"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
