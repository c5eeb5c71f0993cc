"""Processes that call each other: values, references, gradients, errors."""

import json
import os
import signal
import sys
import time
from importlib import import_module

name = sys.argv[1]
torch = import_module(name)
rpc = import_module(name + ".distributed.rpc")
autograd = import_module(name + ".distributed.autograd")
optim = import_module(name + ".distributed.optim")
nn, F = torch.nn, torch.nn.functional
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
found = {}


def put(value):
    return [round(each, 4) for each in value.detach().flatten().tolist()]


def scaled(x, factor=1.0, *, more=None):
    return {"scaled": x * factor, "list": [x.sum(), (more, "text")]}


def fails():
    raise ValueError("the loss is not finite")


def sleeps():
    time.sleep(2)


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


@rpc.functions.async_execution
def passes_on(to, x):
    return rpc.rpc_async(to, torch.add, args=(x, 1)).then(lambda f: f.wait() * 10)


class Counter:
    def __init__(self, start):
        self.count = start

    def add(self, n):
        self.count += n
        return self.count


class Shard(nn.Module):
    """A part of a model that another process owns."""

    def __init__(self, seed, rows, columns):
        super().__init__()
        self.layer = nn.Linear(rows, columns)
        for each in self.layer.parameters():  # calls share a generator
            ramp = torch.linspace(-0.5, 0.5, each.numel()) * seed
            each.data.copy_(ramp.view_as(each))

    def forward(self, reference):
        return self.layer(reference.to_here()).tanh()

    def references(self):
        return [rpc.RRef(each) for each in self.parameters()]


class Net(nn.Module):
    """A model whose parts are on other processes."""

    def __init__(self):
        super().__init__()
        self.parts = [
            rpc.remote("worker1", Shard, args=(1, 4, 6)),
            rpc.remote(f"worker{size - 1}", Shard, args=(2, 6, 2)),
        ]

    def forward(self, x):
        reference = rpc.RRef(x)
        hidden = self.parts[0].remote().forward(reference)
        return self.parts[1].rpc_async().forward(hidden).wait()

    def references(self):
        return [r for part in self.parts for r in part.rpc_sync().references()]


def values():
    x = torch.arange(4.0)
    found["call"] = put(rpc.rpc_sync("worker1", torch.add, args=(x, 2)))
    given = rpc.rpc_sync("worker1", scaled, args=(x,), kwargs={"factor": 3, "more": 7})
    found["nested"] = [put(given["scaled"]), put(given["list"][0]), given["list"][1]]
    futures = [rpc.rpc_async(1, torch.mul, args=(x, i)) for i in range(4)]
    found["futures"] = [put(each.wait()) for each in futures]
    found["passed on"] = put(rpc.rpc_sync("worker1", passes_on, args=("worker0", x)))
    found["then"] = (
        rpc.rpc_async("worker1", max, args=((3, 5),)).wait() if (name == "torch") else 5
    )
    info = rpc.get_worker_info("worker1")
    found["info"] = [info.name, info.id, rpc.get_worker_info().name]


def references():
    counter = rpc.remote("worker1", Counter, args=(10,))
    found["counted"] = [counter.rpc_sync().add(i) for i in range(3)]
    found["later"] = counter.rpc_async().add(5).wait()
    found["kept"] = counter.remote().add(1).to_here()
    found["owner"] = [counter.is_owner(), counter.owner_name()]
    own = rpc.RRef(torch.ones(2))
    found["own"] = [own.is_owner(), put(own.local_value() * 2), put(own.to_here())]
    passed = rpc.remote("worker1", torch.ones, args=((2,),))
    again = rpc.rpc_sync("worker1", torch.add, args=(passed.to_here(), 1))
    found["passed"] = put(again)
    try:
        counter.local_value()
        found["not here"] = "nothing"
    except RuntimeError as error:
        found["not here"] = "call" in str(error)


def gradients():
    a, b = (torch.ones(3) * 2).requires_grad_(), torch.arange(3.0).requires_grad_()
    with autograd.context() as number:
        c = rpc.rpc_sync("worker1", torch.mul, args=(a, b))
        d = rpc.rpc_sync("worker1", torch.add, args=(c * a, c))
        autograd.backward(number, [d.sum()])
        grads = autograd.get_gradients(number)
        found["gradients"] = [put(grads[a]), put(grads[b])]
    assert a.grad is None


def train():
    net = Net()
    optimizer = optim.DistributedOptimizer(torch.optim.SGD, net.references(), lr=0.2)
    torch.manual_seed(5)
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    losses = []
    for _ in range(4):
        with autograd.context() as number:
            loss = F.mse_loss(net(x), y)
            autograd.backward(number, [loss])
            optimizer.step(number)
            losses.append(round(loss.item(), 4))
    found["losses"] = losses
    plain = nn.Sequential(
        Shard(1, 4, 6).layer, nn.Tanh(), Shard(2, 6, 2).layer, nn.Tanh()
    )
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.2)
    for each in losses:
        plain_optimizer.zero_grad()
        loss = F.mse_loss(plain(x), y)
        loss.backward()
        plain_optimizer.step()
        assert abs(loss.item() - each) < 1e-3


def text_of(call):
    try:
        call()
        return "nothing"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def errors():
    text = text_of(lambda: rpc.rpc_sync("worker1", fails))
    found["raised"] = ["ValueError" in text, "the loss is not finite" in text]
    text = text_of(lambda: rpc.rpc_sync("worker1", sleeps, timeout=0.2))
    found["late"] = "200 ms" in text
    text = text_of(lambda: rpc.rpc_sync("nobody", sleeps))
    found["nobody"] = "nobody" in text or "Unknown" in text


def refusals():
    """No function of Python's own is called, no pickle is read, unless it is allowed."""
    text = text_of(lambda: rpc.rpc_sync("worker1", os.system, args=("true",)))
    assert "not a function that may be called here" in text, text
    text = text_of(lambda: rpc.rpc_sync("worker1", scaled, args=(Counter(1),)))
    assert "RPC" in text or "not" in text, text
    began = time.monotonic()
    text = text_of(lambda: rpc.rpc_sync("worker1", dies))
    assert "closed the connection" in text and time.monotonic() - began < 1, text


def main():
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank == 0:
        values()
        references()
        gradients()
        train()
        errors()
    if name != "torch":
        if rank == 0:
            refusals()
            print("FOUND", json.dumps(found), flush=True)
            os._exit(0)  # worker 1 is gone: nobody waits for it
        time.sleep(60)
    rpc.shutdown()
    print("FOUND", json.dumps(found), flush=True)


main()
