"""Spread models and their checkpoints, in either framework; prints what came out."""

import json
import os
import resource
import sys
import warnings
from importlib import import_module

name, own, other = sys.argv[1:4]
torch, dist = import_module(name), import_module(name + ".distributed")
spread = import_module(name + ".distributed.tensor")
parallel = import_module(name + ".distributed.tensor.parallel")
checkpoint = import_module(name + ".distributed.checkpoint")
states = import_module(name + ".distributed.checkpoint.state_dict")
warnings.simplefilter("ignore")
nn, F = torch.nn, torch.nn.functional
Shard, Replicate, Partial = spread.Shard, spread.Replicate, spread.Partial
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = dist.init_device_mesh("cpu", (size,))
found = {}


def whole(value):
    return value.full_tensor() if isinstance(value, spread.DTensor) else value


def note(key, *values):
    found[key] = [
        [round(each, 4) for each in whole(value).detach().double().flatten().tolist()]
        if isinstance(value, torch.Tensor)
        else value
        for value in values
    ]


def placed(key, value):
    note(key, value, str(value.placements), list(value.to_local().shape))


def placements():
    """Where results lie."""
    torch.manual_seed(0)
    x, w = torch.randn(4, 6), torch.randn(6, 4)

    def put(tensor, way):
        return spread.distribute_tensor(tensor, mesh, [way])

    for way in (Shard(0), Shard(1), Replicate()):
        a = put(x, way)
        key = str(way)
        placed("relu " + key, a.relu())
        placed("sum " + key, a.sum())
        placed("mean " + key, a.mean(0))
        placed("max " + key, a.amax(1))
        placed("t " + key, a.t())
        placed("view " + key, a.view(2, 2, 6))
        placed("softmax " + key, a.softmax(0))
        placed("scaled " + key, (a @ put(w, Replicate())) * 2)
        for other_way in (Shard(0), Shard(1), Replicate()):
            placed(f"mm {key} {other_way}", a @ put(w, other_way))
            placed(f"add {key} {other_way}", a + put(x, other_way))
    b = put(x, Shard(0)).requires_grad_()
    (b @ put(w, Replicate())).sum().backward()
    placed("grad", b.grad)
    local = spread.DTensor.from_local(x.clone().requires_grad_(), mesh, [Shard(1)])
    placed("from local", local * 2)
    placed("zeros", spread.zeros(5, 3, device_mesh=mesh, placements=[Shard(0)]))
    table = put(torch.randn(7, 4), Shard(0))
    note("rows", F.embedding(put(torch.arange(6) % 7, Replicate()), table))
    local = x.clone().requires_grad_()
    share = spread.DTensor.from_local(local, mesh, [Partial()])
    share.redistribute(placements=[Shard(0)]).to_local().square().sum().backward()
    note("grad of a share", local.grad)


class Net(nn.Module):
    """What tensor parallelism is for."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.out = nn.Linear(8, 12)

    def forward(self, x):
        x = self.table(x)
        return self.out(x + self.down(F.gelu(self.up(self.norm(x)))))


def make(is_spread=True):
    torch.manual_seed(1)
    net = Net()
    if not is_spread:
        return net
    plan = {
        "table": parallel.RowwiseParallel(
            input_layouts=Replicate(), output_layouts=Shard(1)
        ),
        "norm": parallel.SequenceParallel(),
        "up": parallel.ColwiseParallel(input_layouts=Shard(1)),
        "down": parallel.RowwiseParallel(output_layouts=Shard(1)),
        "out": parallel.ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
        ),
    }
    return parallel.parallelize_module(net, mesh, plan)


def step_of(net, optimizer, number):
    torch.manual_seed(number)
    x, y = torch.randint(0, 12, (2, 6)), torch.randint(0, 12, (2, 6))
    optimizer.zero_grad()
    with parallel.loss_parallel():
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return [round(whole(each).item(), 4) for each in (loss, norm)]


def train():
    for is_spread in (True, False):
        net = make(is_spread)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        steps = [step_of(net, optimizer, number) for number in range(3)]
        note("parallel", steps) if is_spread else note("alone", steps)
        if is_spread:
            kept = net, optimizer
    assert found["parallel"] == found["alone"], found
    return kept


def state_of(net, optimizer, **values):
    model, state = states.get_state_dict(net, optimizer)
    return {"model": model, "optimizer": state, **values}


def checkpoints(net, optimizer):
    """Saved here, loaded from what the other has saved, onto fresh tensors."""
    saved = state_of(net, optimizer, step=3, notes=["a", {"b": (1, 2)}])
    checkpoint.save(saved, checkpoint_id=own)
    later = checkpoint.async_save(saved, checkpoint_id=own + ".async")
    if name != "torch":  # whose thread would meet this collective on the same group
        dist.all_reduce(torch.ones(3))
    later.result()
    full = states.StateDictOptions(full_state_dict=True)
    note("whole", states.get_model_state_dict(net, options=full)["up.weight"])
    for path in (own, own + ".async", other):
        if not os.path.exists(path):
            continue
        fresh = make()
        with torch.no_grad():
            for parameter in fresh.parameters():
                parameter.mul_(0)
        optimizer = torch.optim.AdamW(fresh.parameters(), lr=0.5)
        empty = state_of(fresh, optimizer, step=0, notes=["", {"b": None}])
        checkpoint.load(empty, checkpoint_id=path)
        states.set_state_dict(
            fresh,
            optimizer,
            model_state_dict=empty["model"],
            optim_state_dict=empty["optimizer"],
        )
        loss = step_of(fresh, optimizer, 9)
        again = found.setdefault("loaded", [loss, empty["step"], str(empty["notes"])])
        assert again == [loss, empty["step"], str(empty["notes"])], path


def first_rank_counts():
    """A whole state of rank 0 is spread over all."""
    torch.manual_seed(rank)
    plain, net = Net(), make()
    options = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state = plain.state_dict() if rank == 0 else {}
    states.set_model_state_dict(net, state, options=options)
    torch.manual_seed(0)
    assert torch.equal(net.up.weight.full_tensor(), Net().up.weight)


def failures(net, optimizer):
    """A full disk, a missing name: all ranks raise, and what was there stays."""
    before = sorted(os.listdir(own))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank == size - 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        checkpoint.save(state_of(net, optimizer, step=9), checkpoint_id=own)
        raise AssertionError("the disk is full, and nobody says so")
    except checkpoint.CheckpointException as error:
        assert list(error.failures) == [size - 1] and "RANK 1" in str(error)
        assert isinstance(error.failures[size - 1][0], OSError)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    dist.barrier()
    assert sorted(os.listdir(own)) == before
    state = {"step": 0}
    checkpoint.load(state, checkpoint_id=own)
    assert state == {"step": 3}
    for wrong, text in (
        ({"nothing": torch.zeros(2)}, "Missing key in checkpoint state_dict: nothing."),
        ({"model": {"norm.bias": torch.zeros(3)}}, "Size mismatch between saved"),
    ):
        try:
            checkpoint.load(wrong, checkpoint_id=own)
            raise AssertionError(text)
        except checkpoint.CheckpointException as error:
            assert text in str(error), error
    checkpoint.save(state_of(net, optimizer, step=4), checkpoint_id=own)
    checkpoint.load(state, checkpoint_id=own)
    assert state == {"step": 4} and len(os.listdir(own)) == len(before)


placements()
trained = train()
checkpoints(*trained)
first_rank_counts()
if name != "torch":
    failures(*trained)
print("FOUND", json.dumps(found), flush=True)
dist.barrier()
dist.destroy_process_group()
