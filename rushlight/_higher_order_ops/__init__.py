"""Operators that take functions, under PyTorch's name for the place."""

from rushlight._higher_order_ops.associative_scan import associative_scan

__all__ = ["associative_scan"]
