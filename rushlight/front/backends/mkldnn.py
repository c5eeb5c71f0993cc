"""Switches of oneDNN, which is not used: they are kept for programs that set them."""

from __future__ import annotations

import sys

from rushlight.backends import set_flags

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"
VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2


def is_available():
    """Whether the library is used: no, convolutions are Rushlight's own kernels."""
    return False


def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """A block with other values of the switches."""
    return set_flags(
        sys.modules[flags.__module__],
        enabled=enabled,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )


class verbose:
    """Has the library print its calls in a block: there are none to print."""

    def __init__(self, level):
        self.level = level

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False
