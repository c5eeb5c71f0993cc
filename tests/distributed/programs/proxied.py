"""Ranks behind a slow network that loses packets; then one falls silent, one is cut off."""

import json
import os
import sys
import time

import rushlight as torch
import rushlight.distributed as dist
from rushlight.nn.parallel import DistributedDataParallel
from tests.distributed.proxies import ProxyStore

folder, rank, size = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
said = {}


def join(name, **options):
    store = ProxyStore(os.path.join(folder, name), size, **options)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    return store


def compute():
    for count in (5, 3000, 100_001):
        value = torch.arange(count, dtype=torch.float32) % 7 * (rank + 1)
        dist.all_reduce(value)
        assert torch.equal(value, torch.arange(count) % 7 * float(sum(range(size + 1))))
    parts = [torch.zeros(50) for _ in range(size)]
    dist.all_gather(parts, torch.full((50,), float(rank)))
    assert [int(each[7]) for each in parts] == list(range(size))
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(60, 40))
    for _ in range(3):
        model(torch.ones(4, 60) * (rank + 1)).sum().backward()
        model.zero_grad()
    began = time.monotonic()
    dist.barrier()
    return time.monotonic() - began


def fail(name, fault):
    """What a rank says when the network of rank 0 breaks."""
    store = join(name, delay=0.0)
    dist.barrier()
    if rank == 0:
        time.sleep(0.2)
        getattr(store.proxies[0], fault)()
    began = time.monotonic()
    try:
        for _ in range(1000):
            dist.all_reduce(torch.ones(40))
            time.sleep(0.01)
        text = "nothing"
    except dist.DistBackendError as error:
        text = str(error).replace("\n", " | ")
    said[name] = {"text": text, "seconds": time.monotonic() - began}
    dist.destroy_process_group()


slow = join("slow", delay=0.01, loss=0.05)
said["barrier"] = compute()
said["lost"] = sum(each.lost for each in slow.proxies)
said["carried"] = sum(each.carried for each in slow.proxies)
dist.barrier()
dist.destroy_process_group()
fail("reset", "reset")
fail("silent", "fall_silent")
print("SAID", json.dumps(said), flush=True)
os._exit(0)
