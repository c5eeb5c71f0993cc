"""Stores do what PyTorch's do, in its words."""

import contextlib
import socket
import threading
from datetime import timedelta

import pytest

from rushlight import distributed as dist
from rushlight.distributed.stores import protocol
from tests.distributed.launching import free_port

SHORT = timedelta(milliseconds=80)


def make_stores(module, folder):
    return {
        "hash": module.HashStore(),
        "file": module.FileStore(str(folder / module.__name__), 1),
        "tcp": module.TCPStore("127.0.0.1", 0, 1, True),
        "prefix": module.PrefixStore("p", module.HashStore()),
    }


def attempt(call):
    """What a call gives, or the exception's type and first line."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]


def conversation(store, kind):
    """What a store answers to one call after another."""
    store.set_timeout(SHORT)
    said = [store.set("a", "1"), store.get("a"), store.add("a", 2), store.get("a")]
    said += [store.compare_set("a", "3", "4"), store.compare_set("a", "3", "5")]
    said += [store.compare_set("b", "", "6"), store.get("b")]
    said += [store.check(["a", "b"]), store.check(["a", "c"])]
    said += [store.add("n", -3), store.append("l", "ab"), store.append("l", "cd")]
    said += [store.get("l"), store.multi_set(["x", "y"], ["1", "2"])]
    said += [store.multi_get(["x", "y"]), store.delete_key("x"), store.delete_key("x")]
    said += [store.has_extended_api(), store.set("bytes", b"\xff\x00")]
    said += [store.get("bytes"), store.wait(["a", "b"])]
    said += [attempt(lambda: store.get("none"))]
    said += [attempt(lambda: store.wait(["none", "a"], SHORT))]
    if kind != "file":
        said += [store.queue_push("q", "1"), store.queue_push("q", "2")]
        said += [store.queue_len("q"), store.queue_pop("q"), store.queue_pop("q")]
        said += [attempt(lambda: store.queue_pop("q", False))]
        said += [attempt(lambda: store.queue_pop("q"))]
    return said


def test_stores_answer_as_pytorchs(tmp_path):
    oracle = pytest.importorskip("torch.distributed")
    ours, theirs = make_stores(dist, tmp_path), make_stores(oracle, tmp_path)
    for kind, store in ours.items():
        found, expected = conversation(store, kind), conversation(theirs[kind], kind)
        if kind == "file":
            assert [found.pop(17), expected.pop(17)] == [False, True]  # its keys linger
        assert found == expected, kind


def test_a_store_waits_for_what_another_thread_sets():
    for store in (dist.HashStore(), dist.TCPStore("127.0.0.1", 0, 1, True)):
        other = store.clone()
        timer = threading.Timer(0.1, lambda other=other: other.set("late", "x"))
        timer.start()
        assert store.get("late") == b"x"
        timer.join()


def test_two_files_stores_see_each_other(tmp_path):
    first = dist.FileStore(str(tmp_path / "meet"), 2)
    second = dist.FileStore(str(tmp_path / "meet"), 2)
    first.set("key", "value")
    assert second.get("key") == b"value"
    assert [second.add("n", 1), first.add("n", 1)] == [1, 2]
    del first, second
    assert not (tmp_path / "meet").exists()


def test_a_server_that_is_not_there_is_named():
    port = free_port()
    with pytest.raises(
        dist.DistNetworkError, match=f"to connect to .127.0.0.1, {port}"
    ):
        dist.TCPStore("127.0.0.1", port, 1, False, timeout=SHORT)
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    with pytest.raises(dist.DistNetworkError, match="EADDRINUSE"):
        dist.TCPStore("127.0.0.1", store.port, 1, True)
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=SHORT)


def test_a_lost_server_raises_at_once():
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    other = store.clone()
    store._server.close()
    with pytest.raises(dist.DistNetworkError):
        other.get("key")


def test_noise_from_a_stranger_ends_its_connection_alone():
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    for noise in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x01\0\0\0\xff",
        b"\x06\0\0\0\x01\xff\xff\0\0\0",
    ):
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            stranger.sendall(noise)
            stranger.settimeout(5)
            assert stranger.recv(10) == b""
    store.set("key", "value")
    assert store.get("key") == b"value"


@pytest.mark.parametrize("method", protocol.Method)
def test_requests_with_other_fields_end_their_connection_alone(method):
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    store.set("b", "kept")
    for fields in (
        [],
        [b"1"],
        [b"b"] * 7,
        [b"inf", b"q"],
        [b"nan", b"q"],
        [b"1e300", b"q"],
    ):
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            stranger.sendall(protocol.pack(method, fields) * 2)
            stranger.settimeout(0.05)
            with contextlib.suppress(TimeoutError, ConnectionError):
                stranger.recv(100)
        store.set("a", "1")
        assert store.get("a") == b"1"


def test_values_of_other_types_are_refused():
    for store in (dist.HashStore(), dist.TCPStore("127.0.0.1", 0, 1, True)):
        for call in (
            lambda: store.set("a", 3),  # noqa: B023
            lambda: store.set(3, "a"),  # noqa: B023
            lambda: store.add("a", "x"),  # noqa: B023
        ):
            with pytest.raises(TypeError, match="incompatible function arguments"):
                call()


def test_a_rendezvous_says_what_is_missing(monkeypatch):
    oracle = pytest.importorskip("torch.distributed")
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for url in (
        "env://",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:1",
        "file:///folder/x",
        "no://",
    ):
        found, expected = (
            attempt(lambda m=module: next(m.rendezvous(url)))  # noqa: B023
            for module in (dist, oracle)
        )
        assert found == expected
