"""Programs of other people's packages, which `make wild` installs in a place of their own.

Set ``WILD_PYTHON`` to an interpreter that has them; without it, the tests skip.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def wild(tmp_path):
    """Runs a program, a file or a text, under the launcher with the packages there.

    What packages write to the working directory goes to a folder of the test's.
    """
    python = os.environ.get("WILD_PYTHON")
    if not python:
        pytest.skip(
            "WILD_PYTHON names no interpreter with the packages: use `make wild`"
        )

    def run(program, *arguments, launched=True):
        start = ["-m", "rushlight.run"] if launched else []
        named = [program] if isinstance(program, Path) else ["-c", program]
        done = subprocess.run(
            [python, "-W", "ignore", *start, *named, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TQDM_DISABLE": "1"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
