"""Kernels, threads of the pool, and what is compiled have spans of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import rushlight as rl
from rushlight.core import spans
from rushlight.profiler import profile


def _recorded(function, **options):
    function()
    with profile(**options) as prof:
        function()
    prof.events()
    return prof


def test_launches_have_the_kernels_name_and_lie_in_the_operator():
    x = rl.randn(100)
    prof = _recorded(lambda: x.exp().sum())
    kernels = prof.profiler._kernels
    launches = [kernel for kernel in kernels if not kernel.worker]
    assert [k.event.name for k in launches] == ["aten::exp", "aten::sum"]
    assert "exp" in launches[0].name and launches[0].size == 100
    for kernel in launches:
        assert kernel.event.start_ns <= kernel.start_ns
        assert kernel.start_ns <= kernel.end_ns <= kernel.event.end_ns


def _with_workers():
    """A recording in which threads of the pool took part."""
    before = rl.get_num_threads()
    rl.set_num_threads(2)
    try:
        x = rl.randn(2_000_000)
        for _ in range(20):  # a worker that the system wakes too late has nothing to do
            prof = _recorded(lambda: [x.exp() for _ in range(5)])
            if any(kernel.worker for kernel in prof.profiler._kernels):
                break
    finally:
        rl.set_num_threads(before)
    return prof


def test_threads_of_the_pool_have_rows_of_their_own_with_arrows_from_the_launch(
    tmp_path,
):
    prof = _with_workers()
    kernels = prof.profiler._kernels
    work = [kernel for kernel in kernels if kernel.worker]
    assert work
    for kernel in work:
        launch = kernels[kernel.launch]
        assert launch.event.name == "aten::exp" and launch.name == kernel.name
        assert launch.start_ns <= kernel.start_ns <= kernel.end_ns <= launch.end_ns
        assert kernel.size >= 1 and kernel.thread
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {r["tid"]: r["args"]["name"] for r in rows if r["name"] == "thread_name"}
    of_work = [r for r in rows if r.get("cat") == "pool_work"]
    of_kernels = [r for r in rows if r.get("cat") == "cpu_kernel"]
    assert len(of_work) == len(work) and len(of_kernels) >= 5
    assert all(names[r["tid"]].startswith("pool worker 1") for r in of_work)
    assert all(names[r["tid"]].startswith("kernels of thread") for r in of_kernels)
    operators = {r["args"]["External id"]: r for r in rows if r.get("cat") == "cpu_op"}
    assert operators[of_kernels[0]["args"]["External id"]]["name"] == "aten::exp"
    flows = [r for r in rows if r.get("cat") == "launch"]
    starts = {(r["tid"], r["ts"]) for r in [*of_work, *of_kernels]}
    assert len(flows) == 2 * len(work)
    assert all((r["tid"], r["ts"]) in starts for r in flows)


def test_kernels_of_other_threads_and_of_pauses_are_left_out():
    x = rl.randn(10)
    x.sin(), x.cos()
    with profile() as prof:
        x.sin()
        prof.toggle_collection_dynamic(False, [])
        x.cos()
        prof.toggle_collection_dynamic(True, [])
    prof.events()
    assert len(prof.profiler._kernels) == 1
    x.cos()
    assert spans.kernels() == ([], 0) or len(spans.kernels()[0]) == 1


def test_kernels_beyond_the_room_are_counted():
    x = rl.ones(4)
    y = x + 1
    with profile() as prof:
        for _ in range(spans.KERNELS_KEPT // 100):
            x.add_(y)
    prof.events()
    assert len(prof.profiler._kernels) == spans.KERNELS_KEPT // 100
    assert prof.profiler._kernels_left_out == 0


_FRESH = """
import rushlight as rl
x = rl.ones(3)
f = rl.compile(lambda x: x.sin() * 3 + x.cos())
with rl.profiler.profile() as prof:
    (x + 1.5).sum()
    f(x), f(x)
print([e.name for e in prof.events() if e.is_user_annotation])
"""


def test_compilers_and_caches_are_spans(tmp_path):
    environment = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)}
    environment["RUSHLIGHT_LOGS"] = "caching"
    said = []
    for _ in range(2):  # nothing is there, then all of it
        done = subprocess.run(
            [sys.executable, "-c", _FRESH],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        said.append((done.stdout, done.stderr))
    (first, log), (second, read) = said
    assert "torch.compile: " in first and "torch.compile: " in second
    assert "kernel_cache::compile " in first and "kernel_cache::lower " in first
    assert "kernel_cache::compile " not in second and "kernel_cache::load " in second
    assert (
        "compiled: nothing with its digest; kept in" in log
        and "lowered: no note" in log
    )
    assert "compiled" not in read and ": read, " in read
