"""Joins and leaves, each rank at its own time; one port serves all."""

import os
import time

import rushlight as torch
import rushlight.distributed as dist

rank = int(os.environ["RANK"])
for turn in range(8):
    dist.init_process_group("gloo")
    total = torch.ones(()) * (rank + 1)
    dist.all_reduce(total)
    print(total.item())
    if (turn + rank) % 3 == 0:
        time.sleep(0.1)
    dist.destroy_process_group()
