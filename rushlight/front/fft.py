"""Fourier transforms: ``rushlight.fft``."""

from rushlight.operators import registry

TYPE_CHECKING = False
if TYPE_CHECKING:  # for readers of types, who see no names that are put in at run time
    from rushlight._generated.fft import *  # noqa: F403

globals().update(registry.namespaces["fft"])
__all__ = sorted(registry.namespaces["fft"])
