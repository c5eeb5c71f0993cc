"""Packages that may be installed: asked for without importing them."""

import functools
import importlib.util

__all__ = ["dill_available", "import_dill"]


def _check_module_exists(name):
    """Whether a module could be imported.

    >>> _check_module_exists("os"), _check_module_exists("no_such_package")
    (True, False)
    """
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.lru_cache
def dill_available():
    """Whether ``dill`` is installed."""
    return _check_module_exists("dill")


@functools.lru_cache
def import_dill():
    """``dill``, without its changes to Python's pickler; None where it is not there."""
    if not dill_available():
        return None
    import dill

    dill.extend(use_dill=False)
    return dill
