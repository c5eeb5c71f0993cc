"""Operators: quantized tensors."""
