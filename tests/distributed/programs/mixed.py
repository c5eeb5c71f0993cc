"""Collectives of many sizes in any order: slots of shared memory are used again."""

import random

import rushlight as torch
import rushlight.distributed as dist

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
