"""Counts of instructions: read, shown and compared as PyTorch does, taken by Valgrind."""

from __future__ import annotations

import os
import re
import shutil
from importlib import import_module

import pytest

import rushlight as rl
from rushlight.utils.benchmark.utils import timer
from rushlight.utils.benchmark.utils.valgrind_wrapper import _client, timer_interface
from rushlight.utils.benchmark.utils.valgrind_wrapper._profile import read_profile

torch = pytest.importorskip("torch", reason="the oracle is not installed")
OURS, THEIRS = (import_module(f"{lib.__name__}.utils.benchmark") for lib in (rl, torch))

# A program of three functions: main calls twice into work, which calls itself once and
# then a kernel that has no name. Names are written once, numbers stand for them later.
PROFILE = """\
# callgrind format
version: 1
creator: callgrind
positions: instr line
events: Ir
summary: 1000
ob=(1) /lib/program
fl=(1) /src/Python/main.c
fn=(1) main
0x10 1 100
+4 +1 20
cfi=(2) /src/Objects/work.c
cfn=(2) work
calls=2 0x40 7
+4 * 880
fi=(3) /src/inlined.h
* 3 5
fl=(2)
fn=(2)
0x40 7 300
cfn=(2)
calls=1 0x40 7
* * 250
cob=(2) ???
cfi=(4) ???
cfn=(3) 0x0000000000001010
calls=1 0x1010 0
+4 +2 80
ob=(2)
fl=(4)
fn=(3)
0x1010 0 75
* 0

totals: 500
"""


def counts(side, inclusive=False):
    rows = {
        "a/Python/ceval.c:eval [lib]": 900,
        "b/Objects/dictobject.c:lookdict_unicode [lib]": 120,
        "c/Python/ceval.c:eval [lib]": 33,
        "???:f" + "x" * 90 + " [m.so]": -7,
        **{f"g{i}.c:g": 5 + i for i in range(20)},
    }
    data = tuple(
        sorted((side.FunctionCount(n, k) for k, n in rows.items()), reverse=True)
    )
    return side.FunctionCounts(data, inclusive, _linewidth=60)


def body(text):
    return str(text).split("\n")[1:]


def test_functions_have_their_own_instructions_and_those_of_what_they_call():
    own, both = read_profile(PROFILE.splitlines(), {0x1000: "exp__f32"})
    main, work, kernel = (
        "/src/Python/main.c:main [/lib/program]",
        "/src/Objects/work.c:work [/lib/program]",
        "???:exp__f32 [???]",
    )
    assert own == {main: 125, work: 300, kernel: 75}
    assert both == {main: 500, work: 380, kernel: 75}  # no more than there are
    assert "???:0x0000000000001010 [???]" in read_profile(PROFILE.splitlines())[0]


def test_counts_are_shown_merged_and_chosen_from_as_in_pytorch():
    found = []
    for side in (OURS, THEIRS):
        one = counts(side)
        other = one.transform(lambda name: name.replace("c/", "a/"))
        halves = one * 0.5
        found.append(
            [
                *map(body, (one, other, one[:4], one - other, one + halves, halves)),
                body(one.filter(lambda name: name.startswith("g"))),
                body(one.denoise()),
                body(counts(side, True)),
                (one.sum(), len(other), tuple(one[0]), [tuple(row) for row in other]),
            ]
        )
        with pytest.raises(AssertionError, match="Cannot merge inclusive"):
            one + counts(side, True)
    for ours, theirs in zip(*found, strict=True):
        assert ours == theirs


def stats(side, **more):
    spec = side.Timer("x + 1", "x = 1", label="sum")._task_spec
    nothing = counts(side)[:2]
    return side.CallgrindStats(
        spec,
        100,
        True,
        nothing,
        nothing,
        counts(side, True),
        counts(side),
        "text",
        **more,
    )


def test_measurements_are_shown_and_compared_as_in_pytorch():
    ours, theirs = stats(OURS), stats(THEIRS)
    assert body(ours) == body(theirs)
    assert ours.counts() == theirs.counts()
    assert ours.counts(denoise=True) == theirs.counts(denoise=True)
    assert body(ours.as_standardized().stats()) == body(
        theirs.as_standardized().stats()
    )
    assert ours.as_standardized().stmt_callgrind_out is None
    assert body(ours.delta(ours)) == body(theirs.delta(theirs)) == ["", "Total: 0"]


def test_what_a_statement_sees_must_be_copied_openly():
    refusals = []
    for library, side in ((rl, OURS), (torch, THEIRS)):
        for program in (
            lambda side=side: side.Timer("x", globals={"x": 1}).collect_callgrind(),
            lambda side=side: side.Timer("x", "x = 1").collect_callgrind(repeats=0),
            lambda s=side, lib=library: s.CopyIfCallgrind(lib.ones(2)),
        ):
            with pytest.raises(ValueError) as caught:
                program()
            text = re.sub("<class '.*'>", "", str(caught.value))
            refusals.append(text.partition("following types")[0])
    assert refusals[:3] == refusals[3:]
    with pytest.raises(NameError):
        OURS.Timer("y").collect_callgrind()


def test_without_valgrind_the_refusal_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(OSError, match="Missing: valgrind"):
        OURS.Timer("1 + 1").collect_callgrind()
    monkeypatch.setattr(_client, "is_supported", lambda: False)
    with pytest.raises(OSError, match="not supported on this platform"):
        OURS.Timer("1 + 1").collect_callgrind()


@pytest.mark.skipif(not _client.is_supported(), reason="x86-64's questions only")
def test_the_program_under_valgrind_has_the_statement_its_names_and_copies(
    tmp_path, monkeypatch
):
    asked = []
    monkeypatch.setattr(_client, "ask", lambda request: asked.append(request) or 1)
    layer = OURS.CopyIfCallgrind(rl.nn.Linear(2, 2), setup="import math")
    seen: dict = {"n": OURS.CopyIfCallgrind(3), "layer": layer}
    spec = OURS.Timer(
        "done.append(n)\nlayer(x)", "done = []\nx = torch.ones(2)", globals=seen
    )
    text = timer_interface._program(
        spec._task_spec,
        seen,
        str(tmp_path),
        number=250,
        repeats=2,
        collect_baseline=True,
    )
    names: dict = {}
    exec(compile(text, "statement.py", "exec"), names)
    assert len(names["done"]) == 10 + 2 * 250 and set(names["done"]) == {3}
    assert (tmp_path / "kernels.json").exists()
    turn = [_client.TOGGLE_COLLECT, _client.TOGGLE_COLLECT, _client.DUMP_STATS]
    assert (
        asked == [_client.RUNNING_ON_VALGRIND, _client.START_INSTRUMENTATION] + 3 * turn
    )
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="not appear to be running callgrind"):
        _client.begin()


@pytest.mark.skipif(
    not (os.environ.get("SWEEP") and shutil.which("valgrind")),
    reason="needs Valgrind and half a minute: `make sweep`",
)
def test_valgrind_counts_a_statement_and_names_its_kernels():
    found = timer.Timer(
        "x.exp()", "x = torch.ones(n)", globals={"n": OURS.CopyIfCallgrind(1000)}
    ).collect_callgrind(number=20, repeats=2, retain_out_file=True)
    for one in found:
        assert 20 * 500 < one.counts() < 20 * 100_000
        assert 0 < one.baseline_exclusive_stats.sum() < one.counts() / 4
        kernels = one.stats().filter(lambda name: "exp__f32" in name)
        assert kernels.sum() > 20 * 100
        assert "events: Ir" in one.stmt_callgrind_out
    assert abs(found[0].delta(found[1]).sum()) < 0.05 * found[0].counts()
    absent = OURS.CopyIfCallgrind(1, setup="import nothing_of_that_name")
    with pytest.raises(OSError, match="No module named 'nothing_of_that_name'"):
        timer.Timer("n", globals={"n": absent}).collect_callgrind(number=1)
