"""What libraries and the driver assume without asking: told, ordered, or refused."""

from __future__ import annotations

import os
import threading
import time

import pytest

import rushlight as rl
from rushlight.runtime.cpu import code_cache
from rushlight.runtime.cuda import cublas, driver
from tests.cuda.driver import Work


@pytest.mark.parametrize("shift", [0, 1, 4, 64])
def test_products_of_matrices_that_begin_anywhere_are_told_where(machine, shift):
    machine.start(memory=1 << 27)
    room = rl.randn(300)
    a, b = (
        room[shift : shift + 30].view(5, 6),
        room[100 + shift : 142 + shift].view(6, 7),
    )
    there = room.to("cuda")
    left = there[shift : shift + 30].view(5, 6)
    right = there[100 + shift : 142 + shift].view(6, 7)
    out = rl.empty(36 + shift, device="cuda")[1:36].view(5, 7)
    rl.mm(left, right, out=out)
    assert rl.allclose(out.cpu(), a @ b, atol=1e-5)
    told = [
        args[1]
        for name, args in machine.cublas_lt.calls
        if name == "matmul_preference_set_attribute"
    ]
    assert set(told) == {cublas.MOST_WORKSPACE, *cublas.LEAST_ALIGNMENTS}


def test_a_transform_is_not_begun_in_a_queue_that_another_thread_chose(machine):
    machine.start(memory=1 << 27)
    x = rl.randn(3, 8)
    there, results, inside = x.to("cuda"), {}, []
    rl.fft.fft(there).cpu()
    chosen = machine.cufft.set_stream

    def transform(name):
        with rl.cuda.stream(rl.cuda.Stream()):
            results[name] = rl.fft.fft(there)
            rl.cuda.current_stream().synchronize()
            results[name] = results[name].cpu()

    def set_stream(*args):
        found = chosen(*args)
        if not inside:
            inside.append(threading.Thread(target=transform, args=("second",)))
            inside[0].start()
            inside[0].join(0.3)
        return found

    machine.cufft.set_stream = set_stream
    os.environ["RUSHLIGHT_CUDA"] = "1"
    try:
        transform("first")
        inside[0].join()
    finally:
        del os.environ["RUSHLIGHT_CUDA"]
    order = [n for n in machine.cufft.names() if n in ("set_stream", "exec_c2c")]
    assert order[-4:] == ["set_stream", "exec_c2c"] * 2
    for found in results.values():
        assert rl.allclose(found, rl.fft.fft(x), atol=1e-5)


def test_a_thread_that_waits_finds_its_work_done_though_another_does_it(machine):
    machine.start(memory=1 << 27)
    begun, done = threading.Event(), []

    def slow():
        begun.set()
        time.sleep(0.1)
        done.append("work")

    queue = rl.cuda.Stream()
    with rl.cuda.stream(queue):
        rl.zeros(1, device="cuda")
    machine.fake.put(queue.cuda_stream, Work(slow))
    other = threading.Thread(target=rl.cuda.synchronize)
    other.start()
    begun.wait()
    queue.synchronize()
    assert done == ["work"]
    other.join()


def test_the_word_of_faults_is_empty_before_any_queue_writes_it(machine):
    for seed in range(6):
        machine.start(seed=seed)
        place = machine.card().fault_address()
        assert not machine.fake.pending()
        assert place % 16 == 0


def test_a_forked_process_is_refused_in_pytorchs_words(machine):
    x = rl.ones(3, device="cuda")
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            rl.ones(3, device="cuda")
            text = "nothing was raised"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writes, text.encode())
        os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with os.fdopen(reads) as file:
        found = file.read()
    assert found.startswith(
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
        "multiprocessing, you must use the 'spawn' start method"
    )
    assert not driver.in_bad_fork() and (x + 1).tolist() == [2.0] * 3


def test_packing_keeps_the_machine_code_of_devices_and_clearing_drops_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(code_cache, "directory", lambda: str(tmp_path))
    kept = tmp_path / ("ab" * 16 + code_cache.DEVICE_SUFFIX)
    kept.write_bytes(b"RLCUBIN1 and so on")
    code_cache.merge()
    assert kept.read_bytes() == b"RLCUBIN1 and so on"
    code_cache.clear()
    assert not kept.exists()
