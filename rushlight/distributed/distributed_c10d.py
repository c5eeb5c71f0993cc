"""PyTorch's name for the module that process groups and collectives are in."""

from rushlight.distributed import (
    backends,
    collective_functions,
    errors,
    object_collectives,
    point_to_point,
    reductions,
    subgroups,
    world,
)
from rushlight.distributed.coalescing import coalescing_manager as _coalescing_manager
from rushlight.distributed.constants import default_pg_nccl_timeout, default_pg_timeout
from rushlight.distributed.object_collectives import to_object as _tensor_to_object
from rushlight.distributed.object_collectives import to_tensor as _object_to_tensor
from rushlight.distributed.process_group import ProcessGroup, ProcessGroupGloo
from rushlight.distributed.process_group_nccl import ProcessGroupNCCL
from rushlight.distributed.reductions import _make_nccl_premul_sum
from rushlight.distributed.rendezvous import register_rendezvous_handler, rendezvous
from rushlight.distributed.stores import (
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
)
from rushlight.distributed.work import Work
from rushlight.distributed.world import describe_groups as _get_all_pg_configs
from rushlight.distributed.world import default_group as _get_default_group
from rushlight.distributed.world import default_store as _get_default_store
from rushlight.distributed.world import group_named as _resolve_process_group
from rushlight.distributed.world import world as _world

_MODULES = (
    backends,
    collective_functions,
    errors,
    object_collectives,
    point_to_point,
    reductions,
    subgroups,
    world,
)
_OWN = """
    FileStore HashStore PrefixStore ProcessGroup ProcessGroupGloo ProcessGroupNCCL
    Store TCPStore Work default_pg_nccl_timeout default_pg_timeout
    register_rendezvous_handler rendezvous
""".split()
__all__ = _OWN + [name for module in _MODULES for name in module.__all__]
__all__.remove("reduction_name")
globals().update(
    {name: getattr(module, name) for module in _MODULES for name in module.__all__}
)
