"""What a worker process knows of itself."""

from typing import Any, NamedTuple


class WorkerInfo(NamedTuple):
    """Which worker this process is: its number of the workers, seed and data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


present: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """This worker's number, seed and data set; ``None`` in the main process."""
    return present
