"""A network in stages, by each schedule; prints losses, outputs and gradients."""

import json
import sys
from importlib import import_module

name = sys.argv[1]
torch, dist = import_module(name), import_module(name + ".distributed")
pipelining = import_module(name + ".distributed.pipelining")
nn, F = torch.nn, torch.nn.functional
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
found = {}
DEVICE = torch.device("cpu")


def layers(count):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(count)]


def batch():
    torch.manual_seed(9)
    return torch.randn(8, 6), torch.randn(8, 6)


def put(value):
    return [round(each, 4) for each in value.detach().flatten().tolist()[:12]]


def places(kind, total):
    """The stages of this process: every so many, or along a V."""
    if kind in ALONG_A_V:
        return [rank, total - 1 - rank]
    return [i for i in range(total) if i % size == rank]


ALONG_A_V = "ScheduleZBVZeroBubble", "ScheduleDualPipeV"


def run(key, kind, per_rank=1, microbatches=4, steps=2):
    total = size * per_rank
    parts = layers(total)
    own = places(kind, total)
    stages = [pipelining.PipelineStage(parts[i], i, total, DEVICE) for i in own]
    given = stages if per_rank > 1 else stages[0]
    schedule = getattr(pipelining, kind)(given, microbatches, loss_fn=F.mse_loss)
    parameters = [each for i in own for each in parts[i].parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    x, y = batch()
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses = []
        args = (x,) if 0 in own else ()
        options = {"target": y, "losses": losses} if total - 1 in own else {}
        out = schedule.step(*args, **options)
        optimizer.step()
        seen.append([put(torch.stack(losses)) if losses else None])
        seen.append(put(out) if total - 1 in own else None)
    seen.append([put(each.grad) for each in parameters])
    found[key] = seen


def alone(per_rank, steps=2):
    """The same in one process, with the whole batch."""
    net = nn.Sequential(*layers(size * per_rank))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = batch()
    for _ in range(steps):
        optimizer.zero_grad()
        out = net(x)
        F.mse_loss(out, y).backward()
        optimizer.step()
    return put(out), {i: put(part[0].weight.grad) for i, part in enumerate(net)}


run("gpipe", "ScheduleGPipe")
run("1f1b", "Schedule1F1B", microbatches=8)
run("interleaved", "ScheduleInterleaved1F1B", per_rank=2)
run("breadth first", "ScheduleLoopedBFS", per_rank=2)
run("zero bubble", "ScheduleInterleavedZeroBubble", per_rank=2)
run("zero bubble v", "ScheduleZBVZeroBubble", per_rank=2, microbatches=8)
run("few in a v", "ScheduleZBVZeroBubble", per_rank=2, microbatches=2)
run("dual pipe v", "ScheduleDualPipeV", per_rank=2)
for key, per_rank, kind in (
    ("gpipe", 1, ""),
    ("interleaved", 2, ""),
    ("breadth first", 2, ""),
    ("zero bubble", 2, ""),
    ("zero bubble v", 2, ALONG_A_V[0]),
    ("few in a v", 2, ALONG_A_V[0]),
    ("dual pipe v", 2, ALONG_A_V[1]),
):
    out, grads = alone(per_rank)
    own = places(kind, size * per_rank)
    close = [
        abs(a - b) < 2e-4
        for place, i in enumerate(own)
        for a, b in zip(found[key][-1][2 * place], grads[i])
    ]
    assert all(close), key
    if size * per_rank - 1 in own:
        assert all(abs(a - b) < 2e-4 for a, b in zip(found[key][3], out)), key
stage = pipelining.PipelineStage(nn.Linear(6, 6), rank, size, DEVICE)
try:
    pipelining.Schedule1F1B(stage, 1, loss_fn=F.mse_loss)
    found["few"] = "nothing"
except ValueError as error:
    found["few"] = "must be greater than" in str(error)
print("FOUND", json.dumps(found), flush=True)
dist.barrier()
dist.destroy_process_group()
