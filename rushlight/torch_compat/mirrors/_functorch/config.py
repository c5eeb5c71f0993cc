"""Settings of PyTorch's recorder of gradients: kept for programs that set them."""

from rushlight.utils._settings import copier, patcher

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

patch = patcher(__name__)
get_config_copy = shallow_copy_dict = copier(__name__)
