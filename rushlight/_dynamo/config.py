"""Settings of the capture of programs: ``disable`` counts, the others are PyTorch's."""

import contextlib
import sys

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_disable = False
dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
disable = False
dynamic_shapes = True
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
recompile_limit = 8
suppress_errors = False
verbose = False


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
