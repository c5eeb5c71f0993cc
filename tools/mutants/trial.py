"""Runs the tests that reach a mutant, in a process that is forked with PyTorch loaded."""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
import time
from pathlib import Path

KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"


def preload():
    """Imports what most tests need, so that each trial starts in a fork of it.

    Plugins of pytest are not among it: their assertions are rewritten at import.
    """
    import contextlib

    for name in ("numpy", "pytest", "torch"):
        with contextlib.suppress(ImportError):
            __import__(name)
    if "rushlight" in sys.modules:
        raise RuntimeError("the package under test was imported before the mutant")


def run(tree: Path, tests: list[str], limit: float) -> tuple[str, str | None]:
    """Whether the tests see what was changed in the tree.

    Args:
        tree: the tree with the mutant in it; nothing of the package is imported yet.
        tests: the tests' ids.
        limit: seconds of the processor before the mutant counts as one that does not
            end; ten times as many may pass, on a machine that others use.

    Returns:
        ``killed``, ``survived`` or ``timed out``, and the test that failed, or None
        where it was not one test.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), -1))
        _run_tests(tree, tests, writing)
    os.close(writing)
    status = _wait(child, time.monotonic() + 10 * limit)
    with os.fdopen(reading) as answer:
        failed = answer.readline().strip() or None
    if status in (None, signal.SIGXCPU):
        return TIMED_OUT, failed
    return (KILLED if status else SURVIVED), failed


def _wait(child, deadline):
    """The status of a process, or None for one that was ended at the deadline."""
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class _Failures:
    """Writes the name of a test that fails to a pipe."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def pytest_runtest_logreport(self, report):
        if report.failed:
            os.write(self.descriptor, f"{report.nodeid}\n".encode())


def _run_tests(tree, tests, descriptor):
    """Ends the process with what pytest says."""
    os.setpgid(0, 0)
    os.chdir(tree)
    sys.path[:] = [str(tree), *(p for p in sys.path if p not in ("", os.getcwd()))]
    os.environ["PYTHONPATH"] = str(tree)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    status = 1
    try:
        import pytest

        options = ["-q", "-x", "-p", "no:cacheprovider", *tests]
        status = int(pytest.main(options, plugins=[_Failures(descriptor)]))
    finally:
        os._exit(status)
