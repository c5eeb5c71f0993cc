"""Fused layers with weights of integers, of numbers."""

from importlib import import_module

from rushlight.ao.nn.quantized.dynamic.linear import LinearReLU

modules = import_module(f"{__name__}.modules")  # an alias
