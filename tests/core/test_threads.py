"""Threads may call operators at once, also the ones that no one has called before."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import threading
import rushlight as rl

wrong = []

def work():
    for _ in range(20):
        a = rl.rand(120, 120)
        b = (a @ a).exp().sum(1)
        x = a.clone().requires_grad_()
        (x * x).sum().backward()
        if not rl.allclose(x.grad, 2 * a) or not rl.isfinite(b).all():
            wrong.append(b)

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(wrong))
"""


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("attempt", range(3))
def test_first_calls_from_several_threads_agree(attempt):
    done = run(PROGRAM)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_several_threads_may_compile_the_same_kernels(tmp_path):
    done = run(PROGRAM, RUSHLIGHT_CACHE=str(tmp_path))
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_a_forked_child_computes_with_threads_of_its_own():
    program = """
import os
import rushlight as rl

a = rl.ones(2000, 500)
assert (a + a).sum().item() == 2e6
child = os.fork()
if child == 0:
    os._exit(0 if (a + a).sum().item() == 2e6 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run(program)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
