"""Fused layers of integers."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight.ao.nn.quantized.activation import BNReLU2d, BNReLU3d
from rushlight.ao.nn.quantized.conv import ConvReLU1d, ConvReLU2d, ConvReLU3d
from rushlight.ao.nn.quantized.linear import LinearReLU


__getattr__ = _lazy_getattr(__name__, ("dynamic", "modules"))
