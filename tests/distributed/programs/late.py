"""Rank 1 comes late; rank 0 says so of a collective, rank 1 hears of a barrier."""

import time
from datetime import timedelta

import rushlight as torch
import rushlight.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
short = timedelta(milliseconds=300)
first, second = dist.new_group(timeout=short), dist.new_group(timeout=short)
texts = []
for call in (
    lambda: dist.all_reduce(torch.ones(2), group=first),
    lambda: dist.monitored_barrier(second, short),
):
    if rank == 1:
        time.sleep(1)
    try:
        call()
    except dist.DistBackendError as error:
        texts.append(str(error).replace("\n", " | "))
print("SAID", texts[-1 if rank else 0])
