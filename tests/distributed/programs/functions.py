"""A function in several processes, started from Python."""

import json
import sys

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
from rushlight.distributed.launcher.api import LaunchConfig, elastic_launch


def add(first, fails=False):
    if fails:
        raise ValueError("it was to fail")
    dist.init_process_group("gloo")
    total = torch.tensor(float(first + dist.get_rank()))
    dist.all_reduce(total)
    dist.destroy_process_group()
    return float(total)


if __name__ == "__main__":
    config = LaunchConfig(1, 1, 2, rdzv_backend="c10d", max_restarts=0, run_id="one")
    found = elastic_launch(config, add)(10)
    said = ""
    try:
        elastic_launch(config, add)(10, True)
    except ChildFailedError as error:
        said = str(error)
    json.dump([sorted(found.items()), "it was to fail" in said], sys.stdout)
