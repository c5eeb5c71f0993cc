"""What becomes of a worker's process when the worker is stopped at a bad moment."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")


def test_a_worker_that_is_stopped_while_its_process_starts_ends_it(monkeypatch):
    from rushlight.serve import _pool

    started, goes_on = threading.Event(), threading.Event()

    class Process:
        """As slow to start as on a machine that is at work."""

        pid, killed, popen = None, 0, None

        def start(self):
            started.set()
            assert goes_on.wait(60)
            self.pid, self.popen = 1, self

        def kill(self):
            assert self.popen is not None
            self.killed += 1

        def join(self):
            pass

    process = Process()
    context = SimpleNamespace(Process=lambda **options: process)
    monkeypatch.setattr(_pool, "processes", lambda: context)
    model = SimpleNamespace(queue=SimpleNamespace(wake=lambda: None))

    async def stop_early():
        worker = _pool.Worker(model, 1)
        await asyncio.to_thread(started.wait, 60)
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0.05)
        goes_on.set()
        await stopping

    asyncio.run(stop_early())
    assert process.killed


def test_settings_keep_fractions_of_seconds_and_whole_counts():
    from rushlight.serve._registry import Settings, settings_from

    given = {"response_timeout": "2.5", "batch_size": "4", "max_batch_delay": 10}
    found = settings_from(Settings(), given)
    assert (found.response_timeout, found.max_batch_delay) == (2.5, 0.01)
    assert (found.batch_size, type(found.batch_size)) == (4, int)
