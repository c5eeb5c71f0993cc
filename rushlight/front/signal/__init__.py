"""Signal processing: ``rushlight.signal``."""

from rushlight.signal import windows

__all__ = ["windows"]
