"""The mesh of processes under the name that it has beside spread tensors."""

from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
