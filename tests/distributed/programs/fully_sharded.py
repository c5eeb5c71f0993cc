"""Trains a network whose parameters are cut, in many ways; prints what came out."""

import json
import sys
import warnings
from functools import partial
from importlib import import_module

name, folder = sys.argv[1:3]
torch, dist = import_module(name), import_module(name + ".distributed")
fsdp = import_module(name + ".distributed.fsdp")
wrapping = import_module(name + ".distributed.fsdp.wrap")
spread = import_module(name + ".distributed.tensor")
parallel = import_module(name + ".distributed.tensor.parallel")
checkpoint = import_module(name + ".distributed.checkpoint")
states = import_module(name + ".distributed.checkpoint.state_dict")
warnings.simplefilter("ignore")
nn = torch.nn
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
found = {}


class Block(nn.Module):
    """A residual block whose sizes two processes cannot share alike."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(5, width), nn.Linear(width, 5)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Net(nn.Module):
    """Blocks, with a layer before and after them."""

    def __init__(self, width=171):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.last = nn.Linear(5, 2)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def make(width=171):
    torch.manual_seed(0)
    return Net(width)


def shard(net, **options):
    for block in net.blocks:
        fsdp.fully_shard(block, **options)
    return fsdp.fully_shard(net, **options)


def whole(value):
    value = value.full_tensor() if isinstance(value, spread.DTensor) else value
    return round(value.double().sum().item(), 3)


def batch(step):
    torch.manual_seed(step)
    x, y = torch.randn(size * 4, 3), torch.randn(size * 4, 2)
    return x[rank * 4 : rank * 4 + 4], y[rank * 4 : rank * 4 + 4]


def train(key, net, before=None, steps=3, clip=True):
    wanted = [each for each in net.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(wanted, lr=0.01)
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        if before is not None:
            before(net, step)
        x, y = batch(step)
        loss = (net(x) - y).float().square().mean()
        loss.backward()
        total = torch.tensor(loss.item())
        dist.all_reduce(total)
        seen.append(round(total.item() / size, 4))
        if clip:
            norm = nn.utils.clip_grad_norm_(wanted, 0.5)
            seen.append(whole(norm))
        optimizer.step()
    found[key] = seen
    return net, optimizer


def accumulate(net, step):
    net.set_requires_gradient_sync(False)
    x, y = batch(step + 50)
    (net(x) - y).square().mean().backward()
    net.set_requires_gradient_sync(True)


def freeze(net):
    for parameter in net.blocks[1].parameters():
        parameter.requires_grad_(False)
    return net


def prefetch(net):
    for this, after in zip(net.blocks, list(net.blocks)[1:]):
        this.set_modules_to_forward_prefetch([after])
        after.set_modules_to_backward_prefetch([this])
    return net


def on_meta():
    with torch.device("meta"):
        net = Net()
    shard(net)
    net.to_empty(device="cpu")
    torch.manual_seed(0)
    full = Net().state_dict()
    options = states.StateDictOptions(full_state_dict=True)
    states.set_model_state_dict(net, full, options=options)
    return net


def by_two(*shape):
    """Cut over one dimension of a mesh, tensor parallel over the other."""
    mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    net = make(172)
    for block in net.blocks:
        plan = {
            "up": parallel.ColwiseParallel(),
            "down": parallel.RowwiseParallel(),
        }
        parallel.parallelize_module(block, mesh["tp"], plan)
        fsdp.fully_shard(block, mesh=mesh["dp"])
    x, y = batch(0)
    for each in (x, y):
        dist.broadcast(each, 0)
    loss = (net(x) - y).square().mean()
    loss.backward()
    weight = net.blocks[0].up.weight
    found[f"mesh {shape}"] = [round(loss.item(), 4), whole(weight.grad)]
    assert weight.full_tensor().shape == (172, 5)


half = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
line = dist.init_device_mesh("cpu", (size,))
copies = dist.init_device_mesh("cpu", (size, 1), mesh_dim_names=("copy", "cut"))
cuts = dist.init_device_mesh("cpu", (1, size), mesh_dim_names=("copy", "cut"))
plain, optimizer = train("plain", shard(make()))
train("kept", shard(make(), reshard_after_forward=False))
train("copies", shard(make(), mesh=copies))
train("cuts", shard(make(), mesh=cuts))
train("half", shard(make(), mp_policy=half), clip=False)
train("accumulated", shard(make()), accumulate)
train("prefetched", prefetch(shard(make())))
train("frozen", shard(freeze(make())))
train("meta", on_meta())
by_two(1, size)
by_two(size, 1)
assert found["plain"] == found["kept"] == found["copies"] == found["cuts"], found
assert found["plain"] == found["prefetched"] == found["meta"], found
found["kind"] = [type(plain).__name__, isinstance(plain, fsdp.FSDPModule)]
weight = plain.blocks[0].up.weight
found["part"] = [str(weight.placements), list(weight.to_local().shape)]
found["weights"] = [whole(each) for each in plain.parameters()]
found["states"] = [
    whole(optimizer.state[each]["exp_avg"]) for each in plain.parameters()
]


def one_process():
    """The same losses as one process with the whole batch."""
    net = make()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(3):
        torch.manual_seed(step)
        x, y = torch.randn(size * 4, 3), torch.randn(size * 4, 2)
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        assert abs(loss.item() - found["plain"][2 * step]) < 1e-3
    assert [whole(each) for each in net.parameters()] == found["weights"]


def saved_and_loaded():
    model, state = states.get_state_dict(plain, optimizer)
    checkpoint.save({"model": model, "optimizer": state}, checkpoint_id=folder)
    other = shard(make(), mesh=copies)
    fresh = torch.optim.AdamW(other.parameters(), lr=0.5)
    model, state = states.get_state_dict(other, fresh)
    checkpoint.load({"model": model, "optimizer": state}, checkpoint_id=folder)
    states.set_state_dict(other, fresh, model_state_dict=model, optim_state_dict=state)
    assert [whole(each) for each in other.parameters()] == found["weights"]
    options = states.StateDictOptions(full_state_dict=True)
    full = states.get_model_state_dict(plain, options=options)
    found["full"] = [list(full), whole(full["blocks.1.down.weight"])]


def wrapped():
    """The older class."""
    FSDP = fsdp.FullyShardedDataParallel
    policy = partial(
        wrapping.transformer_auto_wrap_policy, transformer_layer_cls={Block}
    )
    net = FSDP(
        make(),
        auto_wrap_policy=policy,
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    seen = []
    for step in range(3):
        optimizer.zero_grad()
        with net.no_sync():
            x, y = batch(step + 50)
            (net(x) - y).square().mean().backward()
        x, y = batch(step)
        loss = (net(x) - y).square().mean()
        loss.backward()
        seen.append(round(net.clip_grad_norm_(0.5).item(), 3))
        optimizer.step()
    state = net.state_dict()
    found["wrapped"] = [seen, list(state), whole(state["blocks.0.up.weight"])]
    found["wrappers"] = len(FSDP.fsdp_modules(net))
    assert seen == [each for each in found["accumulated"][1::2]], (seen, found)
    again = FSDP(make(), auto_wrap_policy=policy, use_orig_params=True)
    again.load_state_dict(state)
    assert whole(again.state_dict()["blocks.2.up.weight"]) == whole(
        state["blocks.2.up.weight"]
    )
    with FSDP.summon_full_params(again):
        sizes = {tuple(each.shape) for each in again.parameters()}
        assert (171, 5) in sizes, sizes


def memory():
    """At most two groups are whole at a time, and none when nothing runs."""
    net = shard(make())
    groups = [each._fsdp_state.group for each in [net, *net.blocks]]
    most = 0

    def count(*rest):
        nonlocal most
        whole_now = sum(
            group.parameters[0].storage.nbytes() > 0
            for group in groups[1:]
            if group.parameters[0].storage is not None
        )
        most = max(most, whole_now)

    for block in net.blocks:
        block.down.register_forward_hook(count)
        block.up.register_full_backward_hook(count)
    train("watched", net)
    assert 1 <= most <= 2, most
    for group in groups:
        assert all(each.storage.nbytes() == 0 for each in group.parameters)


one_process()
saved_and_loaded()
if name != "torch":
    wrapped()
    memory()
    del found["watched"]
print("FOUND", json.dumps(found), flush=True)
dist.barrier()
dist.destroy_process_group()
