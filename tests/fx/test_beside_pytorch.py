"""Graphs, their code and their refusals are PyTorch's, to the letter."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.fx import runner

TITLES = [title for title, _ in runner.programs()]


def ask(framework):
    """What every program shows with a framework."""
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fx.runner", framework],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def both():
    pytest.importorskip("torch")
    return ask("rushlight"), ask("torch")


@pytest.mark.parametrize("title", TITLES)
def test_program_shows_what_it_shows_with_pytorch(both, title):
    ours, theirs = both
    assert ours[title] == theirs[title]
