"""``python -m rushlight.distributed.run`` starts, restarts and reports as torchrun does."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rushlight.distributed import HashStore
from rushlight.distributed import run as launcher
from rushlight.distributed.elastic.rendezvous.errors import (
    RendezvousClosedError,
    RendezvousTimeoutError,
)
from rushlight.distributed.elastic.rendezvous.rounds import Limits, Rounds
from rushlight.distributed.elastic.workers import streams_of
from tests.distributed.launching import PROGRAMS, ROOT, free_port

PROGRAM = str(PROGRAMS / "launched.py")
NAMES = [
    name
    for name in os.environ
    if name.startswith(("TORCHELASTIC", "PET_")) or name == "OMP_NUM_THREADS"
]


def start(*words):
    """The launcher with some options, its output in one text."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in NAMES:
        environment.pop(name)
    return subprocess.Popen(
        [sys.executable, "-m", "rushlight.distributed.run", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results(output):
    """The fields of each rank's line, in the order of the ranks."""
    lines = [line.partition("RESULT ")[2].split() for line in output.splitlines()]
    return sorted((line for line in lines if line), key=lambda each: int(each[3]))


def test_ranks_are_started_and_started_again_after_a_failure(tmp_path):
    process = start(
        *("--standalone", "--nproc-per-node", 2, "--max-restarts", 1),
        *("--log-dir", tmp_path, "--tee", "0:3,1:2", "--redirects", "1:1"),
        *(PROGRAM, 1),
    )
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "[default0]:RESULT 3 1 0 0 0 2 2 1" in output
    assert "[default1]:" in errors and "attempt 0 has failed" in errors
    (kept,) = tmp_path.rglob("attempt_1/1/stdout.log")
    assert kept.read_text() == "RESULT 3 1 1 1 0 2 2 1\n"
    (told,) = tmp_path.rglob("attempt_0/1/error.json")
    assert "ValueError: attempt 0 has failed" in told.read_text()


def test_a_failure_is_reported_with_the_rank_that_began_it():
    process = start("--standalone", "--nproc-per-node", 2, PROGRAM, 9)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    summary = errors[errors.index("launched.py FAILED") :]
    root = summary[summary.index("Root Cause (first observed failure):") :]
    assert "rank      : 1 (local_rank: 1)" in root
    assert "ValueError: attempt 0 has failed" in root
    assert "rank      : 0 (local_rank: 0)" in summary.replace(root, "")


def test_a_killed_program_goes_on_from_its_last_checkpoint(tmp_path):
    found = {}
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        words = ("--standalone", "--nproc-per-node", 2, "--max-restarts", 1)
        process = start(*words, PROGRAMS / "resumed.py", tmp_path / name, name)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        lines = sorted(x for x in output.splitlines() if x.startswith("RESULT"))
        found[name] = [line.split(" ", 4)[1:] for line in lines]
    assert [line[:3] for line in found["killed"]] == [["3", "1", "0"], ["3", "1", "1"]]
    assert [line[:3] for line in found["whole"]] == [["0", "0", "0"], ["0", "0", "1"]]
    weights = {line[3] for lines in found.values() for line in lines}
    assert len(weights) == 1  # to the last bit


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_two_machines_become_one_world_and_restart_together(backend):
    port, processes = free_port(), []
    for node in range(2):
        where = ["--master-port", port, "--node-rank", node]
        if backend == "c10d":
            where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
        words = ["--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", 1, *where]
        processes.append(start(*words, PROGRAM, 1))
    found = [each.communicate(timeout=120) for each in processes]
    assert [each.returncode for each in processes] == [0, 0], found
    lines = results("\n".join(output for output, _ in found))
    lines = [line for line in lines if line[1] == "1"]  # of the second attempt
    assert [line[:4] for line in lines] == [["3", "1", "0", "0"], ["3", "1", "0", "1"]]


def rounds_of(folder, count):
    """What the program said of so many rounds, once it has."""
    path, last = folder / "rounds", time.monotonic() + 120
    while time.monotonic() < last:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= count:
            return [line.split() for line in lines]
        time.sleep(0.02)
    raise AssertionError(f"{count} rounds have not come: {lines}")


def test_machines_come_and_go_and_training_goes_on_from_its_checkpoint(tmp_path):
    port = free_port()
    words = ["--nnodes", "1:2", "--max-restarts", 1, "--rdzv-backend", "c10d"]
    words += ["--rdzv-endpoint", f"127.0.0.1:{port}"]
    words += ["--rdzv-conf", "last_call_timeout=0.3,keep_alive_interval=0.5"]
    words += [PROGRAMS / "changing.py", tmp_path]
    first = start(*words)
    rounds_of(tmp_path, 1)
    second = start(*words)
    rounds_of(tmp_path, 2)
    second.send_signal(signal.SIGTERM)
    rounds_of(tmp_path, 3)
    (tmp_path / "stop").touch()
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 0, errors
    second.communicate(timeout=120)
    *rounds, end = rounds_of(tmp_path, 4)
    assert [line[1] for line in rounds] == ["1", "2", "1"]
    assert rounds[1][2] == "0"  # a machine that comes is no failure
    begun = [int(line[3]) for line in rounds]
    assert begun[0] == 0 and begun == sorted(set(begun))
    assert float(end[1]) == pytest.approx(
        int(end[2]), abs=1e-3
    )  # no step twice, or not


def test_a_machine_that_falls_silent_is_left_out_of_the_next_round():
    store, found = HashStore(), {}
    limits = Limits(1, 2, join=20, last_call=0.1, beat=0.02, misses=5)
    first, second = Rounds(store, limits, 3), Rounds(store, limits, 4)

    def join(name, rounds):
        found[name] = rounds.join()

    def together(*pairs):
        threads = [threading.Thread(target=join, args=pair) for pair in pairs]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    limits.last_call = 5
    together(("first", first), ("second", second))
    assert sorted(found["first"].facts) == [3, 4] == sorted(found["second"].facts)
    assert {found["first"].rank, found["second"].rank} == {0, 1}
    limits.last_call = 0.1
    second.stop()
    last = time.monotonic() + 10
    while not first.gone(first.state()) and time.monotonic() < last:
        time.sleep(0.02)
    assert first.gone(first.state()) == [found["second"].rank]
    first.reopen(0)
    assert first.join().facts == [3]
    third = Rounds(store, limits, 5)
    thread = threading.Thread(target=join, args=("third", third))
    thread.start()
    while not first.waiting():
        time.sleep(0.02)
    first.reopen(1, failed=True)
    again = first.join()
    thread.join()
    assert (again.facts, again.number, again.restarts) == ([3, 5], 2, 1) or (
        again.facts == [5, 3]
    )
    first.close("it has ended")
    with pytest.raises(RendezvousClosedError, match="it has ended"):
        Rounds(store, limits).join()
    for each in (first, third):
        each.stop()


def test_too_few_machines_are_counted():
    rounds = Rounds(HashStore(), Limits(2, 2, join=0.2, beat=0.05))
    with pytest.raises(RendezvousTimeoutError, match="1 of 2 machines have come"):
        rounds.join()
    rounds.stop()


def test_options_are_those_of_torchrun():
    theirs = pytest.importorskip("torch.distributed.run").get_args_parser()
    ours = launcher.get_args_parser()
    known = {flag for action in ours._actions for flag in action.option_strings}
    wanted = {flag for action in theirs._actions for flag in action.option_strings}
    assert wanted <= known
    assert streams_of("3", 2) == [3, 3] and streams_of("1:2", 3) == [0, 2, 0]
    for words in (["--nproc-per-node", "x", "a.py"], ["--nproc-per-node", "0", "a.py"]):
        with pytest.raises(ValueError, match="Unsupported nproc_per_node value"):
            launcher.job_of(ours.parse_args(words))
