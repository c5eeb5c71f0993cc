"""Numeric suite: a model of numbers and one of integers compared layer by layer."""

from importlib import import_module

_LATER = ("_numeric_suite", "_numeric_suite_fx", "fx")


def __getattr__(name):
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
