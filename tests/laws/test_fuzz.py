"""A fixed thousand of the fuzzer's calls go as they go on PyTorch.

``tests/fuzz/open.json`` names the cases that do not yet, by number: none may join them,
and one that is mended leaves the list.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Of so many numbers, PyTorch's database and the operators present leave 1,000 calls.
NUMBERS = 1_400


def test_a_thousand_random_calls_go_as_on_pytorch(tmp_path):
    pytest.importorskip("torch", reason="the oracle is not installed")
    log = tmp_path / "differences.json"
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(NUMBERS)]
    ended = subprocess.run(
        [*command, "--jobs", "2", "--json", str(log)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    last = ended.stdout.rpartition("\nfuzz: ")[2]
    assert last, ended.stderr
    assert int(last.split()[0]) >= 1_000
    found = {
        str(number): f"{kind} {name}"
        for number, name, kind, _text, _case in json.loads(log.read_text())
    }
    known = json.loads((ROOT / "tests" / "fuzz" / "open.json").read_text())
    assert not {k: v for k, v in found.items() if known.get(k) != v}, ended.stdout
    assert not {k: v for k, v in known.items() if k not in found}, "mended: take it off"
