"""Operators: tensors made from sizes and numbers."""
