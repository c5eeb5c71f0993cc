"""Programs in the manner of PyTorch's examples, run by the launcher as they are.

``printed`` has what each prints over PyTorch 2.13: ``python tests/graph/NAME.py``
there. Numbers may differ by rounding, words may not.
"""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in (HERE / "printed").glob("*.txt"))
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]\d+)?|[-+]?nan|[-+]?inf")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_what_they_print_over_pytorch(name):
    program = HERE / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "rushlight.run", program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    wanted = (HERE / "printed" / f"{name}.txt").read_text()
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", wanted)
    found, numbers = NUMBER.findall(done.stdout), NUMBER.findall(wanted)
    assert all(map(math.isfinite, map(float, found)))
    assert [float(number) for number in found] == pytest.approx(
        [float(number) for number in numbers], rel=2e-3, abs=2e-4
    )
