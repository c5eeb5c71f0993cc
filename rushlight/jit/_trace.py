"""Classes of traced programs, where programs import them from."""

from rushlight.jit import (
    TopLevelTracedModule,
    TracerWarning,
    is_tracing,
    script_if_tracing,
    trace,
    trace_module,
)

__all__ = [
    "TopLevelTracedModule",
    "TracerWarning",
    "is_tracing",
    "script_if_tracing",
    "trace",
    "trace_module",
]
