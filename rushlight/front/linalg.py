"""Linear algebra: ``rushlight.linalg``."""

from rushlight.ops import registry

globals().update(registry.namespaces["linalg"])
__all__ = sorted([*registry.namespaces["linalg"], "LinAlgError"])


def __getattr__(name):
    if name == "LinAlgError":
        from rushlight.ops.linalg_checks import LinAlgError

        return LinAlgError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
