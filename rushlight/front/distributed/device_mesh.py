"""Devices of several processes in rows and columns: not available yet."""

from __future__ import annotations

from rushlight.distributed import _unavailable

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Devices in rows and columns: there are none.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args, **kwargs):
        _unavailable("DeviceMesh")


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, **options):
    """Puts the devices of all processes in rows and columns.

    Raises:
        NotImplementedError: it is not available yet.
    """
    _unavailable("init_device_mesh")
