"""Settings of the compiler of captured programs.

Attributes:
    fuse: whether elementwise operators become one kernel.
    max_fusion_size: how many operators become one kernel at most.
"""

import contextlib
import sys

fuse = True
max_fusion_size = 64
# PyTorch's, kept for programs that set them.
coordinate_descent_tuning = False
debug = False
epilogue_fusion = True
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm = False


@contextlib.contextmanager
def patch(changes=None, **more):
    """A block, or a function, with other settings."""
    if isinstance(changes, str):
        changes = {changes: more.pop("value")}
    module = sys.modules[patch.__module__]
    changes = {**(changes or {}), **more}
    before = {name: getattr(module, name) for name in changes}
    vars(module).update(changes)
    try:
        yield
    finally:
        vars(module).update(before)
