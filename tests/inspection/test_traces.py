"""What traces tell about threads and operators, ours and PyTorch's."""

from __future__ import annotations

import gzip
import json

import pytest

import rushlight as rl
from rushlight.inspection import TraceAnalysis, inspection_page
from rushlight.inspection._traces import covered

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def _trace(path, rows):
    names = [{"name": "thread_name", "ph": "M", "tid": 7, "args": {"name": "main"}}]
    spans = [
        {"ph": "X", "cat": cat, "name": name, "tid": tid, "ts": ts, "dur": dur}
        for cat, name, tid, ts, dur in rows
    ]
    path.write_text(json.dumps({"traceEvents": names + spans}))
    return TraceAnalysis(path)


def test_times_of_threads_add_up_to_the_traces_length(tmp_path):
    analysis = _trace(
        tmp_path / "trace.json",
        [
            ("cpu_op", "aten::a", 7, 0, 40),
            ("cpu_op", "aten::b", 7, 10, 20),
            ("cpu_kernel", "k", 100_000_007, 12, 10),
            ("cpu_kernel", "k", 100_000_007, 30, 5),
            ("pool_work", "k", 8, 13, 8),
            ("cpu_op", "aten::a", 7, 60, 40),
        ],
    )
    assert analysis.length == 100
    main, worker = analysis.threads()
    assert main == (7, "main", 15, 65, 20)
    assert worker == (8, "thread 8", 8, 0, 92)
    assert analysis.operators() == {"aten::a": (2, 60.0), "aten::b": (1, 20.0)}
    assert analysis.kernels() == {"k": (2, 15.0)}


def test_two_traces_differ_by_their_operators(tmp_path):
    first = _trace(tmp_path / "1.json", [("cpu_op", "aten::a", 7, 0, 10)])
    second = _trace(
        tmp_path / "2.json",
        [("cpu_op", "aten::b", 7, 0, 30), ("cpu_op", "aten::a", 7, 40, 15)],
    )
    changes = first.difference(second)
    assert [(c.name, c.counts, c.change) for c in changes] == [
        ("aten::b", (0, 1), 30.0),
        ("aten::a", (1, 1), 5.0),
    ]


def test_what_is_no_trace_is_refused_and_compressed_ones_are_read(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(ValueError, match="is no trace"):
        TraceAnalysis(tmp_path / "a.json")
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        json.dump({"traceEvents": []}, file)
    empty = TraceAnalysis(tmp_path / "a.json.gz")
    assert empty.length == 0 and empty.threads() == [] and empty.operators() == {}
    assert covered([]) == 0


def test_traces_of_both_libraries_are_read(tmp_path):
    analyses = []
    for side in (rl, torch):
        x = side.ones(64, 64)
        side.mm(x, x).exp()
        with side.profiler.profile() as prof:
            side.mm(x, x).exp()
        prof.export_chrome_trace(str(tmp_path / f"{side.__name__}.json"))
        analyses.append(TraceAnalysis(tmp_path / f"{side.__name__}.json"))
    ours, theirs = analyses
    counts = {c.name: c.counts for c in ours.difference(theirs)}
    assert counts["aten::mm"] == counts["aten::exp"] == (1, 1)
    assert ours.threads()[0].compute > 0
    assert "in kernels" in inspection_page(ours)
