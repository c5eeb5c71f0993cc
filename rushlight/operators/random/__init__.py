"""Operators: random tensors."""
