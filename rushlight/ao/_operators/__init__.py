"""Integers in place of numbers: packed weights, products of bytes, `ops.quantized`."""
