"""A rank whose card is imagined: its collectives go through an imagined libnccl.

Each argument behind the folder is a case, which a process forked for it runs.
"""

import json
import os
import sys
import time
import traceback
from datetime import timedelta

import numpy as np

import rushlight as rl
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.fsdp import fully_shard
from rushlight.runtime.cuda.nccl import NCCL
from tests.cuda.conftest import Machine, imagined
from tests.cuda.nccl import FakeNccl

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TYPES = "int8 uint8 int32 int64 float16 float32 float64 bfloat16".split()
OPS = dist.ReduceOp


def own(rank, dtype, sizes=(3, 5)):
    """What a rank has: small numbers, whose sums are exact."""
    count = sizes[0] * sizes[1]
    values = (rl.arange(count) * 7 + 3 * rank) % 5 + 1
    return values.view(sizes).to(dtype)


def every(dtype, sizes=(3, 5)):
    return rl.stack([own(rank, dtype, sizes) for rank in range(SIZE)])


def same(found, expected, what):
    assert found.device.type == "cuda", what
    assert found.dtype is expected.dtype, (what, found.dtype, expected.dtype)
    assert found.cpu().equal(expected), (what, found.cpu(), expected)


def reduce_all():
    """Reductions of every kind and type, against the host's."""
    by = {OPS.SUM: np.sum, OPS.PRODUCT: np.prod, OPS.MIN: np.min, OPS.MAX: np.max}
    whole = every(rl.int64).numpy()
    by = {op: rl.from_numpy(of(whole, axis=0)) for op, of in by.items()}
    for name in TYPES:
        dtype = getattr(rl, name)
        for op, expected in by.items():
            tensor = own(RANK, dtype).cuda()
            dist.all_reduce(tensor, op)
            same(tensor, expected.to(dtype), (name, op))
    tensor = own(RANK, rl.float64).cuda()
    dist.all_reduce(tensor, OPS.AVG)
    same(tensor, by[OPS.SUM].double() / SIZE, "avg")
    for dtype in (rl.float64, rl.float32, rl.float16, rl.bfloat16):
        tensor = own(RANK, dtype).cuda()
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
        same(tensor, (by[OPS.SUM] * 0.5).to(dtype), "premultiplied")
    truth = rl.tensor([RANK == 0, False, True]).cuda()
    dist.all_reduce(truth)
    same(truth, rl.tensor([True, False, True]), "truth")
    numbers = rl.complex(own(RANK, rl.float32), own(RANK + 1, rl.float32)).cuda()
    dist.all_reduce(numbers)
    pairs = [
        rl.complex(own(r, rl.float32), own(r + 1, rl.float32)) for r in range(SIZE)
    ]
    same(numbers, rl.stack(pairs).sum(0), "complex")
    turned = own(RANK, rl.float32).cuda().t()
    dist.all_reduce(turned)
    same(turned, every(rl.float32).sum(0).t(), "transposed")


def move():
    """What only moves, between all ranks and between two."""
    for name in TYPES:
        dtype = getattr(rl, name)
        tensor, whole = own(RANK, dtype).cuda(), every(dtype)
        outs = [rl.empty_like(tensor) for _ in range(SIZE)]
        dist.all_gather(outs, tensor)
        for rank, out in enumerate(outs):
            same(out, whole[rank], "all_gather")
        into = tensor.new_empty(SIZE * 3, 5)
        dist.all_gather_into_tensor(into, tensor)
        same(into, whole.view(-1, 5), "all_gather_into_tensor")
        dist.broadcast(tensor, SIZE - 1)
        same(tensor, whole[SIZE - 1], "broadcast")
    tensor, whole = own(RANK, rl.float32).cuda(), every(rl.float32)
    dist.reduce(tensor, 1)
    same(tensor, whole.sum(0) if RANK == 1 else whole[RANK], "reduce")
    tensor = own(RANK, rl.float32).cuda()
    outs = [rl.empty_like(tensor) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(tensor, outs, 0)
    for rank, out in enumerate(outs or ()):
        same(out, whole[rank], "gather")
    dist.scatter(tensor, outs and [out * 2 for out in outs], 0)
    same(tensor, whole[RANK] * 2, "scatter")
    uneven = [rl.empty(rank + 1, device="cuda") for rank in range(SIZE)]
    dist.all_gather(uneven, rl.full((RANK + 1,), float(RANK), device="cuda"))
    for rank, out in enumerate(uneven):
        same(out, rl.full((rank + 1,), float(rank)), "uneven")


def move_parts():
    """Parts of what each rank has for each, of equal sizes and others."""
    parts = [own(RANK + to, rl.float32).cuda() for to in range(SIZE)]
    expected = rl.stack([own(r + RANK, rl.float32) for r in range(SIZE)])
    out = rl.empty_like(parts[0])
    dist.reduce_scatter(out, parts)
    same(out, expected.sum(0), "reduce_scatter")
    dist.reduce_scatter_tensor(out, rl.stack(parts), OPS.MAX)
    same(out, expected.amax(0), "reduce_scatter_tensor")
    sizes = list(range(1, SIZE + 1))
    own_part = rl.empty(RANK + 1, device="cuda")
    given = [rl.full((n,), float(RANK), device="cuda") for n in sizes]
    dist.reduce_scatter(own_part, given)
    total = float(sum(range(SIZE)))
    same(own_part, rl.full((RANK + 1,), total), "uneven reduce_scatter")
    outs = [rl.empty_like(each) for each in parts]
    dist.all_to_all(outs, parts)
    for rank, each in enumerate(outs):
        same(each, own(rank + RANK, rl.float32), "all_to_all")
    rows = rl.full((sum(sizes), 2), float(RANK), device="cuda")
    found = rl.empty(SIZE * (RANK + 1), 2, device="cuda")
    dist.all_to_all_single(found, rows, [RANK + 1] * SIZE, sizes)
    expected = rl.arange(SIZE).repeat_interleave(RANK + 1)[:, None].expand(-1, 2)
    same(found, expected.float(), "all_to_all_single")


def send_and_receive():
    """Messages, alone and together, and collectives put together."""
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    tensor, found = own(RANK, rl.float32).cuda(), rl.empty(3, 5, device="cuda")
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, tensor, after), dist.P2POp(dist.irecv, found, before)]
    )
    assert len(works) == 1
    works[0].wait()
    same(found, own(before, rl.float32), "batch")
    if RANK < 2:
        other = 1 - RANK
        if RANK == 0:
            dist.send(tensor, other)
            assert dist.recv(found, other) == other
        else:
            assert dist.recv(found, other) == other
            dist.send(tensor, other)
        same(found, own(other, rl.float32), "send")
    calls = len(NCCL.found.calls)
    tensors = [own(RANK + k, rl.float32).cuda() for k in range(3)]
    with dist._coalescing_manager(async_ops=True) as together:
        for each in tensors:
            dist.all_reduce(each)
    assert len(together.works) == 1
    together.wait()
    for k, each in enumerate(tensors):
        expected = sum(own(rank + k, rl.float32) for rank in range(SIZE))
        same(each, expected, "together")
    made = NCCL.found.calls[calls:]
    made = [name for name in made if name != "ncclCommGetAsyncError"]  # the watchdog's
    assert made[0] == "ncclGroupStart" and made[-1] == "ncclGroupEnd", made
    assert made.count("ncclAllReduce") == 3


def follow_queues():
    """Work goes to a queue of its own; who waits for it makes its queue wait."""
    tensor = own(RANK, rl.float32).cuda()
    doubled = tensor * 2
    work = dist.all_reduce(doubled, async_op=True)
    work.wait()
    same(doubled + 1, every(rl.float32).sum(0) * 2 + 1, "asynchronous")
    assert work.is_completed() and work.is_success()
    again = tensor * 3
    later = (
        dist.all_reduce(again, async_op=True)
        .get_future()
        .then(lambda done: done.value()[0] / SIZE)
    )
    same(later.wait(), every(rl.float32).sum(0) * 3 / SIZE, "then")
    side = rl.cuda.Stream()
    with rl.cuda.stream(side):
        third = own(RANK, rl.float32).cuda() * 4
        dist.all_reduce(third)
    rl.cuda.current_stream().wait_stream(side)
    same(third, every(rl.float32).sum(0) * 4, "another queue")


def tell_objects():
    """Objects, barriers and groups of some."""
    found = [None] * SIZE
    dist.all_gather_object(found, {"rank": RANK, "more": [1] * RANK})
    assert [each["rank"] for each in found] == list(range(SIZE))
    listed = ["a", 3] if RANK == 0 else [None, None]
    dist.broadcast_object_list(listed, 0)
    assert listed == ["a", 3]
    dist.barrier()
    pair = dist.new_group([0, 1])
    if RANK < 2:
        one = rl.ones(2, device="cuda")
        dist.all_reduce(one, group=pair)
        same(one, rl.full((2,), 2.0), "pair")
        assert dist.get_backend(pair) == "nccl"


def refused(call, kind, words):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{words}: was taken")


def refuse():
    """What the library has not is refused as PyTorch does, before any rank waits."""
    one = rl.ones(2, device="cuda")
    refused(lambda: dist.all_reduce(one.cpu()), ValueError, "must be CUDA and dense")
    whole = one.int()
    for op in (OPS.BAND, OPS.BOR, OPS.BXOR):
        refused(lambda op=op: dist.all_reduce(whole, op), ValueError, "with NCCL")
    refused(lambda: dist.all_reduce(one.short()), TypeError, "not supported for NCCL")
    refused(lambda: dist.all_reduce(one > 0, OPS.AVG), TypeError, "Boolean")
    rows = rl.ones(4, 4, device="cuda")[:, ::2]
    refused(lambda: dist.all_reduce(rows), ValueError, "non-overlapping and dense")
    refused(lambda: dist.irecv(one), NotImplementedError, "recvAnysource")
    refused(dist.monitored_barrier, ValueError, "only implemented for GLOO")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x):
        return self.layers(x)


def losses(wrap, batch, device, steps=3):
    """The loss of each step of a small net, and its last weights."""
    rl.manual_seed(3)
    net = Net().to(device)
    model = wrap(net)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    found = []
    for step in range(steps):
        x, y = batch(step)
        optimizer.zero_grad()
        if getattr(model, "device_ids", None) is None:  # else the model moves it
            x = x.to(device)
        loss = nn.functional.mse_loss(model(x), y.to(device))
        loss.backward()
        optimizer.step()
        found.append(float(loss))
    return found, model


def whole_batch(step):
    generator = rl.Generator().manual_seed(step)
    x = rl.randn(4 * SIZE, 6, generator=generator)
    return x, x[:, :3].sin()


def own_batch(step):
    return [part.chunk(SIZE)[RANK] for part in whole_batch(step)]


def train():
    """DDP and fully_shard over cards train as one process with the whole batch."""
    _, alone = losses(lambda net: net, whole_batch, "cpu")
    expected = [p.detach() for p in alone.parameters()]

    def sharded(net):
        for layer in (net.layers[0], net.layers[2]):
            fully_shard(layer)
        return fully_shard(net)

    def looking(net):
        return nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)

    def on_card(net):
        return nn.parallel.DistributedDataParallel(net, device_ids=[RANK])

    wraps = {"ddp": on_card, "sharded": sharded}
    if SIZE == 2:
        wraps = {"looking": looking}
    for name, wrap in wraps.items():
        _, model = losses(wrap, own_batch, "cuda")
        for parameter, wanted in zip(model.parameters(), expected, strict=True):
            found = parameter.full_tensor() if name == "sharded" else parameter
            found = found.detach().cpu()
            assert found.allclose(wanted, rtol=1e-4, atol=1e-5), (name, found, wanted)


def take_both():
    """With a backend for each kind of device, tensors of both go their own ways."""
    assert dist.get_backend_config() == "cpu:gloo,cuda:nccl"
    calls = len(NCCL.found.calls)
    host = own(RANK, rl.int16)
    dist.all_reduce(host, OPS.BOR)
    assert len(NCCL.found.calls) == calls
    card = own(RANK, rl.float32).cuda()
    dist.all_reduce(card)
    same(card, every(rl.float32).sum(0), "card")
    dist.barrier()


CASES = {
    "collectives": (
        *(reduce_all, move, move_parts, send_and_receive, follow_queues),
        *(tell_objects, refuse),
    ),
    "training": (train,),
    "both": (take_both,),
    "moves": (move_parts, send_and_receive),
}


def fail(fault):
    """A fault of the last rank; what the others say, and when."""
    tensor = rl.ones(4, device="cuda")
    dist.all_reduce(tensor)
    tensor.cpu()
    dist.barrier()
    if RANK == SIZE - 1:
        say(fault, time=time.time())
        if fault == "kill":
            os.kill(os.getpid(), 9)
        if fault == "late":
            time.sleep(1.5)
            return
    if fault == "late":
        dist.group.WORLD.set_timeout(timedelta(seconds=0.5))
    sizes = 5 if fault == "shape" and RANK == SIZE - 1 else 4
    try:
        found = rl.ones(sizes, device="cuda")
        if fault == "operator" and RANK == SIZE - 1:
            dist.broadcast(found, 0)
        else:
            dist.all_reduce(found)
        found.cpu()
    except dist.DistBackendError as error:
        aborted = "ncclCommAbort" in NCCL.found.calls
        facts = {"ended": time.time(), "aborted": aborted}
        say(fault, said=str(error), again=after(found), **facts)


def after(tensor):
    """What a collective of a group that has failed says."""
    try:
        dist.all_reduce(tensor)
    except dist.DistBackendError as error:
        return str(error)
    return "was taken"


def say(case, **facts):
    print(json.dumps([case, facts]), flush=True)


def child(folder, case):
    with imagined(Machine()) as machine:
        driver = machine.start(cards=SIZE, memory=1 << 26, seed=RANK)
        NCCL.replace(FakeNccl(driver, folder))
        rl.cuda.set_device(RANK)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if case == "both" else "nccl",
            init_method=f"file://{folder}/{case}",
            rank=RANK,
            world_size=SIZE,
            timeout=timedelta(seconds=30),
            device_id=rl.device("cuda", RANK) if case == "training" else None,
        )
        for each in CASES.get(case, ()):
            each()
        if case in CASES:
            say(case, whole=True)
            dist.destroy_process_group()
        else:
            fail(case)
        NCCL.replace(None)


def main(folder, *cases):
    for case in cases:
        number = os.fork()
        if number == 0:
            try:
                child(folder, case)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(number, 0)
        if status and case in CASES:
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
