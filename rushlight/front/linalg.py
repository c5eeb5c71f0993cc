"""Linear algebra: ``rushlight.linalg``."""

from rushlight.operators import registry

TYPE_CHECKING = False
if TYPE_CHECKING:  # for readers of types, who see no names that are put in at run time
    from rushlight._generated.linalg import *  # noqa: F403

globals().update(registry.namespaces["linalg"])
__all__ = sorted([*registry.namespaces["linalg"], "LinAlgError"])


def __getattr__(name):
    if name == "LinAlgError":
        from rushlight.operators.linalg.linalg_checks import LinAlgError

        return LinAlgError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
