"""Settings of PyTorch's recorder of gradients: kept for programs that set them."""

import os

from rushlight.utils._settings import copier, keeper, patcher, sealed

keep = keeper(__name__)

activation_memory_budget = 1.0
activation_memory_budget_runtime_estimator = "flops"
activation_memory_budget_solver = "dp"
aggressive_recomputation = False
ban_recompute_materialized_backward = True
bundled_autograd_cache = False
cse = True
debug_assert = False
debug_partitioner = False
donated_buffer = True
enable_autograd_cache = True
enable_remote_autograd_cache = None
fake_tensor_allow_unsafe_data_ptr_access = True
functionalize_rng_ops = False
recompute_views = False
static_weight_shapes = True
strict_autograd_cache = False
treat_parameters_as_constants = False
unlift_effect_tokens = False
view_replay_for_aliased_outputs = True
keep(False, """
    TYPE_CHECKING _sync_decision_cross_ranks activation_offload_separate_stream
    activation_offload_sink_wait activation_reload_prefetch
    autograd_cache_allow_custom_autograd_functions bypass_autograd_cache_key
    disable_guess_zero_tangent_for_mutated_input_subclass
    enable_activation_offloading enable_complex_wrapper
    fake_tensor_crossref fake_tensor_propagate_real_tensors force_autograd_cache
    force_non_lazy_backward_lowering generate_fake_kernels_from_real_mismatches
    is_non_builtin_to_include selective_decompose
    unsafe_allow_optimization_of_collectives
    unsafe_treat_script_objects_as_zero_size visualize_memory_budget_pareto
""")  # fmt: skip
keep(True, """
    _test_disable_functionalization autograd_cache_normalize_inputs
    ban_recompute_long_fusible_chains ban_recompute_not_in_allowlist
    ban_recompute_reductions ban_recompute_used_far_apart
    check_custom_op_aliasing decompose_custom_triton_ops fake_tensor_allow_meta
    graphsafe_rng_functionalization guess_tangent_strides_as_outputs
    remat_using_tags_for_fwd_loss_bwd_graph treat_parameters_as_free_to_save
""")  # fmt: skip
keep(None, """
    fake_tensor_prefer_device_type joint_custom_pass memory_budget_pareto_dir
""")  # fmt: skip
activation_offload_cpu_gpu_bw = 50.0
# PyTorch makes errors of the warnings where a service tests a program
error_on_custom_op_aliasing = bool(os.environ.get("CI"))
backward_pass_autocast = "same_as_forward"
custom_op_default_layout_constraint = "needs_exact_strides"
max_dist_from_bw = 1000
saved_tensors_hooks_filtering_mode = "donated"
torch_compile_graph_format = "svg"

patch = patcher(__name__)
get_config_copy = shallow_copy_dict = copier(__name__)
__getattr__ = sealed(__name__)
