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


class Skipping(nn.Module):
    """Four layers; the first one's result and the batch itself are wanted by the last."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(layers(4))

    def forward(self, x):
        first = self.layers[0](x)
        second = self.layers[1](first)
        return self.layers[3](self.layers[2](second) + first) + x


def cut(kind, per_rank):
    """A model cut into stages by where its modules begin; as in one process."""
    total, (x, y) = size * per_rank, batch()
    model, whole = Skipping(), Skipping()
    begin = pipelining.SplitPoint.BEGINNING
    spec = {f"layers.{i * 4 // total}": begin for i in range(1, total)}
    pipe = pipelining.pipeline(model, (x[:2],), split_spec=spec)
    stages = [pipe.build_stage(i, DEVICE) for i in places(kind, total)]
    given = stages if per_rank > 1 else stages[0]
    schedule = getattr(pipelining, kind)(given, 4, loss_fn=F.mse_loss)
    out = schedule.step(
        *((x,) if rank == 0 else ()), **({"target": y} if stages[-1].is_last else {})
    )
    expected = whole(x)
    F.mse_loss(expected, y).backward()
    if stages[-1].is_last:
        assert torch.allclose(out, expected, atol=1e-5), kind
    grads = {key: p.grad for key, p in whole.named_parameters()}
    for stage in stages:
        for key, parameter in stage.submod.named_parameters():
            assert torch.allclose(parameter.grad, grads.pop(key), atol=1e-5), (
                kind,
                key,
            )


if name == "rushlight":  # what the cuts are is compared elsewhere, without processes
    cut("ScheduleGPipe", 1)
    cut("ScheduleInterleaved1F1B", 2)
    cut("ScheduleInterleavedZeroBubble", 2)
stage = pipelining.PipelineStage(nn.Linear(6, 6), rank, size, DEVICE)
try:
    pipelining.Schedule1F1B(stage, 1, loss_fn=F.mse_loss)
    found["few"] = "nothing"
except ValueError as error:
    found["few"] = "must be greater than" in str(error)
print("FOUND", json.dumps(found), flush=True)
dist.barrier()
dist.destroy_process_group()
