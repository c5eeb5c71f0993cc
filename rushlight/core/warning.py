"""Warnings of operators: at the line of the program that called, and some of them once.

PyTorch's core gives some warnings at each call (``TORCH_WARN``) and others the first time
only (``TORCH_WARN_ONCE``), unless ``set_warn_always`` asks for all.
"""

import os
import sys
import threading
import warnings

from rushlight.core import switches
from rushlight.core.state import AttributeScope
from rushlight.core.truth import truth_of_switch

# Where the package's own code is: in its folder, and in translated programs.
_OWN = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    "<torch_jit ",
)
_given: set = set()
_local = threading.local()
_observers: list = []


def on_warning(observer):
    """Calls a function with no arguments before each of these warnings."""
    _observers.append(observer)


def warn(message, category=UserWarning):
    """Gives a warning at the line outside of the package that led here."""
    if getattr(_local, "quiet", False):
        return
    for observer in _observers:
        observer()
    level, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_once(message, category=UserWarning, key=None):
    """Gives a warning the first time that it is due, or each time after ``set_warn_always``.

    Args:
        key: what is said once, where the message changes from call to call.
    """
    key = message if key is None else key
    if not switches.switch("warn_always"):
        if key in _given:
            return
        _given.add(key)
    warn(message, category)


def warn_of_freedom(name):
    """Says that a spread was asked of no more numbers than its correction takes off."""
    warn(
        f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than "
        "the reduction factor (input numel divided by output numel)."
    )


def quiet():
    """A block of this thread whose warnings were given already, in other words."""
    return AttributeScope(_local, quiet=True)


def set_warn_always(b, /):
    """Whether warnings that come once come each time; Python's own filters hold beside.

    Args:
        b: whether they do.

    Raises:
        RuntimeError: what is given is no truth value.

    >>> set_warn_always(False)
    """
    switches.set_switch("warn_always", int(truth_of_switch("setWarnOnlyOnce", b)))


def is_warn_always_enabled():
    """What ``set_warn_always`` was given."""
    return bool(switches.switch("warn_always"))
