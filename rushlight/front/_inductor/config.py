"""Settings of the compiler of captured programs.

Attributes:
    fuse: whether elementwise operators become one kernel.
    keep_prepared: whether programs that do not learn keep what they make of parameters.
    replay_modules: whether modules' calls that are proven to be as before skip their Python.
    max_fusion_size: how many operators become one kernel at most.
"""

from rushlight.utils._settings import patcher

fuse = True
keep_prepared = True
max_fusion_size = 64
replay_modules = True
# PyTorch's, kept for programs that set them.
coordinate_descent_tuning = False
debug = False
epilogue_fusion = True
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm = False

patch = patcher(__name__)
