"""Processes of a launcher, and how they fail."""

from rushlight.distributed.elastic.multiprocessing import errors

__all__ = ["errors"]
