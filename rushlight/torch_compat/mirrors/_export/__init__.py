"""Exported programs, under PyTorch's name for the place."""

from rushlight._export import error

__all__ = ["error"]
