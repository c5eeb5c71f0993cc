"""Logs have PyTorch's names, tell their reasons, and stay silent where none is wanted."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

import rushlight as rl
from rushlight.core import logs


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("RUSHLIGHT_LOGS", "TORCH_LOGS"):
        monkeypatch.delenv(name, raising=False)
    yield
    logs.set_wanted([])


def test_every_name_of_pytorchs_is_known():
    pytest.importorskip("torch", reason="the oracle is not installed")
    from torch._logging._internal import log_registry

    names = {*log_registry.log_alias_to_log_qnames, *log_registry.artifact_names, "all"}
    assert [name for name in sorted(names) if not logs.is_known(name)] == []
    assert all(set(logs.names_of(name)) <= set(logs.LOGS) for name in logs.ALIASES)


def test_names_are_switched_by_programs_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    for side in (rl, torch):
        with pytest.raises(
            TypeError, match="unexpected keyword argument 'no_such_log'"
        ):
            side._logging.set_logs(no_such_log=True)
        with pytest.raises(
            ValueError, match="Unrecognized log or artifact name passed"
        ):
            side._logging.set_logs(modules={"no_such_module": 10})
    rl._logging.set_logs(graph_breaks=True, modules={"rushlight.nn": 10})
    assert [name for name, log in logs.LOGS.items() if log.active] == ["graph_breaks"]
    rl._logging.set_logs(all=10)
    assert all(log.active for log in logs.LOGS.values())


def test_the_environment_is_stronger_and_takes_names_away(monkeypatch):
    monkeypatch.setenv("TORCH_LOGS", "+inductor,-output_code,rushlight.nn")
    logs.read_environment()
    wanted = ["fusion", "caching"]
    assert [name for name, log in logs.LOGS.items() if log.active] == wanted
    rl._logging.set_logs(graph=True)
    assert [name for name, log in logs.LOGS.items() if log.active] == wanted
    monkeypatch.setenv("RUSHLIGHT_LOGS", "beauty")
    with pytest.raises(
        ValueError, match="Invalid log settings: beauty, must be a comma"
    ):
        logs.read_environment()


def test_messages_go_to_the_file_that_is_named(tmp_path):
    path = tmp_path / "log.txt"
    environment = {
        **os.environ,
        "TORCH_LOGS": "graph_breaks",
        "TORCH_LOGS_OUT": str(path),
    }
    program = (
        "import rushlight as rl\n"
        "f = rl.compile(lambda x: x.sin() if x.sum() > 0 else x.cos())\n"
        "f(rl.ones(3)), f(rl.ones(3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stderr == "" and "[graph_breaks] " in path.read_text()


def test_help_tells_what_there_is(monkeypatch, capsys):
    monkeypatch.setenv("TORCH_LOGS", "help")
    logs.read_environment()
    told = capsys.readouterr().err
    assert all(log.about in told for log in logs.LOGS.values())


def test_slow_ways_are_told_with_their_reason_and_the_users_line(capsys):
    logs.set_wanted(["perf_hints"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rl.func.vmap(rl.linalg.lstsq)(rl.rand(2, 3, 3), rl.rand(2, 3, 1))
        draws = rl.func.vmap(lambda x: rl.bernoulli(x), randomness="different")
        draws(rl.rand(3, 2))
    told = capsys.readouterr().err
    assert "aten::linalg_lstsq runs 2 times: it has no batching rule\n  File " in told
    assert f'File "{__file__}", line ' in told
