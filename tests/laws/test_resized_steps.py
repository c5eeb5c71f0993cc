"""Steps of optimizers, lists and libraries refuse what lost its memory between two calls."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def test_steps_refuse_storages_that_were_freed_or_shrunk_below_them():
    run = subprocess.run(
        [sys.executable, "-m", "tests.resized_steps"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert re.fullmatch(r"[5-9]\d\d swept\n", run.stdout), run.stdout
