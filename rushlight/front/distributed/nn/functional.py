"""The collective operations; each raises while this process has joined no others."""

from rushlight import _stubs
from rushlight.distributed import NO_OTHERS, ReduceOp, _no_group, group

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
    return _stubs.refusing(__name__, name, _no_group, NO_OTHERS)


all_gather = _collective("all_gather")
all_reduce = _collective("all_reduce")
all_to_all = _collective("all_to_all")
all_to_all_single = _collective("all_to_all_single")
broadcast = _collective("broadcast")
gather = _collective("gather")
reduce = _collective("reduce")
reduce_scatter = _collective("reduce_scatter")
scatter = _collective("scatter")
