"""PyTorch's capture of programs, by the names that programs have for it.

Functions run as they are, and the operators that they call become programs
(`rushlight.graph`).
"""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
from rushlight._dynamo import config, utils
from rushlight._dynamo.backends import list_backends, lookup_backend, register_backend
from rushlight._dynamo.eval_frame import (
    OptimizedModule,
    export,
    optimize,
    optimize_assert,
)
from rushlight._dynamo.explaining import explain
from rushlight._dynamo.decorators import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    forbid_in_graph,
    graph_break,
    is_compiling,
    mark_dynamic,
    mark_static,
    mark_static_address,
    mark_unbacked,
    maybe_mark_dynamic,
    nonstrict_trace,
    reset,
    run,
)

reset_code_caches = reset

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "explain",
    "export",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "register_backend",
    "reset",
    "reset_code_caches",
    "run",
    "testing",
    "utils",
]


__getattr__ = _lazy_getattr(__name__, ("testing",))
