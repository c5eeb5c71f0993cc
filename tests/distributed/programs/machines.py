"""A rank on each machine: sums, a step of training; then one machine is cut off."""

import os
import sys
import time

import rushlight as torch
import rushlight.distributed as dist
from rushlight.nn.parallel import DistributedDataParallel


def say(*words):
    print(*words, flush=True)


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for count in (5, 3000, 700_001):
    value = torch.arange(count, dtype=torch.float32) % 7 * (rank + 1)
    dist.all_reduce(value)
    factor = sum(range(1, size + 1))
    assert torch.equal(value, torch.arange(count) % 7 * float(factor))
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(300, 200))
model(torch.ones(4, 300) * (rank + 1)).sum().backward()
grad = model.module.weight.grad
assert torch.equal(grad, torch.full_like(grad, 2.0 * (size + 1)))
say("SHARED", bool(dist.group.WORLD._channel.slabs))
say("READY")
if sys.argv[1] == "whole":
    dist.barrier()
    dist.destroy_process_group()
    sys.exit()
time.sleep(float(sys.argv[2]))  # the cable is pulled meanwhile
try:
    dist.all_reduce(torch.ones(40))
    say("SAID nothing")
except dist.DistBackendError as error:
    say("SAID", time.time(), str(error).replace("\n", " | "))
os._exit(0)
