"""What a worker process or thread knows of itself."""

import threading
from typing import Any, NamedTuple


class WorkerInfo(NamedTuple):
    """Which worker this is: its number of the workers, seed and data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


present: WorkerInfo | None = None  # of a process
own = threading.local()  # its ``present`` is a thread's


def get_worker_info() -> WorkerInfo | None:
    """This worker's number, seed and data set; ``None`` in the main process."""
    return getattr(own, "present", None) or present
