"""NNPACK, which is not used."""

from __future__ import annotations

import sys

from rushlight.backends import set_flags

__all__ = ["flags", "is_available", "set_flags"]

enabled = True


def is_available():
    """Whether the library is used: no."""
    return False


def flags(enabled=False):
    """A block with another value of the switch."""
    return set_flags(sys.modules[flags.__module__], enabled=enabled)
