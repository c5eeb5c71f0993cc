"""PyTorch's tutorials on many processes in short: what they call, in the order they do.

It says ``import torch``; ``python -m rushlight.run`` runs it on Rushlight.
"""

import json
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn, optim
from torch.distributed import rpc
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import DistributedOptimizer, ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FOLDER = sys.argv[1]
found = {}


def put(key, *values):
    """Note numbers to four places."""
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.detach().double().flatten().tolist()[:8]
        numbers = value if isinstance(value, list) else [value]
        found.setdefault(key, []).append(
            [round(each, 4) if isinstance(each, float) else each for each in numbers]
        )


def setup():
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    store = dist.TCPStore(
        "127.0.0.1", int(os.environ["MASTER_PORT"]), SIZE, RANK == 0, timedelta(0, 60)
    )
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=SIZE)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def batch(columns=10, rows=20, seed=1):
    torch.manual_seed(seed + dist.get_rank())
    return torch.randn(rows, columns), torch.randn(rows, 5)


def writing_distributed_applications():
    """dist_tuto: messages, a group, averaged gradients."""
    tensor = torch.zeros(1)
    if RANK == 0:
        tensor += 1
        request = dist.isend(tensor=tensor, dst=1)
    else:
        request = dist.irecv(tensor=tensor, src=0)
    request.wait()
    put("messages", tensor)
    group, tensor = dist.new_group([0, 1]), torch.ones(1)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    put("group", tensor)
    torch.manual_seed(1234)
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 5))
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    data, target = batch()
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.mse_loss(model(data), target)
        loss.backward()
        for param in model.parameters():
            dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
            param.grad.data /= float(dist.get_world_size())
        optimizer.step()
        put("averaged", loss.item())


def getting_started_with_ddp():
    """ddp_tutorial: a step, and a checkpoint that rank 0 writes."""
    torch.manual_seed(RANK)
    model = DDP(ToyModel())
    optimizer = optim.SGD(model.parameters(), lr=0.001)
    data, labels = batch()
    nn.MSELoss()(model(data), labels).backward()
    optimizer.step()
    path = os.path.join(FOLDER, "model.checkpoint")
    if RANK == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    other = DDP(ToyModel())
    other.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    put("ddp", other(data), model.module.net1.weight.grad)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    model.zero_grad()
    nn.MSELoss()(model(data), labels).backward()
    put("compressed", model.module.net2.bias.grad.half().float())


def uneven_inputs():
    """generic_join: ranks with other numbers of inputs."""
    torch.manual_seed(0)
    model = DDP(nn.Linear(1, 1))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.01)
    inputs = [torch.tensor([float(i + 1)]) for i in range(3 + RANK)]
    with Join([model, optimizer]):
        for each in inputs:
            loss = model(each).sum()
            loss.backward()
            optimizer.step()
    put("join", model.module.weight, model.module.bias)


def shard_optimizer_states():
    """zero_redundancy_optimizer: the same numbers with a part of the state each."""
    sums = []
    for use_zero in (False, True):
        torch.manual_seed(0)
        layers = [nn.Linear(10, 10) for _ in range(4)] + [nn.Linear(10, 5)]
        model = DDP(nn.Sequential(*layers))
        if use_zero:
            optimizer = ZeroRedundancyOptimizer(
                model.parameters(), optimizer_class=optim.Adam, lr=0.01
            )
        else:
            optimizer = optim.Adam(model.parameters(), lr=0.01)
        data, labels = batch()
        for _ in range(2):
            optimizer.zero_grad()
            nn.MSELoss()(model(data), labels).backward()
            optimizer.step()
        sums.append(sum(p.sum().item() for p in model.parameters()))
    put("zero", *sums)
    optimizer.consolidate_state_dict(to=0)
    if RANK == 0:
        put("zero state", len(optimizer.state_dict()["state"]))


def fully_sharded_data_parallel():
    """FSDP_tutorial: fully_shard, mixed precision, gradients clipped, a state dict."""
    for name, options in (
        ("fsdp", {}),
        (
            "fsdp mixed",
            {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float)},
        ),
    ):
        torch.manual_seed(0)
        model = nn.Sequential(*[ToyModel(), nn.Linear(5, 5)])
        fully_shard(model[0], **options)
        fully_shard(model, **options)
        assert isinstance(model, FSDPModule) and isinstance(model[0], FSDPModule)
        optimizer = optim.Adam(model.parameters(), lr=1e-2)
        data, labels = batch()
        for _ in range(2):
            loss = F.mse_loss(model(data).float(), labels)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            if not options:
                put(name, loss.item(), norm.full_tensor().item())
        weight = model[0].net1.weight
        assert isinstance(weight, DTensor) and weight.placements == (Shard(0),)
        if not options:
            put(name, weight.full_tensor())
            put(name, sorted(get_model_state_dict(model)))


def device_mesh():
    """distributed_device_mesh: one mesh of two dimensions, its groups and slices."""
    mesh = init_device_mesh("cpu", (1, SIZE), mesh_dim_names=("replicate", "shard"))
    value = torch.ones(1) * (RANK + 1)
    dist.all_reduce(value, group=mesh.get_group("shard"))
    put("mesh", value, mesh["shard"].size(), mesh.get_local_rank("shard"))
    put("mesh", list(mesh["replicate"].mesh.shape), mesh.ndim)
    sharded = distribute_tensor(torch.arange(8.0).view(4, 2), mesh["shard"], [Shard(0)])
    put("mesh", sharded.to_local(), (sharded * 2).sum().full_tensor())


def tensor_parallel():
    """TP_tutorial: a column-wise and a row-wise linear layer."""
    mesh = init_device_mesh("cpu", (SIZE,))
    torch.manual_seed(0)
    model = nn.ModuleDict({"in": nn.Linear(10, 32), "out": nn.Linear(32, 5)})
    parallelize_module(model, mesh, {"in": ColwiseParallel(), "out": RowwiseParallel()})
    optimizer = optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    for step in range(2):
        torch.manual_seed(step)
        out = model["out"](F.relu(model["in"](torch.rand(20, 10))))
        out.sum().backward()
        optimizer.step()
        put("tensor parallel", out)


class AppState(Stateful):
    """A model and its optimizer as one value of a checkpoint."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optimizer}

    def load_state_dict(self, state_dict):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optim"],
        )


def distributed_checkpoint():
    """distributed_checkpoint_recipe: saved by all, loaded by all, asynchronously, too."""
    kept = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = ToyModel()
        fully_shard(model)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        state, path = {"app": AppState(model, optimizer)}, FOLDER + "/recipe"
        if seed == 0:
            data, _ = batch()
            model(data).sum().backward()
            optimizer.step()
            dcp.save(state, checkpoint_id=path)
            dcp.async_save(state, checkpoint_id=path + ".async").result()
        else:
            dcp.load(state, checkpoint_id=path)
        kept.append(model.net1.weight.full_tensor())
    put("checkpoint", *kept)


def pipeline_parallel():
    """pipelining_tutorial: halves of a model, microbatches through both."""
    torch.manual_seed(0)
    parts = [nn.Linear(10, 10), nn.Linear(10, 5)]
    stage = PipelineStage(parts[RANK], RANK, SIZE, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=F.mse_loss)
    torch.manual_seed(5)
    x, y = torch.rand(20, 10), torch.rand(20, 5)
    if RANK == 0:
        schedule.step(x)
    else:
        losses = []
        put("pipeline", schedule.step(target=y, losses=losses), torch.stack(losses))
    put("pipeline", parts[RANK].weight.grad)


class ParameterServer(nn.Module):
    """What one process keeps and others call."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = ToyModel()

    def forward(self, x):
        return self.model(x)

    def get_param_rrefs(self):
        return [rpc.RRef(param) for param in self.model.parameters()]

    def first_weight(self):
        return self.model.net1.weight.detach()


def parameter_server():
    """rpc_param_server_tutorial: forward there, gradients and a step there."""
    rpc.init_rpc(f"worker{RANK}", rank=RANK, world_size=SIZE)
    if RANK == 1:
        server = rpc.remote("worker0", ParameterServer)
        rrefs = server.rpc_sync().get_param_rrefs()
        optimizer = DistributedOptimizer(optim.SGD, rrefs, lr=0.05)
        torch.manual_seed(3)
        data, target = torch.randn(20, 10), torch.randn(20, 5)
        for _ in range(2):
            with dist_autograd.context() as context:
                loss = F.mse_loss(server.rpc_sync().forward(data), target)
                dist_autograd.backward(context, [loss])
                optimizer.step(context)
            put("rpc", loss.item())
        put("rpc", server.rpc_sync().first_weight())
        put("rpc", rpc.rpc_async("worker0", torch.add, args=(data, 1)).wait())
    rpc.shutdown()


for tutorial in (
    writing_distributed_applications,
    getting_started_with_ddp,
    uneven_inputs,
    shard_optimizer_states,
    fully_sharded_data_parallel,
    device_mesh,
    tensor_parallel,
    distributed_checkpoint,
    pipeline_parallel,
):
    setup()
    tutorial()
    dist.barrier()
    dist.destroy_process_group()
os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
parameter_server()
print("FOUND", json.dumps(found), flush=True)
