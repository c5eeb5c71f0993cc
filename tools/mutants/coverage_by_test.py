"""Which tests run each line, and how long each test takes.

A pytest plugin that gives `coverage` the name of each test as its context; the answers
are kept with the digest of what they were measured on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

DATA = "MUTANTS_COVERAGE"


class Recorder:
    """Measures each test as a context of its own."""

    def __init__(self, data):
        import coverage

        self.data = data
        self.seconds = {}
        self.coverage = coverage.Coverage(
            data_file=data, source=["rushlight"], config_file=False
        )
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self.coverage.switch_context(item.nodeid)
        yield
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report):
        took = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.seconds[report.nodeid] = took
        if report.failed:
            self.seconds[report.nodeid] = float("inf")

    def pytest_sessionfinish(self):
        self.coverage.stop()
        self.coverage.save()
        Path(self.data + ".json").write_text(json.dumps(self.seconds), encoding="utf-8")


def pytest_configure(config):
    """Starts measuring before any test module is collected."""
    config.pluginmanager.register(Recorder(os.environ[DATA]))


def measure(tree: Path, tests: list[str], data: Path) -> None:
    """Runs tests of a tree once, two processes beside each other, and keeps who ran what.

    Args:
        tree: the repository, or a copy of it.
        tests: folders or files of tests.
        data: the folder for the answers.
    """
    data.mkdir(parents=True, exist_ok=True)
    parts = [tests[0::2], tests[1::2]]
    processes = []
    for number, part in enumerate(parts):
        if part:
            target = str(data / f"part{number}")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += ["-p", "tools.mutants.coverage_by_test", *part]
            environment = {**os.environ, DATA: target, "PYTHONPATH": str(tree)}
            with open(target + ".log", "w", encoding="utf-8") as log:
                started = subprocess.Popen(
                    command, cwd=tree, env=environment, stdout=log, stderr=log
                )
            processes.append(started)
    for process in processes:
        process.wait()


def load(data: Path):
    """What was measured.

    Returns:
        the tests that run each line, ``{path: {line: {test, …}}}``, and the seconds
        that each test that passed took.
    """
    from coverage import CoverageData

    seconds: dict[str, float] = {}
    reached: dict[str, dict[int, set]] = defaultdict(lambda: defaultdict(set))
    for found in sorted(data.glob("part*.json")):
        seconds |= json.loads(found.read_text())
        part = CoverageData(basename=str(found.with_suffix("")))
        part.read()
        for path in part.measured_files():
            short = path[
                path.rindex(
                    "rushlight/_generated" if "_generated" in path else "rushlight/"
                ) :
            ]
            for line, tests in part.contexts_by_lineno(path).items():
                reached[short][line].update(test for test in tests if test)
    passed = {test: took for test, took in seconds.items() if took < float("inf")}
    return reached, passed
