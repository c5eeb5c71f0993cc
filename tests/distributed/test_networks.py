"""What a network does to packets changes no number; what breaks is named."""

import json
import socket
import threading
import time

import pytest

from rushlight.distributed import HashStore
from rushlight.distributed.rpc import _agent
from rushlight.distributed.transport import connect
from tests.distributed.launching import run

HEARTBEAT = 0.8
ENVIRONMENT = {
    "RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY": "0",  # each rank is a machine of its own
    "RUSHLIGHT_HEARTBEAT_TIMEOUT_SEC": str(HEARTBEAT),
}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("network"))
    outputs = run("proxied.py", 3, folder, **ENVIRONMENT)
    return [json.loads(each.partition("SAID ")[2]) for each in outputs]


def test_late_and_lost_packets_change_no_number(ranks):
    assert max(each["barrier"] for each in ranks) >= 0.01  # the delay is real
    assert sum(each["lost"] for each in ranks) > 3
    assert sum(each["carried"] for each in ranks) > 50


def test_a_connection_that_breaks_is_named_within_a_second(ranks):
    for rank, each in enumerate(ranks):
        said = each["reset"]["text"]
        assert "all_reduce(sum) of float32[40] (sequence number" in said, said
        assert " is lost: " in said and (rank == 0 or "rank 0 is lost" in said)
        assert each["reset"]["seconds"] < 0.2 + 1.0 + 1.0  # loaded machines are slow


def test_a_network_that_falls_silent_is_named_after_the_patience(ranks):
    for rank, each in enumerate(ranks):
        said = each["silent"]["text"]
        assert "no sign of life" in said or rank, said
        assert " is lost: " in said and (rank == 0 or "rank 0 is lost" in said)
        assert each["silent"]["seconds"] > HEARTBEAT / 2


def test_a_silent_stranger_keeps_no_process_of_a_group_out():
    listeners = connect._listeners("127.0.0.1")
    address, token = listeners[1].getsockname(), b"t" * connect.TOKEN
    with socket.create_connection(address), socket.create_connection(address) as own:
        own.sendall(connect.HELLO.pack(token, 1, 0))
        found = connect._answer(listeners, token, 1, time.monotonic() + 60)
        assert list(found) == [(1, 0)]
        assert found[1, 0].gettimeout() > 2 * connect.HELLO_SECONDS
        found[1, 0].close()
    for each in listeners:
        each.close()


@pytest.mark.parametrize("noise", [b"", b"x" * _agent.TOKEN])
def test_a_stranger_keeps_no_caller_out(noise):
    agent = _agent.Agent(HashStore(), "one", 0, 1, 30, "127.0.0.1")
    agent.handlers["echo"] = lambda header, payload: ({}, payload)
    agent.openers[None] = lambda header, payload: payload
    try:
        with socket.create_connection(agent.listener.getsockname()) as stranger:
            stranger.sendall(noise)
            asked = agent.ask(agent.worker("one"), {"op": "echo"}, b"hello")
            assert asked.wait() == b"hello"
    finally:
        agent.close()


def test_a_caller_that_comes_while_all_ends_is_closed_too(monkeypatch):
    """Its request is answered before the thread that accepts has noted it."""

    class Slow(_agent._Line):
        def __init__(self, agent, connection):
            super().__init__(agent, connection)
            if threading.current_thread() is not threading.main_thread():
                made.append(self)
                noting.wait(10)

    made, noting = [], threading.Event()
    monkeypatch.setattr(_agent, "_Line", Slow)
    agent = _agent.Agent(HashStore(), "one", 0, 1, 30, "127.0.0.1")
    agent.handlers["echo"] = lambda header, payload: ({}, payload)
    agent.openers[None] = lambda header, payload: payload
    asked = agent.ask(agent.worker("one"), {"op": "echo"}, b"hello")
    assert asked.wait() == b"hello"
    agent.close()
    noting.set()
    last = time.monotonic() + 10
    while made[0].connection.fileno() >= 0 and time.monotonic() < last:
        time.sleep(0.001)
    assert made[0].connection.fileno() == -1
    agent.lines.clear()
    with pytest.raises(RuntimeError, match="ended its connections"):
        agent.ask(agent.worker("one"), {"op": "echo"}, b"late")


def test_connections_of_a_group_that_never_meets_are_closed():
    listeners = connect._listeners("127.0.0.1")
    address, token = listeners[1].getsockname(), b"t" * connect.TOKEN
    with socket.create_connection(address) as own:
        own.sendall(connect.HELLO.pack(token, 1, 0))
        with pytest.raises(RuntimeError, match="1 of 2 connections"):
            connect._answer(listeners, token, 2, time.monotonic() + 0.3)
        assert own.recv(1) == b""  # closed, not left to the garbage collector
    for each in listeners:
        each.close()
