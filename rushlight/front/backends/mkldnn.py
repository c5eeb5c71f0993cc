"""Switches of oneDNN, which is not used: they are kept for programs that set them."""

import sys

from rushlight.backends._switches import (
    GENERIC,
    LibrarySwitches,
    Precision,
    replace,
    replaced,
)

enabled = True
deterministic = False
allow_tf32 = True
NAMES = "enabled deterministic allow_tf32 fp32_precision".split()
_all = Precision("mkldnn", wider=GENERIC)
matmul = Precision("mkldnn", wider=_all)
conv = Precision("mkldnn", wider=_all)
rnn = Precision("mkldnn", wider=_all)
VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2


class _Switches(LibrarySwitches):
    """This module."""

    SETTERS = {
        "enabled": "set_enabled_mkldnn",
        "deterministic": "set_deterministic_mkldnn",
        "allow_tf32": "_set_onednn_allow_tf32",
    }


def is_available():
    """Whether the library is used: no, convolutions are Rushlight's own kernels."""
    return False


def set_flags(
    _enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none"
):
    """Gives switches other values; returns those before.

    Args: the switches in their order; None leaves one as it is.
    """
    given = (_enabled, _deterministic, _allow_tf32, _fp32_precision)
    return replace(sys.modules[__name__], NAMES, given)


def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """A block with other values of the switches."""
    return replaced(
        sys.modules[__name__],
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


sys.modules[__name__].__class__ = _Switches
