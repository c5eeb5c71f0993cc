"""Loggers at the level that ``LOGLEVEL`` says."""

import logging
import os
import sys

__all__ = ["get_logger"]


def get_logger(name=None):
    """A logger.

    Args:
        name: its name; the calling module's without it.
    """
    chosen = name or sys._getframe(1).f_globals.get("__name__", __name__)
    found = logging.getLogger(chosen)
    found.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return found
