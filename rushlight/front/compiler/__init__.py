"""What programs say to PyTorch's compiler of programs, and ask of it.

Rushlight's own compiler, of kernels, is ``rushlight.codegen``.
"""

from rushlight._dynamo.backends import list_backends
from rushlight._dynamo.external_utils import wrap_numpy
from rushlight.compiler import config
from rushlight._dynamo.eval_frame import compile
from rushlight._dynamo.decorators import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    nested_compile_region,
    reset,
    set_stance,
    substitute_in_graph,
)
from rushlight._inductor import cudagraph_mark_step_begin
from rushlight._dynamo.backends.registry import get_default_backend, set_default_backend
from rushlight.compiler._cache import load_cache_artifacts, save_cache_artifacts
from rushlight.compiler._guard_filters import (
    keep_portable_guards_unsafe,
    keep_tensor_guards_unsafe,
    skip_all_guards_unsafe,
    skip_guard_on_all_nn_modules_unsafe,
    skip_guard_on_globals_unsafe,
    skip_guard_on_inbuilt_nn_modules_unsafe,
)

__all__ = [
    "get_default_backend",
    "set_default_backend",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "load_cache_artifacts",
    "save_cache_artifacts",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
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
    "wrap_numpy",
]
