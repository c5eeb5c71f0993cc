"""What is set up when it is first used is set up for all threads that use it first."""

import subprocess
import sys

import pytest

COMMON = """
import sys
from concurrent.futures import ThreadPoolExecutor
import rushlight as rl
from rushlight import nn
sys.setswitchinterval(1e-5)
model, x = nn.Linear(4, 4), rl.randn(3, 4)
expected = model(x).detach()
def check(work):
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(lambda number: work(), range(24)))
    print("done")
"""
PROGRAMS = {
    "autocast": """
def work():
    with rl.autocast("cpu", dtype=rl.bfloat16):
        return model(x).dtype is rl.bfloat16
check(work)
""",
    "vmap": """
def work():
    return rl.allclose(rl.vmap(lambda row: model(row))(x), expected)
check(work)
""",
    "forward mode": """
from rushlight.func import jvp
def work():
    value, tangent = jvp(lambda row: (row * row).sum(), (x,), (rl.ones_like(x),))
    return rl.allclose(tangent, 2 * x.sum())
check(work)
""",
    "compile": """
compiled = rl.compile(model)
def work():
    with rl.no_grad():
        return rl.allclose(compiled(x), expected)
check(work)
""",
    "profiler": """
from rushlight.profiler import record_function
def work():
    with record_function("part"):
        return rl.allclose(model(x), expected)
check(work)
""",
    "fake tensors": """
from rushlight._subclasses.fake_tensor import FakeTensorMode
def work():
    with FakeTensorMode():
        return rl.empty(3, 4).sum(0).shape == (4,)
check(work)
""",
    "linear algebra": """
square = x.T @ x + rl.eye(4)
def work():
    return rl.allclose(rl.linalg.inv(square) @ square, rl.eye(4), atol=1e-4)
check(work)
""",
    "transforms of Fourier": """
def work():
    return rl.allclose(rl.fft.ifft(rl.fft.fft(x)).real, x, atol=1e-5)
check(work)
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_threads_may_be_the_first_to_use_it_together(program):
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMON + program],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.stdout.strip() == "done", (ended.returncode, ended.stderr[-2000:])
