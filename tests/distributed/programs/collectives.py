"""Every collective over types, reductions and sizes; prints digests of all results."""

import hashlib
import json
import sys
from importlib import import_module

torch = import_module(sys.argv[1])
dist = import_module(sys.argv[1] + ".distributed")
TYPES = "float32 float64 float16 bfloat16 int8 uint8 int32 int64 bool".split()
SIZES = [(3,), (2, 5), (4001,)]
LARGE = {"float32": 1000, "float64": 500, "int32": 1000, "int64": 500}
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
found = {}


def note(name, *tensors):
    """Keep what a collective has given."""
    digest = hashlib.sha1()
    for tensor in tensors:
        digest.update(tensor.detach().reshape(-1).view(torch.uint8).numpy())
    found[name] = digest.hexdigest()[:12]


def make(sizes, kind, seed):
    """Small integers, which add without rounding in every type."""
    count = 1
    for each in sizes:
        count *= each
    values = (torch.arange(count) * 7 + seed * 3) % (2 if kind == "bool" else 5)
    return values.reshape(sizes).to(getattr(torch, kind))


def reductions(kind):
    if kind == "bool":
        return ["MIN", "MAX", "BAND", "BOR"]
    names = ["SUM", "PRODUCT", "MIN", "MAX"]
    return [*names, "AVG"] if "float" in kind else [*names, "BAND", "BOR", "BXOR"]


def reduce_all(kind, sizes):
    for op in reductions(kind):
        code, label = getattr(dist.ReduceOp, op), f"{op} {kind} {sizes}"
        tensor = make(sizes, kind, rank)
        dist.all_reduce(tensor, code)
        note("all_reduce " + label, tensor)
        tensor = make(sizes, kind, rank)
        dist.reduce(tensor, size - 1, code)
        if rank == size - 1:
            note("reduce " + label, tensor)
        if kind == "bool" or not sizes:
            continue  # PyTorch's has no reduce-scatter of truth values
        out = torch.empty(sizes, dtype=getattr(torch, kind))
        dist.reduce_scatter(
            out, [make(sizes, kind, rank + i) for i in range(size)], code
        )
        note("reduce_scatter " + label, out)


def move_all(kind, sizes):
    label = f"{kind} {sizes}"
    dtype = getattr(torch, kind)
    new = lambda: [torch.zeros(sizes, dtype=dtype) for _ in range(size)]  # noqa: E731
    tensor = make(sizes, kind, rank)
    dist.broadcast(tensor, size - 1)
    note("broadcast " + label, tensor)
    outs = new()
    dist.all_gather(outs, make(sizes, kind, rank))
    note("all_gather " + label, *outs)
    outs = new() if rank == 0 else None
    dist.gather(make(sizes, kind, rank), outs, 0)
    note("gather " + label, *(outs or []))
    out = torch.zeros(sizes, dtype=dtype)
    parts = [make(sizes, kind, i) for i in range(size)] if rank == 0 else None
    dist.scatter(out, parts, 0)
    note("scatter " + label, out)
    if sizes:
        outs = torch.zeros(size * sizes[0], *sizes[1:], dtype=dtype)
        dist.all_gather_into_tensor(outs, make(sizes, kind, rank))
        note("all_gather_into_tensor " + label, outs)


def one_element_many_times():
    """An expanded tensor is reduced like the row of equal numbers that it shows."""
    tensor = make((1,), "float32", rank).expand(3)
    dist.all_reduce(tensor)
    note("all_reduce expanded", tensor.contiguous())


def rows_to_all(kind):
    """Uneven splits: rank r sends r + i + 1 rows to rank i."""
    sends = [rank + i + 1 for i in range(size)]
    data = make((sum(sends), 3), kind, rank)
    out = torch.zeros(sum(sends), 3, dtype=getattr(torch, kind))
    dist.all_to_all_single(out, data, sends, sends)
    note("all_to_all_single " + kind, out)


def objects():
    values = [None] * size
    dist.all_gather_object(values, {"rank": rank, "text": "x" * rank})
    found["all_gather_object"] = repr(values)
    values = [("from", 0), [1, 2]] if rank == 0 else [None, None]
    dist.broadcast_object_list(values, 0)
    found["broadcast_object_list"] = repr(values)
    values = [None]
    dist.scatter_object_list(values, list(range(size)) if rank == 0 else None, 0)
    found["scatter_object_list"] = repr(values)
    values = [None] * size if rank == 0 else None
    dist.gather_object(rank * 2, values, 0)
    found["gather_object"] = repr(values)


def messages():
    if size == 1:
        return
    right, left = (rank + 1) % size, (rank - 1) % size
    for sizes in ((), (5,), (300, 1000)):
        out = torch.zeros(sizes)
        ops = [
            dist.P2POp(dist.isend, make(sizes, "float32", rank), right),
            dist.P2POp(dist.irecv, out, left),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        note(f"batch_isend_irecv {sizes}", out)
    if rank == 0:
        dist.send(torch.ones(2), 1, tag=1)
        dist.send(torch.ones(2) * 2, 1, tag=2)
    if rank == 1:
        second, first = torch.zeros(2), torch.zeros(2)
        late = dist.irecv(second, 0, tag=2)
        dist.recv(first, 0, tag=1)
        late.wait()
        note("tags", first, second)
        value = torch.zeros(3)
        found["any source"] = dist.recv(value)
        note("any source value", value)
    if rank == 0:
        dist.send(torch.arange(3.0), 1)


def groups():
    odd = dist.new_group([i for i in range(size) if i % 2] or [0])
    if rank % 2 or (size == 1):
        tensor = torch.ones(5000) * (rank + 1)
        dist.all_reduce(tensor, group=odd)
        note("sub-group", tensor)
        found["ranks"] = [dist.get_rank(odd), dist.get_world_size(odd)]
    works = [dist.all_reduce(torch.ones(n) * n, async_op=True) for n in (3, 70000, 5)]
    for work in works:
        assert work.wait()
        assert work.is_completed()
    note("async", *(work.result()[0] for work in works))
    done = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    note("future", done.then(lambda f: f.value()[0] * 2).wait())
    strided = torch.arange(12.0).reshape(3, 4).t().contiguous() * (rank + 1)
    dist.all_reduce(strided)
    note("dense", strided)
    whole = torch.complex(torch.ones(3), torch.ones(3) * rank)
    dist.all_reduce(whole)
    note("complex", torch.view_as_real(whole))
    dist.barrier()
    dist.monitored_barrier()


def gradients():
    functional = import_module(sys.argv[1] + ".distributed.nn.functional")
    for name in ("all_reduce", "all_gather", "broadcast", "reduce_scatter"):
        x = (torch.arange(3.0) + rank).requires_grad_()
        if name == "all_reduce":
            y = functional.all_reduce(x * 2) * (rank + 1)
        elif name == "all_gather":
            y = torch.stack(functional.all_gather(x * x)) * (rank + 1)
        elif name == "broadcast":
            y = functional.broadcast(x * x, 0) * (rank + 1)
        else:
            inputs = [x * (i + 1) for i in range(size)]
            y = functional.reduce_scatter(torch.empty(3), inputs) * (rank + 1)
        y.sum().backward()
        note("gradient of " + name, y, x.grad)


for kind in TYPES:
    large = [(), (700, LARGE[kind])] if kind in LARGE else []  # three pieces of memory
    for sizes in [*SIZES, *large]:
        move_all(kind, sizes)
        reduce_all(kind, sizes)
    rows_to_all(kind)
objects()
one_element_many_times()
messages()
groups()
if sys.argv[1] != "torch" or size > 1:
    gradients()
print("FOUND", json.dumps(found), flush=True)
dist.barrier()
dist.destroy_process_group()
