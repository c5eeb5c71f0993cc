"""Special functions: ``rushlight.special``."""

from rushlight.operators import registry

TYPE_CHECKING = False
if TYPE_CHECKING:  # for readers of types, who see no names that are put in at run time
    from rushlight._generated.special import *  # noqa: F403

globals().update(registry.namespaces["special"])
__all__ = sorted(registry.namespaces["special"])
