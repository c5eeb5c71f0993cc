"""Calls leave no memory behind, whether they end in results or in exceptions.

Nor do they read or write beside their operands' blocks, which guards surround: private
operators are called with whatever comes, too.

`python -m tests.flat` makes a million of them.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

LEAK = """
import sys
import rushlight as rl
from tests import flat

kept, play = [], flat.play

def leaking(seed, calls):
    play(seed, 50)
    kept.append(rl.ones(1000))

flat.play = leaking
sys.argv = ["flat", "--calls", "500", "--round", "100"]
sys.exit(flat.main())
"""


def run(*command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "RUSHLIGHT_GUARD": "1"},
    )


def test_thousands_of_random_calls_leave_memory_flat():
    ended = run("-m", "tests.flat", "--calls", "5000", "--round", "1000")
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]


def test_a_tensor_that_is_kept_each_round_shows():
    ended = run("-c", LEAK)
    assert ended.returncode == 1, ended.stdout + ended.stderr[-2000:]
    assert int(ended.stdout.split()[2]) >= 4000
