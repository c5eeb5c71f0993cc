"""The page of results: what a run keeps, and what the page makes of it."""

import os
import shutil
import subprocess
import sys
import threading
import zlib

import pytest

pytest.importorskip("torch")

from benchmarks import accuracy, harness, levels, page, static_throughput
from benchmarks.harness import Group, Result, Timing, others_run, settle
from benchmarks.startup import Measured
from rushlight.codegen.target import current


def kept_row(title, ratio, threads, level):
    timings = [Timing("a case", ratio, 1.0), Timing("broken", 1.0, 1.0, "no such call")]
    result = Result(Group(title, 0.8, []), timings)
    return page.row_of(result, threads, page.Run(level, f"made at {level}"))


def test_a_run_replaces_the_rows_that_it_measures_and_no_others(tmp_path):
    page.keep(
        [kept_row("sums", 0.5, 1, "v3"), kept_row("sums", 0.6, 2, "v3")], "v3", tmp_path
    )
    page.keep(
        [kept_row("sums", 2.0, 2, "v3"), kept_row("products", 3.0, 1, "v3")],
        "v3",
        tmp_path,
    )
    rows = page.kept(tmp_path)["v3"]
    assert [(row["title"], row["threads"], round(page.ratio_of(row), 6)) for row in rows] == [
        ("sums", 1, 0.5), ("sums", 2, 2.0), ("products", 1, 3.0),
    ]  # fmt: skip


def test_the_page_has_a_column_for_each_level_and_number_of_threads(tmp_path):
    run = page.Run("v4", "made at v4")
    fresh = page.row_of_fresh(Measured("import", 0.05, 1.0, "s", 0.06, True), run)
    page.keep([kept_row("sums", 0.5, 1, "v4"), fresh], "v4", tmp_path)
    page.keep([kept_row("sums", 1.5, 1, "v3")], "v3", tmp_path)
    file = tmp_path / "RESULTS.md"
    file.write_text("stale\n\n## Every case\n\nstale\n\n## Others\n\nkept\n")
    page.write(file, tmp_path)
    text = file.read_text()
    assert "| what | at most | v4, 1 thread | v3, 1 thread | slowest case |" in text
    assert "| sums | 0.8 | **0.50** | 1.50 | a case: 1.50 |" in text
    assert "| import | 0.06 s | **0.05 s** |  | 0.05 s to 1 s |" in text
    assert "| a case | 1.5 s | 1 s | **1.50** |" in text and "stale" not in text
    assert "- v4: made at v4\n- v3: made at v3\n" in text
    assert text.endswith("## Others\n\nkept\n")


def test_a_process_that_no_level_holds_starts_again_and_a_held_one_does_not(
    monkeypatch,
):
    started = []
    monkeypatch.setattr(os, "execve", lambda *given: started.append(given[2]))
    for name in levels.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    levels.hold("v3")
    assert started[0]["RUSHLIGHT_TARGET"] == "x86-64-v3"
    for name, value in levels.settings("v3").items():
        monkeypatch.setenv(name, value)
    levels.hold("v3")
    levels.hold("v2")
    assert [held["MKL_ENABLE_INSTRUCTIONS"] for held in started] == ["AVX2", "SSE4_2"]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's /proc")
def test_samples_wait_for_threads_that_still_look_for_work(monkeypatch):
    work = bytes(100_000_000)
    looking = threading.Thread(target=lambda: zlib.crc32(work))
    looking.start()
    while not others_run():
        assert looking.is_alive()
    looking.join()
    answers = [True, True, True, False, True]
    monkeypatch.setattr(harness, "others_run", lambda: answers.pop(0))
    settle()
    assert answers == [True]


HIDDEN_FROM_NUMPY = """
import ctypes, importlib.util, pathlib, sys
from benchmarks import hidden_instructions
hidden_instructions.COPIES = pathlib.Path(sys.argv[1])
hidden_instructions.RUNTIMES = {"numpy": ("_core/_multiarray_umath*.so",)}
package = pathlib.Path(importlib.util.find_spec("numpy").origin).parent
for library in package.with_name("numpy.libs").glob("*openblas*"):
    ctypes.CDLL(str(library))  # copies do not have it beside them
print(hidden_instructions.hide("v3"))
from numpy._core._multiarray_umath import __cpu_features__, __file__
print(*(__cpu_features__[feature] for feature in ("AVX2", "AVX512F")))
print(__file__.startswith(sys.argv[1]))
"""


@pytest.mark.skipif(
    shutil.which("objdump") is None or levels.level_of(current()) not in ("v3", "v4"),
    reason="needs objdump and a processor with AVX2",
)
def test_a_level_hides_wider_instructions_from_a_library_that_asks_the_processor(
    tmp_path,
):
    command = [sys.executable, "-c", HIDDEN_FROM_NUMPY, str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["True", "True", "False", "True"]


def test_errors_have_columns_for_each_level_that_a_run_left(tmp_path, monkeypatch):
    monkeypatch.setattr(accuracy, "ROWS", tmp_path)
    plain = accuracy.Row("exp", 0.52, 0.56)
    accuracy.keep("v3", "made at v3", [("float32", [plain])])
    accuracy.keep("v4", "made at v4", [("float32", [accuracy.Row("exp", 2.0, 0.5)])])
    accuracy.keep("v4", "made again", [("sums", [plain])])
    text = accuracy.page()
    assert "- v4: made again\n- v3: made at v3\n" in text
    assert "| exp | 2 | 0.5 | **0.52** | 0.56 |" in text
    assert "| exp | **0.52** | 0.56 | nan | nan |" in text


LOOP = """
.LBB0_1:
	vmovups	(%rdi), %zmm0
.LBB0_2:
	vfmadd231ps	%zmm1, %zmm0, %zmm2
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	addq	$16, %rax
	cmpq	%rcx, %rax
	jl	.LBB0_2
	jl	.LBB0_1
.LBB0_3:
	vmovups	%zmm2, (%rdi)
	jl	.LBB0_3
"""


def test_the_loop_that_is_analysed_is_the_innermost_with_most_vectors():
    body = static_throughput.loop_of(LOOP)
    assert [line.split()[0] for line in body] == [
        "vfmadd231ps", "vfmadd231ps", "addq", "cmpq", "jl",
    ]  # fmt: skip


@pytest.mark.skipif(static_throughput.analyser() is None, reason="needs llvm-mca")
def test_static_throughput_of_a_loop_is_counted_for_16_elements():
    cells = static_throughput.row(
        lambda kind, _: static_throughput.elementwise(*kind),
        static_throughput.ELEMENTWISE["add"],
    )
    assert len(cells) == sum(1 + len(c) for c in static_throughput.CORES.values())
    assert all(0.5 < float(cell) < 40 for cell in cells)
