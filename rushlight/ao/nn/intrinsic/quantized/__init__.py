"""Fused layers of integers."""

from importlib import import_module

from rushlight.ao.nn.quantized.activation import BNReLU2d, BNReLU3d
from rushlight.ao.nn.quantized.conv import ConvReLU1d, ConvReLU2d, ConvReLU3d
from rushlight.ao.nn.quantized.linear import LinearReLU


def __getattr__(name):
    if name in ("dynamic", "modules"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
