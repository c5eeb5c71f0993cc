"""PyTorch's capture of programs, by the names that programs have for it.

Nothing is captured: operators are compiled one by one, and programs run as they are.
"""

from rushlight._dynamo import config
from rushlight._dynamo.eval_frame import OptimizedModule, optimize
from rushlight._dynamo.stance import (
    allow_in_graph,
    assume_constant_result,
    disable,
    forbid_in_graph,
    graph_break,
    is_compiling,
    list_backends,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    reset,
)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
]
