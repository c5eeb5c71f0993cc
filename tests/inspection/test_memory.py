"""Memory that was recorded: who took it, what lived at the peak, and what stays."""

from __future__ import annotations

import json
import re

import pytest

import rushlight as rl
from rushlight.inspection import MemoryRecorder, memory_page
from rushlight.profiler import profile
from tests.inspection.browser import dumped, needs_browser

KIB = 1024


def _trained(steps=1, kept=None):
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(256, 512), rl.nn.ReLU(), rl.nn.Linear(512, 8))
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with MemoryRecorder() as memory:
        for _ in range(steps):
            out = model(rl.ones(64, 256))
            out.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if kept is not None:
                kept.append(out)  # keeps the graph of the step
            del out
            memory.step()
    return memory


def test_the_peak_is_what_the_allocator_counted():
    for _ in range(2):  # what is made once is made
        rl.cpu.reset_peak_memory_stats()
        with MemoryRecorder() as memory:
            a = rl.ones(512, KIB)
            b = (a + 1).mul(2).sum()
        assert b.item() == 4 * 512 * KIB
        del a, b
    peak = rl.cpu.memory_stats()["requested_bytes.all.peak"]
    assert memory.peak == peak
    held = sum(block.size for block in memory.live())
    assert memory.peak == memory.held_before + held
    assert held >= 3 * 512 * KIB * 4


def test_blocks_know_line_module_operator_and_pass():
    memory = _trained()
    of_relu = [b for b in memory.blocks if b.operator == "aten::relu"]
    assert {b.module for b in of_relu} == {"Sequential.1"}
    assert {b.size for b in of_relu} == {64 * 512 * 4}
    assert all("out = model(rl.ones(64, 256))" in b.line for b in of_relu)
    swept = [b for b in memory.blocks if b.backward and b.module == "Sequential.2"]
    assert 512 * 8 * 4 in {b.size for b in swept}
    assert all("model(rl.ones(64, 256))" in b.line for b in swept)
    assert any("backward()" in line for b in swept for line in b.stack)


def test_sums_by_line_module_and_operator_agree():
    memory = _trained()
    peak = sum(block.size for block in memory.live())
    taken = sum(block.size for block in memory.blocks)
    for kind in ("line", "module", "operator"):
        uses = memory.by(kind)
        assert sum(use.at_peak for use in uses) == peak
        assert sum(use.taken for use in uses) == taken
        assert all(use.at_peak <= use.largest <= use.taken for use in uses)
        assert uses[0].name in memory.table(kind)
    states = {use.name: use for use in memory.by("line")}
    momentum = next(use for name, use in states.items() if "optimizer.step()" in name)
    assert momentum.left >= 4 * (256 * 512 + 512 * 8)
    with pytest.raises(ValueError, match="is none of line, module, operator"):
        memory.by("beauty")


def test_what_outlives_its_step_is_named_and_nothing_else():
    assert _trained(steps=4).leaks() == []
    leaks = _trained(steps=4, kept=[]).leaks()
    (leak,) = leaks  # what a result's graph saves is freed by the backward pass
    assert leak.steps == (1, 2, 3) and leak.size == 3 * 64 * 8 * 4
    assert "out = model(rl.ones(64, 256))" in leak.line
    assert (leak.module, leak.operator) == ("Sequential.2", "aten::linear")


def test_memory_that_no_operator_takes_has_its_line():
    with MemoryRecorder() as memory:
        kept = rl.UntypedStorage(100 * KIB)
    block = next(b for b in memory.blocks if b.size == 100 * KIB)
    assert "rl.UntypedStorage(100 * KIB)" in block.line
    assert block.operator == "" and block.end_ns is None and len(kept) == 100 * KIB


def test_one_recorder_records_a_thread():
    with profile():
        with pytest.raises(RuntimeError, match="a profiler records this thread"):
            MemoryRecorder().__enter__()
    with MemoryRecorder() as memory:
        pass
    assert memory.blocks == [] and memory.peak == memory.held_before
    assert "0 B" not in memory.table()


def test_snapshots_are_json(tmp_path):
    memory = _trained()
    memory.dump(tmp_path / "memory.json")
    kept = json.loads((tmp_path / "memory.json").read_text())
    assert kept["peak"] == memory.peak and len(kept["blocks"]) == len(memory.blocks)
    assert kept["blocks"][0]["size"] == memory.blocks[0].size


CLICKS = """
const rows = () => document.querySelectorAll("#memory-live tr").length - 1;
const said = [document.getElementById("memory-now").textContent, rows()];
said.push(document.querySelectorAll("#memory-picture polygon").length > 0);
const kind = document.getElementById("memory-kind");
kind.value = "operator"; kind.onchange();
said.push([...document.querySelectorAll(".key")].map(k => k.textContent).join(","));
const picture = document.getElementById("memory-picture");
const box = picture.getBoundingClientRect();
picture.onclick({clientX: box.left}); said.push(rows());
document.getElementById("memory-peak").click(); said.push(rows());
document.title = "said " + said.join("|");
"""


@needs_browser
def test_a_browser_shows_what_lived_at_the_peak(tmp_path):
    with MemoryRecorder() as memory:
        a = rl.ones(512, KIB)
        (a + 1).sum().item()
    page = memory_page(memory, tmp_path / "memory.html", title="<memory>")
    assert (tmp_path / "memory.html").read_text() == page and "&lt;memory&gt;" in page
    text = dumped(page, CLICKS, tmp_path)
    said = re.search(r"<title>said (.*?)</title>", text).group(1).split("|")
    live = str(len(memory.live()))
    assert f"in {live} blocks" in said[0] and "4.0 MiB" in said[0]
    assert said[1] == said[5] == live and said[2] == "true"
    assert "aten::ones" in said[3] and "aten::add" in said[3]
    assert "(a + 1).sum().item()" in text
