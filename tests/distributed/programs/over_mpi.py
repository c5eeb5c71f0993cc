"""Collectives, messages, groups and a step of training over MPI: mpiexec python this."""

import rushlight as torch
import rushlight.distributed as dist
from rushlight.nn.parallel import DistributedDataParallel

dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
assert dist.get_backend() == "mpi" and dist.is_mpi_available()
everyone = range(size)


def same(found, expected, dtype):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=dtype))


for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8):
    value = torch.full((5,), rank + 1, dtype=dtype)
    total = value.clone()
    dist.all_reduce(total)
    same(total, [sum(r + 1 for r in everyone)] * 5, dtype)
    largest = value.clone()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    same(largest, [size] * 5, dtype)
    parts = [torch.empty_like(value) for _ in everyone]
    dist.all_gather(parts, value)
    same(torch.stack(parts)[:, 0], [r + 1 for r in everyone], dtype)
    out = torch.empty_like(value)
    dist.reduce_scatter(out, [value * (r + 1) for r in everyone])
    same(out, [(rank + 1) * sum(r + 1 for r in everyone)] * 5, dtype)
    outs = [torch.empty_like(value) for _ in everyone]
    dist.all_to_all(outs, [value * (r + 1) for r in everyone])
    same(torch.stack(outs)[:, 0], [(r + 1) * (rank + 1) for r in everyone], dtype)
    for root in everyone:
        moved = value.clone()
        dist.broadcast(moved, root)
        same(moved, [root + 1] * 5, dtype)
        summed = value.clone()
        dist.reduce(summed, root)
        expected = sum(r + 1 for r in everyone) if rank == root else rank + 1
        same(summed, [expected] * 5, dtype)
        found = [torch.empty_like(value) for _ in everyone] if rank == root else None
        dist.gather(value, found, root)
        if rank == root:
            same(torch.stack(found)[:, 0], [r + 1 for r in everyone], dtype)
        given = [value * 0 + r for r in everyone] if rank == root else None
        dist.scatter(out, given, root)
        same(out, [rank] * 5, dtype)
truth = torch.tensor([rank == 0, False])
dist.all_reduce(truth)
assert truth.tolist() == [True, False]
work = dist.all_reduce(value := torch.ones(3), async_op=True)
work.wait()
assert value.tolist() == [float(size)] * 3
# Messages: to the next, by tags in another order than they were sent.
after, before = (rank + 1) % size, (rank - 1) % size
sends = [dist.isend(torch.full((4,), tag + rank), after, tag=tag) for tag in (7, 8)]
for tag in (8, 7):
    got = torch.empty(4, dtype=torch.int64)
    assert dist.recv(got, None if tag == 7 else before, tag=tag) == before
    assert got.tolist() == [tag + before] * 4
for each in sends:
    each.wait()
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": r} for r in everyone]
odd = dist.new_group([r for r in everyone if r % 2])
if rank % 2:
    value = torch.ones(())
    dist.all_reduce(value, group=odd)
    assert value.item() == size // 2
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(3, 2))
for _ in range(3):
    model(torch.ones(2, 3) * (rank + 1)).sum().backward()
mean = sum(r + 1 for r in everyone) / size
torch.testing.assert_close(model.module.weight.grad, torch.full((2, 3), 6 * mean))
dist.barrier()
print("DONE", rank, size, flush=True)
dist.destroy_process_group()
