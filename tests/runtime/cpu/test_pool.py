"""The thread pool: every index once, on any number of threads."""

import array
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.runtime.cpu import code_cache, pool
from rushlight.runtime.cpu.launch import NativeKernel, launch
from tests.runtime.cpu.kernels import ADD_INDEX, object_file


@pytest.fixture(scope="module")
def add_index():
    """out[i] += i, over int64."""
    return code_cache.load_or_build(
        ("tests", "add_index", ADD_INDEX),
        "add_index",
        lambda: object_file(ADD_INDEX.format(name="add_index")),
    )


@pytest.fixture(autouse=True)
def same_number_of_threads_afterwards():
    before = pool.get_num_threads()
    yield
    pool.set_num_threads(before)


def zeros(count):
    return array.array("q", bytes(8 * count))


def run(kernel, count, grain):
    out = zeros(count)
    launch(kernel, (out.buffer_info()[0],), (), count, grain)
    return out.tolist()


@settings(deadline=None)
@given(
    count=st.integers(0, 5000),
    grain=st.integers(1, 700),
    threads=st.sampled_from([1, 2, 5]),
)
def test_every_index_is_visited_once(add_index, count, grain, threads):
    pool.set_num_threads(threads)
    assert run(add_index, count, grain) == list(range(count))


def test_many_callers_share_the_pool(add_index):
    pool.set_num_threads(8)
    wrong = []

    def work(seed):
        for step in range(100):
            count = 20_000 + 13 * step
            if run(add_index, count, 97 + seed) != list(range(count)):
                wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def switches():
    """How often each thread but the first went to sleep or was put aside."""
    tasks = (t for t in Path("/proc/self/task").iterdir() if int(t.name) != os.getpid())
    return {t.name: (t / "status").read_text().rpartition("\nvol")[2] for t in tasks}


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_no_more_workers_wake_than_there_are_shares(add_index):
    pool.set_num_threads(8)
    run(add_index, 80_000, 100)
    for shares in (2, 3):
        time.sleep(0.05)
        asleep = switches()
        assert len(asleep) >= 7
        run(add_index, 100_000, 100_000 // shares + 1)
        time.sleep(0.05)
        woken = [name for name, count in switches().items() if asleep[name] != count]
        assert len(woken) < shares, woken


ROUNDS = """
import os, threading, time
import rushlight as rl

def processor_of(thread):
    stat = open(f"/proc/self/task/{thread}/stat").read()
    return int(stat.rpartition(")")[2].split()[36])

rl.set_num_threads(2)
own = threading.get_native_id()
before = set(os.listdir("/proc/self/task"))
x = rl.rand(256, 256)
rl.mm(x, x)
(worker,) = set(os.listdir("/proc/self/task")) - before
os.sched_setaffinity(own, {processor_of(own)})  # other work would move the caller, too
together = 0
for _ in range(100):
    time.sleep(0.003)
    for _ in range(5):
        rl.mm(x, x)
    together += processor_of(worker) == processor_of(own)
print(together)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2,
    reason="a second processor is needed, and threads are seen in /proc",
)
def test_a_worker_leaves_the_processor_that_its_caller_runs_on():
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS], capture_output=True, text=True
    )
    assert int(done.stdout) <= 20, done.stderr


@pytest.mark.filterwarnings("ignore:This process .* multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own(add_index):
    pool.set_num_threads(4)
    expected = list(range(50_000))
    assert run(add_index, 50_000, 100) == expected
    child = os.fork()
    if child == 0:
        right = all(run(add_index, 50_000, 100) == expected for _ in range(20))
        os._exit(0 if right else 1)
    assert run(add_index, 50_000, 100) == expected
    assert os.waitpid(child, 0)[1] == 0


def test_a_kernel_within_a_kernel_runs_inline(add_index):
    import ctypes

    pool.set_num_threads(4)
    out = zeros(4000)
    base = out.buffer_info()[0]
    signature = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    )

    def outer(data, ints, begin, end):
        for row in range(begin, end):
            launch(add_index, (base + 8000 * row,), (), 1000, 10)
        return 0

    callback = signature(outer)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    launch(NativeKernel("outer", address, callback), (), (), 4, 1)
    assert out.tolist() == list(range(1000)) * 4


def test_the_number_of_threads_is_positive():
    with pytest.raises(RuntimeError, match="positive, got 0"):
        pool.set_num_threads(0)
    pool.set_num_threads(3)
    assert pool.get_num_threads() == 3


def test_the_default_follows_the_environment_then_affinity_and_quota(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_NUM_THREADS", "3")
    assert pool.default_num_threads() == 3
    monkeypatch.delenv("RUSHLIGHT_NUM_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert pool.default_num_threads() == 5
    monkeypatch.delenv("OMP_NUM_THREADS")
    usable = len(os.sched_getaffinity(0))
    expected = min(usable, math.ceil(min(pool.quota(), usable)))
    assert pool.default_num_threads() == max(1, expected)


def test_launch_takes_many_operands_and_refuses_others(add_index):
    out = zeros(10)
    address = out.buffer_info()[0]
    operands = [address, None, add_index] + [0] * 40
    launch(add_index, operands, list(range(100)), 10, 100)
    assert out.tolist() == list(range(10))
    with pytest.raises(TypeError, match="not str"):
        launch(add_index, ("x",), (), 10, 100)
    with pytest.raises(TypeError):
        launch(None, (address,), (), 10, 100)
