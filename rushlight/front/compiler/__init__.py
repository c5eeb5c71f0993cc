"""What programs say to PyTorch's compiler of programs, and ask of it.

Rushlight's own compiler, of kernels, is ``rushlight.codegen``.
"""

from rushlight._dynamo.backends import list_backends
from rushlight._dynamo.eval_frame import compile
from rushlight._dynamo.decorators import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    nested_compile_region,
    reset,
    set_stance,
    substitute_in_graph,
)
from rushlight.compiler._cache import load_cache_artifacts, save_cache_artifacts

__all__ = [
    "load_cache_artifacts",
    "save_cache_artifacts",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "set_stance",
    "substitute_in_graph",
]
