"""Compiling a kernel says nothing to the user, whatever LLVM makes of its loops."""

import os
import subprocess
import sys

PROGRAM = """
import rushlight as rl
from rushlight.nn import functional as F

for width in (3, 5, 7, 9, 11):
    x = rl.rand(1, 2, width, width).requires_grad_()
    F.avg_pool2d(x, 3, stride=2).sum().backward()
    F.avg_pool2d(x, 2, padding=1, count_include_pad=False).sum().backward()
    F.max_pool2d(x, 2, stride=2).sum().backward()
    F.lp_pool1d(x[0], 2, 2).sum().backward()
    F.local_response_norm(x, 2).sum().backward()
"""


def test_pooling_with_rows_of_a_few_elements_compiles_silently(tmp_path):
    env = os.environ | {"RUSHLIGHT_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
