"""When a rank fails, all others say which, at what, within a second."""

import json
import time

import pytest

from tests.distributed.launching import run

SIZE, SECONDS = 3, 1.0
FOLDERS: dict = {}  # where the ranks have written their flight recorders
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
HEARTBEAT = {"RUSHLIGHT_HEARTBEAT_TIMEOUT_SEC": "0.6"}  # between machines
CASES = [f"{fault}:40:1" for fault in (*LOST, *DIFFER)]
CASES += ["nan:40:0", "diverge:40:1"]
CASES += ["kill:300000:1", "kill:40:0", "stop:40:0", "ahead:40:1", "store:40:1"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What each rank said of each fault: case -> rank -> facts, all in three processes."""
    folder = FOLDERS.setdefault("faults", tmp_path_factory.mktemp("faults"))
    outputs = run("faults.py", SIZE, str(folder), *CASES, **HEARTBEAT)
    found = {case: [{} for _ in range(SIZE)] for case in CASES}
    for rank, output in enumerate(outputs):
        for line in output.splitlines():
            case, facts = json.loads(line)
            found[case][rank].update(facts)
    return found


@pytest.mark.parametrize(
    "case", [each for each in CASES if each[:4] in ("kill", "stop")]
)
def test_others_name_a_killed_or_stopped_rank_within_a_second(reports, case):
    fault, count, shared = case.split(":")
    said, patience = LOST[fault], SECONDS
    if case == "stop:40:0":  # on a machine of its own: known when it stays silent
        said = "rank 2 is lost: it has given no sign of life for 0."
        patience += float(HEARTBEAT["RUSHLIGHT_HEARTBEAT_TIMEOUT_SEC"])
    *others, culprit = reports[case]
    for each in others:
        assert said in each["said"], each
        assert f"all_reduce(sum) of float32[{count}] (sequence" in each["said"]
        assert each["states"][:2] == ["completed", "failed"]
        assert each["time"] - culprit["time"] < patience


@pytest.mark.parametrize("fault", ["raise", "leave", "message"])
def test_others_name_a_rank_that_fails_within_a_second(reports, fault):
    *others, culprit = reports[f"{fault}:40:1"]
    for each in others:
        assert LOST[fault].split(",")[0] in each["said"], each
        assert each["time"] - culprit["time"] < SECONDS
        words = (
            "recv from rank 2 (tag 0)" if fault == "message" else "sequence number 2"
        )
        assert words in each["said"] or "all_reduce" in each["said"]


@pytest.mark.parametrize("fault, shared", [("nan", 0), ("diverge", 1)])
def test_a_rank_that_diverges_is_named_with_what_is_nan(reports, fault, shared):
    words = {
        "nan": "1 of 40 elements that it gives to all_reduce(sum) of float32[40] are NaN",
        "diverge": "of the gradient of 1.weight are NaN in step 2",
    }
    *others, culprit = reports[f"{fault}:40:{shared}"]
    assert (
        "rank 2 has diverged: " in culprit["said"] and words[fault] in culprit["said"]
    )
    for each in others:
        assert "rank 2 is lost: it has diverged: " in each["said"], each
        assert words[fault] in each["said"]
        assert each["time"] - culprit["time"] < SECONDS


@pytest.mark.parametrize("fault", DIFFER)
def test_ranks_whose_collectives_differ_say_both(reports, fault):
    for each in reports[f"{fault}:40:1"]:
        assert "collectives differ at sequence number 2" in each["said"], each
        for text in DIFFER[fault]:
            assert text in each["said"]
    assert "rank 2" in reports[f"{fault}:40:1"][0]["said"]


def test_a_rank_that_calls_one_collective_more_says_who_has_left(reports):
    said = reports["ahead:40:1"][2]["said"]
    assert "all_reduce(sum) of float32[40] (sequence number 2)" in said
    assert "is lost: it has left the group" in said


def test_a_lost_store_is_named_by_every_rank_within_a_second(reports):
    began = reports["store:40:1"][2]
    for rank, each in enumerate(reports["store:40:1"]):
        assert f"rank {rank}, group 1 of ranks [0, 1, 2]: the store" in each["said"], (
            each
        )
        assert f"127.0.0.1:{each['port']}" in each["said"]
        assert each["time"] - began["time"] < SECONDS


def test_ranks_that_fail_leave_what_pytorchs_analysis_of_recorders_reads(reports):
    types = pytest.importorskip("torch.distributed.flight_recorder.components.types")
    loader = pytest.importorskip("torch.distributed.flight_recorder.components.loader")
    expected = {
        "shape": types.MatchState.SIZE_OR_SYNTAX_MISMATCH,
        "operator": types.MatchState.COLLECTIVE_TYPE_MISMATCH,
        "dtype": types.MatchState.COLLECTIVE_DTYPE_MISMATCH,
    }
    for fault, state in expected.items():
        prefix, ops = f"{fault}-40-1-rank", []
        for rank in range(SIZE):
            dump = loader.read_dump(prefix, str(FOLDERS["faults"] / f"{prefix}{rank}"))
            (config,) = dump["pg_config"].values()
            assert config == {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}
            entries = dump["entries"]
            assert [each["state"] for each in entries] == ["completed", "started"]
            ops.append([types.Op(each, {"0": {0, 1, 2}}, "0") for each in entries])
        first, second, culprit = ops
        assert first[0].match(culprit[0]).state is types.MatchState.FULLY_MATCHED
        assert first[1].match(second[1]).state is types.MatchState.FULLY_MATCHED
        assert first[1].match(culprit[1]).state is state, fault


def test_a_late_rank_is_named_after_the_timeout():
    began = time.monotonic()
    late, barrier = (each.partition("SAID ")[2] for each in run("late.py", 2))
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
