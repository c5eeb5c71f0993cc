"""Fused layers with weights of integers, of numbers."""

from rushlight.ao.nn.quantized.dynamic.linear import LinearReLU
