"""Programs in several processes, as a launcher would start them."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"


_TERMINATED = "terminate called without an active exception"
# Below those that the system gives to connections: it might give one away before a
# program that has it as an argument listens there.
PORTS = range(16_000, 32_000)


def free_port():
    """A port that nothing listens on."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def start(program, size, *arguments, through=(), **environment):
    """The processes of a program, a rank each; ``through`` are words before it."""
    base = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(size),
        "OMP_NUM_THREADS": "1",
        "RUSHLIGHT_CHECK_PLANS": "0",
        **environment,
    }
    return [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", *through, str(PROGRAMS / program)]
            + list(arguments),
            env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def finish(processes, patience=240, ended=None):
    """(status, output, errors) of each, once all have ended.

    Args:
        processes: as `start` gives them.
        patience: seconds until those that still run are killed, which is a failure.
        ended: a list that takes their numbers in the order in which they end.
    """
    last, found = time.monotonic() + patience, {}
    ended = [] if ended is None else ended

    def read(rank, process):
        output, errors = process.communicate()
        ended.append(rank)
        found[rank] = process.returncode, output, errors

    readers = [
        threading.Thread(target=read, args=each) for each in enumerate(processes)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(max(last - time.monotonic(), 0))
    late = [rank for rank, each in enumerate(processes) if each.poll() is None]
    for rank in late:
        processes[rank].kill()
    for reader in readers:
        reader.join()
    results = [found[rank] for rank in range(len(processes))]
    assert not late, f"ranks {late} ran for {patience} s:\n{told(results, ended)}"
    return results


def told(results, ended):
    """What the ranks that failed said, in the order in which they ended."""
    return "\n".join(
        f"rank {rank} of {len(results)} ended with {results[rank][0]}:\n"
        f"{results[rank][1]}\n{results[rank][2]}"
        for rank in ended
        if results[rank][0]
    )


def _ended_as_pytorch_may(status, output, errors):
    """Whether PyTorch's threads outlived the interpreter, after all was said.

    Its C++ ends the process then, on a loaded machine now and then; there is no C++ here.
    """
    ended = errors.strip().endswith(_TERMINATED)
    return bool(output) and ended and status == -signal.SIGABRT


def run(program, size, *arguments, through=(), **environment):
    """The outputs of a program's ranks, all of which must succeed."""
    ended: list = []
    processes = start(program, size, *arguments, through=through, **environment)
    results = finish(processes, ended=ended)
    wrong = [each for each in results if each[0] and not _ended_as_pytorch_may(*each)]
    assert not wrong, told(results, ended)
    return [output for _, output, _ in results]
