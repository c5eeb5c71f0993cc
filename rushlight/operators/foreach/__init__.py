"""Operators: lists of tensors."""
