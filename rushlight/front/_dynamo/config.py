"""Settings of the capture of programs: ``disable`` counts, the others are PyTorch's."""

import os as _os

from rushlight.utils._settings import copier, patcher

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
automatic_disable = _os.environ.get("TORCH_COMPILE_DISABLE") == "1"
base_dir = _os.path.dirname(_os.path.dirname(_os.path.dirname(__file__)))
cache_size_limit = 8
caching_precompile = False
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
debug_dir_root = _os.path.join(
    _os.environ.get("TORCH_COMPILE_DEBUG_DIR", _os.getcwd()), "torch_compile_debug"
)
disable = False
do_not_emit_runtime_asserts = False
error_on_recompile = False
dynamic_shapes = True
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
numpy_default_float = "float64"
optimize_ddp = True
prefer_deferred_runtime_asserts_over_guards = False
recompile_limit = 8
reorderable_logging_functions: set = set()
repro_tolerance = 1e-3
skip_fwd_side_effects_in_bwd_under_checkpoint = False
skip_nnmodule_hook_guards = True
specialize_float = False
specialize_int = False
suppress_errors = False
trace_autograd_ops = False
trace_numpy = True
track_nodes_for_deduplication = False
use_graph_deduplication = False
verbose = False

patch = patcher(__name__)
get_config_copy = shallow_copy_dict = copier(__name__)
