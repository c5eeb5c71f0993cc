"""Several machines, as network namespaces on one: what they share, and a pulled cable."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.distributed.launching import PROGRAMS, ROOT, finish

SIZE, BRIDGE, NETWORK = 3, f"rl{os.getpid() % 10**6}", "10.77.9"
PATIENCE = 1.0


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)


def space(rank):
    return f"{BRIDGE}-{rank}"


def connect():
    """A machine for each rank, all on one bridge of 1 Gb/s."""
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "up")
    for rank in range(SIZE):
        cable = f"{BRIDGE}v{rank}"
        ip("netns", "add", space(rank))
        ip(*f"link add {cable} type veth peer name eth0 netns {space(rank)}".split())
        ip("link", "set", cable, "master", BRIDGE, "up")
        inside = ("-n", space(rank))
        ip(*inside, "addr", "add", f"{NETWORK}.{rank + 1}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip(*inside, "link", "set", device, "up")
        subprocess.run(
            f"tc -n {space(rank)} qdisc add dev eth0 root tbf rate 1gbit burst 256k "
            "latency 50ms".split(),
            capture_output=True,
        )


@pytest.fixture(scope="module")
def machines():
    """Namespaces, where this user may make them."""
    if not (shutil.which("ip") and shutil.which("tc")):
        pytest.skip("ip and tc are not installed")
    with contextlib.ExitStack() as stack:
        quiet = {"capture_output": True}
        for rank in range(SIZE):
            stack.callback(subprocess.run, ["ip", "netns", "del", space(rank)], **quiet)
        stack.callback(subprocess.run, ["ip", "link", "del", BRIDGE], **quiet)
        try:
            connect()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"namespaces of networks are not permitted: {error.stderr}")
        yield


def start(*words):
    """The program on all machines; rank 0's has the store."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": f"{NETWORK}.1",
        "MASTER_PORT": "29511",
        "WORLD_SIZE": str(SIZE),
        "RUSHLIGHT_HEARTBEAT_TIMEOUT_SEC": str(PATIENCE),
    }
    return [
        subprocess.Popen(
            ["ip", "netns", "exec", space(rank), sys.executable, "-W", "ignore"]
            + [str(PROGRAMS / "machines.py"), *words],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(SIZE)
    ]


def test_machines_without_common_memory_compute_over_the_network(machines):
    for status, output, errors in finish(start("whole"), 60):
        assert status == 0, errors
        assert output.splitlines() == ["SHARED False", "READY"]


def test_a_machine_whose_cable_is_pulled_is_named_when_it_stays_silent(machines):
    processes = start("cut", "0.5")
    for process in processes:
        assert process.stdout.readline() == "SHARED False\n"
        assert process.stdout.readline() == "READY\n"
    ip("link", "set", f"{BRIDGE}v2", "down")
    pulled = time.time()
    for rank, (status, output, errors) in enumerate(finish(processes, 60)):
        assert status == 0, errors
        _, when, said = output.split(" ", 2)
        assert "no sign of life for 1." in said, said
        assert "all_reduce(sum) of float32[40] (sequence number" in said
        if rank < 2:
            assert f"rank {rank}, " in said and "rank 2 is lost" in said
            assert float(when) - pulled < PATIENCE + 1.0
