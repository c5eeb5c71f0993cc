"""Tensors of a compiled function, read, differentiated and let go of by another thread.

Each program runs in a process of its own: what may not happen ends the interpreter.
"""

import subprocess
import sys

import pytest

COMMON = """
import queue, threading
import rushlight as rl
given, made, faults = queue.Queue(), queue.Queue(), []
def worker():
    while True:
        item = given.get()
        if item is None:
            return
        try:
            made.put(work(item))
        except BaseException as error:
            faults.append(error)
            made.put(None)
def run(step, check, rounds=60, plain=None):
    thread = threading.Thread(target=worker)
    thread.start()
    compiled = rl.compile(step)
    for number in range(rounds):
        check(number, compiled)
    given.put(None)
    thread.join(60)
    assert not thread.is_alive() and not faults, faults
    print("done")
"""
PROGRAMS = {
    "an element read while the function goes on": """
def work(t): return t.item()
def step(x, w):
    y = (x * w).sin()
    given.put(y.sum().detach())
    return (y * 2).exp().sum()
def check(number, compiled):
    x, w = rl.randn(8), rl.randn(8, requires_grad=True)
    compiled(x, w).backward()
    assert abs(made.get(timeout=60) - float((x * w).sin().sum())) < 1e-4
run(step, check)
""",
    "operators on what waits": """
def work(t): return (t * 2 + 1).tolist()
def step(x):
    y = x + 1
    given.put(y)
    z = y * 3
    return z, made.get(timeout=60)
def check(number, compiled):
    x = rl.arange(4.) + number
    z, found = compiled(x)
    assert found == ((x + 1) * 2 + 1).tolist()
    assert rl.equal(z, (x + 1) * 3)
run(step, check)
""",
    "bytes, arrays, addresses and text of what waits": """
def work(t): return (bytes(t.untyped_storage()), t.numpy().sum(), t.data_ptr() != 0, repr(t))
def step(x):
    y = x + 1
    given.put(y)
    return y * 3
def check(number, compiled):
    x = rl.arange(4.) + number
    z = compiled(x)
    found = made.get(timeout=60)
    assert found[1] == float((x + 1).sum()) and found[2] and found[3] == repr(x + 1), found
    assert rl.equal(z, (x + 1) * 3)
run(step, check)
""",
    "a sweep back in another thread": """
def work(t):
    t.backward()
    return True
def step(x, w):
    return ((x * w).sin() ** 2).sum()
def check(number, compiled):
    x, w = rl.randn(8), rl.randn(8, requires_grad=True)
    given.put(compiled(x, w))
    for _ in range(3):
        compiled(x, w.detach())
    assert made.get(timeout=60)
    wanted, = rl.autograd.grad(step(x, w), w)
    assert rl.allclose(w.grad, wanted, atol=1e-6)
run(step, check)
""",
    "results let go of by another thread": """
def work(items):
    items.clear()
    return True
def step(x):
    y = x + 1
    given.put([y])
    del y
    return (x * 2).relu()
def check(number, compiled):
    x = rl.randn(64)
    assert rl.equal(compiled(x), (x * 2).relu())
    made.get(timeout=60)
run(step, check)
""",
    "the same function called by several threads": """
def work(x): return compiled_model(x)
rl.manual_seed(0)
model = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.Linear(16, 4))
compiled_model = rl.compile(model)
def step(x): return model(x).relu()
def check(number, compiled):
    x = rl.randn(3, 8)
    given.put(x)
    got = compiled(x)
    assert rl.allclose(got, model(x).relu(), atol=1e-5)
    assert rl.allclose(made.get(timeout=60), model(x), atol=1e-5)
run(step, check)
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_another_thread_may_use_a_compiled_functions_tensors(program):
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", COMMON + program],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.stdout.strip() == "done", (ran.returncode, ran.stderr[-2000:])
