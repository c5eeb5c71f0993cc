"""Memory that the devices of a group reach directly: of GPUs, and not here.

PyTorch's names, with what it answers where no device has such memory.
"""

import rushlight as rl
from rushlight.distributed.distributed_c10d import _resolve_process_group

__all__ = [
    "empty",
    "enable_symm_mem_for_group",
    "get_backend",
    "get_mem_pool",
    "is_nvshmem_available",
    "is_symm_mem_enabled_for_group",
    "is_symm_mem_tensor",
    "rendezvous",
    "set_backend",
]


def _refuse(device):
    raise RuntimeError(
        f"SymmetricMemory does not support device type {rl.device(device).type}"
    )


def empty(*size, dtype=None, device=None):
    """Memory of a group's devices, without numbers in it.

    Args:
        size: its sizes.
        dtype: its type.
        device: the device.

    Raises:
        RuntimeError: no device here has such memory.

    >>> import pytest
    >>> with pytest.raises(RuntimeError, match="device type cpu"):
    ...     empty(3)
    """
    _refuse(rl.get_default_device() if device is None else device)


def rendezvous(tensor, group):
    """Has the devices of a group reach a tensor.

    Raises:
        RuntimeError: no device here can.
    """
    _refuse(tensor.device)


def get_mem_pool(device):
    """A pool of such memory.

    Raises:
        RuntimeError: no device here has any.
    """
    raise RuntimeError(
        "SymmetricMemory MemPool did not find backend for device type "
        f"{rl.device(device).type}"
    )


def set_backend(name):
    """Chooses the library that makes such memory.

    Raises:
        RuntimeError: it is not there.
    """
    raise RuntimeError(f"SymmetricMemory does not find allocation backend {name}")


def get_backend(device):
    """The library that makes such memory on a device: none."""
    return None


def is_symm_mem_tensor(tensor):
    """Whether a tensor lies in such memory: no."""
    return False


def is_nvshmem_available():
    """Whether NVIDIA's library for it is there: no."""
    return False


def is_symm_mem_enabled_for_group(group_name):
    """Whether a group uses it: no."""
    return False


def enable_symm_mem_for_group(group_name):
    """Notes that a group uses it, which names no group twice.

    Raises:
        RuntimeError: there is no such group.
    """
    _resolve_process_group(group_name)
