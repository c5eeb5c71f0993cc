"""The collective operations; each raises while this process has joined no others."""

from rushlight.distributed import ReduceOp, _no_group, group

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "group",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _collective(name):
    def function(*args, **kwargs):
        _no_group()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises:\n    ValueError: this process has joined no others."
    return function


all_gather = _collective("all_gather")
all_reduce = _collective("all_reduce")
all_to_all = _collective("all_to_all")
all_to_all_single = _collective("all_to_all_single")
broadcast = _collective("broadcast")
gather = _collective("gather")
reduce = _collective("reduce")
reduce_scatter = _collective("reduce_scatter")
scatter = _collective("scatter")
