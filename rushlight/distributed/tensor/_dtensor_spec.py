"""What a spread tensor is: its mesh, its placements, its sizes as a whole."""

from dataclasses import dataclass

import rushlight as rl
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.placement_types import Placement

__all__ = ["DTensorSpec", "TensorMeta"]


@dataclass(frozen=True)
class TensorMeta:
    """The sizes, strides and type of a whole tensor."""

    shape: rl.Size
    stride: tuple[int, ...]
    dtype: rl.dtype


@dataclass(frozen=True)
class DTensorSpec:
    """A mesh, a placement for each of its dimensions, and the tensor as a whole."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta

    def __hash__(self):
        found = self.__dict__.get("_hash")
        if found is None:
            meta = self.tensor_meta
            facts = self.placements, meta.shape, meta.stride, meta.dtype
            found = hash((self.mesh, *facts))
            object.__setattr__(self, "_hash", found)
        return found

    @property
    def device_mesh(self):
        """The mesh."""
        return self.mesh

    @property
    def shape(self):
        """The sizes of the whole."""
        return self.tensor_meta.shape

    @property
    def stride(self):
        """The strides of the whole."""
        return self.tensor_meta.stride

    @property
    def ndim(self):
        """The number of its dimensions."""
        return len(self.tensor_meta.shape)

    def __str__(self):
        placed = "".join(map(str, self.placements))
        return f"Spec({placed} on {tuple(self.shape)})"
