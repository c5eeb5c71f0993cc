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
    "the end of an object that runs a program while it is planned": """
compiled = rl.compile(lambda x: shown(((x @ x).sin().cumsum(0) * 2).exp()))
from rushlight.graph import memory_plan
waiting, go, found, x = queue.Queue(), threading.Event(), [], rl.randn(3, 3)
main, replanned = threading.current_thread(), memory_plan.replanned
def shown(z):
    if threading.current_thread() is not main:
        waiting.put(z)
        assert go.wait(60)
    return z
class Last:
    def __del__(self):
        found.append(compiled(x))
        found.append(waiting.get(timeout=60).clone())  # the same program, of another thread
def replan(program, items):
    if not go.is_set():
        other = threading.Thread(target=compiled, args=(x,))
        other.start()
        Last()
        go.set()
        other.join(60)
    return replanned(program, items)
memory_plan.replanned = replan
for _ in range(12):
    compiled(x)
wanted = ((x @ x).sin().cumsum(0) * 2).exp()
assert len(found) == 2 and all(rl.allclose(one, wanted) for one in found), found
print("done")
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


# Programs change once they have run often: not while another thread is inside of them.
SHARED = """
import random, sys
from concurrent.futures import ThreadPoolExecutor
import rushlight as rl
from rushlight import nn
sys.setswitchinterval(1e-5)
dynamic = {"True": True, "None": None}[sys.argv[1]]
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
inputs = [rl.randn(random.choice([1, 2, 3, 7, 16]), 32) for _ in range(40)]
def gradients(run, x):
    return rl.autograd.grad(run(x).square().sum(), list(model.parameters()))
results = [model(x).detach() for x in inputs]
expected = [gradients(model, x) for x in inputs]
def work(number):
    chosen, wrong = random.Random(number), 0
    for _ in range(60):
        at, mode = chosen.randrange(len(inputs)), chosen.randrange(3)
        if mode == 2:
            pairs = zip(gradients(compiled, inputs[at]), expected[at], strict=True)
        else:
            with (rl.no_grad, rl.inference_mode)[mode]():
                pairs = [(compiled(inputs[at]), results[at])]
        wrong += not all(rl.allclose(a, b, 1e-4, 1e-4) for a, b in pairs)
    return wrong
for _ in range(4):
    compiled = rl.compile(model, dynamic=dynamic)
    with ThreadPoolExecutor(6) as pool:
        wrong = sum(pool.map(work, range(12)))
    assert not wrong, wrong
print("done")
"""


@pytest.mark.parametrize("dynamic", ["None", "True"])
def test_threads_that_call_one_compiled_model_get_its_numbers(dynamic):
    ended = subprocess.run(
        [sys.executable, "-c", SHARED, dynamic], capture_output=True, text=True
    )
    assert ended.stdout.strip() == "done", (ended.returncode, ended.stderr[-2000:])
