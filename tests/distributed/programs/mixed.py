"""Collectives of many sizes in any order: slots of shared memory are used again."""

import gc
import random
import time

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.collectives import remote

remote.LEAST_BYTES = 4_000_000  # of the sizes below the largest
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
source = random.Random(5)
SIZES = [1, 3000, 5000, 262144, 262145, 700000, 1300001]


def filled(value, count):
    return torch.full((count,), float(value))


for turn in range(200):
    count, root = source.choice(SIZES if turn % 3 else SIZES[1:3]), turn % size
    kind = source.randrange(6)
    total = size * (size + 1) // 2
    if kind in (0, 1):
        value = filled(rank + 1, count)
        dist.all_reduce(value) if kind == 0 else dist.reduce(value, root)
        assert (value == total).all() or (kind == 1 and rank != root), turn
    if kind == 2:
        value = filled(rank, count)
        dist.broadcast(value, root)
        assert (value == root).all(), turn
    if kind == 3:
        outs = torch.empty(size, count)
        dist.all_gather(list(outs), filled(rank + turn, count))
        assert all((out == i + turn).all() for i, out in enumerate(outs)), turn
    if kind == 4:
        out = torch.empty(count)
        dist.reduce_scatter(out, [filled(i + rank, count) for i in range(size)])
        assert (out == size * rank + total - size).all(), turn
    if kind == 5:
        dist.barrier()
values = torch.rand(300_001, generator=torch.Generator().manual_seed(rank))
dist.all_reduce(values)
print(values.view(torch.int32).double().sum().item())


def train(**options):
    """Some steps of a model: buckets are shared memory from the second on."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(30, 200), torch.nn.Tanh(), torch.nn.Linear(200, 7)]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(7, 1, dtype=torch.float32))
    model = torch.nn.parallel.DistributedDataParallel(
        net, bucket_cap_mb=0.01, **options
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(6):
        torch.manual_seed(10 * step + rank)
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        if step == 3:
            with model.no_sync():
                model(torch.randn(5, 30)).square().mean().backward()
        model(torch.randn(5, 30)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # changes views at once
        optimizer.step()
    shared = [b.shared is not None for b in model.reducer.buckets]
    assert len(shared) > 1 and set(shared) == {bool(dist.group.WORLD._channel.slabs)}
    for parameter in model.parameters():
        print(parameter.detach().view(torch.int32).double().sum().item())


def mappings():
    """How many memories this process shares with others."""
    gc.collect()
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("rushlight-collectives" in line for line in file)


before = mappings()
array = dist.group.WORLD._symmetric_array(100, torch.float32)
if array is not None:  # where all ranks are on one machine
    work = dist.group.WORLD._reduce_symmetric(array)
    while not work.is_completed():  # by the group's thread: nobody waits for it here
        time.sleep(0.001)
    del array, work
    assert mappings() == before, (mappings(), before)  # that thread keeps nothing of it
train()
train(gradient_as_bucket_view=True)
assert mappings() == before, (mappings(), before)  # buckets go with their model
dist.barrier()
dist.destroy_process_group()
