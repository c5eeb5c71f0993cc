"""Settings of the compiler of captured programs.

Attributes:
    fuse: whether elementwise operators become one kernel.
    keep_prepared: whether programs that do not learn keep what they make of parameters.
    replay_modules: whether modules' calls that are proven to be as before skip their Python.
    max_fusion_size: how many operators become one kernel at most.
    open_size_bytes: programs for a size that was not met are made at its first call where
        they have so much memory in all; see `rushlight.graph.open_sizes`.
    open_size_calls: others once that size has come so often.
    other_size_calls: how often operands of other sizes come, before a small program is
        planned for theirs, too; those that are larger (`open_size_bytes`) do not wait.
    follow_bytes: what following a call takes, as bytes that operators move; 0 has all be
        followed. Else calls are timed both ways once they have come 64 times, where it is not
        clear that a program saves more; see `rushlight.graph.savings`.
    trace: files for those who look at programs: ``enabled`` (``TORCH_COMPILE_DEBUG=1``), which
        files there are, ``debug_dir`` for their folder, and ``save_real_tensors``
        (``TORCH_COMPILE_DEBUG_SAVE_REAL=1``), which keeps each program's arguments.
"""

import os as _os
from types import SimpleNamespace

from rushlight.utils._settings import copier, patcher, sealed

fuse = True
keep_prepared = True
max_fusion_size = 64
open_size_bytes = 4 << 20
open_size_calls = 64
other_size_calls = 64
replay_modules = True
follow_bytes = 192 << 10
# PyTorch's, kept for programs that set them.
allow_buffer_reuse = True
batch_invariant = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
debug = False
emulate_precision_casts = False
epilogue_fusion = True
freezing = False
fx_graph_cache = True
max_autotune = False
inplace_buffers = True
max_autotune_gemm = False
max_autotune_gemm_search_space = "DEFAULT"

fallback_random = False
fx_graph_remote_cache = None
conv_1x1_as_mm = False
cpp_wrapper = False
compile_threads = 1
force_disable_caches = False
force_fuse_int_mm_with_mul = False
permute_fusion = False
shape_padding = True
size_asserts = True
split_reductions = True
worker_start_method = "subprocess"
use_mixed_mm = True
post_grad_fusion_options: dict = {}
post_grad_custom_pre_pass = post_grad_custom_post_pass = None
joint_custom_pre_pass = joint_custom_post_pass = pre_grad_custom_pass = None
triton = SimpleNamespace(
    cudagraphs=False,
    cudagraph_trees=True,
    cudagraph_skip_dynamic_graphs=False,
    unique_kernel_names=True,
    descriptive_names="original_aten",
    autotune_at_compile_time=None,
)
cpp = SimpleNamespace(
    threads=-1,
    simdlen=None,
    min_chunk_size=512,
    dynamic_threads=False,
    enable_kernel_profile=False,
    weight_prepack=True,
)
aot_inductor = SimpleNamespace(
    debug_compile=False, output_path="", package=False, serialized_in_spec=""
)
# What is written of each program, where it is: see `rushlight.graph.debug_trace`.
trace = SimpleNamespace(
    enabled=_os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1",
    save_real_tensors=_os.environ.get("TORCH_COMPILE_DEBUG_SAVE_REAL", "0") == "1",
    fx_graph=True,
    ir_pre_fusion=True,
    ir_post_fusion=True,
    output_code=True,
    debug_dir=None,
    graph_diagram=False,
    log_url_for_graph_xform=None,
    provenance_tracking_level=0,
)
disabled_passes = ""

patch = patcher(__name__)
get_config_copy = shallow_copy_dict = copier(__name__)


def _known(name):
    """Whether PyTorch has a setting of that name, or a section."""
    from rushlight._inductor.options import OPTIONS  # a long table

    return any(one.partition(".")[0] == name for one in OPTIONS)


__getattr__ = sealed(__name__, _known)
