"""Programs in several processes, as a launcher would start them."""

import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"


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


def finish(processes, patience=240):
    """(status, output, errors) of each, once all have ended."""
    last = time.monotonic() + patience
    found = []
    try:
        for process in processes:
            output, errors = process.communicate(timeout=last - time.monotonic())
            found.append((process.returncode, output, errors))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return found


def run(program, size, *arguments, through=(), **environment):
    """The outputs of a program's ranks, all of which must succeed."""
    found = finish(start(program, size, *arguments, through=through, **environment))
    for rank, (status, output, errors) in enumerate(found):
        assert status == 0, f"rank {rank} of {size}:\n{output}\n{errors}"
    return [output for _, output, _ in found]
