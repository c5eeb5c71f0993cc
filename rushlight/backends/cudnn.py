"""Switches of cuDNN, which is not used: they are kept for programs that set them."""

from __future__ import annotations

import sys

from rushlight.backends import set_flags

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def version():
    """The version of the library: None, as there is none."""
    return None


def is_available():
    """Whether the library is there: no."""
    return False


def is_acceptable(tensor):
    """Whether the library would take a tensor: no."""
    return False


def flags(
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
):
    """A block with other values of the switches."""
    return set_flags(
        sys.modules[flags.__module__],
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )
