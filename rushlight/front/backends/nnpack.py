"""NNPACK, which is not used."""

import sys

from rushlight.backends._switches import Switches, replace, replaced

__all__ = ["flags", "is_available", "set_flags"]

enabled = True


class _Switches(Switches):
    """This module."""

    SETTERS = {"enabled": "set_enabled_NNPACK"}


def is_available():
    """Whether the library is used: no."""
    return False


def set_flags(_enabled):
    """Gives the switch another value; returns that before."""
    return replace(sys.modules[__name__], ["enabled"], [_enabled])


def flags(enabled=False):
    """A block with another value of the switch."""
    return replaced(sys.modules[__name__], enabled=enabled)


sys.modules[__name__].__class__ = _Switches
