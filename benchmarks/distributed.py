"""Collectives and a step of data-parallel training, beside PyTorch's gloo.

``python -m benchmarks.distributed [--processes 2] [--largest 268435456]`` starts as many
processes; each joins both libraries' groups and calls them in turn. A row is the lower
quartile of a rank's times; the slower rank counts. ``--only constants`` measures what
`rushlight.distributed.cost_model` asks for, over shared memory and over sockets.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

from benchmarks.startup import Measured

SIZES = [1 << shift for shift in (10, 13, 16, 18, 20, 22, 24, 26, 28)]
ONLY = ["", "ddp", "collectives", "constants"]
SHARED = "RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY"
BUDGET_BYTES, MOST_CALLS, FEWEST_CALLS = 1 << 27, 200, 5


def free_port():
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(options, output=None):
    """Run this module in several processes; rank 0 prints, into a file if one is given."""
    ports = {"MASTER_PORT": str(free_port()), "OTHER_PORT": str(free_port())}
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.distributed", "--worker"]
            + [f"--largest={options.largest}", f"--only={options.only}"],
            env={
                **os.environ,
                **ports,
                "MASTER_ADDR": "127.0.0.1",
                "RANK": str(rank),
                "WORLD_SIZE": str(options.processes),
                "OMP_NUM_THREADS": "1",
            },
            stdout=output,
        )
        for rank in range(options.processes)
    ]
    return max(process.wait() for process in processes)


class Pair:
    """Both libraries, joined by this process."""

    def __init__(self):
        import torch

        import rushlight

        self.modules = [torch, rushlight]
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        os.environ["MASTER_PORT"] = os.environ["OTHER_PORT"]
        rushlight.distributed.init_process_group("gloo")
        self.rank = rushlight.distributed.get_rank()
        self.size = rushlight.distributed.get_world_size()

    def time(self, calls, count):
        """Seconds of each library's call on the slower rank: lower quartiles."""
        _, own = self.modules
        times = [[], []]
        for turn in range(count + 1):
            for index, call in enumerate(calls):
                own.distributed.barrier()
                began = time.perf_counter()
                call()
                if turn:
                    times[index].append(time.perf_counter() - began)
        found = own.tensor([sorted(t)[len(t) // 4] for t in times], dtype=own.float64)
        own.distributed.all_reduce(found, own.distributed.ReduceOp.MAX)
        return found.tolist()


def collectives(module, n_bytes, size):
    """Name -> a call of each collective over float32."""
    dist, count = module.distributed, n_bytes // 4
    data, outs = module.ones(count), module.empty(size, count)
    parts = list(outs.unbind(0))

    def all_reduce():
        dist.all_reduce(data)
        data.fill_(1.0)

    return {
        "all_reduce": all_reduce,
        "all_gather": lambda: dist.all_gather(parts, data),
        "broadcast": lambda: dist.broadcast(data, 0),
    }


def training_step(module):
    """A step of a multilayer perceptron in all processes."""
    nn = module.nn
    module.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(256, 1024),
        nn.ReLU(),
        nn.Linear(1024, 1024),
        nn.ReLU(),
        nn.Linear(1024, 10),
    )
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = module.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = module.randn(32, 256), module.randn(32, 10)

    def step():
        optimizer.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimizer.step()

    return step


def show(pair, label, seconds):
    """Print a row; the ratio of the times."""
    theirs, ours = seconds
    if pair.rank == 0:
        print(
            f"{label:28} gloo {theirs * 1e6:11.1f} us   ours {ours * 1e6:11.1f} us   "
            f"{ours / theirs:5.2f}",
            flush=True,
        )
    return ours / theirs


def lower_quartile(call, count):
    """The lower quartile of a call's seconds."""
    times = []
    for _ in range(count + 1):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return sorted(times[1:])[count // 4]


def measure_constants():
    """Latency and seconds of an octet between two ranks, and of an octet reduced."""
    import rushlight as rl

    dist = rl.distributed
    dist.init_process_group("gloo")
    small, count = rl.ones(2), 1 << 22
    large = rl.ones(count)

    def there_and_back(tensor):
        dist.broadcast(tensor, 0)
        dist.broadcast(tensor, 1)

    latency = lower_quartile(lambda: there_and_back(small), 500) / 2
    seconds = lower_quartile(lambda: there_and_back(large), 20) / 2
    other = rl.ones(1 << 16)
    part = large[: 1 << 16]
    reduction = lower_quartile(lambda: rl.add(part, other, out=part), 200)
    if dist.get_rank() == 0:
        way = "sockets" if SHARED in os.environ else "memory"
        print(
            f"{way:8} latency {latency * 1e6:6.1f} us   octet "
            f"{(seconds - latency) / count / 4 * 1e9:6.3f} ns   reduction "
            f"{reduction / other.numel() / 4 * 1e9:6.3f} ns",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()


def measure(options):
    """All rows, in this process."""
    if options.only == "constants":
        return measure_constants()
    pair, ratios = Pair(), []
    for n_bytes in SIZES:
        if n_bytes > options.largest or options.only == "ddp":
            continue
        calls = [collectives(module, n_bytes, pair.size) for module in pair.modules]
        count = max(FEWEST_CALLS, min(MOST_CALLS, BUDGET_BYTES // n_bytes))
        for name in calls[0]:
            seconds = pair.time([each[name] for each in calls], count)
            ratios.append(show(pair, f"{name} {n_bytes}", seconds))
    if ratios and pair.rank == 0:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of the ratios: {mean:.2f}", flush=True)
    if options.only != "collectives":
        steps = [training_step(module) for module in pair.modules]
        show(pair, "step of training (1.3 M)", pair.time(steps, 30))
    for module in pair.modules[::-1]:
        module.distributed.barrier()
        module.distributed.destroy_process_group()
    return None


def rows(quick):
    """The rows of the table: geometric means of the times over sizes, and a step."""
    largest = 1 << (22 if quick else 26)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        start(SimpleNamespace(processes=2, largest=largest, only=""), file)
        file.seek(0)
        found = re.findall(r"(\S+) .*gloo +(\S+) us +ours +(\S+) us", file.read())
    names = "all_reduce", "all_gather", "broadcast"
    if {name for name, *_ in found} != {*names, "step"}:
        return [Measured("collectives, two processes", 0, 1, "us", 0.8, fault="failed")]

    def mean(name, place):
        logs = [math.log(float(row[place])) for row in found if row[0] == name]
        return math.exp(sum(logs) / len(logs))

    titles = {
        name: f"{name}, two processes, 1 KiB to {largest >> 20} MiB" for name in names
    }
    titles["step"] = "DistributedDataParallel, two processes, a step"
    return [
        Measured(title, mean(name, 2), mean(name, 1), "us", 0.8)
        for name, title in titles.items()
    ]


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--only", choices=ONLY, default="")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        measure(options)
    elif options.only == "constants":
        status = start(options)
        os.environ[SHARED] = "0"
        sys.exit(status or start(options))
    else:
        sys.exit(start(options))


if __name__ == "__main__":
    main()
