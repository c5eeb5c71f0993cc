"""Errors of export, beside those that programs cause."""

__all__ = ["InternalError"]


class InternalError(Exception):
    """Something that has to hold does not."""
