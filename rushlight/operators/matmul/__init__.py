"""Operators: products of matrices."""
