"""Passes and tracers that may change."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr


__getattr__ = _lazy_getattr(__name__, ("const_fold",))
