"""Models behind HTTP: throughput and latency of ours and PyTorch's, behind the same server.

``python -m benchmarks.serving [--clients 16] [--requests 2000] [--rounds 3]`` starts the
server with both libraries' models, one worker of one thread each, and calls them in turn over
connections of this machine that stay open. A row has the best round of each.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.startup import Measured

HANDLER = '''
import torch
from rushlight.serve import TensorHandler
from rushlight.serve.handlers import NPY, Response, npy, read_npy

torch.set_num_threads(1)


class Theirs(TensorHandler):
    """The same batches, run by PyTorch's interpreter."""

    def __init__(self, archive, model):
        super().__init__(archive, model)
        self.model = torch.jit.load(archive.open(archive.manifest["model"])).eval()

    def read(self, request):
        return (torch.from_numpy(read_npy(request.body).numpy()),)

    def run(self, samples):
        with torch.inference_mode():
            sizes = [len(sample) for sample, in samples]
            return self.model(torch.cat([sample for sample, in samples])).split(sizes)

    def write(self, result, request):
        return Response(npy(result), NPY)


def make():
    return None
'''


def models(library):
    """Name -> a network, and the sizes of a sample."""
    nn = library.nn
    library.manual_seed(0)
    wide = nn.Sequential(
        nn.Linear(784, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )
    picture = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    small = nn.Linear(8, 2)
    return {
        "linear 8 to 2": (small, (8,)),
        "multilayer perceptron": (wide, (784,)),
        "convolutions of 32 x 32": (picture, (3, 32, 32)),
    }


def write_store(folder):
    """Archives of all models of both libraries; gives names and bodies of requests."""
    import numpy
    import torch

    import rushlight
    from rushlight.serve import pack

    code = Path(folder) / "theirs.py"
    code.write_text(HANDLER)
    rows = []
    for library in (rushlight, torch):
        for number, (label, (net, sizes)) in enumerate(models(library).items()):
            own = library is rushlight
            name = f"{'ours' if own else 'theirs'}{number}"
            path = os.path.join(folder, f"{name}.pth")
            library.jit.script(net.eval()).save(path)
            given = {"join": "concatenate", "batch_size": 16, "threads": 1}
            if not own:
                given |= {"files": [code], "handler": "theirs.py:Theirs"}
                given |= {"kind": "eager", "factory": "theirs.py:make"}
            pack(os.path.join(folder, f"{name}.rlm"), name, path, **given)
            file = io.BytesIO()
            numpy.save(file, numpy.ones((1, *sizes), "float32"))
            if own:
                rows.append((label, name, f"theirs{number}", file.getvalue()))
            os.remove(path)
    return rows


class Server:
    """The server as a process of its own."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "rushlight.serve", folder, "--allow-code"]
        command += ["--port", "0", "--management-port", "0", "--queue-size", "100000"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"predictions on port (\d+)", line)
            if found:
                self.port = int(found[1])
                return
            print(line, end="", file=sys.stderr)
        raise RuntimeError("the server did not start")

    def stop(self):
        """Ends the server."""
        self.process.terminate()
        self.process.communicate()


async def client(port, text, count, times):
    """Sends a request as often, each when the last one is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        began = time.perf_counter()
        writer.write(text)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        times.append(time.perf_counter() - began)
    writer.close()


def load(port, name, body, clients, requests):
    """Requests in a second, and all their times in order."""
    head = (
        f"POST /predictions/{name} HTTP/1.1\r\nhost: localhost\r\n"
        "content-type: application/x-npy\r\naccept: application/x-npy\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    times = []

    async def together():
        each = requests // clients
        text = head.encode() + body
        await asyncio.gather(*(client(port, text, each, times) for _ in range(clients)))

    began = time.perf_counter()
    asyncio.run(together())
    return len(times) / (time.perf_counter() - began), sorted(times)


def measured(clients, requests, rounds):
    """For each model and number of clients: the best round of each library.

    Yields:
        The model's label, the number of clients, and of each library its requests in a
        second and all their times in order.
    """
    warnings.simplefilter("ignore", DeprecationWarning)
    with tempfile.TemporaryDirectory() as folder:
        models = write_store(folder)
        server = Server(folder)
        try:
            for label, *names, body in models:
                for count in clients:
                    best = rounds_of(server.port, names, body, count, requests, rounds)
                    yield label, count, *best
        finally:
            server.stop()


def rounds_of(port, names, body, clients, requests, rounds):
    """Models in turn, the best round of each."""
    best = {}
    for name in names:
        load(port, name, body, clients, 10 * clients)
    for _ in range(rounds):
        for name in names:
            found = load(port, name, body, clients, requests)
            best[name] = max(best.get(name, (0, [])), found, key=lambda pair: pair[0])
    return [best[name] for name in names]


def percentile(times, part):
    """A time in milliseconds that so large a part of sorted times lies below."""
    return 1e3 * times[int(len(times) * part)]


def rows(quick):
    """The rows of the table, at 16 clients: time of a request, and the slowest of 100."""
    found = []
    for label, _, ours, theirs in measured([16], 400 if quick else 2000, 3):
        title = f"serving, {label}, 16 clients"
        each = [1e3 / rate for rate, _ in (ours, theirs)]
        slowest = [percentile(times, 0.99) for _, times in (ours, theirs)]
        found.append(Measured(f"{title}, a request", *each, "ms", 1.0))
        found.append(Measured(f"{title}, 99th percentile", *slowest, "ms", 1.0))
    return found


def main():
    """Prints a row for each model and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| model | clients | requests/s | PyTorch's | p50 | p99 | PyTorch's p99 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for label, clients, (rate, times), (other, others) in measured(
        options.clients, options.requests, options.rounds
    ):
        shown = [percentile(times, part) for part in (0.5, 0.99)]
        shown.append(percentile(others, 0.99))
        print(
            f"| {label} | {clients} | {rate:.0f} | {other:.0f} | "
            + " | ".join(f"{value:.2f} ms" for value in shown)
            + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
