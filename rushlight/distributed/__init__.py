"""Programs over several processes: stores, groups, collectives.

``init_process_group`` joins the processes that a launcher started
(``python -m rushlight.distributed.run``), ``all_reduce`` and its like exchange tensors,
and ``nn.parallel.DistributedDataParallel`` trains a module in all of them.
"""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
import os as _os

from rushlight.distributed.distributed_c10d import (
    _coalescing_manager,
    _get_default_group,
    _make_nccl_premul_sum,
    _world,
)
from rushlight.distributed import constants, distributed_c10d
from rushlight.distributed.distributed_c10d import (
    all_gather_into_tensor as _all_gather_base,
)
from rushlight.distributed.distributed_c10d import (
    reduce_scatter_tensor as _reduce_scatter_base,
)
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.ops import define_later as _define_later

__all__ = [
    *distributed_c10d.__all__,
    "DeviceMesh",
    "get_debug_level",
    "init_device_mesh",
    "is_available",
]
globals().update(
    {name: getattr(distributed_c10d, name) for name in distributed_c10d.__all__}
)
for (
    _namespace
) in "_c10d_functional _c10d_functional_autograd c10d_functional c10d".split():
    _define_later(_namespace, "rushlight.distributed._functional_operators")
_LATER = """
    algorithms autograd checkpoint elastic fsdp launch launcher nn optim pipelining rpc run
    tensor
"""


def is_available():
    """Whether programs over several processes can run: they can.

    >>> is_available()
    True
    """
    return True


def _unavailable(name):
    raise NotImplementedError(
        f"torch.distributed.{name}: not available yet over several processes\n  remedy: "
        "nn.parallel.DistributedDataParallel; docs/what_is_left.md says what is missing"
    )


def get_debug_level():
    """What ``TORCH_DISTRIBUTED_DEBUG`` asks for: ``OFF``, ``INFO`` or ``DETAIL``."""
    return _os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF")


__getattr__ = _lazy_getattr(__name__, _LATER.split())
