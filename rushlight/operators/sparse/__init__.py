"""Operators: sparse tensors."""
