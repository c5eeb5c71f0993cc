"""Tensors spread over several processes.

``distribute_tensor`` cuts a tensor over the processes of a mesh, or puts it whole on all;
what comes out computes as one tensor does. ``tensor.parallel`` spreads modules.
"""

from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor import _api, _factories
from rushlight.distributed.tensor._api import *
from rushlight.distributed.tensor._factories import *
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
)

__all__ = [
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "init_device_mesh",
]
__all__ += _api.__all__
__all__ += _factories.__all__
