"""Samples made into batches, under PyTorch's name for the place."""

from rushlight.utils.data.collate import default_collate, default_convert

__all__ = ["default_collate", "default_convert"]
