"""When a rank fails, all others say which, at what, within a second."""

import os
import signal
import time

import pytest

from tests.distributed.launching import finish, run, start

SIZE, SECONDS = 3, 1.0
LOST = {
    "kill": "rank 2 is lost: its process has ended",
    "stop": "rank 2 is lost: its process",
    "raise": "rank 2 is lost: it raised ValueError: the loss is not finite",
    "leave": "rank 2 is lost: it has left the group",
    "message": "rank 2 is lost: its process has ended",
}
DIFFER = {
    "shape": ["all_reduce(sum) of float32[40]", "all_reduce(sum) of float32[41]"],
    "operator": ["all_reduce(sum) of float32[40]", "broadcast(root=0) of float32[40]"],
    "dtype": ["all_reduce(sum) of float32[40]", "all_reduce(sum) of float64[40]"],
}


def field(output, name):
    lines = [line for line in output.splitlines() if line.startswith(name)]
    return lines[-1].partition(" ")[2] if lines else ""


def outputs_of(fault, count=40, **environment):
    """What each rank printed; one that is stopped is ended when the others are."""
    processes = start("faults.py", SIZE, fault, str(count), **environment)
    others = finish(processes[:-1])
    culprit = processes[-1]
    if culprit.poll() is None and fault == "stop":
        os.kill(culprit.pid, signal.SIGKILL)
    return [output for _, output, _ in [*others, *finish([culprit])]]


@pytest.mark.parametrize("fault", LOST)
def test_others_name_a_lost_rank_within_a_second(fault):
    *others, culprit = outputs_of(fault)
    began = float(field(culprit, "TIME"))
    for output in others:
        said = field(output, "SAID")
        assert LOST[fault].split(",")[0] in said, said
        assert float(field(output, "TIME")) - began < SECONDS
        if fault == "message":
            assert "recv from rank 2 (tag 0)" in said or "all_reduce" in said
            continue
        assert "all_reduce(sum) of float32[40] (sequence number 2)" in said
        assert field(output, "STATES").split()[:2] == ["completed", "failed"]


@pytest.mark.parametrize("count", [40, 300_000])
def test_others_name_a_killed_rank_whatever_the_size(count):
    *others, culprit = outputs_of("kill", count)
    for output in others:
        assert LOST["kill"] in field(output, "SAID")


@pytest.mark.parametrize("fault", DIFFER)
def test_ranks_whose_collectives_differ_say_both(fault):
    outputs = outputs_of(fault)
    for output in outputs:
        said = field(output, "SAID")
        assert "collectives differ at sequence number 2" in said, outputs
        for text in DIFFER[fault]:
            assert text in said
    assert "rank 2" in field(outputs[0], "SAID")


def test_ranks_over_sockets_name_a_lost_rank():
    *others, culprit = outputs_of("kill", RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY="0")
    began = float(field(culprit, "TIME"))
    for output in others:
        assert LOST["kill"] in field(output, "SAID")
        assert float(field(output, "TIME")) - began < SECONDS


def test_a_late_rank_is_named_after_the_timeout():
    began = time.monotonic()
    late, barrier = (field(each, "SAID") for each in run("late.py", 2))
    assert "Timed out waiting 300ms for recv operation to complete" in late
    assert "waited for: ranks [1]" in late
    assert "Rank 1 failed to pass monitoredBarrier in 300 ms" in barrier
    assert time.monotonic() - began < 60


def test_processes_join_and_leave_again_and_again():
    assert [each.split() for each in run("again.py", 3)] == [["6.0"] * 8] * 3


def test_many_collectives_in_any_order_give_the_same_bits_on_all_ranks():
    over_memory = run("mixed.py", 3)
    over_sockets = run("mixed.py", 3, RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY="0")
    assert len({*over_memory, *over_sockets}) == 1
