"""Groups of ranks whose cards exchange tensors, over an imagined libnccl."""

import ctypes
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from rushlight.runtime.cuda import nccl
from tests.cuda.nccl import HEADER, KINDS
from tests.distributed.launching import run

WHOLE = ["collectives", "training", "both"]
FAULTS = ["kill", "late", "shape", "operator"]
SECONDS = 1.0


def told(size, folder, cases):
    """What each rank said of each case: case -> rank -> facts."""
    found = {case: [{} for _ in range(size)] for case in cases}
    for rank, output in enumerate(run("cards.py", size, str(folder), *cases)):
        for line in output.splitlines():
            case, facts = json.loads(line)
            found[case][rank].update(facts)
    return found


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return told(2, tmp_path_factory.mktemp("cards"), WHOLE + FAULTS)


@pytest.mark.parametrize("case", WHOLE)
def test_two_cards_give_what_the_host_gives(reports, case):
    assert reports[case] == [{"whole": True}] * 2


def test_four_cards_train_as_one_process_with_the_whole_batch(tmp_path):
    cases = ["moves", "training"]
    found = told(4, tmp_path, cases)
    assert found == {case: [{"whole": True}] * 4 for case in cases}


def test_a_killed_rank_is_named_and_the_communicators_are_aborted(reports):
    other, culprit = reports["kill"]
    assert "rank 1 is lost: its process has ended" in other["said"]
    assert "all_reduce(sum) of float32[4] (sequence number 3)" in other["said"]
    assert other["ended"] - culprit["time"] < SECONDS
    assert "rank 1 is lost" in other["again"]
    assert other["aborted"]


def test_a_rank_that_does_not_begin_a_collective_is_named_when_it_is_late(reports):
    other, culprit = reports["late"]
    assert "Watchdog caught collective operation timeout" in other["said"]
    assert "have not begun it: ranks [1]" in other["said"]
    assert other["ended"] - culprit["time"] < 0.5 + SECONDS


@pytest.mark.parametrize(
    "case, theirs",
    [
        ("shape", "rank 1: all_reduce(sum) of float32[5]"),
        ("operator", "rank 1: broadcast(root=0) of float32[4]"),
    ],
)
def test_every_rank_says_how_collectives_differ(reports, case, theirs):
    for each in reports[case]:
        assert "collectives differ at sequence number 3" in each["said"]
        assert theirs in each["said"]
        assert "rank 0: all_reduce(sum) of float32[4]" in each["said"]
        assert each["ended"] - reports[case][1]["time"] < SECONDS


def test_the_library_that_is_not_there_is_named_with_the_remedy(monkeypatch):
    door = nccl.Nccl()
    monkeypatch.setattr(nccl, "_library_paths", lambda: iter(["/nowhere/libnccl.so.2"]))
    assert not door.present()
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in") as caught:
        door.call("ncclGroupStart")
    assert "pip install nvidia-nccl-cu12" in str(caught.value)


def test_functions_of_the_library_are_called_as_its_header_has_them():
    """Each parameter by its width and by whether it is an address."""
    sort = lambda kind: "address" if kind.__name__[:3] == "LP_" else kind.__name__  # noqa: E731
    plain = {"c_void_p": "address"}
    for name, arguments in HEADER.items():
        ours = [plain.get(sort(k), sort(k)) for k in nccl.SIGNATURES[name]]
        assert ours == [plain.get(sort(k), sort(k)) for k in arguments], name
    assert set(HEADER) == set(nccl.SIGNATURES)
    assert set(nccl.TYPES.values()) == set(KINDS)
    assert ctypes.sizeof(nccl.Identity) == 128


def test_the_installed_library_has_the_functions_and_the_numbers():
    spec = find_spec("nvidia")
    folders = [
        Path(each) / "nccl"
        for each in (spec.submodule_search_locations if spec else ())
    ]
    headers = [each / "include" / "nccl.h" for each in folders]
    headers = [each for each in headers if each.exists()]
    if not headers:
        pytest.skip("the wheel nvidia-nccl-cu12 is not installed")
    text = headers[0].read_text()
    for name, arguments in nccl.SIGNATURES.items():
        declared = re.search(rf"ncclResult_t\s+{name}\(([^)]*)\)", text)[1]
        count = len([each for each in declared.split(",") if each.strip()])
        assert count == len(arguments), name
    for word, number in {"Float32": 7, "Bfloat16": 9, "Avg": 4, "Max": 2}.items():
        assert re.search(rf"nccl{word}\s*=\s*{number}\b", text)
    assert nccl.Nccl().version() >= (2, 10, 0)
