"""Numeric suite: a model of numbers and one of integers compared layer by layer."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

__getattr__ = _lazy_getattr(__name__, ("_numeric_suite", "_numeric_suite_fx", "fx"))
