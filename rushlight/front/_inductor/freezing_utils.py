"""Values of parameters that programs hold as constants."""

import threading

from rushlight.core.state import AttributeScope

__all__ = [
    "enter_freezing",
    "has_frozen_params",
    "is_frozen_param",
    "maybe_set_is_frozen_param",
    "record_has_frozen_params",
]

_here = threading.local()


def enter_freezing():
    """A block in which values that become constants are marked so."""
    return AttributeScope(_here, active=True)


def maybe_set_is_frozen_param(t):
    """Marks a tensor as a constant of its program, inside of `enter_freezing`."""
    if getattr(_here, "active", False):
        t._is_frozen_param = True


def is_frozen_param(t):
    """Whether a tensor was marked."""
    return getattr(t, "_is_frozen_param", False)


def record_has_frozen_params(gm):
    """Marks a program that holds such constants."""
    gm._has_frozen_params = True


def has_frozen_params(gm):
    """Whether a program was marked."""
    return getattr(gm, "_has_frozen_params", False)
