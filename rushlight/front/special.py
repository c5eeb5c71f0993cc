"""Special functions: ``rushlight.special``."""

from rushlight.ops import registry

globals().update(registry.namespaces["special"])
__all__ = sorted(registry.namespaces["special"])
