"""Settings of the capture of programs: ``disable`` counts, the others are PyTorch's."""

import os as _os

from rushlight.utils._settings import copier, keeper, patcher, sealed

keep = keeper(__name__)

accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
automatic_disable = _os.environ.get("TORCH_COMPILE_DISABLE") == "1"
base_dir = _os.path.dirname(_os.path.dirname(_os.path.dirname(__file__)))
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
keep(False, """
    TYPE_CHECKING _unsafe_skip_fsdp_module_guards allow_empty_graphs
    allow_ignore_mark_dynamic allow_rnn automatic_dynamic_exclusion_guard
    capture_profiler_record_function constant_fold_autograd_profiler_enabled
    cprofile cudagraph_backend_keep_input_mutation
    cudagraph_backend_support_input_mutation debug_disable_compile_counter
    debug_force_graph_break_on_leaf_return debug_force_nested_calls
    dont_skip_tracing dynamo_profiler enable_compiler_collectives
    enable_cpp_symbolic_shape_guards enable_invoke_subgraph_regional_compile
    enable_p2p_compilation enable_trace_load_build_class enable_trace_unittest
    error_on_dynamo_callback_in_fullgraph_compiled_code
    fake_tensor_cache_crosscheck_enabled force_compile_during_fx_trace
    force_unspec_int_unbacked_size_like_on_torchrec_kjt generate_pycode
    graph_deduplication_lint inject_BUILD_SET_unimplemented_TESTING_ONLY
    inline_invoke_subgraph install_free_tensors
    leaf_function_check_escaped_gradients leaf_function_validate_outputs
    log_graph_in_out_metadata nested_graph_breaks only_allow_pt2_compliant_ops
    optimize_ddp_lazy_compile prepare_freezing raise_on_unsafe_aot_autograd
    record_compile_time_instruction_count replay_record_enabled
    repro_forward_only repro_ignore_non_fp skip_guards_on_constant_func_defaults
    strict_precompile use_numpy_random_stream use_recursive_dict_tags_for_guards
    verify_correctness wrap_top_frame
""")  # fmt: skip
keep(None, """
    _custom_ops_profile _shapes_spec automatic_dynamic_remote_pgo
    dead_code_elimination invalidate_compile_context_weakrefs log_file_name
    pt2_compile_id_prefix repro_after
""")  # fmt: skip
keep(True, """
    assume_dunder_attributes_remain_unchanged automatic_dynamic_local_pgo
    capture_autograd_function capture_func_transforms capture_sparse_compute
    enable_aot_compile enable_cpp_framelocals_guard_eval
    enable_cpp_guard_manager enable_dynamo_decompositions
    enable_faithful_generator_behavior enable_trace_contextlib
    error_on_nested_fx_trace error_on_nested_jit_trace fake_tensor_cache_enabled
    fake_tensor_disable_inference_mode force_nn_module_property_static_shapes
    graph_break_on_nn_param_ctor guard_nn_modules_using_dict_tags
    inline_single_use_invoke_subgraph inline_torch_dispatch_torch_compile
    install_free_tensors_for_export issue_3_13_0_warning log_compilation_metrics
    raise_on_ctx_manager_usage record_runtime_overhead replay_side_effects
    report_guard_failures rewrite_assert_with_torch_assert run_gc_after_compile
    same_two_models_use_fp64 skip_code_recursive_on_recompile_limit_hit
    skip_fsdp_guards skip_no_tensor_aliasing_guards_on_parameters
    skip_tensor_guards_with_matching_dict_tags skip_torchrec
    use_lamba_guard_for_object_aliasing use_lazy_graph_module
""")  # fmt: skip
automatic_dynamic_shapes_mark_as = "dynamic"
compiled_autograd_kwargs_override: dict = {}
debug_backend_override = ""
debug_dynamo_config_override = ""
debug_inductor_config_override = ""
ignore_logging_functions: set = set()
max_saved_pointers_for_recursive_dict_tags_check = 256
minimum_call_count = 1
nontraceable_tensor_subclasses: set = set()
numpy_default_complex = "complex128"
numpy_default_int = "int64"
repro_level = 2
side_effect_replay_policy = "info"
skipfiles_inline_module_allowlist: dict = {}
traceable_tensor_subclasses: set = set()

patch = patcher(__name__)
get_config_copy = shallow_copy_dict = copier(__name__)
__getattr__ = sealed(
    __name__,
    accumulated_cache_size_limit="accumulated_recompile_limit",
    cache_size_limit="recompile_limit",
    fail_on_cache_limit_hit="fail_on_recompile_limit_hit",
    ignore_logger_methods="ignore_logging_functions",
    skip_code_recursive_on_cache_limit_hit="skip_code_recursive_on_recompile_limit_hit",
)
