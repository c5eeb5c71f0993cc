"""NVIDIA's library of collectives: which version there is, and what it takes.

Collectives themselves are calls of `rushlight.distributed`.
"""

from rushlight.runtime.cuda.nccl import NCCL, TYPES

__all__ = ["is_available", "unique_id", "version"]


def version():
    """The library's version.

    Returns:
        (major, minor, patch).

    Raises:
        RuntimeError: it is not installed.

    >>> torch.distributed.is_nccl_available() and torch.cuda.nccl.version() < (2, 0, 0)
    False
    """
    return NCCL.version()


def unique_id():
    """What ranks that are to be one group have in common: one makes it, and tells all.

    Returns:
        128 bytes.

    Raises:
        RuntimeError: the library is not installed.
    """
    return NCCL.identity()


def is_available(tensors):
    """Whether the library takes some tensors.

    Args:
        tensors: of one device each, dense and contiguous, of a type that it adds.

    >>> torch.cuda.nccl.is_available([torch.ones(2)])
    False
    """
    positions = [tensor.device for tensor in tensors if tensor.is_cuda]
    return (
        len(set(positions)) == len(tensors) > 0
        and all(not t.is_sparse and t.is_contiguous() for t in tensors)
        and all(t.dtype.name in TYPES for t in tensors)
        and NCCL.present()
    )
