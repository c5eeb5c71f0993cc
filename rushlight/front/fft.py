"""Fourier transforms: ``rushlight.fft``."""

from rushlight.ops import registry

globals().update(registry.namespaces["fft"])
__all__ = sorted(registry.namespaces["fft"])
