"""What worker processes know and are seeded with, under PyTorch's name for the place."""

from rushlight.utils.data import info
from rushlight.utils.data.info import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]


def _generate_state(base_seed, worker_id):
    """The four numbers that seed NumPy in a worker.

    >>> _generate_state(0, 1)
    [1835504127, 1731038949, 1320224556, 2330041505]
    """
    from rushlight.utils.data.worker import numpy_state

    return numpy_state(base_seed, worker_id)


def __getattr__(name):
    if name == "_worker_info":
        return info.get_worker_info()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
