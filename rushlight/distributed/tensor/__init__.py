"""Tensors spread over several processes.

``distribute_tensor`` cuts a tensor over the processes of a mesh, or puts it whole on all;
what comes out computes as one tensor does. ``tensor.parallel`` spreads modules.
"""

from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor._api import (
    DTensor,
    distribute_module,
    distribute_tensor,
)
from rushlight.distributed.tensor._factories import (
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
)

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]
