"""Profiles of all threads: those that run before, those that start and those that end."""

from __future__ import annotations

import json
import threading

import pytest

import rushlight as rl
from rushlight.core import spans, state
from rushlight.dispatch.keys import DispatchKey
from rushlight.profiler import _ExperimentalConfig, profile, record_function

ALL = _ExperimentalConfig(profile_all_threads=True)


class Worker(threading.Thread):
    """A thread that runs functions which it is handed, one after the other."""

    def __init__(self):
        super().__init__(daemon=True)
        self.asked, self.done = threading.Event(), threading.Event()
        self.start()

    def run(self):
        while self.asked.wait() and self.function:
            self.asked.clear()
            self.found = self.function()
            self.done.set()

    def do(self, function):
        self.function = function
        self.asked.set()
        self.done.wait()
        self.done.clear()
        return self.found

    def end(self):
        self.function = None
        self.asked.set()
        self.join()


def recorded(lib_state=state):
    return lib_state.included_keys() >> DispatchKey.Profiling & 1


def named(prof, name):
    return [event for event in prof.events() if event.name == name]


def test_all_threads_are_recorded_where_the_settings_say_so(tmp_path):
    worker = Worker()
    worker.do(lambda: rl.ones(2).exp())
    later = threading.Thread(target=lambda: rl.ones(2).tan())
    with profile(experimental_config=ALL, profile_memory=True) as prof:
        worker.do(lambda: rl.ones(2).cos())
        later.start()
        later.join()
        rl.ones(2).sin()
    numbers = {name: named(prof, f"aten::{name}")[0].thread for name in ("cos", "tan")}
    numbers["sin"] = named(prof, "aten::sin")[0].thread
    assert len(set(numbers.values())) == 3
    assert {k.owner for k in prof.profiler._kernels} >= {worker.ident}
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    cos = next(r for r in rows if r["name"] == "aten::cos")
    assert cos["tid"] == worker.native_id
    names = [r["args"]["name"] for r in rows if r["name"] == "thread_name"]
    assert sum(name.startswith("kernels of thread") for name in names) >= 2
    assert all(r["tid"] < 1 << 31 for r in rows if isinstance(r.get("tid"), int))
    worker.end()


def test_no_thread_is_recorded_any_more_when_the_profile_is_over():
    worker = Worker()
    with profile(experimental_config=ALL) as prof:
        assert worker.do(recorded) and recorded()
        prof.toggle_collection_dynamic(False, [])
        assert not worker.do(recorded) and not recorded()
        worker.do(lambda: rl.ones(2).cos())
        prof.toggle_collection_dynamic(True, [])
        assert worker.do(recorded) and recorded()
    assert not worker.do(recorded) and not recorded()
    assert not named(prof, "aten::cos")
    started = Worker()
    assert not started.do(recorded)
    with profile() as prof:
        assert not worker.do(recorded) and recorded()
    worker.end(), started.end()


def test_a_thread_that_puts_its_keys_back_later_stops_at_its_next_call():
    with profile(experimental_config=ALL):
        kept = state.included_keys()
    state.include_keys(kept)
    assert recorded()
    assert rl.ones(2).sum().item() == 2
    assert not recorded() and not spans.is_recording()


def test_blocks_and_sweeps_of_other_threads_lie_in_their_own_rows():
    def step():
        with record_function("worker's step"):
            rl.ones(2, requires_grad=True).exp().sum().backward()
        return True

    worker = Worker()
    with profile(experimental_config=ALL) as prof:
        with record_function("main's wait"):
            assert worker.do(step)
            rl.ones(2)
    step_event = named(prof, "worker's step")[0]
    assert step_event.cpu_parent is None
    names = {child.name for child in step_event.cpu_children}
    assert "aten::exp" in names and any("ExpBackward0" in name for name in names)
    wait = named(prof, "main's wait")[0]
    assert [child.name for child in wait.cpu_children] == ["aten::ones"]
    worker.end()


def test_another_thread_may_not_record_what_is_recorded():
    worker = Worker()

    def begin():
        with pytest.raises(RuntimeError, match="another profiler"):
            profile().__enter__()
        return True

    with profile(experimental_config=ALL):
        assert worker.do(begin)
    worker.end()


def test_threads_come_and_go_while_the_keys_of_all_are_set():
    stop = threading.Event()

    def come_and_go():
        while not stop.is_set():
            threads = [threading.Thread(target=state.included_keys) for _ in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]

    churn = threading.Thread(target=come_and_go)
    churn.start()
    for _ in range(200):
        with profile(experimental_config=ALL):
            pass
    stop.set()
    churn.join()
    assert not recorded()
