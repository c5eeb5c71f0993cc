"""The modules below a launcher do what PyTorch's do."""

import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest

from rushlight.distributed import DistStoreError, HashStore
from rushlight.distributed.elastic import events, metrics, timer, utils
from rushlight.distributed.elastic import rendezvous as ours
from rushlight.distributed.elastic.multiprocessing import Std, to_map
from rushlight.distributed.elastic.utils import data, store
from tests.distributed.launching import PROGRAMS, ROOT, free_port


def theirs(name):
    pytest.importorskip("torch")
    return importlib.import_module(f"torch.distributed.elastic.{name}")


def test_events_are_pytorchs_texts_both_ways():
    module = theirs("events")
    facts = {"name": "started", "timestamp": 7, "metadata": {"a": 1, "b": None}}
    one = events.Event(source=events.EventSource.AGENT, **facts)
    other = module.Event(source=module.EventSource.AGENT, **facts)
    assert str(one) == one.serialize() == other.serialize()
    assert events.Event.deserialize(other.serialize()) == one
    facts = {"name": "n", "run_id": "r", "message": "m", "hostname": "h", "pid": 3}
    one = events.RdzvEvent(node_state=events.NodeState.FAILED, rank=1, **facts)
    other = module.RdzvEvent(node_state=module.NodeState.FAILED, rank=1, **facts)
    assert one.serialize() == other.serialize()
    assert events.RdzvEvent.deserialize(other.serialize()) == one
    assert str(events.NodeState.INIT) == str(module.NodeState.INIT)
    events.record(events.Event("quiet", events.EventSource.WORKER))


def test_metrics_are_published_under_pytorchs_names(capsys):
    printed = []
    for module in (metrics, theirs("metrics")):
        module.configure(module.ConsoleMetricHandler(), "own")

        @module.prof(group="own")
        def work(fails, module=module):
            module.put_metric("inner", 3, "own")
            if fails:
                raise ValueError("asked for")

        work(False)
        with pytest.raises(ValueError, match="asked for"):
            work(True)
        module.put_metric("unseen", 1)
        lines = capsys.readouterr().out.splitlines()
        words = [line.partition("]")[2].partition("=") for line in lines]
        printed.append(
            [(name, "duration" in name or value) for name, _, value in words]
        )
    assert printed[0] == printed[1] and len(printed[0]) == 6


def test_samples_go_on_from_a_place_as_pytorchs():
    module = theirs("utils.data")
    for start in (0, 4, 15):
        for rank in range(3):
            options = {"num_replicas": 3, "rank": rank, "start_index": start}
            one = data.ElasticDistributedSampler(range(18), **options)
            other = module.ElasticDistributedSampler(range(18), **options)
            one.set_epoch(2)
            other.set_epoch(2)
            assert list(one) == list(other) and len(one) == len(other)
    few = [data.ElasticDistributedSampler(range(18), 3, rank, 17) for rank in range(3)]
    assert [list(each) for each in few] == [[17]] * 3  # PyTorch's fails there
    with pytest.raises(ValueError, match="Start index 18 should be less than"):
        data.ElasticDistributedSampler(range(18), 3, 0, 18)


def test_small_things_are_pytorchs(monkeypatch):
    module = theirs("utils")
    words = ["--rank", "${local_rank}", "${other}", 3]
    assert utils.macros.substitute(words, "1") == module.macros.substitute(words, "1")
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(ValueError, match="NOWHERE expected, but not set"):
        utils.get_env_variable_or_raise("NOWHERE")
    with utils.get_socket_with_port() as listening:
        assert listening.getsockname()[1] > 0
    std = theirs("multiprocessing").Std
    for text in ("0", "1", "2", "3", "0:1,1:3"):
        assert Std.from_str(text) == std.from_str(text)
    with pytest.raises(ValueError, match="does not match any of"):
        Std.from_str("x")
    assert to_map(Std.ALL, 2) == {0: 3, 1: 3} and to_map({1: Std.OUT}, 2) == {
        0: 0,
        1: 1,
    }


def late(queue):
    timer.configure(timer.LocalTimerClient(queue))
    with timer.expires(60):
        pass
    with timer.expires(0.01):
        time.sleep(60)


def test_a_process_that_outlives_its_block_is_ended():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    server = timer.LocalTimerServer(queue, max_interval=0.05)
    server.start()
    process = context.Process(target=late, args=(queue,))
    process.start()
    process.join(20)
    server.stop()
    assert process.exitcode == -9
    server.register_timers(
        [timer.TimerRequest(1, "a", 5), timer.TimerRequest(1, "b", 9)]
    )
    server.register_timers([timer.TimerRequest(1, "b", -1)])
    assert list(server.get_expired_timers(6)) == [1]
    server.clear_timers({1})
    assert not server.get_expired_timers(6)


def in_threads(count, call):
    """What a call gives for each number, or raises."""
    found = [None] * count

    def run(rank):
        try:
            found[rank] = call(rank)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def test_values_and_barriers_go_through_a_store_and_name_who_is_missing():
    shared = HashStore()
    found = in_threads(
        3, lambda rank: store.synchronize(shared, f"of {rank}", rank, 3, "values/")
    )
    assert found == [[b"of 0", b"of 1", b"of 2"]] * 3
    assert in_threads(2, lambda rank: store.barrier(shared, 2, "all", rank=rank)) == [
        None,
        None,
    ]
    with pytest.raises(DistStoreError, match=r"missing_ranks=\[machine 1\]"):
        store.barrier(
            *(shared, 2, "one", 0.1),
            rank=0,
            rank_tracing_decoder=lambda rank: f"machine {rank}",
        )


def test_handlers_bring_machines_together_and_say_when_the_job_is_over():
    place = f"127.0.0.1:{free_port()}"

    def handler(rank):
        parameters = ours.RendezvousParameters(
            *("c10d", place, "run", 2, 2),
            is_host=rank == 0,
            local_addr="127.0.0.1",
        )
        return ours.rendezvous_handler_registry.create_handler(parameters)

    handlers = [handler(0), handler(1)]
    found = in_threads(2, lambda rank: handlers[rank].next_rendezvous())
    assert {each.rank for each in found} == {0, 1}
    assert [each.world_size for each in found] == [2, 2]
    found[0].store.set("key", "value")
    assert found[1].store.get("key") == b"value"
    assert handlers[0].num_nodes_waiting() == 0 and not handlers[0].is_closed()
    assert handlers[1].shutdown() and handlers[0].is_closed()
    with pytest.raises(ours.RendezvousClosedError):
        handlers[0].next_rendezvous()
    handlers[0].shutdown()


def test_parameters_of_handlers_are_refused_in_pytorchs_words():
    module = theirs("rendezvous")
    cases = [("", "e", "r", 1, 1), ("b", "e", "r", 0, 1), ("b", "e", "r", 2, 1)]
    for case in cases:
        said = []
        for each in (ours, module):
            with pytest.raises(ValueError, match="rendezvous") as caught:
                each.RendezvousParameters(*case)
            said.append(str(caught.value))
        assert said[0] == said[1]
    one = ours.RendezvousParameters("b", "e", "r", 1, 1, yes="True", number="3", no="x")
    assert one.get_as_bool("yes") is True and one.get_as_int("number") == 3
    assert one.get("missing", 5) == 5
    with pytest.raises(ValueError, match="valid boolean"):
        one.get_as_bool("no")
    with pytest.raises(ValueError, match="is not registered"):
        ours.rendezvous_handler_registry.create_handler(one)


def test_a_function_runs_in_several_processes_and_gives_its_values():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAMS / "functions.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[[0, 21.0], [1, 21.0]], True]
