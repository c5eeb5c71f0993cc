"""``parallelize_module``: a style for each submodule, by its name."""

import warnings
from fnmatch import fnmatch

from rushlight.distributed.device_mesh import current_mesh
from rushlight.distributed.tensor.parallel.style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0
):
    """Spread a module's parameters, in the style that a plan has for each submodule.

    Args:
        module: the module; changed in place.
        device_mesh: the processes, in one dimension; those of the ``with`` block without.
        parallelize_plan: a style, or styles by names of submodules, in which ``*`` stands
            for any one of a level.
        src_data_rank: the process whose parameters count; None where each takes its own.

    Returns:
        The module.

    Raises:
        TypeError: the plan is neither a style nor a dict.
    """
    mesh = current_mesh() if device_mesh is None else device_mesh
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the "
            "moment, so this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for"
            f" parallelize_plan, {type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        for found in _submodules(module, path):
            parallelize_module(found, mesh, style, src_data_rank=src_data_rank)
    return module


def _submodules(module, path):
    """The submodules that a name with ``*`` means."""
    if path == "":
        return [module]
    token, _, rest = path.partition(".")
    children = [
        child for name, child in module.named_children() if fnmatch(name, token)
    ]
    if not children:
        warnings.warn(
            f"Parallelize plan key '{path}' could not be resolved: no submodule "
            f"matching token '{token}' in module {module}, skipping this plan entry.",
            stacklevel=4,
        )
    return [found for child in children for found in _submodules(child, rest)]
