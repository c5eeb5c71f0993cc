"""Progress is told on a terminal, and nothing is told in a log."""

from __future__ import annotations

import io
import sys
import time

import pytest

import rushlight as rl
from rushlight.utils.progress import Progress, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch):
    """Standard error from now on; pytest's own comes back between a fixture and its test."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("rushlight.core.progress.PAUSE", 0.0)
    return sys.stderr


def test_a_terminal_has_one_line_that_is_rewritten(monkeypatch):
    terminal = a_terminal(monkeypatch)
    assert list(progress([4, 5], "steps")) == [4, 5]
    lines = terminal.getvalue().split("\r")
    assert lines[1:] == ["steps: 1 of 2, 50%", "steps: 2 of 2, 100%"] + [
        "steps: 2 of 2, 100%\n"
    ]


def test_a_log_has_none(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert list(progress(iter(range(3)))) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""


def test_what_is_short_shows_no_line_and_what_is_over_leaves_none(monkeypatch):
    terminal = a_terminal(monkeypatch)
    with Progress("short", 3, after=60.0) as line:
        line.add()
    assert terminal.getvalue() == ""
    line = Progress("bytes", 4_000_000, 1_000_000, "B")
    line.add(1_000_000, "more bytes")
    assert str(line) == "more bytes: 2.0 of 4.0 MB, 50%"
    line.erase()
    text = "\rmore bytes: 2.0 of 4.0 MB, 50%"
    assert terminal.getvalue() == f"{text}\r{' ' * (len(text) - 1)}\r"
    line.close()
    assert terminal.getvalue().endswith(" \r")


def test_a_loop_that_is_left_ends_its_line(monkeypatch):
    terminal = a_terminal(monkeypatch)
    for _ in progress(range(5), "steps"):
        break
    assert terminal.getvalue() == ""
    loop = progress(range(5), "steps")
    next(loop), next(loop)
    loop.close()
    assert terminal.getvalue().endswith("steps: 1 of 5, 20%\n")


class Stack(rl.nn.Module):
    def forward(self, x):
        return x.exp().sin() + 1


@pytest.fixture
def at_once(monkeypatch):
    """Lines are shown without delay, on what the fixture gives: a terminal."""
    init = Progress.__init__

    def soon(self, *args, after=0.0, **kwargs):
        init(self, *args, after=0.0, **kwargs)

    monkeypatch.setattr(Progress, "__init__", soon)
    return lambda: a_terminal(monkeypatch)


@pytest.mark.parametrize(
    "program, line",
    [
        (lambda: rl.export.export(Stack(), (rl.ones(2),)), "export: 3 steps"),
        (
            lambda: rl.onnx.export(Stack(), (rl.ones(2),)),
            "ONNX: add: 4 of 5 steps, 80%",
        ),
    ],
)
def test_exports_count_their_steps_and_take_their_line_away(at_once, program, line):
    terminal = at_once()
    program()
    shown = terminal.getvalue()
    assert f"\r{line}" in shown and shown.endswith(" \r") and "\n" not in shown


class Slow(rl.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(0.3 if index == 0 else 0)
        return index


def test_loaders_tell_a_terminal_that_the_first_batch_is_awaited(at_once, monkeypatch):
    monkeypatch.setattr("rushlight.utils.data.parallel._GLANCE", 0.02)
    terminal = at_once()
    loader = rl.utils.data.DataLoader(Slow(), num_workers=2, batch_size=None)
    assert [int(x) for x in loader] == [0, 1, 2, 3]
    shown = terminal.getvalue()
    assert "\rDataLoader: first batches of 2 workers: " in shown
    assert shown.endswith(" \r") and "\n" not in shown


def test_a_late_batch_is_told_in_time_at_a_terminal_too(at_once):
    loader = rl.utils.data.DataLoader(
        Slow(), num_workers=1, batch_size=None, timeout=0.1
    )
    with pytest.raises(RuntimeError, match="timed out after 0.1 seconds"):
        list(loader)
