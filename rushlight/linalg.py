"""Linear algebra: ``rushlight.linalg``."""

from rushlight.ops import registry

globals().update(registry.namespaces["linalg"])
__all__ = sorted(registry.namespaces["linalg"])
