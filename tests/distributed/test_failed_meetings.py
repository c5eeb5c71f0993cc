"""Sockets of a meeting that fails are closed there and then."""

import contextlib
import datetime
import socket
import subprocess
import threading

import pytest

from rushlight.distributed import HashStore
from rushlight.distributed.elastic.workers import ERR, OUT, Logs, Workers
from rushlight.distributed.rpc import _agent
from rushlight.distributed.transport import connect


@pytest.fixture
def made(monkeypatch):
    """The sockets that the test's thread makes."""
    kept = []

    class Kept(socket.socket):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            kept.append(self)

    monkeypatch.setattr(socket, "socket", Kept)
    return kept


def brief_store():
    store = HashStore()
    store.set_timeout(datetime.timedelta(seconds=0.2))
    return store


def assert_all_closed(made):
    assert made
    assert [each for each in made if each.fileno() >= 0] == []


def test_a_process_that_never_comes_leaves_no_listeners(made):
    with pytest.raises(RuntimeError, match="timeout"):
        connect.connect_all(brief_store(), 0, 2, 0.2)
    assert_all_closed(made)


def test_a_process_that_is_gone_leaves_no_half_of_a_connection(made, monkeypatch):
    gone = connect._listeners("127.0.0.1")
    page = connect._own_page(0, "127.0.0.1", *gone, b"t" * connect.TOKEN)
    for each in gone:
        each.close()
    for machine in (page["machine"], "another"):
        own = {"machine": machine, "rank": 1}
        with pytest.raises(OSError):
            connect._dial(own, page, 0, 0.2)
    assert_all_closed(made)


def test_an_address_of_no_interface_leaves_no_listener(made):
    with pytest.raises(OSError):
        connect._listeners("192.0.2.1")
    assert_all_closed(made)


def test_connections_are_closed_when_memory_is_not_exchanged(made, monkeypatch):
    def refuse(*args):
        raise RuntimeError("no memory")

    monkeypatch.setattr(connect, "exchange_memory", refuse)
    store, errors = HashStore(), []

    def join(rank):
        try:
            connect.connect_all(store, rank, 2, 10)
        except RuntimeError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == ["no memory"] * 2
    assert_all_closed(made)


def test_an_agent_whose_name_is_taken_listens_no_more(made):
    store = HashStore()
    store.set("rpc/1", '["one", "127.0.0.1", 1, ""]')
    with pytest.raises(RuntimeError, match="must be unique"):
        _agent.Agent(store, "one", 0, 2, 30, "127.0.0.1")
    assert_all_closed(made)


def test_an_agent_that_waits_in_vain_listens_no_more(made):
    with pytest.raises(RuntimeError, match="timeout"):
        _agent.Agent(brief_store(), "one", 0, 2, 30, "127.0.0.1")
    assert_all_closed(made)


def test_requests_that_two_threads_give_up_fail_once_each():
    class Line(_agent._Line):
        def __init__(self):
            self.waiting, self.lost = {}, None

    class Taking(dict):
        """Another thread takes what is left between a look and the taking."""

        def __bool__(self):
            found = len(self) > 0
            self.clear()
            return found

    line = Line()
    line.waiting = Taking({0: _agent.RpcFuture(1)})
    with contextlib.suppress(RuntimeError):
        line._lose(OSError("gone"))
    assert str(line.lost) == "gone"


def test_processes_that_one_does_not_join_are_ended_and_no_file_stays(
    tmp_path, monkeypatch
):
    both = {0: OUT | ERR, 1: OUT | ERR}
    logs = Logs(tmp_path, "run", both, {0: 0, 1: 0}, (), "worker")
    files, started, start = [], [], subprocess.Popen

    def open_and_keep(path, local_rank, opened=logs.open):
        found, copied = opened(path, local_rank)
        files.extend(found)
        return found, copied

    def start_one(*args, **options):
        if started:
            raise OSError("no more processes")
        started.append(start(*args, **options))
        return started[0]

    monkeypatch.setattr(logs, "open", open_and_keep)
    monkeypatch.setattr(subprocess, "Popen", start_one)
    environments = [{"RANK": "0"}, {"RANK": "1"}]
    with pytest.raises(OSError, match="no more"):
        Workers(["sleep", "60"], environments, logs, 0)
    assert len(files) == 4
    assert all(file.closed for file in files)
    assert started[0].poll() is not None
